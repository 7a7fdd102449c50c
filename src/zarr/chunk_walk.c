/* See chunk_internal.h: the chunks of a range of samples, one after another. Pure. */
#include "zarr/chunk_internal.h"

#include "base/number.h"

#include <assert.h>
#include <string.h>

/* The chunks of the present value that are wanted. */
static void enter_value(struct chunk_walk *walk)
{
    const struct zarr_array *array = walk->array;

    for (int i = 0; i < array->rank; i++) {
        uint64_t span = array->shard_level_count > 0 ? array->shard_levels[0].spans[i] : 1;
        uint64_t low = walk->value[i] * span, high = low + span;

        walk->chunk_low[i] = max_u64(low, walk->low[i]);
        walk->chunk_high[i] = min_u64(high, walk->high[i]);
        walk->chunk[i] = walk->chunk_low[i];
    }
}

void chunk_walk_begin(struct chunk_walk *walk, const struct zarr_array *array, uint64_t begin,
                      uint64_t end)
{
    memset(walk, 0, sizeof *walk);
    walk->array = array;
    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    for (int i = 0; i < array->rank; i++) {
        uint64_t span = array->shard_level_count > 0 ? array->shard_levels[0].spans[i] : 1;

        walk->low[i] = i == 0 ? begin / array->chunk_shape[0] : 0;
        walk->high[i] = i == 0 ? (end - 1) / array->chunk_shape[0] + 1 : array->chunk_counts[i];
        walk->value_low[i] = walk->value[i] = walk->low[i] / span;
        walk->value_high[i] = (walk->high[i] - 1) / span + 1;
    }
    enter_value(walk);
}

/* Steps `position` through the box [low, high) in C order; false, and back at its start, after the
 * last. */
static bool step(uint64_t *position, const uint64_t *low, const uint64_t *high, int rank)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++position[i] < high[i])
            return true;
        position[i] = low[i];
    }
    return false;
}

bool chunk_walk_next(struct chunk_walk *walk)
{
    return step(walk->chunk, walk->chunk_low, walk->chunk_high, walk->array->rank);
}

bool chunk_walk_next_value(struct chunk_walk *walk)
{
    if (!step(walk->value, walk->value_low, walk->value_high, walk->array->rank))
        return false;
    enter_value(walk);
    return true;
}
