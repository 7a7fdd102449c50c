/* Arrays of values of variable length, which say nowhere but in their chunks how long the values
 * are. All chunks are read when the dataset is opened, for the lengths, and once more by each node,
 * for the items. */
#include "dataset/ragged/ragged_held.h"

#include "base/number.h"
#include "base/size.h"
#include "codec/vlen.h"
#include "dataset/ragged/ragged_open.h"
#include "dataset/ragged/ragged_values.h"
#include "dataset/read/bad_frames.h"
#include "dataset/threads.h"

#include <inttypes.h>
#include <stdlib.h>

/* Where values go: their offsets, and their items, if these are wanted. */
struct wanted {
    uint64_t *offsets;    /* [values + 1], numbered through all stores; of the next value */
    unsigned char *items; /* of the first value; NULL: offsets alone */
    size_t item_bytes;
    uint64_t room;    /* items in all */
    uint64_t missing; /* chunks that are not there */
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
    return STATUS_OK;
}

static enum status read_stores(const struct dataset *dataset, struct ragged_origin *origin,
                               uint64_t threads, uint64_t room, struct wanted *wanted,
                               struct error *err)
{
    enum status status = STATUS_OK;
    *wanted->offsets = 0;
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++) {
        struct values_reading values = {.dataset = dataset,
                                        .view = &origin->columns[0].views[s],
                                        .threads = threads,
                                        .room = room,
                                        .visit = take_values,
                                        .argument = wanted};
        status = values_read(&values, err);
        wanted->missing += values.missing;
        origin->first_item[s + 1] = *wanted->offsets;
        origin->hold_room = max_u64(origin->hold_room, values.most);
    }
    return status;
}

enum status ragged_held_measure(const struct dataset *dataset, struct ragged_origin *origin,
                                struct error *err)
{
    const struct zarr_array *view = &origin->columns[0].views[0];
    uint64_t values = ragged_entries_before(origin, dataset->store_count), bytes;
    uint64_t limit = dataset->private->hold_limit_bytes;
    origin->scanned = malloc((values + 1) * sizeof *origin->scanned);
    if (!origin->scanned)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " offsets", values + 1);
    struct wanted wanted = {.offsets = origin->scanned, .room = INT64_MAX};
    enum status status = read_stores(dataset, origin, DATASET_MOST_THREADS, limit, &wanted, err);
    if (status != STATUS_OK)
        return status;
    bytes = mul_sat(*wanted.offsets, view->item_bytes);
    if (bytes <= limit)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "array '%s' takes %s, and values of variable length are held whole: raise "
                     "dataset.hold_limit (%s)",
                     view->path, size_format(bytes).text, size_format(limit).text);
}

enum status ragged_held_load(const struct dataset *dataset, size_t ragged, uint64_t *offsets,
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

uint64_t dataset_hold_room(const struct dataset *dataset)
{
    uint64_t most = 0;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        most = max_u64(most, dataset->ragged[r].lengths->hold_room);
    for (uint32_t d = 0; d < dataset->source_count; d++)
        most = max_u64(most, dataset_hold_room(dataset->sources[d]));
    return most;
}
