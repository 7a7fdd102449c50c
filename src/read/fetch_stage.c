/* See fetch_stage.h.
 *
 * Buffers move between four threads: the lister takes free ones and starts their fetches; the
 * store's thread, which ends the last fetch of a buffer, puts it on the `fetched` list, or on that
 * of `indices`, which the lister goes on with; the owner gives fetched ones to workers, which put
 * them back on the `free` list. Lists are under one mutex, held for a few instructions.
 *
 *     memory   | buffer 0: piece | piece | ... | buffer 1: piece | ... |
 *
 * A row whose shards are not known first gets their indices into the same memory, or waits for the
 * buffer that does; then it is listed again. After as many times as shards can be nested it goes on
 * with what is known: its worker asks for the rest.
 */
#include "read/fetch_stage.h"

#include "base/memory.h"
#include "base/size.h"
#include "store/fetch.h"
#include "zarr/chunk.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BUFFERS = 1024, MOST_PIECES = 1 << 20 };

/* What a fetch is for. */
struct want {
    struct fetch_buffer *buffer;
    const struct store *store;
    struct zarr_piece piece;
    char key[ZARR_KEY_BYTES];
};

struct fetch_buffer {
    struct fetch_stage *stage;
    struct fetched fetched;
    struct want *wants; /* as told; fetches are of all of them, or of the indices alone */
    size_t want_count, index_count;
    unsigned char *memory;
    _Atomic size_t left; /* fetches that are not done; one more while they are started */
    bool flying;         /* under the mutex: not all of them are done */
    uint64_t row;
    int32_t row_buffer; /* FETCH_NONE: forgotten */
    int32_t next;       /* on a list */
    int32_t waits_for;  /* the buffer that gets an index; FETCH_NONE: none */
    int steps;          /* how often it was listed */
    bool indexing;      /* its fetches are indices */
};

struct queue {
    int32_t first, last;
};

struct fetch_stage {
    const struct dataset *dataset;
    struct dataset_lister *lister;
    struct waker *waker;
    uint64_t buffer_bytes; /* of pieces */
    uint64_t piece_count;
    uint32_t buffer_count;
    struct fetch_buffer *buffers;
    struct fetch *fetches; /* [buffer_count][piece_count], as are the next */
    struct want *wants;
    void *memory;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t all_done;
    struct queue waiting; /* of row buffers */
    int32_t *next_waiting;
    uint64_t *rows;                      /* of waiting row buffers */
    pthread_cond_t work;                 /* there is something for the lister */
    struct queue free, indices, fetched; /* of buffers */
    uint32_t flying;                     /* buffers with fetches that are not done */
    bool stopping, has_lister;
    pthread_t lister_thread;
};

/* Buffers of which there are as many as the memory holds. */
static uint64_t count_buffers(const struct dataset *dataset, uint64_t memory_bytes,
                              uint64_t *ret_pieces, uint64_t *ret_buffer_bytes, uint64_t *ret_cost)
{
    uint64_t pieces, bytes;
    if (!dataset->remote)
        return 0;
    dataset_row_demand(dataset, &pieces, &bytes);
    uint64_t own = dataset_lister_bytes(dataset);
    if (pieces == 0 || pieces > MOST_PIECES || memory_bytes < own)
        return 0;
    uint64_t cost =
        bytes + sizeof(struct fetch_buffer) + pieces * (sizeof(struct fetch) + sizeof(struct want));
    uint64_t count = (memory_bytes - own) / cost;
    *ret_pieces = pieces;
    *ret_buffer_bytes = bytes;
    *ret_cost = cost;
    return count < MOST_BUFFERS ? count : MOST_BUFFERS;
}

uint64_t fetch_stage_bytes(const struct dataset *dataset, uint64_t memory_bytes, uint64_t *ret_rows)
{
    uint64_t pieces, buffer_bytes, cost = 0;
    uint64_t count = count_buffers(dataset, memory_bytes, &pieces, &buffer_bytes, &cost);
    *ret_rows = count;
    return count > 0 ? dataset_lister_bytes(dataset) + count * cost : 0;
}

static void push_buffer(struct fetch_stage *stage, struct queue *queue, int32_t buffer)
{
    stage->buffers[buffer].next = FETCH_NONE;
    if (queue->first == FETCH_NONE)
        queue->first = buffer;
    else
        stage->buffers[queue->last].next = buffer;
    queue->last = buffer;
}

