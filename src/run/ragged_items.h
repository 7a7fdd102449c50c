/* The items of one frame of a ragged field, wherever they lie: in pages of a row, or together in a
 * trailer (dataset/ragged.h). They are visited piece by piece: items that follow one another in
 * memory, in every column. Pure. */
#ifndef PENSTOCK_RUN_RAGGED_ITEMS_H
#define PENSTOCK_RUN_RAGGED_ITEMS_H

#include "base/number.h"
#include "dataset/ragged.h"

struct ragged_piece;

struct ragged_items {
    uint64_t count;
    const struct dataset_pages *pages; /* NULL: the items lie in `columns` */
    uint64_t page_item;                /* of the first item, counted from the row's first page */
    uint32_t first_page;               /* of the row's pages */
    const unsigned char *columns[RAGGED_MAX_COLUMNS]; /* of the first item */
    const struct ragged_piece *next; /* what the CPU may fetch meanwhile, since it is copied next;
                                      * NULL: that is not known */
};

/* Of a field that is held whole. */
static inline struct ragged_items ragged_items_held(const struct ragged *ragged,
                                                    struct ragged_span span)
{
    struct ragged_items items = {.count = span.end - span.begin};
    for (size_t c = 0; c < ragged->column_count; c++)
        items.columns[c] = ragged->held_items[c] + span.begin * ragged->columns[c].item_bytes;
    return items;
}

/* `count` items, 1 or more unless the frame has none. Columns may lie at any address, and be narrow
 * unless the field is RAGGED_DENSE. */
struct ragged_piece {
    uint64_t count;
    const unsigned char *columns[RAGGED_MAX_COLUMNS];
    enum narrow_width widths[RAGGED_MAX_COLUMNS];
};

/* The items from number `at` on, as many as lie in one piece. `at` is below items->count. */
static inline void ragged_items_piece(const struct ragged *ragged, const struct ragged_items *items,
                                      uint64_t at, struct ragged_piece *ret_piece)
{
    ret_piece->count = items->count - at;
    if (!items->pages) {
        for (size_t c = 0; c < ragged->column_count; c++) {
            ret_piece->columns[c] = items->columns[c] + at * ragged->columns[c].item_bytes;
            ret_piece->widths[c] = NARROW_NOT;
        }
        return;
    }
    uint64_t item = items->page_item + at, in_page = item % ragged->page_items;
    uint32_t number = items->first_page + (uint32_t)(item / ragged->page_items);
    const unsigned char *page = items->pages->at(items->pages, number);
    for (size_t c = 0; c < ragged->column_count; c++) {
        struct ragged_extent extent = ragged_page_extent(ragged, c, page, in_page);
        ret_piece->columns[c] = extent.items;
        ret_piece->widths[c] = extent.width;
        ret_piece->count = min_u64(ret_piece->count, extent.count);
    }
}

/* Copies the items of a column. Meanwhile the CPU may fetch those of the same column of `next`,
 * which is copied next; its count 0: that is not known. */
static inline void ragged_piece_copy(const struct ragged *ragged, size_t column,
                                     const struct ragged_piece *piece, void *to,
                                     const struct ragged_piece *next)
{
    size_t item_bytes = ragged->columns[column].item_bytes;
    narrow_copy(to, piece->columns[column], piece->count, item_bytes, piece->widths[column],
                next->columns[column], next->count * narrow_kept(next->widths[column], item_bytes));
}

#endif
