/* See permutation.h: many values at a time.
 *
 * With AVX-512, 32 values go through the network together, in four registers of 8; with AVX2 8, in
 * two registers of 4. Values that must go through again (cycle walking) are rare and go alone.
 */
enum { REGISTERS = 2 };
#include "plan/permutation/permutation_internal.h"
#include "plan/permutation/permutation_lanes.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)

enum { WIDE_BLOCK = 32 }; /* of permutation_map_wide() */

/* Values that do not fill a block, fewer than WIDE_BLOCK, go through in a block that zeros fill up:
 * from 2 values on that takes less time than one by one. Returns how many it has done: all or, if
 * the CPU cannot or there is but one, none. */
static size_t map_padded(const struct permutation *p, uint64_t *values, size_t count, bool inverse)
{
    uint64_t padded[WIDE_BLOCK] = {0};
    if (count < 2)
        return 0;
    memcpy(padded, values, count * sizeof *values);
    size_t done = count > BLOCK ? permutation_map_wide(p, padded, WIDE_BLOCK, inverse) : 0;
    if (done == 0 && random_lanes_usable())
        done = map_blocks(p, padded, (count + BLOCK - 1) / BLOCK * BLOCK, inverse);
    if (done == 0)
        return 0;
    memcpy(values, padded, count * sizeof *values);
    return count;
}

#endif

/* Returns how many it has done, from the first on. Halves must fit 32 bits. For CPUs without AVX2
 * no value is done. */
static size_t map_some(const struct permutation *p, uint64_t *values, size_t count, bool inverse)
{
    size_t done = 0;
#if defined(__x86_64__)
    if (p->count > UINT64_C(1) << 50 || p->round_count % 2 != 0)
        return 0;
    done = permutation_map_wide(p, values, count, inverse);
    if (count - done >= WIDE_BLOCK && random_lanes_usable())
        done += map_blocks(p, values + done, count - done, inverse);
    done += map_padded(p, values + done, count - done, inverse);
#endif
    (void)p, (void)values, (void)count, (void)inverse;
    return done;
}

void permutation_apply_many(const struct permutation *permutation, uint64_t *values, size_t count)
{
    size_t done = map_some(permutation, values, count, false);
    for (size_t i = 0; i < done; i++)
        if (values[i] >= permutation->count)
            values[i] = permutation_walk(permutation, values[i]);
    for (size_t i = done; i < count; i++)
        values[i] = permutation_apply(permutation, values[i]);
}

void permutation_inverse_many(const struct permutation *permutation, uint64_t *images, size_t count)
{
    size_t done = map_some(permutation, images, count, true);
    for (size_t i = 0; i < done; i++)
        if (images[i] >= permutation->count)
            images[i] = permutation_walk_back(permutation, images[i]);
    for (size_t i = done; i < count; i++)
        images[i] = permutation_inverse(permutation, images[i]);
}
