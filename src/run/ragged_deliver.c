/* See ragged_deliver.h. */
#include "run/ragged_deliver.h"

#include "base/size.h"
#include "run/ragged_scatter.h"

#include <string.h>

/* Items [begin, end), from number `first` of the slot's arrays on. */
static void copy_items(const struct ragged_target *target, unsigned char *slot, uint64_t first,
                       const struct ragged_items *items, uint64_t begin, uint64_t end)
{
    const struct ragged *ragged = target->ragged;
    const struct ragged_piece none = {0}, *next = items->next ? items->next : &none;
    struct ragged_piece piece;
    first -= begin;
    for (uint64_t at = begin; at < end; at += piece.count) {
        ragged_items_piece(ragged, items, at, &piece);
        piece.count = min_u64(piece.count, end - at);
        for (size_t c = 0; c < ragged->column_count; c++) {
            size_t bytes = ragged->columns[c].item_bytes;
            if (target->delivers[c])
                ragged_piece_copy(ragged, c, &piece,
                                  slot + target->column_offsets[c] + (first + at) * bytes, next);
        }
    }
}

static void clear_items(const struct ragged_target *target, unsigned char *slot, uint64_t first,
                        uint64_t count)
{
    for (size_t c = 0; c < target->ragged->column_count; c++) {
        size_t bytes = target->ragged->columns[c].item_bytes;
        if (target->delivers[c])
            memset(slot + target->column_offsets[c] + first * bytes, 0, count * bytes);
    }
}

static void deliver_dense(const struct ragged_target *target, unsigned char *slot, uint64_t step,
                          const struct ragged_items *items)
{
    size_t bytes = target->ragged->dense_items * dtype_bytes(target->dense_dtype);
    unsigned char *cells = slot + target->slot_offset + step * bytes;
    if (items)
        ragged_scatter(target->ragged, target->dense_dtype, items, cells);
    else
        memset(cells, 0, bytes);
}

/* Of a frame that is cut: as many items as are real, and zeros up to `end`. */
static void deliver_parts(const struct ragged_target *target, unsigned char *slot, uint64_t start,
                          const struct ragged_items *items, uint64_t real, uint64_t end)
{
    uint64_t parts = target->part_count, count = target->is_zigzag ? 2 * parts : parts;
    uint64_t length = end / count;
    for (uint64_t piece = 0; piece < count; piece++) {
        uint64_t part = piece < parts ? piece : count - 1 - piece;
        uint64_t first = start / parts + (piece < parts ? 0 : length);
        uint64_t begin = min_u64(piece * length, real);
        uint64_t behind = min_u64((piece + 1) * length, real);
        struct ragged_target own = *target;
        for (size_t c = 0; c < target->ragged->column_count; c++)
            own.column_offsets[c] += part * target->part_strides[c];
        if (items)
            copy_items(&own, slot, first, items, begin, behind);
        clear_items(&own, slot, first + behind - begin, length - (behind - begin));
    }
}

void ragged_deliver(const struct ragged_target *target, unsigned char *slot, uint64_t step,
                    uint64_t start, const struct ragged_items *items, uint64_t count)
{
    const struct ragged *ragged = target->ragged;
    bool pads = ragged->form == RAGGED_PAD || ragged->form == RAGGED_BOUND;
    uint64_t pad = ragged->form == RAGGED_PAD ? ragged->pad_items : start;
    if (ragged->form == RAGGED_DENSE) {
        deliver_dense(target, slot, step, items);
        return;
    }
    uint64_t padded = ragged->multiple > 0 ? size_round_up(count, ragged->multiple) : count;
    if (target->part_count > 0) {
        deliver_parts(target, slot, start, items, items ? count : 0, padded);
        return;
    }
    uint64_t first = pads ? step * pad : start;
    uint64_t end = first + (pads ? pad : padded);
    if (items) {
        copy_items(target, slot, first, items, 0, items->count);
        first += count;
    }
    clear_items(target, slot, first, end - first);
}
