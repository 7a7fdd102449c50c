/* See ragged_read.h. */
#include "dataset/read/ragged_read.h"

#include "base/number.h"
#include "codec/vlen.h"
#include "dataset/panel.h"

#include <inttypes.h>
#include <string.h>

/* Integers at the ends of a dtype
 * ---------------------------------------------------------------------------------------------- */

static bool is_clamped(const struct row_span *span)
{
    return span->array->dtype != span->column->dtype;
}

unsigned char *ragged_target(const struct dataset *dataset, const struct row_span *span,
                             unsigned char *page)
{
    const struct ragged *ragged = panel_stored(dataset, span->field);
    size_t from = zarr_array_sample_bytes(span->array), to = span->column->item_bytes;
    size_t number = (span->offset - span->column->page_offset) / to;
    if (!is_clamped(span))
        return page + span->offset;
    return page + span->column->page_offset + (to > from ? ragged->page_items * (to - from) : 0) +
           number * from;
}

enum narrow_width *ragged_widths(const struct row_span *span, unsigned char *page)
{
    const struct ragged_column *column = span->column;
    uint64_t item = (span->offset - column->page_offset) / column->item_bytes;
    if (column->width_items == 0)
        return NULL;
    return (enum narrow_width *)(page + column->widths_offset) + item / column->width_items;
}

#define CLAMP(type, low, high)                                                        \
    {                                                                                 \
        type small = (type)(value < (low) ? (low) : value > (high) ? (high) : value); \
        memcpy(out, &small, sizeof small);                                            \
        break;                                                                        \
    }

/* `value` as an item of `dtype` at `out`; `is_huge`: it stands for an uint64 of 2^63 or more. */
static void put_clamped(enum dtype dtype, int64_t value, bool is_huge, unsigned char *out)
{
    uint64_t whole = is_huge || value > 0 ? (uint64_t)value : 0;
    if (is_huge)
        value = INT64_MAX;
    switch (dtype) {
    case DTYPE_INT8:
        CLAMP(int8_t, INT8_MIN, INT8_MAX)
    case DTYPE_INT16:
        CLAMP(int16_t, INT16_MIN, INT16_MAX)
    case DTYPE_INT32:
        CLAMP(int32_t, INT32_MIN, INT32_MAX)
    case DTYPE_UINT8:
        CLAMP(uint8_t, 0, UINT8_MAX)
    case DTYPE_UINT16:
        CLAMP(uint16_t, 0, UINT16_MAX)
    case DTYPE_UINT32:
        CLAMP(uint32_t, 0, UINT32_MAX)
    case DTYPE_INT64:
        memcpy(out, &value, sizeof value);
        break;
    default:
        memcpy(out, &whole, sizeof whole);
        break;
    }
}

void ragged_clamp(const struct dataset *dataset, const struct row_span *span, unsigned char *page)
{
    const unsigned char *items = ragged_target(dataset, span, page);
    enum dtype from = span->array->dtype == DTYPE_BOOL ? DTYPE_UINT8 : span->array->dtype;
    unsigned char *out = page + span->offset;
    for (uint64_t i = 0; is_clamped(span) && i < span->end - span->begin; i++) {
        int64_t value = dtype_integer(from, items, i);
        put_clamped(span->column->dtype, value, from == DTYPE_UINT64 && value < 0,
                    out + i * span->column->item_bytes);
    }
}

/* Indices
 * ---------------------------------------------------------------------------------------------- */

/* Negative numbers are large ones as unsigned ones, if `bound` is a positive number of the dtype.
 */
#define DEFINE_FIND(type)                                                                   \
    static uint64_t find_##type(const unsigned char *items, uint64_t count, uint64_t bound) \
    {                                                                                       \
        enum { BLOCK = 1024 };                                                              \
        for (uint64_t done = 0; done < count; done += BLOCK) {                              \
            uint64_t end = min_u64(done + BLOCK, count);                                    \
            uint8_t outside = 0;                                                            \
            for (uint64_t i = done; i < end; i++) {                                         \
                type index;                                                                 \
                memcpy(&index, items + i * sizeof index, sizeof index);                     \
                outside |= (uint8_t)(index >= bound);                                       \
            }                                                                               \
            for (uint64_t i = done; outside && i < end; i++) {                              \
                type index;                                                                 \
                memcpy(&index, items + i * sizeof index, sizeof index);                     \
                if (index >= bound)                                                         \
                    return i;                                                               \
            }                                                                               \
        }                                                                                   \
        return count;                                                                       \
    }

DEFINE_FIND(uint8_t)
DEFINE_FIND(uint16_t)
DEFINE_FIND(uint32_t)
DEFINE_FIND(uint64_t)

static bool is_signed(enum dtype dtype)
{
    return dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 ||
           dtype == DTYPE_INT64;
}

static uint64_t find_outside(enum dtype dtype, const unsigned char *items, uint64_t count,
                             uint64_t bound)
{
    size_t bytes = dtype_bytes(dtype);
    if (is_signed(dtype))
        bound = min_u64(bound, UINT64_C(1) << (8 * bytes - 1));
    switch (bytes) {
    case 1:
        return bound > UINT8_MAX ? count : find_uint8_t(items, count, bound);
    case 2:
        return bound > UINT16_MAX ? count : find_uint16_t(items, count, bound);
    case 4:
        return bound > UINT32_MAX ? count : find_uint32_t(items, count, bound);
    default:
        return find_uint64_t(items, count, bound);
    }
}

