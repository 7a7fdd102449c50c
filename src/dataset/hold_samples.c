/* Reading an array whole, for holding it: from a remote store in batches of chunks that are fetched
 * at once. Main thread, at start; see dataset_internal.h. */
#include "dataset/dataset_internal.h"

#include "zarr/chunk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_CHUNKS = 128 };
#define BATCH_BYTES ((size_t)64 << 20)

struct batch {
    const struct store *store;
    const struct zarr_array *array;
    struct fetch *fetches; /* [most], as are the keys */
    char (*keys)[ZARR_KEY_BYTES];
    unsigned char *memory;
    size_t most, capacity;
    pthread_mutex_t mutex;
    pthread_cond_t done;
    size_t left;
};

static void count_down(struct fetch *fetch)
{
    struct batch *batch = fetch->argument;

    pthread_mutex_lock(&batch->mutex);
    if (--batch->left == 0)
        pthread_cond_signal(&batch->done);
    pthread_mutex_unlock(&batch->mutex);
}

/* Fetches `count` chunks, from the one at index `first` along axis 0 on, and waits for them. */
static void fetch_chunks(struct batch *batch, uint64_t first, size_t count)
{
    uint64_t index[ZARR_MAX_RANK] = {first};

    batch->left = count;
    for (size_t i = 0; i < count; i++) {
        zarr_chunk_key(batch->array, index, batch->keys[i]);
        batch->fetches[i] = (struct fetch){.kind = FETCH_WHOLE,
                                           .key = batch->keys[i],
                                           .buffer = batch->memory + i * batch->capacity,
                                           .capacity = batch->capacity,
                                           .done = count_down,
                                           .argument = batch};
        fetch_start(batch->store, &batch->fetches[i]);
        for (int axis = batch->array->rank - 1; axis >= 0; axis--) {
            if (++index[axis] < batch->array->chunk_counts[axis] || axis == 0)
                break;
            index[axis] = 0;
        }
    }
    pthread_mutex_lock(&batch->mutex);
    while (batch->left > 0)
        pthread_cond_wait(&batch->done, &batch->mutex);
    pthread_mutex_unlock(&batch->mutex);
}

/* Reads in steps of whole chunks along axis 0, each of `step` of them. */
static enum status read_batches(struct batch *batch, struct zarr_chunk_reader *reader,
                                uint64_t step, unsigned char *out, struct zarr_read_stats *stats,
                                struct error *err)
{
    const struct zarr_array *array = batch->array;
    uint64_t sample_bytes = zarr_array_sample_bytes(array);
    size_t row_chunks = batch->most / step;
    enum status status = STATUS_OK;

    for (uint64_t first = 0; status == STATUS_OK && first < array->chunk_counts[0]; first += step) {
        uint64_t left = array->chunk_counts[0] - first, rows = left < step ? left : step;
        uint64_t begin = first * array->chunk_shape[0];
        uint64_t end = (first + rows) * array->chunk_shape[0];
        struct fetched fetched = {.fetches = batch->fetches, .count = rows * row_chunks};

        end = end < array->shape[0] ? end : array->shape[0];
        fetch_chunks(batch, first, fetched.count);
        fetch_lend(&fetched);
        status =
            zarr_read_samples(reader, array, begin, end, out + begin * sample_bytes, stats, err);
        fetch_lend(NULL);
    }
    return status;
}

enum status hold_samples(const struct dataset *dataset, struct zarr_chunk_reader *reader,
                         const struct zarr_array *array, void *out, struct zarr_read_stats *stats,
                         struct error *err)
{
    size_t row_chunks = 1;
    struct batch batch = {.store = dataset->private->store,
                          .array = array,
                          .capacity =
                              codec_chain_is_raw(&array->codecs)
                                  ? array->chunk_bytes
                                  : codec_chain_stored_bound(&array->codecs, array->chunk_bytes)};
    for (int axis = 1; axis < array->rank && row_chunks <= BATCH_CHUNKS; axis++)
        row_chunks *= array->chunk_counts[axis];
    size_t fits = BATCH_BYTES / batch.capacity;
    size_t step = (fits < BATCH_CHUNKS ? fits : BATCH_CHUNKS) / row_chunks;
    if (!dataset->remote || dataset->private->cache || step == 0)
        return zarr_read_samples(reader, array, 0, array->shape[0], out, stats, err);
    batch.most = step * row_chunks;
    batch.fetches = calloc(batch.most, sizeof *batch.fetches);
    batch.keys = calloc(batch.most, sizeof *batch.keys);
    batch.memory = malloc(batch.most * batch.capacity);
    pthread_mutex_init(&batch.mutex, NULL);
    pthread_cond_init(&batch.done, NULL);
    enum status status =
        batch.fetches && batch.keys && batch.memory
            ? read_batches(&batch, reader, step, out, stats, err)
            : error_set(err, STATUS_NO_MEMORY, "no memory to read array '%s'", array->path);
    pthread_cond_destroy(&batch.done);
    pthread_mutex_destroy(&batch.mutex);
    free(batch.fetches);
    free(batch.keys);
    free(batch.memory);
    return status;
}
