/* See chunk_internal.h: the part of a chunk that a range of samples wants. Which items, where they
 * go, and which bytes of the chunk they are. Pure. */
#include "zarr/chunk_internal.h"

#include "base/number.h"

#include <assert.h>
#include <string.h>

/* Bytes from one index to the next along each axis of a decoded chunk. */
static void chunk_strides(const struct zarr_array *array, size_t *ret_strides)
{
    size_t stride = array->stored_item_bytes;

    for (int i = array->rank - 1; i >= 0; i--) {
        int axis = array->storage_axes[i];
        ret_strides[axis] = stride;
        stride *= array->chunk_shape[axis];
    }
}

void chunk_overlap_find(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, struct chunk_overlap *ret_overlap)
{
    struct scatter *scatter = &ret_overlap->scatter;
    size_t stride = array->item_bytes;

    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    *ret_overlap = (struct chunk_overlap){
        .scatter = {.rank = array->rank, .item_bytes = array->item_bytes},
        .from = array->item_offset,
    };
    chunk_strides(array, scatter->from);
    for (int i = array->rank - 1; i >= 0; i--) {
        uint64_t want_begin = i == 0 ? begin : 0;
        uint64_t want_end = i == 0 ? end : array->shape[i];
        uint64_t chunk_begin = chunk_index[i] * array->chunk_shape[i];
        uint64_t left = want_end - chunk_begin;
        uint64_t low = max_u64(chunk_begin, want_begin);
        uint64_t high = chunk_begin + min_u64(left, array->chunk_shape[i]);

        scatter->lengths[i] = high - low;
        scatter->to[i] = stride;
        ret_overlap->from += (low - chunk_begin) * scatter->from[i];
        ret_overlap->to += (low - want_begin) * stride;
        stride *= want_end - want_begin;
        if (i == 0) {
            ret_overlap->first = low - want_begin;
            ret_overlap->count = high - low;
        }
    }
    scatter_merge(scatter);
}

/* Whether samples [begin, end) take one run of bytes of the chunk, as it is decoded, which can be
 * read (of a raw chunk) or decoded without the rest; if so, which. */
static bool chunk_range(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, size_t *ret_begin, size_t *ret_bytes)
{
    uint64_t chunk_begin = chunk_index[0] * array->chunk_shape[0], length = array->chunk_shape[0];
    uint64_t low = chunk_begin > begin ? 0 : begin - chunk_begin;
    uint64_t high = end - chunk_begin < length ? end - chunk_begin : length;
    bool raw = codec_chain_is_raw(&array->codecs);
    /* Partial decoding costs a copy more; a half of the chunk is well worth it. */
    bool helps = raw ? high - low < length
                     : codec_chain_has_partial(&array->codecs) && high - low <= length / 2;
    size_t strides[ZARR_MAX_RANK] = {0};

    chunk_strides(array, strides);
    if (!helps || strides[0] * length != array->chunk_bytes)
        return false;
    *ret_begin = low * strides[0];
    *ret_bytes = (high - low) * strides[0];
    return true;
}

struct stored_chunk chunk_of(const struct zarr_array *array, const uint64_t *chunk_index,
                             const char *key, uint64_t begin, uint64_t end)
{
    struct stored_chunk chunk = {.array = array, .key = key, .wanted = array->chunk_bytes};

    memcpy(chunk.index, chunk_index, sizeof chunk.index);
    if (array->shard_level_count > 0) {
        chunk_range(array, chunk_index, begin, end, &chunk.begin, &chunk.wanted);
        return chunk;
    }
    chunk.located = true;
    chunk.is_range = chunk_range(array, chunk_index, begin, end, &chunk.begin, &chunk.wanted) &&
                     codec_chain_is_raw(&array->codecs);
    chunk.offset = chunk.begin;
    chunk.bytes = chunk.wanted;
    return chunk;
}

/* Chunks that the value has which holds that one, of those that the array has. */
static uint64_t chunks_in_value(const struct zarr_array *array, const uint64_t *chunk_index)
{
    uint64_t count = 1;

    for (int i = 0; i < array->rank && array->shard_level_count > 0; i++) {
        uint64_t span = array->shard_levels[0].spans[i];
        uint64_t left = array->chunk_counts[i] - chunk_index[i] / span * span;
        count *= min_u64(left, span);
    }
    return count;
}

uint64_t zarr_range_stored_bytes(const struct zarr_array *array, const uint64_t *chunk_index,
                                 uint64_t begin, uint64_t end, uint64_t value_bytes)
{
    size_t range_begin, range_bytes;

    if (codec_chain_is_raw(&array->codecs) &&
        chunk_range(array, chunk_index, begin, end, &range_begin, &range_bytes))
        return min_u64(range_bytes, value_bytes);
    return value_bytes / chunks_in_value(array, chunk_index);
}
