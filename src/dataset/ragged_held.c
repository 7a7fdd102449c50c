/* Ragged fields that are held whole: arrays of values of variable length, which say nowhere but in
 * their chunks how long the values are. All chunks are read when the dataset is opened, for the
 * lengths, and once more by each node, for the items. See ragged_internal.h.
 *
 * Threads take chunks in order, and decode them at the same time. Chunks are visited in order, one
 * at a time: the error is that of the first chunk that fails, however many threads there are. */
#include "dataset/dataset_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "codec/vlen.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

/* A decoded chunk: the values [first, first + count) of a store. */
struct values {
    void *bytes;       /* NULL: the chunk is missing, and all values are empty */
    uint32_t *lengths; /* [values of a chunk], in items */
    uint64_t first, count;
};

struct reading {
    const struct dataset *dataset;
    const struct zarr_array *view;
    enum status (*visit)(void *argument, const struct values *values, struct error *err);
    void *argument;
    pthread_mutex_t mutex;
    pthread_cond_t visited_one;
    /* Under `mutex`: */
    uint64_t taken, visited; /* chunks */
    enum status status;      /* of the first chunk that failed */
    struct error error;
};

/* Reading
 * ---------------------------------------------------------------------------------------------- */

static enum status decode_chunk(const struct reading *reading, const char *key,
                                struct values *values, struct error *err)
{
    const struct zarr_array *view = reading->view;
    size_t stored_size, size;
    char *stored;
    enum status status = store_get_text(reading->dataset->private->store, key, ZARR_MAX_CHUNK_BYTES,
                                        &stored, &stored_size, err);

    if (status != STATUS_OK)
        return status;
    status = codec_decode_unsized(&view->codecs, stored, stored_size, ZARR_MAX_CHUNK_BYTES,
                                  &values->bytes, &size, err);
    free(stored);
    if (status == STATUS_OK)
        status = vlen_measure(values->bytes, size, view->chunk_shape[0], view->item_bytes,
                              values->lengths, err);
    if (status != STATUS_OK) {
        free(values->bytes);
        values->bytes = NULL;
    }
    return status;
}

static enum status read_chunk(const struct reading *reading, uint64_t chunk, struct values *values,
                              struct error *err)
{
    const struct dataset_private *private = reading->dataset->private;
    const struct zarr_array *view = reading->view;
    char key[ZARR_KEY_BYTES];

    values->bytes = NULL;
    values->first = chunk * view->chunk_shape[0];
    values->count = min_u64(view->chunk_shape[0], view->shape[0] - values->first);
    zarr_chunk_key(view, &chunk, key);
    enum status status = decode_chunk(reading, key, values, err);
    if (status == STATUS_CORRUPT && store_retry(private->store, 0, err))
        status = decode_chunk(reading, key, values, err);
    if (status == STATUS_NOT_FOUND && !private->missing_is_bad)
        return STATUS_OK;
    if (status == STATUS_NOT_FOUND)
        status = error_set(err, STATUS_CORRUPT,
                           "the store has no '%s': restore it, or take missing chunks for empty "
                           "values (errors.missing_chunk=fill)",
                           key);
    if (status != STATUS_OK)
        return error_prefix(err, status, "array '%s' chunk %s: ", view->path,
                            zarr_index_format(view, &chunk).text);
    return status;
}

static bool take_chunk(struct reading *reading, uint64_t *ret_chunk)
{
    pthread_mutex_lock(&reading->mutex);
    bool found = reading->status == STATUS_OK && reading->taken < reading->view->chunk_counts[0];
    *ret_chunk = reading->taken;
    reading->taken += found;
    pthread_mutex_unlock(&reading->mutex);
    return found;
}

