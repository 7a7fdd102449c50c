/* See fetch_stage.h.
 *
 * Slots move between three threads: the owner takes free ones and starts their fetches; the store's
 * thread, which ends the last fetch of a slot, puts it on the `fetched` list; the owner gives it to
 * a worker, which puts it back on the `free` list. Both lists are under one mutex, held for a few
 * instructions.
 *
 *     memory   | slot 0: piece | piece | ... | slot 1: piece | ... |
 */
#include "read/fetch_stage.h"

#include "base/memory.h"
#include "base/size.h"
#include "store/fetch.h"
#include "zarr/chunk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SLOTS = 1024, MOST_PIECES = 1 << 20 };

struct key {
    char text[ZARR_KEY_BYTES];
};

struct slot {
    struct fetch_stage *stage;
    struct fetched fetched;
    struct key *keys;
    unsigned char *memory;
    size_t used_bytes;
    _Atomic size_t left; /* fetches that are not done; one more while they are started */
    bool flying;         /* under the mutex: not all of them are done */
    int32_t buffer;      /* FETCH_NONE: forgotten */
    int32_t next;        /* on a list */
};

struct queue {
    int32_t first, last;
};

struct fetch_stage {
    const struct dataset *dataset;
    struct waker *waker;
    uint64_t slot_bytes; /* of pieces */
    uint64_t piece_count;
    uint32_t slot_count;
    struct slot *slots;
    struct fetch *fetches; /* [slot_count][piece_count], as are the keys */
    struct key *keys;
    void *memory;
    /* the owner's */
    struct queue waiting; /* of buffers */
    int32_t *next_waiting;
    uint64_t *rows; /* of waiting buffers */
    pthread_mutex_t mutex;
    pthread_cond_t all_done;
    struct queue free, ready; /* of slots */
    uint32_t flying;          /* slots with fetches that are not done */
};

/* Slots of which there are as many as the memory holds. */
static uint64_t count_slots(const struct dataset *dataset, uint64_t memory_bytes,
                            uint64_t *ret_pieces, uint64_t *ret_slot_bytes, uint64_t *ret_cost)
{
    uint64_t pieces, bytes;
    if (!dataset->remote)
        return 0;
    dataset_row_demand(dataset, &pieces, &bytes);
    if (pieces == 0 || pieces > MOST_PIECES)
        return 0;
    uint64_t cost =
        bytes + sizeof(struct slot) + pieces * (sizeof(struct fetch) + sizeof(struct key));
    uint64_t count = memory_bytes / cost;
    *ret_pieces = pieces;
    *ret_slot_bytes = bytes;
    *ret_cost = cost;
    return count < MOST_SLOTS ? count : MOST_SLOTS;
}

uint64_t fetch_stage_bytes(const struct dataset *dataset, uint64_t memory_bytes)
{
    uint64_t pieces, slot_bytes, cost = 0;
    return count_slots(dataset, memory_bytes, &pieces, &slot_bytes, &cost) * cost;
}

static void push_slot(struct fetch_stage *stage, struct queue *queue, int32_t slot)
{
    stage->slots[slot].next = FETCH_NONE;
    if (queue->first == FETCH_NONE)
        queue->first = slot;
    else
        stage->slots[queue->last].next = slot;
    queue->last = slot;
}

static int32_t take_slot(struct fetch_stage *stage, struct queue *queue)
{
    pthread_mutex_lock(&stage->mutex);
    int32_t slot = queue->first;
    if (slot != FETCH_NONE)
        queue->first = stage->slots[slot].next;
    pthread_mutex_unlock(&stage->mutex);
    return slot;
}

static enum status allocate(struct fetch_stage *stage, uint32_t buffer_count, struct error *err)
{
    size_t count = stage->slot_count * stage->piece_count;
    stage->slots = calloc(stage->slot_count, sizeof *stage->slots);
    stage->fetches = calloc(count, sizeof *stage->fetches);
    stage->keys = calloc(count, sizeof *stage->keys);
    stage->next_waiting = calloc(buffer_count, sizeof *stage->next_waiting);
    stage->rows = calloc(buffer_count, sizeof *stage->rows);
    if (!stage->slots || !stage->fetches || !stage->keys || !stage->next_waiting || !stage->rows)
        return error_set(err, STATUS_NO_MEMORY, "no memory to fetch rows ahead");
    enum status status = memory_map(stage->slot_count * stage->slot_bytes, "chunks fetched ahead",
                                    &stage->memory, err);
    for (uint32_t i = 0; status == STATUS_OK && i < stage->slot_count; i++) {
        struct slot *slot = &stage->slots[i];
        slot->stage = stage;
        slot->fetched.fetches = stage->fetches + i * stage->piece_count;
        slot->keys = stage->keys + i * stage->piece_count;
        slot->memory = (unsigned char *)stage->memory + i * stage->slot_bytes;
        push_slot(stage, &stage->free, (int32_t)i);
    }
    return status;
}

