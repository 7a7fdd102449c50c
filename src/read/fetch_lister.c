/* The lister of a fetch stage: a thread that lists the pieces of rows, and asks for them. See
 * fetch_stage_internal.h.
 *
 * If indices of a row's shards are not known, the lister first asks for the indices, into the
 * memory of the row's buffer, or waits for another buffer that gets them. Then the row is listed
 * again. After as many times as shards can be nested, the lister goes on with the pieces that are
 * known, and the worker asks for the rest.
 */
#include "read/fetch_stage_internal.h"

#include "base/memory.h"
#include "base/size.h"

#include <string.h>

/* One of a buffer's fetches is over, or its owner has started all of them. */
static void count_down(struct fetch_buffer *buffer)
{
    struct fetch_stage *stage = buffer->stage;
    if (atomic_fetch_sub(&buffer->left, 1) > 1)
        return;
    pthread_mutex_lock(&stage->mutex);
    if (buffer->indexing) {
        fetch_buffer_push(stage, &stage->indices, (int32_t)(buffer - stage->buffers));
        pthread_cond_signal(&stage->work);
    } else {
        fetch_buffer_push(stage, &stage->fetched, (int32_t)(buffer - stage->buffers));
        waker_wake(stage->waker); /* before the stage may be gone */
    }
    if (--stage->flying == 0)
        pthread_cond_signal(&stage->all_done);
    pthread_mutex_unlock(&stage->mutex);
}

static void on_done(struct fetch *fetch)
{
    const struct want *want = fetch->argument;
    count_down(want->buffer);
}

/* The same request of another view of the array; NULL: there is none. */
static struct want *find_same(struct fetch_buffer *buffer, const struct store *store,
                              const struct zarr_piece *piece)
{
    for (size_t i = 0; i < buffer->want_count; i++) {
        struct want *want = &buffer->wants[i];
        const struct zarr_piece *other = &want->piece;
        if (other->array != piece->array && other->kind == piece->kind &&
            other->offset == piece->offset && other->bytes == piece->bytes &&
            want->store == store && strcmp(want->key, piece->key) == 0)
            return want;
    }
    return NULL;
}

static void note_piece(const struct store *store, const struct zarr_piece *piece, void *argument)
{
    struct fetch_buffer *buffer = argument;
    struct want *same = piece->is_index ? NULL : find_same(buffer, store, piece);
    if (same) {
        same->more_uses++;
        return;
    }
    if (buffer->want_count == buffer->stage->piece_count)
        return; /* the worker will ask for it */
    struct want *want = &buffer->wants[buffer->want_count++];
    want->buffer = buffer;
    want->store = store;
    want->more_uses = 0;
    want->piece = *piece;
    strcpy(want->key, piece->key);
    want->piece.key = want->key;
    buffer->index_count += piece->is_index;
}

/* The buffer that gets this index now; FETCH_NONE: none does. */
static int32_t who_gets(const struct fetch_stage *stage, const struct zarr_piece *index)
{
    for (uint32_t i = 0; i < stage->buffer_count; i++) {
        const struct fetch_buffer *buffer = &stage->buffers[i];
        if (!buffer->indexing)
            continue;
        for (size_t j = 0; j < buffer->fetched.count; j++) {
            const struct want *want = buffer->fetched.fetches[j].argument;
            const struct zarr_piece *piece = &want->piece;
            if (piece->array == index->array && piece->level == index->level &&
                piece->number == index->number)
                return (int32_t)i;
        }
    }
    return FETCH_NONE;
}

static enum fetch_kind kind_of(const struct zarr_piece *piece)
{
    return piece->kind == ZARR_PIECE_VALUE   ? FETCH_WHOLE
           : piece->kind == ZARR_PIECE_RANGE ? FETCH_RANGE
                                             : FETCH_SUFFIX;
}

/* Makes fetches of what is wanted, of indices alone if the buffer is `indexing`. What there is no
 * room for the worker will ask for. */