static int32_t pop_buffer(struct fetch_stage *stage, struct queue *queue)
{
    int32_t buffer = queue->first;
    if (buffer != FETCH_NONE)
        queue->first = stage->buffers[buffer].next;
    return buffer;
}

static enum status allocate(struct fetch_stage *stage, uint32_t row_buffer_count, struct error *err)
{
    size_t count = stage->buffer_count * stage->piece_count;
    stage->buffers = calloc(stage->buffer_count, sizeof *stage->buffers);
    stage->fetches = calloc(count, sizeof *stage->fetches);
    stage->wants = calloc(count, sizeof *stage->wants);
    stage->next_waiting = calloc(row_buffer_count, sizeof *stage->next_waiting);
    stage->rows = calloc(row_buffer_count, sizeof *stage->rows);
    if (!stage->buffers || !stage->fetches || !stage->wants || !stage->next_waiting || !stage->rows)
        return error_set(err, STATUS_NO_MEMORY, "no memory to fetch rows ahead");
    enum status status = dataset_lister_new(stage->dataset, &stage->lister, err);
    if (status == STATUS_OK)
        status = memory_map(stage->buffer_count * stage->buffer_bytes, "chunks fetched ahead",
                            &stage->memory, err);
    for (uint32_t i = 0; status == STATUS_OK && i < stage->buffer_count; i++) {
        struct fetch_buffer *buffer = &stage->buffers[i];
        buffer->stage = stage;
        buffer->fetched.fetches = stage->fetches + i * stage->piece_count;
        buffer->wants = stage->wants + i * stage->piece_count;
        buffer->waits_for = FETCH_NONE;
        buffer->memory = (unsigned char *)stage->memory + i * stage->buffer_bytes;
        push_buffer(stage, &stage->free, (int32_t)i);
    }
    return status;
}

void fetch_stage_push(struct fetch_stage *stage, int32_t row_buffer, uint64_t row)
{
    pthread_mutex_lock(&stage->mutex);
    stage->rows[row_buffer] = row;
    stage->next_waiting[row_buffer] = FETCH_NONE;
    if (stage->waiting.first == FETCH_NONE)
        stage->waiting.first = row_buffer;
    else
        stage->next_waiting[stage->waiting.last] = row_buffer;
    stage->waiting.last = row_buffer;
    pthread_cond_signal(&stage->work);
    pthread_mutex_unlock(&stage->mutex);
}

