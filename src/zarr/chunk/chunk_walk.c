/* See chunk_internal.h: the chunks of a range of samples, one after another. Pure.
 *
 * Along each axis the wanted chunks have ordinals, in rising order. Without a selection a chunk's
 * ordinal is the index of the chunk. */
#include "zarr/chunk/chunk_internal.h"

#include "base/number.h"

#include <assert.h>
#include <string.h>

static uint64_t span_of(const struct zarr_array *array, int axis)
{
    return array->shard_level_count > 0 ? array->shard_levels[0].spans[axis] : 1;
}

/* The chunk at a ordinal. */
static uint64_t chunk_at(const struct zarr_array *array, int axis, uint64_t ordinal)
{
    const struct zarr_selection *selection = array->selections[axis];
    return selection ? selection->chunks[ordinal] : ordinal;
}

/* The ordinal behind the last one whose chunk lies in the same value as the chunk at `ordinal`. */
static uint64_t value_end(const struct chunk_walk *walk, int axis, uint64_t ordinal)
{
    const struct zarr_array *array = walk->array;
    uint64_t span = span_of(array, axis);
    uint64_t end_chunk = (chunk_at(array, axis, ordinal) / span + 1) * span;
    if (!array->selections[axis])
        return min_u64(end_chunk, walk->high[axis]);
    while (ordinal < walk->high[axis] && chunk_at(array, axis, ordinal) < end_chunk)
        ordinal++;
    return ordinal;
}

/* The chunks of the value in which `value_low` lies, along one axis. */
static void enter_value(struct chunk_walk *walk, int axis)
{
    walk->value_high[axis] = value_end(walk, axis, walk->value_low[axis]);
    walk->ordinal[axis] = walk->value_low[axis];
    walk->chunk[axis] = chunk_at(walk->array, axis, walk->ordinal[axis]);
}

void chunk_walk_begin(struct chunk_walk *walk, const struct zarr_array *array, uint64_t begin,
                      uint64_t end)
{
    memset(walk, 0, sizeof *walk);
    walk->array = array;
    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    for (int i = 0; i < array->rank; i++) {
        walk->low[i] = i == 0 ? begin / array->chunk_shape[0] : 0;
        walk->high[i] =
            i == 0 ? (end - 1) / array->chunk_shape[0] + 1 : zarr_array_chunks_along(array, i);
        walk->value_low[i] = walk->low[i];
        enter_value(walk, i);
    }
}

bool chunk_walk_next(struct chunk_walk *walk)
{
    for (int i = walk->array->rank - 1; i >= 0; i--) {
        bool more = ++walk->ordinal[i] < walk->value_high[i];
        if (!more)
            walk->ordinal[i] = walk->value_low[i];
        walk->chunk[i] = chunk_at(walk->array, i, walk->ordinal[i]);
        if (more)
            return true;
    }
    return false;
}

bool chunk_walk_next_value(struct chunk_walk *walk)
{
    for (int i = walk->array->rank - 1; i >= 0; i--) {
        bool more = walk->value_high[i] < walk->high[i];
        walk->value_low[i] = more ? walk->value_high[i] : walk->low[i];
        enter_value(walk, i);
        if (more)
            return true;
    }
    return false;
}
