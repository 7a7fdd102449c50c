/* See hold_internal.h: fetching ahead from a remote store what is read for holding. Indices of
 * shards come first, where they are not known; then what they point to. */
#include "dataset/hold/hold_internal.h"

#include "base/memory.h"
#include "base/size.h"
#include "store/kind/fetch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 256 };

struct wanted {
    struct zarr_piece piece;
    char key[ZARR_KEY_BYTES];
};

struct hold_fetcher {
    const struct store *store; /* borrowed */
    struct wanted *wanted;     /* [MOST_PIECES] */
    size_t wanted_count;
    struct fetched fetched;
    struct wanted **of_fetch; /* [MOST_PIECES]: what a fetch is for */
    unsigned char *memory;
    size_t bytes; /* of `memory` */
    pthread_mutex_t mutex;
    pthread_cond_t all_done;
    size_t left; /* fetches that are not done; under `mutex` */
};

size_t hold_fetcher_bytes(void)
{
    return sizeof(struct hold_fetcher) +
           MOST_PIECES * (sizeof(struct wanted) + sizeof(struct fetch) + sizeof(struct wanted *));
}

enum status hold_fetcher_new(const struct dataset *dataset, size_t bytes,
                             struct hold_fetcher **ret_fetcher, struct error *err)
{
    struct hold_fetcher *fetcher = calloc(1, sizeof *fetcher);
    if (!fetcher)
        return error_set(err, STATUS_NO_MEMORY, "no memory to read held arrays");
    pthread_mutex_init(&fetcher->mutex, NULL);
    pthread_cond_init(&fetcher->all_done, NULL);
    fetcher->store = dataset->private->store;
    fetcher->bytes = bytes;
    fetcher->wanted = calloc(MOST_PIECES, sizeof *fetcher->wanted);
    fetcher->of_fetch = calloc(MOST_PIECES, sizeof *fetcher->of_fetch);
    fetcher->fetched.fetches = calloc(MOST_PIECES, sizeof *fetcher->fetched.fetches);
    fetcher->memory = malloc(bytes ? bytes : 1);
    if (fetcher->wanted && fetcher->of_fetch && fetcher->fetched.fetches && fetcher->memory) {
        *ret_fetcher = fetcher;
        return STATUS_OK;
    }
    hold_fetcher_free(fetcher);
    return error_set(err, STATUS_NO_MEMORY, "no memory (%s) to fetch held arrays",
                     size_format(bytes).text);
}

