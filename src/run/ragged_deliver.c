/* See ragged_deliver.h. */
#include "run/ragged_deliver.h"

#include "run/ragged_scatter.h"

#include <string.h>

/* The items from number `first` of the slot's arrays on. */
static void copy_items(const struct ragged_target *target, unsigned char *slot, uint64_t first,
                       const struct ragged_items *items)
{
    const struct ragged *ragged = target->ragged;
    const struct ragged_piece none = {0}, *next = items->next ? items->next : &none;
    struct ragged_piece piece;
    for (uint64_t at = 0; at < items->count; at += piece.count) {
        ragged_items_piece(ragged, items, at, &piece);
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
    uint64_t first = pads ? step * pad : start;
    uint64_t end = first + (pads ? pad : count);
    if (items) {
        copy_items(target, slot, first, items);
        first += count;
    }
    clear_items(target, slot, first, end - first);
}