static void choose_fetches(struct fetch_buffer *buffer)
{
    const struct fetch_stage *stage = buffer->stage;
    size_t used = 0;
    buffer->fetched.count = buffer->fetched.next = 0;
    buffer->waits_for = FETCH_NONE;
    for (size_t i = 0; i < buffer->want_count; i++) {
        struct want *want = &buffer->wants[i];
        const struct zarr_piece *piece = &want->piece;
        size_t size = size_round_up(piece->bytes, MEMORY_LINE_BYTES);
        int32_t other = FETCH_NONE;
        if (piece->is_index != buffer->indexing || size > stage->buffer_bytes - used)
            continue;
        if (piece->is_index && (other = who_gets(stage, piece)) != FETCH_NONE) {
            buffer->waits_for = other;
            continue;
        }
        struct fetch *fetch = &buffer->fetched.fetches[buffer->fetched.count++];
        fetch->kind = kind_of(piece);
        fetch->key = want->key;
        fetch->offset = piece->offset;
        fetch->size = piece->bytes;
        fetch->buffer = buffer->memory + used;
        fetch->capacity = piece->bytes;
        fetch->begins = piece->begins;
        fetch->done = on_done;
        fetch->argument = want;
        fetch->more_uses = want->more_uses;
        used += size;
    }
}

static void start_fetches(struct fetch_buffer *buffer)
{
    struct fetch_stage *stage = buffer->stage;
    buffer->left = 1 + buffer->fetched.count;
    pthread_mutex_lock(&stage->mutex);
    stage->flying++;
    pthread_mutex_unlock(&stage->mutex);
    for (size_t i = 0; i < buffer->fetched.count; i++) {
        const struct want *want = buffer->fetched.fetches[i].argument;
        fetch_start(want->store, &buffer->fetched.fetches[i]);
    }
    count_down(buffer);
}

/* Gets what the buffer's row is read from, or the indices that say what that is, or waits for
 * those.
 */
static void get_row(struct fetch_buffer *buffer)
{
    buffer->want_count = buffer->index_count = 0;
    dataset_row_pieces(buffer->stage->lister, buffer->row, note_piece, buffer);
    buffer->indexing = buffer->index_count > 0 && buffer->steps < ZARR_MAX_SHARD_LEVELS;
    buffer->steps++;
    choose_fetches(buffer);
    if (buffer->waits_for == FETCH_NONE || buffer->fetched.count > 0) {
        buffer->waits_for = FETCH_NONE;
        start_fetches(buffer);
    }
}

/* Indices are there: hands them over, and goes on with the row and those that waited for them. */
static void take_indices(struct fetch_buffer *buffer)
{
    struct fetch_stage *stage = buffer->stage;
    for (size_t i = 0; i < buffer->fetched.count; i++) {
        const struct fetch *fetch = &buffer->fetched.fetches[i];
        const struct want *want = fetch->argument;
        if (fetch->status == STATUS_OK || fetch->status == STATUS_NOT_FOUND)
            dataset_take_index(stage->lister, &want->piece,
                               fetch->status == STATUS_OK ? fetch->buffer : NULL, fetch->total);
        else
            buffer->steps = ZARR_MAX_SHARD_LEVELS; /* the worker will tell why */
    }
    buffer->indexing = false;
    get_row(buffer);
    for (uint32_t i = 0; i < stage->buffer_count; i++)
        if (stage->buffers[i].waits_for == buffer - stage->buffers)
            get_row(&stage->buffers[i]);
}

/* Goes on with a buffer whose indices are there, or with a waiting row, if there is room for it;
 * false: there is nothing to do. Holds the mutex, but not meanwhile. */
static bool list_next(struct fetch_stage *stage)
{
    int32_t i = fetch_buffer_pop(stage, &stage->indices);
    if (i != FETCH_NONE) {
        pthread_mutex_unlock(&stage->mutex);
        take_indices(&stage->buffers[i]);
        pthread_mutex_lock(&stage->mutex);
        return true;
    }
    int32_t row_buffer = stage->waiting.first;
    if (row_buffer == FETCH_NONE || (i = fetch_buffer_pop(stage, &stage->free)) == FETCH_NONE)
        return false;
    struct fetch_buffer *buffer = &stage->buffers[i];
    stage->waiting.first = stage->next_waiting[row_buffer];
    buffer->row_buffer = row_buffer;
    buffer->row = stage->rows[row_buffer];
    buffer->steps = 0;
    pthread_mutex_unlock(&stage->mutex);
    get_row(buffer);
    pthread_mutex_lock(&stage->mutex);
    return true;
}

void *fetch_lister_main(void *argument)
{
    struct fetch_stage *stage = argument;
    pthread_mutex_lock(&stage->mutex);
    while (!stage->stopping)
        if (!list_next(stage))
            pthread_cond_wait(&stage->work, &stage->mutex);
    pthread_mutex_unlock(&stage->mutex);
    return NULL;
}
