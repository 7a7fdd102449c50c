/* See chunk_internal.h: the part of a chunk that a range of samples wants. Which items, where they
 * go, and which bytes of the chunk they are. Pure. */
#include "zarr/chunk/chunk_internal.h"

#include "base/number.h"

#include <assert.h>
#include <string.h>

/* Bytes from one index to the next along each axis of a decoded chunk. */
static void chunk_strides(const struct zarr_array *array, const uint64_t *chunk_index,
                          size_t *ret_strides)
{
    size_t stride = array->stored_item_bytes;
    for (int i = array->rank - 1; i >= 0; i--) {
        int axis = array->storage_axes[i];
        ret_strides[axis] = stride;
        stride *= zarr_array_chunk_length(array, axis, chunk_index[axis]);
    }
}

/* Indices along one axis that a chunk has and the destination wants. */
struct stretch {
    uint64_t from, to; /* the first one, in the chunk and at the destination */
    uint64_t count;
    uint64_t width; /* of the destination */
};

/* The portions of a chunk along an axis with a selection; *ret_count is at least 1. */
static const struct zarr_portion *portions_of(const struct zarr_array *array, int axis,
                                              const uint64_t *chunk_index, size_t *ret_count)
{
    const struct zarr_selection *selection = array->selections[axis];
    size_t ordinal = zarr_selection_find(selection, chunk_index[axis]);
    size_t first = selection->first_portions[ordinal];
    *ret_count = selection->first_portions[ordinal + 1] - first;
    return &selection->portions[first];
}

static struct stretch stretch_of(const struct zarr_array *array, int axis,
                                 const uint64_t *chunk_index, uint64_t begin, uint64_t end,
                                 struct chunk_overlap *overlap)
{
    uint64_t want_begin = axis == 0 ? begin : 0;
    uint64_t want_end = axis == 0 ? end : array->shape[axis];
    if (array->selections[axis]) {
        size_t count;
        const struct zarr_portion *portion =
            portions_of(array, axis, chunk_index, &count) + overlap->portions[axis];
        overlap->is_only &= count == 1;
        return (struct stretch){portion->from, portion->to, portion->count, want_end};
    }
    uint64_t chunk_begin = chunk_index[axis] * array->chunk_shape[axis];
    uint64_t low = max_u64(chunk_begin, want_begin);
    uint64_t high = chunk_begin + min_u64(want_end - chunk_begin, array->chunk_shape[axis]);

    return (struct stretch){low - chunk_begin, low - want_begin, high - low, want_end - want_begin};
}

/* The box of the portions that `overlap` says. */
static void find_box(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                     uint64_t end, struct chunk_overlap *overlap)
{
    struct scatter *scatter = &overlap->scatter;
    size_t stride = array->item_bytes;
    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    *scatter = (struct scatter){.rank = array->rank, .item_bytes = array->item_bytes};
    overlap->from = array->item_offset;
    overlap->to = overlap->entry = 0;
    overlap->is_only = true;
    chunk_strides(array, chunk_index, scatter->from);
    for (int i = array->rank - 1; i >= 0; i--) {
        struct stretch stretch = stretch_of(array, i, chunk_index, begin, end, overlap);
        scatter->lengths[i] = stretch.count;
        scatter->to[i] = stride;
        if (array->normal) {
            scatter->entries[i] = array->normal->strides[i];
            overlap->entry += stretch.to * array->normal->strides[i];
        }
        overlap->from += stretch.from * scatter->from[i];
        overlap->to += stretch.to * stride;
        stride *= stretch.width;
        if (i == 0) {
            overlap->first = stretch.to;
            overlap->count = stretch.count;
        }
    }
    scatter_merge(scatter);
}

void chunk_overlap_find(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, struct chunk_overlap *ret_overlap)
{
    memset(ret_overlap->portions, 0, sizeof ret_overlap->portions);
    find_box(array, chunk_index, begin, end, ret_overlap);
}

bool chunk_overlap_next(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, struct chunk_overlap *overlap)
{
    if (overlap->is_only)
        return false;
    for (int i = array->rank - 1; i > 0; i--) {
        size_t count = 1;
        if (array->selections[i])
            (void)portions_of(array, i, chunk_index, &count);
        if (++overlap->portions[i] < count) {
            find_box(array, chunk_index, begin, end, overlap);
            return true;
        }
        overlap->portions[i] = 0;
    }
    return false;
}

/* The wanted indices of a chunk along one axis: [*ret_low, *ret_high) holds them all. */
static void axis_range(const struct zarr_array *array, int axis, const uint64_t *chunk_index,
                       uint64_t begin, uint64_t end, uint64_t *ret_low, uint64_t *ret_high)
{
    uint64_t length = zarr_array_chunk_length(array, axis, chunk_index[axis]);
    uint64_t chunk_begin = chunk_index[axis] * array->chunk_shape[axis];
    *ret_low = 0;
    *ret_high = length;
    if (axis == 0) {
        *ret_low = chunk_begin > begin ? 0 : begin - chunk_begin;
        *ret_high = min_u64(end - chunk_begin, length);
    } else if (array->selections[axis]) {
        size_t count;
        const struct zarr_portion *portions = portions_of(array, axis, chunk_index, &count);
        *ret_low = portions[0].from;
        *ret_high = portions[count - 1].from + portions[count - 1].count;
    }
}

/* Whether what is wanted of the chunk lies in one run of its bytes, as it is decoded, which can be
 * read (of a raw chunk) or decoded without the rest; if so, which. The run has all of the axes
 * behind the first one, from the outermost in, along which more than one index is wanted. */
static bool chunk_range(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, size_t *ret_begin, size_t *ret_bytes)
{
    bool raw = codec_chain_is_raw(&array->codecs);
    size_t strides[ZARR_MAX_RANK] = {0}, first = 0;
    const size_t whole = zarr_array_decoded_bytes(array, chunk_index);
    size_t bytes = whole;
    if (array->is_vlen || (!raw && !codec_chain_has_partial(&array->codecs)))
        return false;
    chunk_strides(array, chunk_index, strides);
    for (int i = 0; i < array->rank; i++) {
        int axis = array->storage_axes[i];
        uint64_t low, high;
        axis_range(array, axis, chunk_index, begin, end, &low, &high);
        first += low * strides[axis];
        bytes = (high - low) * strides[axis];
        if (high - low > 1)
            break;
    }
    /* Partial decoding costs a copy more; a half of the chunk is well worth it. */
    if (raw ? bytes == whole : bytes > whole / 2)
        return false;
    *ret_begin = first;
    *ret_bytes = bytes;
    return true;
}

struct stored_chunk chunk_of(const struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             const uint64_t *chunk_index, const char *key, uint64_t begin,
                             uint64_t end)
{
    struct stored_chunk chunk = {.array = array, .key = key};
    chunk.whole = chunk.wanted = zarr_array_decoded_bytes(array, chunk_index);
    memcpy(chunk.index, chunk_index, sizeof chunk.index);
    bool raw = codec_chain_is_raw(&array->codecs), whole = reader && reader->options.keeps && !raw;
    bool part = !whole && chunk_range(array, chunk_index, begin, end, &chunk.begin, &chunk.wanted);
    if (array->shard_level_count > 0)
        return chunk;
    chunk.located = true;
    chunk.is_range = part && raw;
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
