/* Weights: an epoch in which each sample comes as often as its weight says. Inside src/plan. This
 * is the rule of the order; tests/mpi/weights_oracle.py is written from it.
 *
 * Numbers (anchors/weights.c). A weight is a whole number of units, of which 2^32 are 1. The weight
 * v of the array is floor(v 2^32 + 1/2). For n draws with replacement (samples.draws) it is
 * floor(v 2^k), with the largest k with which the greatest is below 2^32. Both are at least one
 * unit. Then, with draws, all are stretched to n.
 *
 * A list of weights w of the sum S is stretched to t so that the first i have floor(t W / S), where
 * W is what they had. A list is fitted to t so that whole weights stay, and none passes a whole
 * number: if the sum falls, the parts behind the point are stretched to what is left for them; else
 * what each of those parts that is not 0 lacks to 1 is.
 *
 * A row weighs what its anchors do, and is light if this is less than 1. Light rows are fitted to
 * their sum, rounded to whole numbers (half up), or to 1 if that is 0. The other rows are fitted to
 * their rounded sum, or with draws to what the light ones leave of n. Then the anchors of each row
 * are fitted to its weight, or stretched with draws. Rows of weight 0 are left out. So all epochs
 * have equally many samples (N), and equally many rows with samples (M): light ones have 0 or 1.
 *
 * Counts. Light rows, in order, then the others, are a list, of items 0, 1... In epoch e, with the
 * key random_u64(seed, 8, e), light items together have as many samples as they weigh, and so do
 * the others. If the items [i, j) have c samples, and those before m = floor((i + j) / 2) weigh l,
 * the others r, then the first ones have floor(l) + x. Of u = c - floor(l) - floor(r), which is 0,
 * 1 or 2, x is floor(u / 2), unless u is 1. Then one of both is rounded up by chance, so that the
 * mean is the weight: x is 1 if floor(random_u64(key, i, j) a / 2^64) < b. Here b is the part of l
 * behind the point, and a the sum of this and of the part of r, in units; if a is 1 or more, b is
 * what the part of r lacks to 1, and a is 2 - a. All this goes on until each item has its count.
 *
 *     weights   0.25 0.5 | 0.75 0.5       2 of these: 0.75 and 1.25 are 1 and 1, or 0 and 2
 *
 * Rows with samples are numbered in order, for the permutation of rows.
 *
 * Samples. Row r (of its source) has the key q = random_u64(random_u64(seed, 9, e), 0, r). Its
 * samples are divided among its anchors, items from 0, as above; those of one anchor follow one
 * another. With draws the row's sample j is the anchor at floor(random_u64(q, 0, j) w / 2^64) of
 * the row's weight w. The sample's copy is its number among those of its anchor, from 0, or with
 * draws j: the key that is delivered is random_u64(sample keys, 0, frame + 2^48 (copy mod 2^16)).
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
 * epoch with that key; and which of its copies this is, from 0. `row` is the plan's own, from 0. */
uint32_t weights_find(const struct anchors *anchors, uint64_t row, uint64_t count, uint64_t number,
                      uint64_t key, uint64_t *ret_copy);

/* How often a sample comes in an epoch at most. */
uint64_t weights_most_copies(const struct anchors *anchors);

#endif
