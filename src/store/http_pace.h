/* How many requests a server is asked at once, and when one is late. Pure; one thread.
 *
 * The concurrency limit climbs the hill of throughput, round by round; a round is as many answers
 * as the limit says. The limit grows by half while a round brings at least a tenth more bytes a
 * second. Where a round does not, the limit goes back, rests, and is tried again a while later. A
 * server that says "too many" (429, 503) halves the limit. Rounds in which nothing waited because
 * of the limit say nothing, and are left out.
 *
 * Late is what takes twice as long as 95 of 100 answers of about that size, over the last few
 * hundred. At most 3 in 100 requests are sent a second time for that.
 */
#ifndef PENSTOCK_STORE_HTTP_PACE_H
#define PENSTOCK_STORE_HTTP_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_PACE_LEAST = 4,
    HTTP_PACE_FIRST = 32,
    HTTP_PACE_MOST = 256,
    HTTP_PACE_CLASSES = 12,   /* of sizes, each four times the one before */
    HTTP_PACE_LATENCIES = 48, /* classes of latencies, each 1.41 times the one before */
};

struct http_pace {
    uint32_t limit, most; /* requests under way at once */
    bool adapts;
    /* the round */
    uint64_t round_start_ns, round_bytes;
    uint32_t round_count;
    bool round_waited; /* something waited because of the limit all the time */
    /* the climb */
    double rate_before; /* bytes a second of the round before growing; 0: none */
    uint32_t limit_before;
    uint32_t rest; /* rounds until the next try */
    uint64_t throttled_ns;
    /* lateness */
    uint16_t latencies[HTTP_PACE_CLASSES][HTTP_PACE_LATENCIES];
    uint32_t counts[HTTP_PACE_CLASSES];
    double second_tokens;
};

/* `requests`: a fixed limit; 0: from HTTP_PACE_FIRST, HTTP_PACE_LEAST to HTTP_PACE_MOST. */
void http_pace_init(struct http_pace *pace, uint32_t requests);

/* An answer of `bytes` came after `latency_ns`. `waiting`: others wait because of the limit. */
void http_pace_answered(struct http_pace *pace, uint64_t now_ns, uint64_t latency_ns, size_t bytes,
                        bool waiting);

/* The server asked for fewer requests. */
void http_pace_throttled(struct http_pace *pace, uint64_t now_ns);

/* After how long a request for `bytes` is late; UINT64_MAX while too little is known. */
uint64_t http_pace_late_ns(const struct http_pace *pace, size_t bytes);

/* Whether a second request may be sent now; if so, it is counted. */
bool http_pace_take_second(struct http_pace *pace);

#endif
