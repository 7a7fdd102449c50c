/* A keyed pseudo-random permutation of [0, n), evaluated at one point in O(1), in both directions.
 *
 * A Feistel network over Z_a x Z_b with a*b >= n and a, b about sqrt(n) (Black and Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002): each round adds a Philox-keyed function of
 * one half to the other; values that fall outside [0, n) are encrypted again (cycle walking), which
 * happens for at most a in n of them. Small domains take more rounds, where few rounds would show
 * in a uniformity test. a is even: adding modulo an odd number is an even permutation, so that with
 * a and b odd half of all permutations could not occur.
 *
 * Pure, safe from any thread; a plain value.
 */
#ifndef PENSTOCK_PLAN_PERMUTATION_PERMUTATION_H
#define PENSTOCK_PLAN_PERMUTATION_PERMUTATION_H

#include <stddef.h>
#include <stdint.h>

struct permutation {
    uint64_t count;                   /* n, 1 .. 2^62 */
    uint64_t left_count, right_count; /* a, b */
    uint64_t key;
    uint32_t round_count;
};

void permutation_init(struct permutation *ret_permutation, uint64_t count, uint64_t key);

/* The image of i < n; permutation_inverse undoes it. */
uint64_t permutation_apply(const struct permutation *permutation, uint64_t i);
uint64_t permutation_inverse(const struct permutation *permutation, uint64_t image);

/* Goes through the network until the value is below n again. For values in [0, a*b) that the
 * network has given.
 */
uint64_t permutation_walk(const struct permutation *permutation, uint64_t i);
uint64_t permutation_walk_back(const struct permutation *permutation, uint64_t image);

/* Like permutation_apply() and permutation_inverse(), for `count` values, which are overwritten.
 * Where the CPU can, several values go at a time, at a fraction of the cost.
 */
void permutation_apply_many(const struct permutation *permutation, uint64_t *values, size_t count);
void permutation_inverse_many(const struct permutation *permutation, uint64_t *images,
                              size_t count);

#endif