/* One of a buffer's fetches is over, or its owner has started all of them. */
static void count_down(struct fetch_buffer *buffer)
{
    struct fetch_stage *stage = buffer->stage;
    if (atomic_fetch_sub(&buffer->left, 1) > 1)
        return;
    pthread_mutex_lock(&stage->mutex);
    buffer->flying = false;
    if (buffer->indexing) {
        push_buffer(stage, &stage->indices, (int32_t)(buffer - stage->buffers));
        pthread_cond_signal(&stage->work);
    } else {
        push_buffer(stage, &stage->fetched, (int32_t)(buffer - stage->buffers));
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

static void note_piece(const struct store *store, const struct zarr_piece *piece, void *argument)
{
    struct fetch_buffer *buffer = argument;
    if (buffer->want_count == buffer->stage->piece_count)
        return; /* the worker will ask for it */
    struct want *want = &buffer->wants[buffer->want_count++];
    want->buffer = buffer;
    want->store = store;
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
        if (!buffer->indexing || buffer->row_buffer == FETCH_NONE)
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
                                             : FETCH_TAIL;
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
        used += size;
    }
}

static void start_fetches(struct fetch_buffer *buffer)
{
    struct fetch_stage *stage = buffer->stage;
    buffer->left = 1 + buffer->fetched.count;
    pthread_mutex_lock(&stage->mutex);
    stage->flying++;
    buffer->flying = true;
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
    int32_t i = pop_buffer(stage, &stage->indices);
    if (i != FETCH_NONE) {
        pthread_mutex_unlock(&stage->mutex);
        take_indices(&stage->buffers[i]);
        pthread_mutex_lock(&stage->mutex);
        return true;
    }
    int32_t row_buffer = stage->waiting.first;
    if (row_buffer == FETCH_NONE || (i = pop_buffer(stage, &stage->free)) == FETCH_NONE)
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

static void *list_rows(void *argument)
{
    struct fetch_stage *stage = argument;
    pthread_setname_np(pthread_self(), "lister");
    pthread_mutex_lock(&stage->mutex);
    while (!stage->stopping)
        if (!list_next(stage))
            pthread_cond_wait(&stage->work, &stage->mutex);
    pthread_mutex_unlock(&stage->mutex);
    return NULL;
}

/* Signals belong to the program's main thread. */
static enum status start_lister(struct fetch_stage *stage, struct error *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = pthread_create(&stage->lister_thread, NULL, list_rows, stage);
    stage->has_lister = errno == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return errno ? error_set_errno(err, STATUS_IO, "start the thread that lists what rows take")
                 : STATUS_OK;
}

bool fetch_stage_stop(struct fetch_stage *stage, uint32_t timeout_ms)
{
    const long second_ns = 1000000000;
    if (!stage || !stage->has_lister)
        return true;
    pthread_mutex_lock(&stage->mutex);
    stage->stopping = true;
    pthread_cond_signal(&stage->work);
    pthread_mutex_unlock(&stage->mutex);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    until.tv_sec += timeout_ms / 1000 + until.tv_nsec / second_ns;
    until.tv_nsec %= second_ns;
    stage->has_lister = pthread_timedjoin_np(stage->lister_thread, NULL, &until) != 0;
    return !stage->has_lister;
}

enum status fetch_stage_new(const struct dataset *dataset, uint64_t memory_bytes,
                            uint32_t row_buffer_count, struct waker *waker,
                            struct fetch_stage **ret_stage, struct error *err)
{
    uint64_t pieces = 0, buffer_bytes = 0, cost;
    uint64_t count = count_buffers(dataset, memory_bytes, &pieces, &buffer_bytes, &cost);
    *ret_stage = NULL;
    if (count == 0)
        return STATUS_OK;
    struct fetch_stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return error_set(err, STATUS_NO_MEMORY, "no memory to fetch rows ahead");
    stage->dataset = dataset;
    stage->waker = waker;
    stage->piece_count = pieces;
    stage->buffer_bytes = buffer_bytes;
    stage->buffer_count = (uint32_t)count;
    stage->waiting = stage->free = stage->indices = stage->fetched =
        (struct queue){FETCH_NONE, FETCH_NONE};
    pthread_mutex_init(&stage->mutex, NULL);
    pthread_cond_init(&stage->all_done, NULL);
    pthread_cond_init(&stage->work, NULL);
    enum status status = allocate(stage, row_buffer_count, err);
    if (status == STATUS_OK)
        status = start_lister(stage, err);
    if (status != STATUS_OK) {
        fetch_stage_free(stage);
        return status;
    }
    *ret_stage = stage;
    return STATUS_OK;
}

void fetch_stage_free(struct fetch_stage *stage)
{
    if (!stage)
        return;
    while (!fetch_stage_stop(stage, 1000))
        continue;
    pthread_mutex_lock(&stage->mutex);
    bool flying = stage->flying > 0;
    pthread_mutex_unlock(&stage->mutex);
    if (flying)
        dataset_stop_fetches(stage->dataset);
    pthread_mutex_lock(&stage->mutex);
    while (stage->flying > 0)
        pthread_cond_wait(&stage->all_done, &stage->mutex);
    pthread_mutex_unlock(&stage->mutex);
    pthread_cond_destroy(&stage->work);
    pthread_cond_destroy(&stage->all_done);
    pthread_mutex_destroy(&stage->mutex);
    memory_unmap(stage->memory, stage->buffer_count * stage->buffer_bytes);
    dataset_lister_free(stage->lister);
    free(stage->buffers);
    free(stage->fetches);
    free(stage->wants);
    free(stage->next_waiting);
    free(stage->rows);
    free(stage);
}

int32_t fetch_stage_take(struct fetch_stage *stage, int32_t *ret_fetch_buffer)
{
    pthread_mutex_lock(&stage->mutex);
    int32_t i = pop_buffer(stage, &stage->fetched);
    pthread_mutex_unlock(&stage->mutex);
    if (i == FETCH_NONE)
        return FETCH_NONE;
    *ret_fetch_buffer = i;
    return stage->buffers[i].row_buffer;
}

struct fetched *fetch_stage_fetched(struct fetch_stage *stage, int32_t buffer)
{
    return &stage->buffers[buffer].fetched;
}

void fetch_stage_give_back(struct fetch_stage *stage, int32_t buffer)
{
    pthread_mutex_lock(&stage->mutex);
    push_buffer(stage, &stage->free, buffer);
    pthread_cond_signal(&stage->work);
    pthread_mutex_unlock(&stage->mutex);
}
