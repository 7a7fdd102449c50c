/* See http_pace.h. */
#include "store/http/http_pace.h"

#include "base/number.h"

#include <string.h>

enum {
    LEAST_KNOWN = 64,   /* answers of a class before any is called late */
    FORGET_AT = 1024,   /* answers after which the old ones count half */
    REST_ROUNDS = 24,   /* after a try that brought nothing */
    REST_THROTTLED = 8, /* after the server asked for fewer */
    LEAST_ROUND = 32,   /* answers */
    LEAST_OF_SIZE = 8,  /* answers of a class in a round, to learn from */
    FORGETS = 1024,     /* a part of the least latency, in each round */
};
static const double second_share = 0.03, second_most = 4;
static const uint64_t least_late_ns = 20000000, least_round_ns = 20000000;

void http_pace_init(struct http_pace *pace, uint32_t requests)
{
    memset(pace, 0, sizeof *pace);
    pace->adapts = requests == 0;
    pace->doubles = true;
    pace->limit = requests ? requests : HTTP_PACE_FIRST;
    pace->most = requests ? requests : HTTP_PACE_MOST;
}

static uint32_t size_class(size_t bytes)
{
    uint32_t class = 0;
    for (bytes >>= 10; bytes > 0 && class < HTTP_PACE_CLASSES - 1; bytes >>= 2)
        class ++;
    return class;
}

/* Upper bounds: 2^(i/2) x 64 us. */
static uint64_t latency_bound(uint32_t i)
{
    uint64_t bound = UINT64_C(64000) << i / 2;
    return i % 2 ? bound + bound * 41 / 100 : bound;
}

static void note_latency(struct http_pace *pace, uint64_t latency_ns, size_t bytes)
{
    uint32_t class = size_class(bytes), i = 0;
    while (i < HTTP_PACE_LATENCIES - 1 && latency_bound(i) < latency_ns)
        i++;
    pace->latencies[class][i]++;
    if (++pace->counts[class] < FORGET_AT)
        return;
    pace->counts[class] = 0;
    for (i = 0; i < HTTP_PACE_LATENCIES; i++)
        pace->counts[class] += pace->latencies[class][i] /= 2;
}

uint64_t http_pace_late_ns(const struct http_pace *pace, size_t bytes)
{
    uint32_t class = size_class(bytes), seen = 0;
    if (pace->counts[class] < LEAST_KNOWN)
        return UINT64_MAX;
    for (uint32_t i = 0; i < HTTP_PACE_LATENCIES; i++) {
        seen += pace->latencies[class][i];
        uint64_t late = 2 * latency_bound(i);
        if (seen * 100 >= pace->counts[class] * 95)
            return late > least_late_ns ? late : least_late_ns;
    }
    return UINT64_MAX;
}

bool http_pace_take_second(struct http_pace *pace)
{
    if (pace->second_tokens < 1)
        return false;
    pace->second_tokens -= 1;
    return true;
}

static void begin_round(struct http_pace *pace, uint64_t now_ns)
{
    pace->round_start_ns = now_ns;
    pace->round_bytes = 0;
    pace->round_count = 0;
    pace->round_waited = true;
}

/* How many times as long as in the fastest round answers took, and learns from that. */
static double take_slowness(struct http_pace *pace)
{
    double took_ns = 0, least_ns = 0;
    for (uint32_t class = 0; class < HTTP_PACE_CLASSES; class ++) {
        uint32_t count = pace->sizes[class].count;
        uint64_t mean_ns = count ? pace->sizes[class].latency_ns / count : 0;
        uint64_t *least = &pace->sizes[class].least_ns;
        *least += *least / FORGETS;
        if (count >= LEAST_OF_SIZE && (*least == 0 || mean_ns < *least))
            *least = mean_ns;
        if (*least > 0) {
            took_ns += (double)pace->sizes[class].latency_ns;
            least_ns += (double)*least * count;
        }
        pace->sizes[class].latency_ns = pace->sizes[class].count = 0;
    }
    return least_ns > 0 ? took_ns / least_ns : 1;
}

static void grow(struct http_pace *pace, double rate)
{
    uint32_t higher = pace->limit + (pace->doubles ? pace->limit : pace->limit / 2);
    pace->rate_before = rate;
    pace->limit_before = pace->limit;
    pace->limit = higher < pace->most ? higher : pace->most;
}

/* The end of a round in which the limit was what held things up. */
static void judge_round(struct http_pace *pace, double rate, double slowness)
{
    const double most_slowness = 2, enough = pace->doubles ? 1.2 : 1.1;
    bool tried = pace->rate_before > 0, slow = slowness > most_slowness;
    if (slow && !tried && pace->limit > HTTP_PACE_FIRST) {
        pace->limit = max_u32(pace->limit - pace->limit / 4, HTTP_PACE_FIRST);
    } else if (pace->rest > 0) {
        pace->rest--;
    } else if (tried && (slow || rate < enough * pace->rate_before)) {
        pace->limit = pace->limit_before;
        pace->rate_before = 0;
        pace->rest = REST_ROUNDS;
        pace->doubles = false;
    } else if (!slow && pace->limit < pace->most) {
        grow(pace, rate);
    }
}

void http_pace_answered(struct http_pace *pace, uint64_t now_ns, uint64_t latency_ns, size_t bytes,
                        bool waiting)
{
    note_latency(pace, latency_ns, bytes);
    pace->second_tokens += second_share;
    if (pace->second_tokens > second_most)
        pace->second_tokens = second_most;
    if (!pace->adapts)
        return;
    if (pace->round_start_ns == 0)
        begin_round(pace, now_ns);
    pace->sizes[size_class(bytes)].latency_ns += latency_ns;
    pace->sizes[size_class(bytes)].count++;
    pace->round_count++;
    pace->round_bytes += bytes;
    pace->round_waited = pace->round_waited && waiting;
    uint64_t elapsed_ns = now_ns - pace->round_start_ns;
    uint32_t enough = pace->limit > LEAST_ROUND ? pace->limit : LEAST_ROUND;
    if (pace->round_count < enough || elapsed_ns < least_round_ns)
        return;
    double slowness = take_slowness(pace);
    if (pace->round_waited)
        judge_round(pace, (double)pace->round_bytes / (double)elapsed_ns * 1e9, slowness);
    begin_round(pace, now_ns);
}

void http_pace_throttled(struct http_pace *pace, uint64_t now_ns)
{
    const uint64_t once_ns = 200000000;
    if (!pace->adapts || (pace->throttled_ns && now_ns - pace->throttled_ns < once_ns))
        return;
    pace->throttled_ns = now_ns;
    pace->limit = pace->limit / 2 > HTTP_PACE_LEAST ? pace->limit / 2 : HTTP_PACE_LEAST;
    pace->rate_before = 0;
    pace->rest = REST_THROTTLED;
    begin_round(pace, now_ns);
}
