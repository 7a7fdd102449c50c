/* For permutation_many.c: the widest way through the network. Pure. */
#ifndef PENSTOCK_PLAN_PERMUTATION_PERMUTATION_INTERNAL_H
#define PENSTOCK_PLAN_PERMUTATION_PERMUTATION_INTERNAL_H

#include "plan/permutation/permutation.h"

#include <stdbool.h>

/* permutation_wide.c: maps values, from the first on, with AVX-512, if the permutation has at most
 * 2^50 values and an even number of rounds. Returns how many it has done: all but the last few; 0
 * where the CPU has no AVX-512. */
size_t permutation_map_wide(const struct permutation *permutation, uint64_t *values, size_t count,
                            bool inverse);

#endif
