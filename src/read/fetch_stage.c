/* See fetch_stage.h and fetch_stage_internal.h: the fetch stage and its buffers. */
#include "read/fetch_stage_internal.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>

enum { MOST_BUFFERS = 1024, MOST_PIECES = 1 << 20 };

/* What one buffer takes; 0: there can be none. */
static uint64_t buffer_cost(const struct dataset *dataset, uint64_t *ret_pieces,
                            uint64_t *ret_buffer_bytes)
{
    uint64_t pieces = 0, bytes = 0;
    if (dataset->remote)
        dataset_row_demand(dataset, &pieces, &bytes);
    if (pieces == 0 || pieces > MOST_PIECES)
        return 0;
    *ret_pieces = pieces;
    *ret_buffer_bytes = bytes;
    return bytes + sizeof(struct fetch_buffer) +
           pieces * (sizeof(struct fetch) + sizeof(struct want));
}

/* Buffers of which there are as many as the memory holds. */
static uint64_t count_buffers(const struct dataset *dataset, uint64_t memory_bytes, uint64_t cost)
{
    uint64_t own = cost > 0 ? dataset_lister_bytes(dataset) : 0;
    if (cost == 0 || memory_bytes < own)
        return 0;
    return min_u64((memory_bytes - own) / cost, MOST_BUFFERS);
}

uint64_t fetch_stage_bytes(const struct dataset *dataset, uint64_t memory_bytes, uint64_t *ret_rows)
{
    uint64_t pieces, buffer_bytes, cost = buffer_cost(dataset, &pieces, &buffer_bytes);
    uint64_t count = count_buffers(dataset, memory_bytes, cost);
    *ret_rows = count;
    return count > 0 ? dataset_lister_bytes(dataset) + count * cost : 0;
}

uint64_t fetch_stage_row_bytes(const struct dataset *dataset, uint64_t *ret_requests)
{
    uint64_t pieces = 0, buffer_bytes, cost = buffer_cost(dataset, &pieces, &buffer_bytes);
    *ret_requests = pieces;
    return cost;
}

void fetch_buffer_push(struct fetch_stage *stage, struct queue *queue, int32_t buffer)
{
    stage->buffers[buffer].next = FETCH_NONE;
    if (queue->first == FETCH_NONE)
        queue->first = buffer;
    else
        stage->buffers[queue->last].next = buffer;
    queue->last = buffer;
}

int32_t fetch_buffer_pop(struct fetch_stage *stage, struct queue *queue)
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
        fetch_buffer_push(stage, &stage->free, (int32_t)i);
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

static enum status start_lister(struct fetch_stage *stage, struct error *err)
{
    stage->has_lister = thread_start("lister", fetch_lister_main, stage, &stage->lister_thread);
    return stage->has_lister
               ? STATUS_OK
               : error_set_errno(err, STATUS_IO,
                                 "start the thread that lists what rows are read from");
}

bool fetch_stage_stop(struct fetch_stage *stage, uint32_t timeout_ms)
{
    if (!stage || !stage->has_lister)
        return true;
    pthread_mutex_lock(&stage->mutex);
    stage->stopping = true;
    pthread_cond_signal(&stage->work);
    pthread_mutex_unlock(&stage->mutex);
    stage->has_lister = !thread_join_within(stage->lister_thread, timeout_ms * UINT64_C(1000000));
    return !stage->has_lister;
}

enum status fetch_stage_new(const struct dataset *dataset, uint64_t memory_bytes,
                            uint32_t row_buffer_count, struct waker *waker,
                            struct fetch_stage **ret_stage, struct error *err)
{
    uint64_t pieces = 0, buffer_bytes = 0;
    uint64_t cost = buffer_cost(dataset, &pieces, &buffer_bytes);
    uint64_t count = count_buffers(dataset, memory_bytes, cost);
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
    int32_t i = fetch_buffer_pop(stage, &stage->fetched);
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
    fetch_buffer_push(stage, &stage->free, buffer);
    pthread_cond_signal(&stage->work);
    pthread_mutex_unlock(&stage->mutex);
}
