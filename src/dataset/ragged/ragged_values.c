/* See ragged_values.h.
 *
 * Chunks are read by several threads, and visited in their turn. All memory of chunks comes from
 * one room. Before a chunk is fetched its stored size is asked for; before it is decoded its header
 * is. A chunk that finds no room waits for its turn without any, and is read again. The chunk whose
 * turn it is may not wait for others that wait for it: those that are read already give their room
 * up. So at least that one chunk goes on, and is refused only where it alone takes more than the
 * room. */
#include "dataset/ragged/ragged_values.h"

#include "base/number.h"
#include "base/size.h"
#include "codec/vlen.h"
#include "dataset/threads.h"
#include "dataset/walk.h"
#include "zarr/chunk/values.h"

#include <stdlib.h>

struct reading {
    struct values_reading *asked;
    struct walk walk; /* of chunks; `changed` if room is given back, too */
    /* Under the walk's mutex: */
    uint64_t used; /* of the room */
    bool is_short; /* the chunk whose turn it is needs room that later ones have */
};

/* A chunk on its way, of one thread. */
struct chunk {
    struct codec_memory memory; /* first: see of_memory() */
    struct reading *reading;
    struct zarr_chunk_reader *shards; /* NULL: the array has none */
    uint64_t number;
    uint64_t room, most; /* that it has, and has had; changed under the mutex */
    bool is_put_off;     /* there was no room, and it is not its turn */
    struct values values;
};

/* Room
 * ---------------------------------------------------------------------------------------------- */

static enum status refuse(const struct chunk *chunk, uint64_t bytes, struct error *err)
{
    const struct reading *reading = chunk->reading;
    return error_set(err, STATUS_INVALID,
                     "the chunk takes %s while it is read, and chunks of values of variable length "
                     "have %s: raise dataset.hold_limit (%s), or write the array with smaller "
                     "chunks",
                     size_format(chunk->room + bytes).text, size_format(reading->asked->room).text,
                     size_format(reading->asked->dataset->private->hold_limit_bytes).text);
}

/* Under the mutex. */
static bool may_take(const struct chunk *chunk, uint64_t bytes)
{
    const struct reading *reading = chunk->reading;
    return bytes <= reading->asked->room - reading->used &&
           (!reading->is_short || reading->walk.ended == chunk->number);
}

static enum status take_room(struct codec_memory *memory, size_t bytes, struct error *err)
{
    struct chunk *chunk = (struct chunk *)memory;
    struct reading *reading = chunk->reading;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&reading->walk.mutex);
    while (status == STATUS_OK && !may_take(chunk, bytes)) {
        bool is_first = reading->walk.ended == chunk->number;
        if (is_first && reading->used == chunk->room) {
            status = refuse(chunk, bytes, err);
        } else if (!is_first && chunk->room > 0) {
            chunk->is_put_off = true;
            status = error_set(err, STATUS_NO_MEMORY, "no room");
        } else {
            if (is_first && !reading->is_short) {
                reading->is_short = true;
                pthread_cond_broadcast(&reading->walk.changed);
            }
            pthread_cond_wait(&reading->walk.changed, &reading->walk.mutex);
        }
    }
    if (reading->walk.ended == chunk->number)
        reading->is_short = false;
    if (status == STATUS_OK) {
        reading->used += bytes;
        chunk->room += bytes;
        chunk->most = max_u64(chunk->most, chunk->room);
    }
    pthread_mutex_unlock(&reading->walk.mutex);
    return status;
}

static void give_room(struct codec_memory *memory, size_t bytes)
{
    struct chunk *chunk = (struct chunk *)memory;
    struct reading *reading = chunk->reading;
    pthread_mutex_lock(&reading->walk.mutex);
    reading->used -= bytes;
    chunk->room -= bytes;
    pthread_cond_broadcast(&reading->walk.changed);
    pthread_mutex_unlock(&reading->walk.mutex);
}

/* Frees all that the chunk has. */
static void drop(struct chunk *chunk)
{
    free(chunk->values.bytes);
    free(chunk->values.lengths);
    chunk->values.bytes = NULL;
    chunk->values.lengths = NULL;
    give_room(&chunk->memory, chunk->room);
}

/* Chunks
 * ---------------------------------------------------------------------------------------------- */

/* The limit was in the way of the chunk, whose header may be wrong, too. */
static enum status refuse_decoding(const struct chunk *chunk, uint64_t stored_bytes,
                                   struct error *err)
{
    const struct values_reading *asked = chunk->reading->asked;
    struct error cause = *err;
    return error_set(err, STATUS_INVALID,
                     "%s: chunks of values of variable length have %s, stored (here %s) and "
                     "decoded: raise dataset.hold_limit (%s), or write the array with smaller "
                     "chunks; or the chunk is damaged: restore it",
                     cause.message, size_format(asked->room).text, size_format(stored_bytes).text,
                     size_format(asked->dataset->private->hold_limit_bytes).text);
}

static enum status measure(struct chunk *chunk, const struct zarr_values *read, struct error *err)
{
    const struct zarr_array *view = chunk->reading->asked->view;
    size_t lengths_bytes = view->chunk_shape[0] * sizeof *chunk->values.lengths;
    if (lengths_bytes > read->size) /* so few bytes are no such chunk */
        return vlen_measure(read->bytes, read->size, view->chunk_shape[0], view->item_bytes, NULL,
                            err);
    enum status status = take_room(&chunk->memory, lengths_bytes, err);
    if (status != STATUS_OK)
        return status;
    chunk->values.lengths = malloc(lengths_bytes);
    if (!chunk->values.lengths)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the lengths of its values");
    return vlen_measure(read->bytes, read->size, view->chunk_shape[0], view->item_bytes,
                        chunk->values.lengths, err);
}