void hold_fetcher_free(struct hold_fetcher *fetcher)
{
    if (!fetcher)
        return;
    pthread_cond_destroy(&fetcher->all_done);
    pthread_mutex_destroy(&fetcher->mutex);
    free(fetcher->wanted);
    free(fetcher->of_fetch);
    free(fetcher->fetched.fetches);
    free(fetcher->memory);
    free(fetcher);
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

/* The most bytes that a chunk has in the store. */
static size_t stored_bound(const struct zarr_array *array)
{
    size_t bytes = codec_chain_is_raw(&array->codecs)
                       ? array->chunk_bytes
                       : codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
    return size_round_up(bytes, MEMORY_LINE_BYTES);
}

uint64_t hold_fetcher_samples(const struct dataset *dataset, const struct zarr_array *array,
                              size_t bytes)
{
    uint64_t across = 1; /* chunks that have the same samples */
    if (!is_remote(dataset, array))
        return 0;
    for (int axis = 1; axis < array->rank && across < MOST_PIECES; axis++)
        across *= zarr_array_chunks_along(array, axis);
    uint64_t chunks = bytes / stored_bound(array);
    uint64_t along = (chunks < MOST_PIECES ? chunks : MOST_PIECES) / across;
    return (along > 0 ? along : 1) * array->chunk_shape[0];
}

static void count_down(struct fetch *fetch)
{
    struct hold_fetcher *fetcher = fetch->argument;
    pthread_mutex_lock(&fetcher->mutex);
    if (--fetcher->left == 0)
        pthread_cond_signal(&fetcher->all_done);
    pthread_mutex_unlock(&fetcher->mutex);
}

static enum status note_piece(void *argument, const struct zarr_piece *piece, struct error *err)
{
    struct hold_fetcher *fetcher = argument;
    (void)err;
    if (fetcher->wanted_count == MOST_PIECES)
        return STATUS_OK; /* the reader will ask for it */
    struct wanted *wanted = &fetcher->wanted[fetcher->wanted_count++];
    wanted->piece = *piece;
    wanted->piece.key = strcpy(wanted->key, piece->key);
    return STATUS_OK;
}

static enum fetch_kind kind_of(const struct zarr_piece *piece)
{
    return piece->kind == ZARR_PIECE_VALUE   ? FETCH_WHOLE
           : piece->kind == ZARR_PIECE_RANGE ? FETCH_RANGE
                                             : FETCH_SUFFIX;
}

/* Makes fetches of the pieces that are wanted, of indices alone or of none, as far as there is
 * room. */
static void choose_fetches(struct hold_fetcher *fetcher, bool indices)
{
    size_t used = 0;
    fetcher->fetched.count = fetcher->fetched.next = 0;
    for (size_t i = 0; i < fetcher->wanted_count; i++) {
        struct wanted *wanted = &fetcher->wanted[i];
        const struct zarr_piece *piece = &wanted->piece;
        size_t size = size_round_up(piece->bytes, MEMORY_LINE_BYTES);
        if (piece->is_index != indices || size > fetcher->bytes - used)
            continue;
        fetcher->of_fetch[fetcher->fetched.count] = wanted;
        fetcher->fetched.fetches[fetcher->fetched.count++] =
            (struct fetch){.kind = kind_of(piece),
                           .key = wanted->key,
                           .offset = piece->offset,
                           .size = piece->bytes,
                           .buffer = fetcher->memory + used,
                           .capacity = piece->bytes,
                           .begins = piece->begins,
                           .done = count_down,
                           .argument = fetcher};
        used += size;
    }
}

static void run_fetches(struct hold_fetcher *fetcher)
{
    size_t count = fetcher->left = fetcher->fetched.count;
    for (size_t i = 0; i < count; i++)
        fetch_start(fetcher->store, &fetcher->fetched.fetches[i]);
    pthread_mutex_lock(&fetcher->mutex);
    while (fetcher->left > 0)
        pthread_cond_wait(&fetcher->all_done, &fetcher->mutex);
    pthread_mutex_unlock(&fetcher->mutex);
}

/* Hands the fetched indices to the reader. False: one cannot be had, and the reader will tell why.
 */
static bool take_indices(struct hold_fetcher *fetcher, struct zarr_chunk_reader *reader)
{
    bool all = true;
    for (size_t i = 0; i < fetcher->fetched.count; i++) {
        const struct fetch *fetch = &fetcher->fetched.fetches[i];
        bool is_there = fetch->status == STATUS_OK;
        all = (is_there || fetch->status == STATUS_NOT_FOUND) &&
              zarr_take_index(reader, &fetcher->of_fetch[i]->piece, is_there ? fetch->buffer : NULL,
                              fetch->total, NULL) == STATUS_OK &&
              all;
    }
    return all;
}

struct fetched *hold_fetch(struct hold_fetcher *fetcher, struct zarr_chunk_reader *reader,
                           const struct zarr_array *array, uint64_t begin, uint64_t end)
{
    for (int level = 0;; level++) {
        bool indices = false;
        fetcher->wanted_count = 0;
        (void)!zarr_list_pieces(reader, array, begin, end, note_piece, fetcher, NULL);
        for (size_t i = 0; i < fetcher->wanted_count; i++)
            indices |= fetcher->wanted[i].piece.is_index;
        indices &= level < ZARR_MAX_SHARD_LEVELS;
        choose_fetches(fetcher, indices);
        run_fetches(fetcher);
        if (!indices)
            return &fetcher->fetched;
        if (!take_indices(fetcher, reader))
            level = ZARR_MAX_SHARD_LEVELS;
    }
}
