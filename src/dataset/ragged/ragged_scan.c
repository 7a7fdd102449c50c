/* The scan of offsets when a dataset is opened: all of them are read and checked once, and then how
 * long samples and rows are is known. */
#include "dataset/ragged/ragged_open.h"

#include "base/number.h"
#include "dataset/frames/frame_array.h"
#include "dataset/join.h"
#include "dataset/panel.h"
#include "dataset/ragged/panel_open.h"
#include "dataset/ragged/ragged_offsets.h"
#include "dataset/ragged/ragged_vlen.h"
#include "dataset/read/ragged_rows.h"
#include "dataset/read/row_walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Reading
 * ---------------------------------------------------------------------------------------------- */

static enum status copy_items(void *argument, const struct frame_array *array, uint64_t first,
                              uint64_t count, const void *items, struct error *err)
{
    size_t item_bytes = array->view.item_bytes;
    (void)err;
    memcpy((unsigned char *)argument + first * item_bytes, items, count * item_bytes);
    return STATUS_OK;
}

enum status ragged_read_array(const struct dataset *dataset, const char *option, size_t own_store,
                              size_t store, const struct ragged_array *of, bool may_be_empty,
                              unsigned char *items, struct error *err)
{
    struct frame_array array = {.dataset = dataset,
                                .node = of->node,
                                .option = option,
                                .store = dataset_store_at(own_store, store),
                                .may_be_empty = may_be_empty,
                                .view = of->views[store]};
    return frame_array_read(&array, copy_items, items, err);
}

/* Read to the end of the store's part of `offsets`, then widened from its start. */
static enum status read_store(const struct dataset *dataset, const struct ragged_origin *origin,
                              size_t store, uint64_t *offsets, struct error *err)
{
    const struct zarr_array *view = &origin->offsets.views[store];
    uint64_t *out = offsets + ragged_entries_before(origin, store);
    unsigned char *items = (unsigned char *)out + view->shape[0] * (sizeof *out - view->item_bytes);
    bool empty = !ragged_has_items(origin, store);
    enum status status = ragged_read_array(dataset, "ragged.offsets", origin->own_store, store,
                                           &origin->offsets, empty, items, err);
    return status == STATUS_OK ? ragged_take_offsets(origin, store, items, out, err) : status;
}

static enum status read_offsets(const struct dataset *dataset, const struct ragged_origin *origin,
                                uint64_t *offsets, struct error *err)
{
    enum status status = STATUS_OK;
    if (origin->is_vlen) {
        uint64_t entries = ragged_entries_before(origin, dataset->store_count);
        memcpy(offsets, origin->scanned, (entries + 1) * sizeof *offsets);
        return STATUS_OK;
    }
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++)
        status = read_store(dataset, origin, s, offsets, err);
    return status;
}

/* Of a joined field. */
static enum status read_entries(const struct dataset *dataset, const struct ragged_origin *origin,
                                int64_t *entries, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++) {
        struct join join = ragged_join(origin, s);
        int64_t *out = entries + dataset->store_frames[s];
        status =
            ragged_read_array(dataset, "index", 0, s, &origin->index, !ragged_has_items(origin, s),
                              (unsigned char *)join_items(&join, out), err);
        if (status == STATUS_OK)
            status = join_settle(&join, out, err);
    }
    return status;
}

/* Lengths
 * ---------------------------------------------------------------------------------------------- */

/* The chunks that are decoded for the items of a row, of all columns; of values, for its frames. */
static uint64_t row_chunks(const struct dataset *dataset, const struct ragged_origin *origin,
                           const struct row_walk *row, const struct ragged_row *lies)
{
    uint64_t base = origin->first_item[row->row_store], count = 0;
    size_t r = (size_t)(origin - dataset->private->ragged_origins);
    uint64_t page_items = panel_stored(dataset, r)->page_items;
    if (origin->is_vlen) {
        struct ragged_frames frames = ragged_row_frames(dataset, r, row);
        uint64_t first = dataset->store_frames[row->row_store];
        uint64_t chunk = origin->columns[0].views[row->row_store].chunk_shape[0];
        return lies->page_count > 0
                   ? (frames.end - 1 - first) / chunk - (frames.first - first) / chunk + 1
                   : 0;
    }
    for (size_t c = 0; c < origin->column_count && lies->page_count > 0; c++) {
        uint64_t chunk = origin->columns[c].views[row->row_store].chunk_shape[0];
        count += (lies->items.end - 1 - base) / chunk - (lies->items.begin - base) / chunk + 1;
        count += page_items % chunk ? lies->page_count - 1 : 0; /* pages cut chunks, too */
    }
    return count;
}

static uint64_t all_chunks(const struct dataset *dataset, const struct ragged_origin *origin)
{
    uint64_t count = 0;
    for (size_t c = 0; c < origin->column_count; c++)
        for (size_t s = 0; s < dataset->store_count; s++)
            count += origin->columns[c].views[s].chunk_counts[0];
    return count;
}

