/* See permutation_internal.h. */
#define RANDOM_LANES_WIDE
enum { REGISTERS = 4 };
#include "plan/permutation/permutation_internal.h"
#include "plan/permutation/permutation_lanes.h"

size_t permutation_map_wide(const struct permutation *permutation, uint64_t *values, size_t count,
                            bool inverse)
{
#if defined(__x86_64__)
    if (random_lanes_usable())
        return map_blocks(permutation, values, count, inverse);
#endif
    (void)permutation, (void)values, (void)count, (void)inverse;
    return 0;
}