/* Visits a chunk in its turn, if it and all before it were read. */
static void end_chunk(struct reading *reading, uint64_t chunk, const struct values *values,
                      enum status status, struct error *err)
{
    pthread_mutex_lock(&reading->mutex);
    while (reading->visited < chunk)
        pthread_cond_wait(&reading->visited_one, &reading->mutex);
    if (reading->status == STATUS_OK) {
        if (status == STATUS_OK)
            status = reading->visit(reading->argument, values, err);
        if (status != STATUS_OK) {
            reading->status = status;
            reading->error = *err;
        }
    }
    reading->visited++;
    pthread_cond_broadcast(&reading->visited_one);
    pthread_mutex_unlock(&reading->mutex);
}

static void *read_chunks(void *argument)
{
    struct reading *reading = argument;
    struct values values = {.lengths =
                                calloc(reading->view->chunk_shape[0], sizeof *values.lengths)};
    struct error err;
    uint64_t chunk;

    while (take_chunk(reading, &chunk)) {
        error_clear(&err);
        enum status status = values.lengths
                                 ? read_chunk(reading, chunk, &values, &err)
                                 : error_set(&err, STATUS_NO_MEMORY, "no memory to read array '%s'",
                                             reading->view->path);
        end_chunk(reading, chunk, &values, status, &err);
        free(values.bytes);
        values.bytes = NULL;
    }
    free(values.lengths);
    return NULL;
}

/* The calling thread is one of them, so that it does not matter how many others can be started.
 * Signals belong to the main thread. */
static enum status read_values(struct reading *reading, struct error *err)
{
    reading->taken = reading->visited = 0;
    pthread_mutex_init(&reading->mutex, NULL);
    pthread_cond_init(&reading->visited_one, NULL);
    dataset_run_threads("values",
                        dataset_thread_count(reading->dataset, reading->view->chunk_counts[0]),
                        read_chunks, reading);
    pthread_cond_destroy(&reading->visited_one);
    pthread_mutex_destroy(&reading->mutex);
    if (reading->status != STATUS_OK && err)
        *err = reading->error;
    return reading->status;
}

/* Lengths and items
 * ---------------------------------------------------------------------------------------------- */

/* Where values go: their offsets, and their items, if these are wanted. */
struct wanted {
    uint64_t *offsets;    /* [values + 1], numbered through all stores; of the next value */
    unsigned char *items; /* of the first value; NULL: offsets alone */
    size_t item_bytes;
    uint64_t room; /* items in all */
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
                               struct wanted *wanted, struct error *err)
{
    enum status status = STATUS_OK;

    *wanted->offsets = 0;
    for (size_t s = 0; s < dataset->store_count && status == STATUS_OK; s++) {
        struct reading reading = {.dataset = dataset,
                                  .view = &origin->columns[0].views[s],
                                  .visit = take_values,
                                  .argument = wanted};

        status = read_values(&reading, err);
        origin->first_item[s + 1] = *wanted->offsets;
    }
    return status;
}

enum status ragged_held_measure(const struct dataset *dataset, struct ragged_origin *origin,
                                struct error *err)
{
    const struct zarr_array *view = &origin->columns[0].views[0];
    uint64_t values = 0, bytes, limit = dataset->private->hold_limit_bytes;

    for (size_t s = 0; s < dataset->store_count; s++)
        values += origin->columns[0].views[s].shape[0];
    origin->scanned = malloc((values + 1) * sizeof *origin->scanned);
    if (!origin->scanned)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " offsets", values + 1);
    struct wanted wanted = {.offsets = origin->scanned, .room = INT64_MAX};
    enum status status = read_stores(dataset, origin, &wanted, err);
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
                             unsigned char *items, struct error *err)
{
    struct ragged_origin *origin = &dataset->private->ragged_origins[ragged];
    struct wanted wanted = {.offsets = offsets,
                            .items = items,
                            .item_bytes = origin->columns[0].views[0].item_bytes,
                            .room = dataset->ragged[ragged].item_count};

    return read_stores(dataset, origin, &wanted, err);
}
