/* See panel_open.h: how many items each entry has of a panel. */
#include "base/number.h"
#include "dataset/frames/frame_array.h"
#include "dataset/ragged/panel_open.h"
#include "dataset/ragged/ragged_open.h"

#include <stdlib.h>
#include <string.h>

/* Reading one store. */
struct scan {
    struct ragged_origin *origin;
    uint64_t *offsets;   /* of all entries: of those before `entry` the panel's, then stored ones */
    uint64_t entry;      /* the next one to be ended */
    uint64_t end;        /* of it: stored */
    uint64_t entry_end;  /* of the store's entries */
    uint64_t first_item; /* of the store */
    uint64_t kept, total; /* of this entry; of all before */
};

/* Ends the entries whose items are all seen. */
static enum status end_entries(struct scan *scan, uint64_t seen, struct error *err)
{
    enum status status = STATUS_OK;
    while (scan->entry < scan->entry_end && scan->end <= seen && status == STATUS_OK) {
        status = length_list_put(&scan->origin->list, scan->kept, err);
        scan->total += scan->kept;
        scan->kept = 0;
        scan->entry++;
        uint64_t next = scan->entry < scan->entry_end ? scan->offsets[scan->entry + 1] : 0;
        scan->offsets[scan->entry] = scan->total;
        scan->end = next;
    }
    return status;
}

/* Negative indices are large as unsigned ones, beyond all numbers. */
#define DEFINE_COUNT(type)                                                                     \
    static uint64_t count_##type(const struct ragged_panel *panel, const unsigned char *items, \
                                 uint64_t count)                                               \
    {                                                                                          \
        uint64_t kept = 0;                                                                     \
        for (uint64_t i = 0; i < count; i++) {                                                 \
            type index;                                                                        \
            memcpy(&index, items + i * sizeof index, sizeof index);                            \
            kept += index < panel->number_count && panel->numbers[index] >= 0;                 \
        }                                                                                      \
        return kept;                                                                           \
    }

DEFINE_COUNT(uint8_t)
DEFINE_COUNT(uint16_t)
DEFINE_COUNT(uint32_t)
DEFINE_COUNT(uint64_t)

static uint64_t count_items(const struct ragged_panel *panel, size_t item_bytes,
                            const unsigned char *items, uint64_t count)
{
    switch (item_bytes) {
    case 1:
        return count_uint8_t(panel, items, count);
    case 2:
        return count_uint16_t(panel, items, count);
    case 4:
        return count_uint32_t(panel, items, count);
    default:
        return count_uint64_t(panel, items, count);
    }
}

static enum status visit_indices(void *argument, const struct frame_array *array, uint64_t first,
                                 uint64_t count, const void *items, struct error *err)
{
    struct scan *scan = argument;
    size_t item_bytes = array->view.item_bytes;
    uint64_t at = scan->first_item + first, until = at + count;
    const unsigned char *next = items;
    enum status status = STATUS_OK;
    while (at < until && status == STATUS_OK) {
        uint64_t here = min_u64(until, scan->end) - at;
        scan->kept += count_items(scan->origin->panel, item_bytes, next, here);
        next += here * item_bytes;
        at += here;
        status = end_entries(scan, at, err);
    }
    return status;
}

enum status panel_scan(const struct dataset *dataset, struct ragged_origin *origin,
                       uint64_t *offsets, struct error *err)
{
    struct scan scan = {.origin = origin, .offsets = offsets, .end = offsets[1]};
    enum status status = STATUS_OK;
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++) {
        const struct ragged_array *column = &origin->columns[origin->panel->column];
        struct frame_array array = {.dataset = dataset,
                                    .node = column->node,
                                    .option = "slice",
                                    .store = dataset_store_at(origin->own_store, s),
                                    .may_be_empty = !ragged_has_items(origin, s),
                                    .view = column->views[s]};
        scan.first_item = origin->first_item[s];
        if (scan.entry == scan.entry_end)
            scan.end = offsets[scan.entry + 1];
        scan.entry_end = ragged_entries_before(origin, s + 1);
        status = end_entries(&scan, scan.first_item, err); /* those without items, in front */
        if (status == STATUS_OK)
            status = frame_array_read(&array, visit_indices, &scan, err);
    }
    return status;
}
