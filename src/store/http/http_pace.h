/* How many requests a server is sent at once, and when a request is late. Pure; one thread.
 *
 * The concurrency limit climbs the hill of throughput, round by round. A round is as many answers
 * as the limit, at least 32, and takes at least 20 ms. The limit begins low, since requests beyond
 * what the link carries only delay those that are needed first. The limit doubles while a round
 * brings at least a fifth more bytes a second than the round before the growth; from the first
 * round that does not, the limit grows by half while a round brings at least a tenth more.
 * Otherwise the limit goes back, rests for 24 rounds, and is tried again.
 *
 * Who has more requests under way gets more of a link that several readers share. So that readers
 * do not outbid each other, the limit grows only while answers take at most twice as long as in the
 * fastest round. After a round of longer ones the limit falls by a quarter, down to where it began.
 * How long answers of each size took in the fastest round is forgotten slowly: that doubles in 710
 * rounds.
 *
 * A server that says "too many" (429, 503) halves the limit, once in 200 ms at most. A round in
 * which the limit did not always hold back a request says nothing, and is left out.
 *
 * A request is late that takes twice as long as 95 of 100 answers of about its size, over the last
 * few hundred, and at least 20 ms. At most 3 in 100 requests are sent a second time for lateness.
 */
#ifndef PENSTOCK_STORE_HTTP_HTTP_PACE_H
#define PENSTOCK_STORE_HTTP_HTTP_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_PACE_LEAST = 4,
    HTTP_PACE_FIRST = 8,
    HTTP_PACE_MOST = 256,
    HTTP_PACE_CLASSES = 12,   /* of sizes, each four times the one before */
    HTTP_PACE_LATENCIES = 48, /* classes of latencies, each 1.41 times the one before */
};

struct http_pace {
    uint32_t limit; /* the concurrency limit: requests under way at once */
    uint32_t most;  /* that the limit may become */
    bool adapts;    /* the limit may change */
    /* the round */
    uint64_t round_start_ns, round_bytes;
    uint32_t round_count; /* answers */
    bool round_waited;    /* at each answer another request waited because of the limit */
    struct {
        uint64_t latency_ns; /* of all answers of the round */
        uint32_t count;
        uint64_t least_ns; /* mean latency of the fastest round; 0: none yet */
    } sizes[HTTP_PACE_CLASSES];
    /* the climb */
    bool doubles;          /* no growth has been in vain */
    double rate_before;    /* bytes a second of the round before the limit grew; 0: none */
    uint32_t limit_before; /* the limit in that round */
    uint32_t rest;         /* rounds until the limit may grow again */
    uint64_t throttled_ns; /* when the limit was last halved; 0: never */
    /* lateness */
    uint16_t latencies[HTTP_PACE_CLASSES][HTTP_PACE_LATENCIES]; /* answers, by size and latency */
    uint32_t counts[HTTP_PACE_CLASSES];                         /* answers, by size */
    double second_tokens; /* second requests that may be sent now */
};

/* `requests`: a limit that never changes. 0: the limit begins at HTTP_PACE_FIRST, and stays between
 * HTTP_PACE_LEAST and HTTP_PACE_MOST. */
void http_pace_init(struct http_pace *pace, uint32_t requests);

/* An answer of `bytes` came `latency_ns` after its request. `waiting`: other requests wait because
 * of the limit. */
void http_pace_answered(struct http_pace *pace, uint64_t now_ns, uint64_t latency_ns, size_t bytes,
                        bool waiting);

/* The server asked for fewer requests. */
void http_pace_throttled(struct http_pace *pace, uint64_t now_ns);

/* After how long a request for `bytes` is late; UINT64_MAX before 64 answers of about this size. */
uint64_t http_pace_late_ns(const struct http_pace *pace, size_t bytes);

/* True: a second request may be sent now, and is counted. */
bool http_pace_take_second(struct http_pace *pace);

#endif
