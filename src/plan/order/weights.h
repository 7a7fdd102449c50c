/* Weights: an epoch in which each sample comes as often as its weight says (anchors.h). Inside
 * src/plan.
 *
 * Whole weights say so alone. Chance decides for the rest, by halves: of rows, then of the samples
 * of a row. If n samples are to come of a list, each half has as many as it weighs, rounded up or
 * down, so that the sum is n; and which one is rounded up is a draw with these chances. So each
 * sample comes as often as it weighs, rounded up or down, and the mean over epochs is the weight.
 *
 *     weights   0.25 0.5 | 0.75 0.5       2 of these: 0.75 and 1.25 are 1 and 1, or 0 and 2
 *
 * Rows that weigh less than 1, the light ones, are a list of their own, which comes before that of
 * the others. Both weigh whole numbers, so that all epochs have equally many samples, and equally
 * many rows with samples: light rows have 0 or 1.
 *
 * With replacement a row has as many samples, and each of these is a draw of its own among the
 * row's.
 *
 * Pure; any thread. */
#ifndef PENSTOCK_PLAN_ORDER_WEIGHTS_H
#define PENSTOCK_PLAN_ORDER_WEIGHTS_H

#include "plan/order/plan.h"

/* Of `count` samples of the items [low, high) of a list: how many are of those before `middle`.
 * sums[i]: what the items before item i weigh. */
uint64_t weights_halve(const uint64_t *sums, uint64_t low, uint64_t middle, uint64_t high,
                       uint64_t count, uint64_t key);

/* The samples of each item of [low, high), of `count` together, at ret_counts[low] and behind. */
void weights_divide(const uint64_t *sums, uint64_t low, uint64_t high, uint64_t count, uint64_t key,
                    uint32_t *ret_counts);

/* The anchor of a row, by its offset, that is number `number` of the row's `count` samples of an
 * epoch with that key. `row` is the plan's own, from 0. */
uint32_t weights_find(const struct anchors *anchors, uint64_t row, uint64_t count, uint64_t number,
                      uint64_t key);

/* How often a sample comes in an epoch at most. */
uint64_t weights_most_copies(const struct anchors *anchors);

#endif