enum status fetch_stage_new(const struct dataset *dataset, uint64_t memory_bytes,
                            uint32_t buffer_count, struct waker *waker,
                            struct fetch_stage **ret_stage, struct error *err)
{
    uint64_t pieces = 0, slot_bytes = 0, cost;
    uint64_t count = count_slots(dataset, memory_bytes, &pieces, &slot_bytes, &cost);
    *ret_stage = NULL;
    if (count == 0)
        return STATUS_OK;
    struct fetch_stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return error_set(err, STATUS_NO_MEMORY, "no memory to fetch rows ahead");
    stage->dataset = dataset;
    stage->waker = waker;
    stage->piece_count = pieces;
    stage->slot_bytes = slot_bytes;
    stage->slot_count = (uint32_t)count;
    stage->waiting = stage->free = stage->ready = (struct queue){FETCH_NONE, FETCH_NONE};
    pthread_mutex_init(&stage->mutex, NULL);
    pthread_cond_init(&stage->all_done, NULL);
    enum status status = allocate(stage, buffer_count, err);
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
    pthread_mutex_lock(&stage->mutex);
    bool flying = stage->flying > 0;
    pthread_mutex_unlock(&stage->mutex);
    if (flying)
        dataset_stop_fetches(stage->dataset);
    pthread_mutex_lock(&stage->mutex);
    while (stage->flying > 0)
        pthread_cond_wait(&stage->all_done, &stage->mutex);
    pthread_mutex_unlock(&stage->mutex);
    pthread_cond_destroy(&stage->all_done);
    pthread_mutex_destroy(&stage->mutex);
    memory_unmap(stage->memory, stage->slot_count * stage->slot_bytes);
    free(stage->slots);
    free(stage->fetches);
    free(stage->keys);
    free(stage->next_waiting);
    free(stage->rows);
    free(stage);
}

void fetch_stage_push(struct fetch_stage *stage, int32_t buffer, uint64_t row)
{
    stage->rows[buffer] = row;
    stage->next_waiting[buffer] = FETCH_NONE;
    if (stage->waiting.first == FETCH_NONE)
        stage->waiting.first = buffer;
    else
        stage->next_waiting[stage->waiting.last] = buffer;
    stage->waiting.last = buffer;
}

/* One of a slot's fetches is over, or its owner has started all of them. */
static void count_down(struct slot *slot)
{
    struct fetch_stage *stage = slot->stage;
    if (atomic_fetch_sub(&slot->left, 1) > 1)
        return;
    pthread_mutex_lock(&stage->mutex);
    slot->flying = false;
    push_slot(stage, &stage->ready, (int32_t)(slot - stage->slots));
    struct waker *waker = stage->waker;
    waker_wake(waker); /* before the stage may be gone */
    if (--stage->flying == 0)
        pthread_cond_signal(&stage->all_done);
    pthread_mutex_unlock(&stage->mutex);
}

static void on_done(struct fetch *fetch)
{
    count_down(fetch->argument);
}

static void add_piece(const struct store *store, const struct zarr_piece *piece, void *argument)
{
    struct slot *slot = argument;
    size_t i = slot->fetched.count, size = size_round_up(piece->bytes, MEMORY_LINE_BYTES);
    if (i == slot->stage->piece_count || size > slot->stage->slot_bytes - slot->used_bytes)
        return; /* the worker will ask for it */
    strcpy(slot->keys[i].text, piece->key);
    struct fetch *fetch = &slot->fetched.fetches[i];
    fetch->kind = piece->kind == ZARR_PIECE_RANGE ? FETCH_RANGE : FETCH_WHOLE;
    fetch->key = slot->keys[i].text;
    fetch->offset = piece->offset;
    fetch->size = piece->bytes;
    fetch->buffer = slot->memory + slot->used_bytes;
    fetch->capacity = piece->bytes;
    fetch->done = on_done;
    fetch->argument = slot;
    slot->fetched.count++;
    slot->used_bytes += size;
    atomic_fetch_add(&slot->left, 1);
    fetch_start(store, fetch);
}

static void start_row(struct fetch_stage *stage, struct slot *slot, int32_t buffer)
{
    slot->buffer = buffer;
    slot->used_bytes = 0;
    slot->fetched.count = slot->fetched.next = 0;
    slot->left = 1;
    pthread_mutex_lock(&stage->mutex);
    stage->flying++;
    slot->flying = true;
    pthread_mutex_unlock(&stage->mutex);
    dataset_row_pieces(stage->dataset, stage->rows[buffer], add_piece, slot);
    count_down(slot);
}

int32_t fetch_stage_take(struct fetch_stage *stage, int32_t *ret_slot)
{
    int32_t slot;
    while (stage->waiting.first != FETCH_NONE &&
           (slot = take_slot(stage, &stage->free)) != FETCH_NONE) {
        int32_t buffer = stage->waiting.first;
        stage->waiting.first = stage->next_waiting[buffer];
        start_row(stage, &stage->slots[slot], buffer);
    }
    while ((slot = take_slot(stage, &stage->ready)) != FETCH_NONE) {
        int32_t buffer = stage->slots[slot].buffer;
        if (buffer != FETCH_NONE) {
            *ret_slot = slot;
            return buffer;
        }
        fetch_stage_give_back(stage, slot);
    }
    return FETCH_NONE;
}

void fetch_stage_forget(struct fetch_stage *stage)
{
    stage->waiting.first = FETCH_NONE;
    pthread_mutex_lock(&stage->mutex);
    stage->free.first = stage->ready.first = FETCH_NONE;
    for (uint32_t i = 0; i < stage->slot_count; i++) {
        stage->slots[i].buffer = FETCH_NONE;
        if (!stage->slots[i].flying)
            push_slot(stage, &stage->free, (int32_t)i);
    }
    pthread_mutex_unlock(&stage->mutex);
}

void fetch_stage_lend(struct fetch_stage *stage, int32_t slot)
{
    fetch_lend(&stage->slots[slot].fetched);
}

void fetch_stage_give_back(struct fetch_stage *stage, int32_t slot)
{
    fetch_lend(NULL);
    pthread_mutex_lock(&stage->mutex);
    push_slot(stage, &stage->free, slot);
    pthread_mutex_unlock(&stage->mutex);
}