uint64_t ragged_find_outside(const struct dataset *dataset, const struct row_span *span,
                             const unsigned char *page, uint64_t from)
{
    const struct ragged *ragged = panel_stored(dataset, span->field);
    size_t axis = (size_t)(span->column - ragged->columns), item_bytes = span->column->item_bytes;
    if (ragged->form != RAGGED_DENSE || axis >= (size_t)ragged->dense_rank ||
        ragged->dense_shape[axis] == 0) /* the columns of a panel, whatever others are */
        return span->end;
    return from + find_outside(span->column->dtype,
                               page + span->offset + (from - span->begin) * item_bytes,
                               span->end - from, ragged->dense_shape[axis]);
}

uint64_t ragged_frame_of(const struct dataset *dataset, const struct row_span *span, uint64_t item)
{
    const uint64_t *offsets = panel_stored(dataset, span->field)->offsets;
    uint64_t all = dataset->private->ragged_origins[span->field].first_item[span->store] + item;
    uint64_t low = dataset->store_frames[span->store];
    uint64_t count = dataset->store_frames[span->store + 1] - low;
    return low + count_up_to_u64(offsets + low + 1, count, all); /* ends behind the item */
}

enum status ragged_refuse_index(const struct dataset *dataset, const struct row_span *span,
                                const unsigned char *page, uint64_t item, struct error *err)
{
    const struct ragged *ragged = panel_stored(dataset, span->field);
    const unsigned char *items = page + span->offset;
    size_t axis = (size_t)(span->column - ragged->columns);
    struct text shape = {0};
    for (int i = 0; i < ragged->dense_rank; i++)
        text_append(&shape, i ? ", %" PRIu64 : "%" PRIu64, ragged->dense_shape[i]);
    error_set(err, STATUS_CORRUPT,
              "array '%s' item %" PRIu64 " (of frame %" PRIu64 " of the store): index %" PRId64
              " is outside the shape [%s], whose axis %zu has the "
              "indices 0 to %" PRIu64 ": give deliver.dense a larger shape, or mask such samples "
              "(errors.bad_sample: mask)",
              span->array->path, item,
              ragged_frame_of(dataset, span, item) - dataset->store_frames[span->store],
              dtype_integer(span->column->dtype, items, item - span->begin), shape.data, axis,
              ragged->dense_shape[axis] - 1);
    text_done(&shape);
    return STATUS_CORRUPT;
}

/* Items that follow one another, from number `item` of all on. */
static void copy_run(const struct ragged_values *values, uint64_t item, uint64_t count,
                     const unsigned char *from)
{
    const struct ragged *ragged = values->ragged;
    size_t item_bytes = ragged->columns[0].item_bytes;
    while (count > 0) {
        uint64_t at = (item - values->lies->page_begin) % ragged->page_items;
        uint64_t number = (item - values->lies->page_begin) / ragged->page_items;
        uint64_t here = min_u64(count, ragged->page_items - at);
        unsigned char *page =
            values->pages->at(values->pages, values->lies->first_page + (uint32_t)number);
        memcpy(page + ragged->columns[0].page_offset + at * item_bytes, from, here * item_bytes);
        from += here * item_bytes;
        item += here;
        count -= here;
    }
}

void ragged_copy_values(const struct ragged_values *values, uint64_t begin, uint64_t end,
                        const unsigned char *chunk)
{
    const struct zarr_array *array = values->array;
    const uint64_t *offsets = array->value_offsets;
    uint64_t first = begin - begin % array->chunk_shape[0]; /* value of the chunk */
    for (uint64_t value = begin; value < end; value++) {
        uint64_t before = (offsets[value] - offsets[first]) * array->item_bytes;
        copy_run(values, offsets[value], offsets[value + 1] - offsets[value],
                 chunk + vlen_begin(value - first, before) + VLEN_LENGTH_BYTES);
    }
}

/* Narrow items of which all kept bytes are zero are zero. */
static void zero_page_items(const struct ragged *ragged, size_t c, unsigned char *page,
                            uint64_t begin, uint64_t end)
{
    while (begin < end) {
        struct ragged_extent extent = ragged_page_extent(ragged, c, page, begin);
        uint64_t count = min_u64(extent.count, end - begin);
        memset(page + (extent.items - page), 0,
               count * narrow_kept(extent.width, ragged->columns[c].item_bytes));
        begin += count;
    }
}

void ragged_zero_frame(const struct dataset *dataset, size_t ragged, const struct ragged_row *lies,
                       const struct dataset_pages *pages, uint64_t frame)
{
    const struct ragged *of = &dataset->ragged[ragged];
    for (uint64_t item = of->offsets[frame]; item < of->offsets[frame + 1];) {
        uint64_t at = (item - lies->page_begin) % of->page_items;
        uint64_t number = (item - lies->page_begin) / of->page_items;
        uint64_t count = min_u64(of->page_items - at, of->offsets[frame + 1] - item);
        unsigned char *page = pages->at(pages, lies->first_page + (uint32_t)number);
        for (size_t c = 0; c < of->column_count; c++)
            zero_page_items(of, c, page, at, at + count);
        item += count;
    }
}
