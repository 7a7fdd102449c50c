/* See sift.h. A block of a frame's items at a time: first which of them are kept, then column by
 * column. */
#include "dataset/read/sift.h"

#include "base/number.h"
#include "dataset/panel.h"
#include "dataset/read/bad_frames.h"
#include "dataset/read/ragged_read.h"
#include "dataset/read/ragged_rows.h"

#include <inttypes.h>
#include <string.h>

enum { BLOCK = 1024 };

/* Items of a page of stored ones, that follow one another. */
struct block {
    const unsigned char *page;
    uint64_t first; /* in the page */
    uint64_t count; /* BLOCK at most */
    uint64_t kept_count;
    uint32_t kept[BLOCK]; /* which of them */
};

/* Where items go to. */
struct target {
    struct ragged_row lies;
    uint64_t next; /* item of the panel */
    uint64_t end;  /* of the frame's */
};

/* Branches would be taken by chance. Negative indices are large as unsigned ones. */
#define DEFINE_CHOOSE(type)                                                                 \
    static void choose_##type(const struct ragged_panel *panel, const unsigned char *items, \
                              struct block *block)                                          \
    {                                                                                       \
        uint64_t kept = 0, count = panel->number_count;                                     \
        for (uint64_t i = 0; i < block->count; i++) {                                       \
            type index;                                                                     \
            memcpy(&index, items + i * sizeof index, sizeof index);                         \
            bool is_known = index < count;                                                  \
            block->kept[kept] = (uint32_t)i;                                                \
            kept += is_known & (panel->numbers[is_known ? index : 0] >= 0);                 \
        }                                                                                   \
        block->kept_count = kept;                                                           \
    }

DEFINE_CHOOSE(uint8_t)
DEFINE_CHOOSE(uint16_t)
DEFINE_CHOOSE(uint32_t)
DEFINE_CHOOSE(uint64_t)

static void choose(const struct ragged_panel *panel, struct block *block)
{
    const struct ragged_column *column = &panel->stored.columns[panel->column];
    const unsigned char *items =
        block->page + column->page_offset + block->first * column->item_bytes;
    switch (column->item_bytes) {
    case 1:
        choose_uint8_t(panel, items, block);
        break;
    case 2:
        choose_uint16_t(panel, items, block);
        break;
    case 4:
        choose_uint32_t(panel, items, block);
        break;
    default:
        choose_uint64_t(panel, items, block);
        break;
    }
}

/* Little-endian, as all that is decoded. */
static void put_number(const struct ragged_panel *panel, size_t item_bytes,
                       const unsigned char *item, unsigned char *out)
{
    uint64_t index = 0;
    memcpy(&index, item, item_bytes);
    uint64_t number = (uint64_t)panel->numbers[index];
    memcpy(out, &number, item_bytes);
}

#define GATHER(type)                     \
    for (uint64_t i = 0; i < count; i++) \
        memcpy(out + i * sizeof(type), items + kept[i] * sizeof(type), sizeof(type));

static void gather(const unsigned char *items, const uint32_t *kept, uint64_t count,
                   size_t item_bytes, unsigned char *out)
{
    switch (item_bytes) {
    case 2:
        GATHER(uint16_t)
        break;
    case 4:
        GATHER(uint32_t)
        break;
    case 8:
        GATHER(uint64_t)
        break;
    default:
        for (uint64_t i = 0; i < count; i++)
            memcpy(out + i * item_bytes, items + kept[i] * item_bytes, item_bytes);
        break;
    }
}

/* Copies a block's kept items [first, first + count), which go to one page. */
static void copy_kept(const struct sifting *sifting, const struct block *block, uint64_t first,
                      uint64_t count, unsigned char *page, uint64_t at)
{
    const struct ragged *ragged = &sifting->dataset->ragged[sifting->ragged];
    const struct ragged_panel *panel =
        sifting->dataset->private->ragged_origins[sifting->ragged].panel;
    for (size_t c = 0; c < ragged->column_count; c++) {
        size_t item_bytes = ragged->columns[c].item_bytes;
        const unsigned char *items =
            block->page + panel->stored.columns[c].page_offset + block->first * item_bytes;
        unsigned char *out = page + ragged->columns[c].page_offset + at * item_bytes;
        if (c != panel->column) {
            gather(items, block->kept + first, count, item_bytes, out);
            continue;
        }
        for (uint64_t i = 0; i < count; i++)
            put_number(panel, item_bytes, items + block->kept[first + i] * item_bytes,
                       out + i * item_bytes);
    }
}

