/* See ragged_vlen.h. */
#include "dataset/ragged/ragged_vlen.h"

#include "base/number.h"
#include "base/size.h"
#include "codec/vlen.h"
#include "dataset/ragged/ragged_offsets.h"
#include "dataset/ragged/ragged_open.h"
#include "dataset/ragged/ragged_values.h"
#include "dataset/read/bad_frames.h"
#include "dataset/threads.h"

#include <inttypes.h>
#include <stdlib.h>

/* What chunks on their way may take while lengths are looked at, at least. */
static const uint64_t scan_bytes = (uint64_t)256 << 20;

/* Reading all values
 * ---------------------------------------------------------------------------------------------- */

/* Where values go: their offsets, and their items, if these are wanted. */
struct wanted {
    uint64_t *offsets;    /* [values + 1], numbered through all stores; of the next value */
    unsigned char *items; /* of the first value; NULL: offsets alone */
    size_t item_bytes;
    uint64_t room;    /* items in all */
    uint64_t missing; /* chunks that are not there */
    uint64_t length;  /* values of a chunk */
    uint64_t beyond;  /* of the last chunk */
};

static enum status take_values(void *argument, const struct values *values, struct error *err)
{
    struct wanted *wanted = argument;
    uint64_t first = *wanted->offsets, count = 0;
    for (uint64_t i = 0; values->bytes && i < values->count; i++)
        count += values->lengths[i];
    if (count > wanted->room - first)
        return error_set(
            err, STATUS_INVALID,
            "the array has more items than when the dataset was opened: it was written "
            "anew; start the run again");
    if (wanted->items && values->bytes)
        (void)vlen_copy(values->bytes, values->count, wanted->items + first * wanted->item_bytes);
    for (uint64_t i = 0; i < values->count; i++, wanted->offsets++)
        wanted->offsets[1] = wanted->offsets[0] + (values->bytes ? values->lengths[i] : 0);
    for (uint64_t i = values->count; values->bytes && i < wanted->length; i++)
        wanted->beyond += values->lengths[i];
    return STATUS_OK;
}

static enum status read_stores(const struct dataset *dataset, struct ragged_origin *origin,
                               uint64_t threads, uint64_t room, struct wanted *wanted,
                               struct error *err)
{
    enum status status = STATUS_OK;
    *wanted->offsets = 0;
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++) {
        const struct zarr_array *view = &origin->columns[0].views[s];
        struct values_reading values = {.dataset = dataset,
                                        .view = view,
                                        .threads = threads,
                                        .room = room,
                                        .visit = take_values,
                                        .argument = wanted};
        wanted->length = view->chunk_shape[0];
        wanted->beyond = 0;
        status = values_read(&values, err);
        wanted->missing += values.missing;
        origin->first_item[s + 1] = *wanted->offsets;
        origin->beyond[s] = wanted->beyond;
        origin->hold_room = max_u64(origin->hold_room, values.most);
    }
    return status;
}

/* Lengths
 * ---------------------------------------------------------------------------------------------- */

static enum status read_given(const struct dataset *dataset, struct ragged_origin *origin,
                              struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++) {
        const struct zarr_array *view = &origin->given.views[s];
        uint64_t *out = origin->scanned + ragged_entries_before(origin, s);
        unsigned char *items =
            (unsigned char *)out + view->shape[0] * (sizeof *out - view->item_bytes);
        status = ragged_check_given(origin, s, err);
        if (status == STATUS_OK)
            status = ragged_read_array(dataset, "ragged.offsets", origin->own_store, s,
                                       &origin->given, false, items, err);
        if (status == STATUS_OK)
            status = ragged_take_given(origin, s, items, out, err);
    }
    return status;
}

static void take_list(const struct dataset *dataset, struct ragged_origin *origin)
{
    size_t at = 0;
    length_list_offsets(&origin->list, &at, ragged_entries_before(origin, dataset->store_count),
                        origin->scanned);
    for (size_t s = 0; s < dataset->store_count; s++) {
        origin->beyond[s] = length_list_take(&origin->list, &at);
        origin->first_item[s + 1] = origin->scanned[ragged_entries_before(origin, s + 1)];
    }
}

/* Chunks are as large as their values say (zarr_array_decoded_bytes()). */
static enum status size_view(const struct ragged_origin *origin, size_t store, struct error *err)
{
    struct zarr_array *view = &origin->columns[0].views[store];
    const uint64_t *offsets = origin->scanned + ragged_entries_before(origin, store);
    uint64_t most = 0;
    for (uint64_t first = 0; first < view->shape[0]; first += view->chunk_shape[0]) {
        uint64_t end = min_u64(first + view->chunk_shape[0], view->shape[0]);
        uint64_t beyond = end == view->shape[0] ? origin->beyond[store] : 0;
        most = max_u64(most, add_sat(offsets[end] - offsets[first], beyond));
    }
    uint64_t bytes = add_sat(vlen_begin(view->chunk_shape[0], 0), mul_sat(most, view->item_bytes));
    if (bytes > ZARR_MAX_CHUNK_BYTES)
        return error_set(err, STATUS_INVALID,
                         "array '%s': a chunk of values takes %s, and at most %s can be read: "
                         "write the array with smaller chunks",
                         view->path, size_format(bytes).text,
                         size_format(ZARR_MAX_CHUNK_BYTES).text);
    view->chunk_bytes = bytes;
    view->total_bytes = mul_sat(offsets[view->shape[0]] - offsets[0], view->item_bytes);
    view->values_beyond = origin->beyond[store];
    return STATUS_OK;
}

