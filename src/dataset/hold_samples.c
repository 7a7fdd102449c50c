/* See dataset_internal.h: reading an array whole, for holding. From a remote store, the chunks of a
 * batch are fetched at once. Main thread, at the start. */
#include "dataset/dataset_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_CHUNKS = 128 };
#define BATCH_BYTES ((size_t)64 << 20)

struct batch {
    const struct store *store;
    const struct zarr_array *array;
    struct fetched fetched; /* at most [most], as many keys */
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

static enum status start_fetch(void *argument, const struct zarr_piece *piece, struct error *err)
{
    struct batch *batch = argument;
    size_t i = batch->fetched.count;
    struct fetch *fetch = &batch->fetched.fetches[i];

    (void)err;
    if (i == batch->most || piece->bytes > batch->capacity)
        return STATUS_OK; /* the reader will ask for it */
    strcpy(batch->keys[i], piece->key);
    *fetch = (struct fetch){.kind = piece->kind == ZARR_PIECE_RANGE ? FETCH_RANGE : FETCH_WHOLE,
                            .key = batch->keys[i],
                            .offset = piece->offset,
                            .size = piece->bytes,
                            .buffer = batch->memory + i * batch->capacity,
                            .capacity = piece->bytes,
                            .begins = piece->begins,
                            .done = count_down,
                            .argument = batch};
    batch->fetched.count++;
    pthread_mutex_lock(&batch->mutex);
    batch->left++;
    pthread_mutex_unlock(&batch->mutex);
    fetch_start(batch->store, fetch);
    return STATUS_OK;
}

/* Fetches what samples [begin, end) are read from, and waits for it. */
static void fetch_samples(struct batch *batch, uint64_t begin, uint64_t end)
{
    batch->fetched.count = batch->fetched.next = 0;
    (void)!zarr_list_pieces(NULL, batch->array, begin, end, start_fetch, batch, NULL);
    pthread_mutex_lock(&batch->mutex);
    while (batch->left > 0)
        pthread_cond_wait(&batch->done, &batch->mutex);
    pthread_mutex_unlock(&batch->mutex);
}

/* Reads in steps of so many samples. */
static enum status read_batches(struct batch *batch, struct zarr_chunk_reader *reader,
                                uint64_t step, unsigned char *out, struct zarr_read_stats *stats,
                                struct error *err)
{
    const struct zarr_array *array = batch->array;
    uint64_t sample_bytes = zarr_array_sample_bytes(array);
    enum status status = STATUS_OK;

    for (uint64_t begin = 0; status == STATUS_OK && begin < array->shape[0]; begin += step) {
        uint64_t left = array->shape[0] - begin, end = begin + (left < step ? left : step);

        fetch_samples(batch, begin, end);
        zarr_chunk_reader_use_fetched(reader, &batch->fetched);
        status =
            zarr_read_samples(reader, array, begin, end, out + begin * sample_bytes, stats, err);
        zarr_chunk_reader_use_fetched(reader, NULL);
    }
    return status;
}

/* Whether the array's store is remote, of joined ones, too. */
static bool is_remote(const struct dataset *dataset, const struct zarr_array *array)
{
    uint64_t first[ZARR_MAX_RANK] = {0};
    char text[ZARR_KEY_BYTES];
    const char *key = text;

    zarr_chunk_key(array, first, text);
    const struct store *store = store_resolve(dataset->private->store, &key, NULL);
    return store && store_is_remote(store);
}

enum status hold_samples(const struct dataset *dataset, struct zarr_chunk_reader *reader,
                         const struct zarr_array *array, void *out, struct zarr_read_stats *stats,
                         struct error *err)
{
    size_t across = 1; /* chunks that have the same samples */
    struct batch batch = {.store = dataset->private->store,
                          .array = array,
                          .capacity =
                              codec_chain_is_raw(&array->codecs)
                                  ? array->chunk_bytes
                                  : codec_chain_stored_bound(&array->codecs, array->chunk_bytes)};
    for (int axis = 1; axis < array->rank && across <= BATCH_CHUNKS; axis++)
        across *= array->chunk_counts[axis];
    size_t fits = BATCH_BYTES / batch.capacity;
    size_t along = (fits < BATCH_CHUNKS ? fits : BATCH_CHUNKS) / across;
    if (along == 0 || array->shard_level_count > 0 || dataset->private->cache ||
        !is_remote(dataset, array))
        return zarr_read_samples(reader, array, 0, array->shape[0], out, stats, err);
    batch.most = along * across;
    batch.fetched.fetches = calloc(batch.most, sizeof *batch.fetched.fetches);
    batch.keys = calloc(batch.most, sizeof *batch.keys);
    batch.memory = malloc(batch.most * batch.capacity);
    pthread_mutex_init(&batch.mutex, NULL);
    pthread_cond_init(&batch.done, NULL);
    enum status status =
        batch.fetched.fetches && batch.keys && batch.memory
            ? read_batches(&batch, reader, along * array->chunk_shape[0], out, stats, err)
            : error_set(err, STATUS_NO_MEMORY, "no memory to read array '%s'", array->path);
    pthread_cond_destroy(&batch.done);
    pthread_mutex_destroy(&batch.mutex);
    free(batch.fetched.fetches);
    free(batch.keys);
    free(batch.memory);
    return status;
}