static enum status count_rows(const struct dataset *dataset, size_t r, const uint64_t *offsets,
                              struct ragged_lengths *lengths, struct error *err)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
    lengths->chunks = all_chunks(dataset, origin);
    for (uint64_t row = 0; row < dataset->row_count; row++) {
        struct row_walk walk = row_begin(dataset, row);
        struct ragged_row lies = ragged_row_stored(dataset, r, &walk, offsets);
        if ((lies.items.end - lies.page_begin) / panel_stored(dataset, r)->page_items >=
            UINT32_MAX / RAGGED_MAX_FIELDS)
            return error_set(err, STATUS_INVALID,
                             "row %" PRIu64 " has %" PRIu64 " items: that is beyond any memory",
                             row, lies.items.end - lies.items.begin);
        lengths->decoded += row_chunks(dataset, origin, &walk, &lies);
        if (!origin->panel)
            lengths_add(&lengths->rows, lies.page_count);
        lengths->read_pages += origin->panel ? lies.page_count : 0;
        lengths->most_read_pages =
            max_u64(lengths->most_read_pages, origin->panel ? lies.page_count : 0);
    }
    return STATUS_OK;
}

/* From here on the offsets are of what the field has. `offsets` as panel_scan() changes them. */
static enum status sift(const struct dataset *dataset, size_t r, uint64_t *offsets,
                        uint64_t entry_count, struct ragged_lengths *lengths, struct error *err)
{
    struct ragged_origin *origin = &dataset->private->ragged_origins[r];
    if (!origin->panel)
        return STATUS_OK;
    enum status status = panel_scan(dataset, origin, offsets, err);
    if (status != STATUS_OK)
        return status;
    lengths->item_count = offsets[entry_count];
    lengths->panel_hash = ragged_hash_offsets(offsets, entry_count, NULL, 0);
    for (uint64_t row = 0; row < dataset->row_count; row++) {
        struct row_walk walk = row_begin(dataset, row);
        lengths_add(&lengths->rows, ragged_row_of(dataset, r, &walk, offsets).page_count);
    }
    return STATUS_OK;
}

static void count_frames(const struct dataset *dataset, const struct ragged *ragged,
                         struct ragged_lengths *lengths)
{
    for (uint64_t i = 0; i < dataset->frame_count; i++) {
        struct ragged_span span = ragged_frame(ragged, i);
        lengths->most_frame_items = max_u64(lengths->most_frame_items, span.end - span.begin);
        lengths->frame_items = add_sat(lengths->frame_items, span.end - span.begin);
    }
}

/* Offsets of what is delivered: those of entries that are cut. */
static void truncate_entries(uint64_t pad, uint64_t *offsets, uint64_t entry_count)
{
    uint64_t begin = 0, sum = 0;
    for (uint64_t i = 0; i < entry_count; i++) {
        uint64_t end = offsets[i + 1];
        sum += min_u64(end - begin, pad);
        offsets[i + 1] = sum;
        begin = end;
    }
}

static enum status refuse_length(const struct dataset *dataset, const struct ragged *ragged,
                                 uint64_t frame, uint64_t items, struct error *err)
{
    size_t store = 0;
    while (dataset->store_frames[store + 1] <= frame)
        store++;
    return error_set(err, STATUS_INVALID,
                     "frame %" PRIu64 " of the store %s has %" PRIu64
                     " items, more than deliver.pad (%" PRIu64 "): the longest frame has %" PRIu64
                     "; give a larger pad, or truncate: true",
                     frame - dataset->store_frames[store], dataset_store_text(dataset, store).text,
                     items, ragged->pad_items, ragged->most_frame_items);
}

/* No frame is longer than `pad`, whether or not samples have the frame. */
static enum status check_pad(const struct dataset *dataset, const struct ragged *ragged,
                             struct error *err)
{
    if (ragged->form != RAGGED_PAD || ragged->most_frame_items <= ragged->pad_items)
        return STATUS_OK;
    for (uint64_t i = 0;; i++) {
        struct ragged_span span = ragged_frame(ragged, i);
        if (span.end - span.begin > ragged->pad_items)
            return refuse_length(dataset, ragged, i, span.end - span.begin, err);
    }
}

static void count_samples(const struct dataset *dataset, const struct ragged *ragged,
                          struct ragged_lengths *lengths)
{
    const struct anchors *anchors = dataset->private->anchors;
    uint64_t longest = 0;
    for (uint64_t row = 0; row < dataset->row_count; row++) {
        uint64_t first = dataset_row_first(dataset, row);
        uint64_t count =
            anchors ? anchors_row_samples(anchors, row) : dataset_row_frames(dataset, row);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t frame = anchors ? anchors_frame_at(anchors, row, i) : first + i;
            uint64_t items = ragged_sample_items(dataset, ragged, frame);
            if (lengths->sample_items == 0 || items > longest) {
                longest = items;
                lengths->longest_frame = frame;
            }
            lengths_add(&lengths->samples, items);
            lengths->bounded[length_bounds_find(&lengths->bounds, items)]++;
            lengths->sample_items += items;
        }
    }
}