static enum status check_joined(const struct dataset *dataset, const struct ragged_origin *origin,
                                struct error *err)
{
    const struct zarr_array *view = &origin->columns[0].views[0];
    uint64_t limit = dataset->private->hold_limit_bytes;
    uint64_t bytes = mul_sat(origin->first_item[dataset->store_count], view->item_bytes);
    if (!origin->index.node || bytes <= limit)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "array '%s' takes %s, and joined arrays are held whole: raise "
                     "dataset.hold_limit (%s)",
                     view->path, size_format(bytes).text, size_format(limit).text);
}

static enum status find_lengths(const struct dataset *dataset, struct ragged_origin *origin,
                                struct error *err)
{
    struct wanted wanted = {.offsets = origin->scanned, .room = INT64_MAX};
    uint64_t room = max_u64(dataset->private->hold_limit_bytes, scan_bytes);
    if (origin->lengths) {
        take_list(dataset, origin);
        return STATUS_OK;
    }
    enum status status =
        origin->given.node ? read_given(dataset, origin, err)
                           : read_stores(dataset, origin, DATASET_MOST_THREADS, room, &wanted, err);
    return status == STATUS_OK ? check_joined(dataset, origin, err) : status;
}

enum status ragged_vlen_measure(const struct dataset *dataset, struct ragged_origin *origin,
                                struct error *err)
{
    uint64_t values = ragged_entries_before(origin, dataset->store_count);
    origin->first_item = calloc(dataset->store_count + 1, sizeof *origin->first_item);
    origin->beyond = calloc(dataset->store_count, sizeof *origin->beyond);
    if (!origin->first_item || !origin->beyond)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the arrays of a ragged field");
    if (origin->lengths && origin->is_held) {
        origin->first_item[dataset->store_count] = origin->lengths->item_count;
        return STATUS_OK;
    }
    origin->scanned = malloc((values + 1) * sizeof *origin->scanned);
    if (!origin->scanned)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " offsets", values + 1);
    enum status status = find_lengths(dataset, origin, err);
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK && !origin->index.node; s++)
        status = size_view(origin, s, err);
    if (origin->lengths) {
        free(origin->scanned);
        origin->scanned = NULL;
    }
    return status;
}

enum status ragged_vlen_list(const struct dataset *dataset, struct ragged_origin *origin,
                             struct error *err)
{
    uint64_t values = ragged_entries_before(origin, dataset->store_count);
    enum status status = STATUS_OK;
    for (uint64_t i = 0; i < values && status == STATUS_OK; i++)
        status = length_list_put(&origin->list, origin->scanned[i + 1] - origin->scanned[i], err);
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++)
        status = length_list_put(&origin->list, origin->beyond[s], err);
    return status;
}

/* Holding
 * ---------------------------------------------------------------------------------------------- */

static enum status load_held(const struct dataset *dataset, size_t ragged, uint64_t *offsets,
                             unsigned char *items, const struct dataset_hold_options *options,
                             struct error *err)
{
    struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    struct wanted wanted = {.offsets = offsets,
                            .items = items,
                            .item_bytes = origin->columns[0].views[0].item_bytes,
                            .room = dataset->ragged[ragged].item_count};
    uint64_t room = min_u64(dataset->private->hold_limit_bytes, options->memory_bytes);
    enum status status = read_stores(dataset, origin, options->thread_count,
                                     max_u64(room, origin->lengths->hold_room), &wanted, err);
    note_filled_ragged(dataset, ragged, wanted.missing);
    return status;
}

enum status ragged_vlen_load(const struct dataset *dataset, size_t ragged, uint64_t *offsets,
                             unsigned char *items, const struct dataset_hold_options *options,
                             struct error *err)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    size_t at = 0;
    if (origin->is_held)
        return load_held(dataset, ragged, offsets, items, options, err);
    length_list_offsets(&origin->list, &at, ragged_entries_before(origin, dataset->store_count),
                        offsets);
    return STATUS_OK;
}

void ragged_vlen_attach(const struct dataset *dataset, size_t ragged, const uint64_t *offsets)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    for (size_t s = 0; s < dataset->store_count && !origin->is_held; s++)
        origin->columns[0].views[s].value_offsets = offsets + ragged_entries_before(origin, s);
}

uint64_t dataset_hold_room(const struct dataset *dataset)
{
    uint64_t most = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        most = max_u64(most, dataset->ragged[r].lengths->hold_room);
    for (uint32_t d = 0; d < dataset->source_count; d++)
        most = max_u64(most, dataset_hold_room(dataset->sources[d]));
    return most;
}
