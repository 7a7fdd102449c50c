/* Cuts: an epoch's steps with batches by budget, where a step has as many samples of similar length
 * as a number of items allows. docs/inside/order.md has the rule.
 *
 * Samples are of buckets of length. In each window samples are put in order of their buckets, and
 * cut from the shortest on into steps: a step ends before the sample with which its number of
 * samples times the sample's bound would exceed the items.
 *
 *     window, by length   | 1 1 1 2 2 | 3 3 5 | 8 |       items = 15
 *     steps, put in order | 3 3 5 | 8 | 1 1 1 2 2 |
 *
 * All epochs have equally many steps, as everything else counts on: so many as no epoch needs more.
 * An epoch that needs fewer has some of its steps divided.
 *
 * Pure; any thread.
 */
#ifndef PENSTOCK_PLAN_ORDER_CUTS_H
#define PENSTOCK_PLAN_ORDER_CUTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLAN_MAX_BUCKETS = 4096 };

/* The budget of a step, and the lengths of samples. Zeros: there is no budget. A plain value. */
struct plan_cuts {
    uint64_t items;        /* of a step */
    uint32_t bucket_count; /* 1 .. PLAN_MAX_BUCKETS */
    const void *of;        /* borrowed, for the functions */
    size_t field;          /* likewise */
    /* The bucket of the sample at a frame; may be called once the plan's tables are filled. */
    uint32_t (*bucket)(const void *of, size_t field, uint64_t frame);
    /* The length that a bucket's samples count as, which rises from bucket to bucket; and how many
     * samples there are of it. */
    uint64_t (*bound)(const void *of, size_t field, uint32_t bucket);
    uint64_t (*samples)(const void *of, size_t field, uint32_t bucket);
    uint64_t longest; /* the length of the longest sample */
    bool is_fixed;    /* bounds are the user's, and none is above `items` */
};

/* INVALID: a sample is longer than `items`. */
MUST_USE enum status plan_cuts_check(const struct plan_cuts *cuts, struct error *err);

/* What the length of samples of that bucket counts as: 1 .. items. */
uint64_t plan_cuts_bound(const struct plan_cuts *cuts, uint32_t bucket);

/* The most samples of a step whose longest one is of that bucket: 1 .. global_batch. */
uint64_t plan_cuts_most(const struct plan_cuts *cuts, uint64_t global_batch, uint32_t bucket);

/* The most samples of any step. */
uint64_t plan_cuts_most_samples(const struct plan_cuts *cuts, uint64_t global_batch);

/* The steps of each epoch. */
uint64_t plan_cuts_steps(const struct plan_cuts *cuts, uint64_t global_batch,
                         uint64_t window_count);

/* Samples of 16 steps: the default window has at least 8 times as many. */
uint64_t plan_cuts_window_batch(const struct plan_cuts *cuts, uint64_t global_batch);

/* The samples that are so long that a step of them has fewer than `trainers` samples. */
uint64_t plan_cuts_scarce(const struct plan_cuts *cuts, uint64_t global_batch, uint64_t trainers);

/* XXH3-64 of the number of samples of each bucket, as 64-bit numbers; behind them the bounds if
 * these are fixed. */
uint64_t plan_cuts_hash(const struct plan_cuts *cuts);

/* The most items that one of `trainers` trainers gets at a step. */
uint64_t plan_cuts_most_items(const struct plan_cuts *cuts, uint64_t global_batch,
                              uint64_t trainers);

/* The share of padding, 0 to 1, if the samples of each step were padded to the longest one, about:
 * with the budget, in windows of the mean, and of steps of as many samples by chance. `items`: of
 * all samples together. */
struct plan_cuts_padding {
    double budget, chance;
};
struct plan_cuts_padding plan_cuts_padding(const struct plan_cuts *cuts, uint64_t global_batch,
                                           uint64_t window_count, uint64_t items);

#endif