/* Items that the frame should not have are dropped. */
static void put_block(const struct sifting *sifting, const struct block *block,
                      struct target *target)
{
    uint64_t page_items = sifting->dataset->ragged[sifting->ragged].page_items;
    uint64_t left = min_u64(block->kept_count, target->end - target->next), first = 0;
    while (first < left) {
        uint64_t item = target->next - target->lies.page_begin;
        uint64_t at = item % page_items, count = min_u64(left - first, page_items - at);
        uint32_t page = target->lies.first_page + (uint32_t)(item / page_items);
        copy_kept(sifting, block, first, count, sifting->pages->at(sifting->pages, page), at);
        first += count;
        target->next += count;
    }
}

/* Returns how many items of the frame are of the panel. */
static uint64_t sift_frame(const struct sifting *sifting, const struct ragged_row *stored,
                           struct ragged_span span, struct target *target)
{
    const struct ragged_panel *panel =
        sifting->dataset->private->ragged_origins[sifting->ragged].panel;
    uint64_t page_items = panel->stored.page_items, kept = 0;
    struct block block;
    for (uint64_t item = span.begin; item < span.end; item += block.count) {
        uint64_t at = item - stored->page_begin;
        block.page = sifting->from + at / page_items * panel->stored.page_bytes;
        block.first = at % page_items;
        block.count = min_u64(min_u64(span.end - item, page_items - block.first), BLOCK);
        choose(panel, &block);
        put_block(sifting, &block, target);
        kept += block.kept_count;
    }
    return kept;
}

static enum status refuse_frame(const struct sifting *sifting, uint64_t frame, uint64_t expected,
                                uint64_t kept, struct error *err)
{
    const struct dataset *dataset = sifting->dataset;
    const struct ragged_origin *origin = &dataset->private->ragged_origins[sifting->ragged];
    size_t store = sifting->row->row_store;
    return error_set(err, STATUS_INVALID,
                     "array '%s': frame %" PRIu64 " of the store has %" PRIu64
                     " items of the columns that are listed, and %" PRIu64
                     " when the dataset was opened: it was written anew; start the run again",
                     origin->columns[origin->panel->column].views[store].path,
                     frame - dataset->store_frames[store], kept, expected);
}

enum status sift_row(const struct sifting *sifting, struct error *err)
{
    const struct dataset *dataset = sifting->dataset;
    size_t r = sifting->ragged;
    const uint64_t *offsets = dataset->ragged[r].offsets;
    const uint64_t *stored_offsets = panel_stored(dataset, r)->offsets;
    struct ragged_frames frames = ragged_row_frames(dataset, r, sifting->row);
    struct ragged_row stored = ragged_row_stored(dataset, r, sifting->row, stored_offsets);
    struct target target = {.lies = ragged_row_of(dataset, r, sifting->row, offsets)};
    for (size_t i = 0; i < r; i++)
        target.lies.first_page +=
            ragged_row_of(dataset, i, sifting->row, dataset->ragged[i].offsets).page_count;
    for (uint64_t frame = frames.first; frame < frames.end; frame++) {
        struct ragged_span span = {stored_offsets[frame], stored_offsets[frame + 1]};
        uint64_t expected = offsets[frame + 1] - offsets[frame];
        target.next = offsets[frame];
        target.end = offsets[frame + 1];
        uint64_t kept = sift_frame(sifting, &stored, span, &target);
        if (kept == expected)
            continue;
        if (!sifting->valid)
            return refuse_frame(sifting, frame, expected, kept, err);
        ragged_zero_frame(dataset, r, &target.lies, sifting->pages, frame);
        mark_ragged(dataset, sifting->row, r, frame, sifting->valid);
    }
    return STATUS_OK;
}

size_t sift_bytes(const struct dataset *dataset)
{
    size_t most = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        if (ragged->panel_count > 0 && ragged->lengths)
            most = max_u64(most,
                           ragged->lengths->most_read_pages * panel_stored(dataset, r)->page_bytes);
    }
    return most;
}
