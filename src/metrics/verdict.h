/* The verdict: whether training waits for data, for what, and what would help, from two snapshots
 * of each reader. Says no more than the numbers say. Pure.
 */
#ifndef PENSTOCK_METRICS_VERDICT_H
#define PENSTOCK_METRICS_VERDICT_H

#include "metrics/metrics.h"

/* What a round may wait for, as the label of blocked_seconds_total. */
enum metrics_cause {
    CAUSE_STORAGE,
    CAUSE_DECODE,
    CAUSE_MEMORY,
    CAUSE_NETWORK,
    CAUSE_TRANSFORM,
    CAUSE_TRAINERS,
    CAUSE_PLANNING,
    CAUSE_COUNT
};

/* One reader at two times. Borrowed. */
struct metrics_pair {
    const struct metrics_snapshot *before, *after;
};

/* The seconds between; 0 if the reader has written no other snapshot meanwhile. */
double metrics_seconds(const struct metrics_pair *pair);

/* How much a member of struct metrics_values grew, each second; 0 without time. */
#define METRICS_RATE(pair, member) \
    metrics_rate(pair, (pair)->before->values.member, (pair)->after->values.member)
double metrics_rate(const struct metrics_pair *pair, uint64_t before, uint64_t after);

/* The share of the time that a trainer waited, 0 to 1. A trainer that waits and has got nothing
 * waits all the time. `index` is of after->trainers; a trainer that is new has waited since it
 * came. */
double metrics_wait_share(const struct metrics_pair *pair, uint32_t index);

/* The share of the time in which a reader's rounds waited for `cause`. */
double metrics_blocked_share(const struct metrics_pair *pair, enum metrics_cause cause);

/* The share of the workers' time that was work, 0 to 1. */
double metrics_busy_share(const struct metrics_pair *pair);

const char *metrics_cause_name(enum metrics_cause cause);

struct metrics_verdict {
    double wait_share;        /* of the trainer that waited most */
    uint32_t rank;            /* which one */
    enum metrics_cause cause; /* CAUSE_COUNT: training does not wait, or no time has passed */
    uint32_t more_threads;    /* that each reader needs; 0: threads would not help, or not alone */
    char text[256];           /* in words */
};

/* Judges all readers that are known. `cores`: of each node, for the question whether more threads
 * have room; 0: not known. */
struct metrics_verdict metrics_judge(const struct metrics_pair *pairs, size_t count,
                                     uint32_t cores);

#endif