/* No sample is longer than the last of the bounds, if there are any. */
static enum status check_bounds(const struct dataset *dataset, const struct ragged *ragged,
                                const struct ragged_lengths *lengths, struct error *err)
{
    const struct length_bounds *bounds = &lengths->bounds;
    uint64_t frame = lengths->longest_frame;
    size_t store = 0;
    if (bounds->count == 0 || lengths->bounded[bounds->count] == 0)
        return STATUS_OK;
    while (dataset->store_frames[store + 1] <= frame)
        store++;
    return error_set(err, STATUS_INVALID,
                     "the sample at frame %" PRIu64 " of the store %s has %" PRIu64
                     " items, more than the last of batch.budget_buckets (%" PRIu64
                     "), as have %" PRIu64 " others: add a longer bucket, or cut samples with "
                     "deliver: {pad: N, truncate: true}",
                     frame - dataset->store_frames[store], dataset_store_text(dataset, store).text,
                     ragged_sample_items(dataset, ragged, frame), bounds->of[bounds->count - 1],
                     lengths->bounded[bounds->count] - 1);
}

/* `entries` is NULL unless the field is joined. */
static enum status scan(const struct dataset *dataset, size_t r, uint64_t *offsets,
                        int64_t *entries, struct ragged_lengths *lengths, struct error *err)
{
    struct ragged_origin *origin = &dataset->private->ragged_origins[r];
    uint64_t entry_count = ragged_entries_before(origin, dataset->store_count);
    struct ragged seen = dataset->ragged[r];
    enum status status = read_offsets(dataset, origin, offsets, err);
    if (status == STATUS_OK && origin->is_vlen && !origin->is_held)
        status = ragged_vlen_list(dataset, origin, err);
    if (status == STATUS_OK && entries)
        status = read_entries(dataset, origin, entries, err);
    if (status != STATUS_OK)
        return status;
    lengths->item_count = offsets[entry_count];
    lengths->hold_room = origin->is_held ? origin->hold_room : 0;
    lengths->offsets_hash =
        ragged_hash_offsets(offsets, entry_count, entries, dataset->frame_count);
    seen.offsets = offsets;
    seen.entries = entries;
    seen.truncates = false;
    status = count_rows(dataset, r, offsets, lengths, err);
    if (status == STATUS_OK)
        status = sift(dataset, r, offsets, entry_count, lengths, err);
    if (status != STATUS_OK)
        return status;
    count_frames(dataset, &seen, lengths);
    seen.most_frame_items = lengths->most_frame_items;
    if (!dataset->ragged[r].truncates)
        status = check_pad(dataset, &seen, err);
    if (status != STATUS_OK)
        return status;
    if (dataset->ragged[r].truncates)
        truncate_entries(seen.pad_items, offsets, entry_count);
    count_samples(dataset, &seen, lengths);
    return check_bounds(dataset, &seen, lengths, err);
}

static enum status scan_one(struct dataset *dataset, size_t r,
                            const struct dataset_options *options, struct error *err)
{
    struct ragged_origin *origin = &dataset->private->ragged_origins[r];
    uint64_t count = ragged_entries_before(origin, dataset->store_count) + 1;
    uint64_t *offsets = malloc(count * sizeof *offsets);
    int64_t *entries = origin->index.node ? malloc(dataset->frame_count * sizeof *entries) : NULL;
    struct ragged_lengths *lengths = calloc(1, sizeof *lengths);
    enum status status;
    if (lengths && options->length_field &&
        strcmp(options->length_field, dataset->ragged[r].name) == 0)
        lengths->bounds = options->length_bounds;
    if (offsets && lengths && (entries || !origin->index.node))
        status = scan(dataset, r, offsets, entries, lengths, err);
    else
        status = error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " offsets", count);
    free(offsets);
    free(entries);
    free(origin->scanned);
    origin->scanned = NULL;
    if (status != STATUS_OK) {
        free(lengths);
        return status;
    }
    origin->lengths = lengths;
    return STATUS_OK;
}

enum status ragged_scan(struct dataset *dataset, const struct dataset_options *options,
                        struct error *err)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        struct ragged *ragged = &dataset->private->raggeds[r];
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        if (!origin->lengths) {
            enum status status = scan_one(dataset, r, options, err);
            if (status != STATUS_OK)
                return error_prefix(err, status, "field '%s': ", ragged->name);
        }
        ragged->lengths = origin->lengths;
        ragged->item_count = origin->lengths->item_count;
        ragged->most_frame_items = origin->lengths->most_frame_items;
        ragged->sample_items = origin->lengths->sample_items;
        ragged->frame_items = origin->lengths->frame_items;
        ragged->decode_amplification =
            origin->is_held || origin->lengths->chunks == 0
                ? 1.0
                : (double)origin->lengths->decoded / (double)origin->lengths->chunks;
    }
    return STATUS_OK;
}