static enum status read_once(struct chunk *chunk, const char *key, struct error *err)
{
    const struct values_reading *asked = chunk->reading->asked;
    struct zarr_values read = {0};
    chunk->memory.limit = asked->room;
    enum status status =
        zarr_values_read(asked->dataset->private->store, chunk->shards, asked->view, &chunk->number,
                         key, &chunk->memory, &read, err);
    chunk->values.bytes = read.bytes;
    if (status == STATUS_CORRUPT && chunk->memory.is_short)
        return refuse_decoding(chunk, read.stored_bytes, err);
    return status == STATUS_OK ? measure(chunk, &read, err) : status;
}

static enum status read_and_drop(struct chunk *chunk, const char *key, struct error *err)
{
    chunk->is_put_off = false;
    chunk->most = 0;
    enum status status = read_once(chunk, key, err);
    if (status != STATUS_OK)
        drop(chunk);
    return status;
}

static enum status read_chunk(struct chunk *chunk, struct error *err)
{
    const struct dataset_private *private = chunk->reading->asked->dataset->private;
    const struct zarr_array *view = chunk->reading->asked->view;
    char key[ZARR_KEY_BYTES];
    chunk->values.first = chunk->number * view->chunk_shape[0];
    chunk->values.count = min_u64(view->chunk_shape[0], view->shape[0] - chunk->values.first);
    zarr_chunk_key(view, &chunk->number, key);
    enum status status = read_and_drop(chunk, key, err);
    if (status == STATUS_CORRUPT && store_retry(private->store, 0, err))
        status = read_and_drop(chunk, key, err);
    if (status == STATUS_NOT_FOUND && view->vlen_has_fill)
        status = error_set(err, STATUS_CORRUPT,
                           "the store has no '%s', and the array's fill value is not empty, which "
                           "is not read: restore the chunk",
                           key);
    if (status == STATUS_NOT_FOUND && !private->missing_is_bad) {
        chunk->reading->asked->missing++;
        return STATUS_OK;
    }
    if (status == STATUS_NOT_FOUND)
        status = error_set(err, STATUS_CORRUPT,
                           "the store has no '%s': restore it, or take missing chunks for empty "
                           "values (errors.missing_chunk=fill)",
                           key);
    if (status != STATUS_OK)
        return error_prefix(err, status, "array '%s' chunk %s: ", view->path,
                            zarr_index_format(view, &chunk->number).text);
    return status;
}

/* Threads
 * ---------------------------------------------------------------------------------------------- */

/* False: an earlier chunk needs the room that this one has. */
static bool wait_for_turn(const struct chunk *chunk)
{
    struct reading *reading = chunk->reading;
    pthread_mutex_lock(&reading->walk.mutex);
    while (reading->walk.ended < chunk->number && !(reading->is_short && chunk->room > 0))
        pthread_cond_wait(&reading->walk.changed, &reading->walk.mutex);
    bool is_turn = reading->walk.ended == chunk->number;
    pthread_mutex_unlock(&reading->walk.mutex);
    return is_turn;
}

/* Visits a chunk, if it and all before it were read. */
static void end_chunk(struct chunk *chunk, enum status status, struct error *err)
{
    struct walk *walk = &chunk->reading->walk;
    struct values_reading *asked = chunk->reading->asked;
    if (walk_turn(walk, chunk->number) && status == STATUS_OK)
        status = asked->visit(asked->argument, &chunk->values, err);
    asked->most = max_u64(asked->most, chunk->most);
    walk_end(walk, chunk->number, status, err);
    drop(chunk);
}

/* A chunk may be read twice: the second time it is its turn. */
static enum status read_in_turn(struct chunk *chunk, struct error *err)
{
    for (;;) {
        error_clear(err);
        enum status status = read_chunk(chunk, err);
        if (wait_for_turn(chunk) && !chunk->is_put_off)
            return status;
        drop(chunk);
        (void)wait_for_turn(chunk);
    }
}

static struct zarr_read_options shard_options(const struct dataset *dataset)
{
    struct zarr_read_options options = dataset->private->read;
    options.lists_only = true;
    return options;
}

static void *read_chunks(void *argument)
{
    struct reading *reading = argument;
    const struct values_reading *asked = reading->asked;
    struct chunk chunk = {.memory = {.take = take_room, .give = give_room}, .reading = reading};
    const struct zarr_read_options options = shard_options(asked->dataset);
    enum status status = STATUS_OK;
    struct error cause, err;
    error_clear(&cause);
    if (asked->view->shard_level_count > 0)
        status = zarr_chunk_reader_new_with(asked->dataset->private->store, &asked->view, 1,
                                            &options, &chunk.shards, &cause);
    while (walk_take(&reading->walk, &chunk.number)) {
        err = cause;
        end_chunk(&chunk, status == STATUS_OK ? read_in_turn(&chunk, &err) : status, &err);
    }
    zarr_chunk_reader_free(chunk.shards);
    return NULL;
}

enum status values_read(struct values_reading *values, struct error *err)
{
    const struct zarr_read_options options = shard_options(values->dataset);
    struct reading reading = {.asked = values};
    uint64_t threads = min_u64(
        values->threads, dataset_thread_count(values->dataset, values->view->chunk_counts[0]));
    if (values->view->shard_level_count > 0) /* indices take at most about half of the room */
        threads = min_u64(threads, values->room / 2 /
                                       zarr_chunk_reader_bytes_with(values->dataset->private->store,
                                                                    &values->view, 1, &options));
    walk_init(&reading.walk, values->view->chunk_counts[0]);
    threads_run("values", max_u64(threads, 1), read_chunks, &reading);
    return walk_done(&reading.walk, err);
}
