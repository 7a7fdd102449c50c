/* See pool.h and pool_internal.h: memory that a pool's workers fill with pages, piece by piece. */
#include "read/pool_internal.h"

#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 16 * MEMORY_HUGE_PAGE_BYTES };
static const uint32_t any_numa = UINT32_MAX;

void pool_filling_init(struct filling *filling)
{
    pthread_mutex_init(&filling->mutex, NULL);
    thread_cond_init(&filling->moved);
}

void pool_filling_done(struct filling *filling)
{
    pthread_cond_destroy(&filling->moved);
    pthread_mutex_destroy(&filling->mutex);
}

/* Takes the next piece of what is still to be filled in `numa` (any_numa: anywhere); 0 bytes:
 * nothing is left. Holds the filling's mutex. */
static struct pool_memory take_piece(struct filling *filling, uint32_t numa)
{
    for (size_t m = 0; m < filling->count; m++) {
        struct pool_memory *left = &filling->left[m];
        if (left->bytes == 0 || (numa != any_numa && left->numa != numa))
            continue;
        struct pool_memory piece = *left;
        piece.bytes = piece.bytes < PIECE_BYTES ? piece.bytes : PIECE_BYTES;
        left->start += piece.bytes;
        left->bytes -= piece.bytes;
        return piece;
    }
    return (struct pool_memory){0};
}

/* Fills pieces, at most `limit` of them, until none is left. `worker` NULL: the owner. */
static void fill_pieces(struct filling *filling, const struct pool_worker *worker, uint64_t limit)
{
    pthread_mutex_lock(&filling->mutex);
    for (uint64_t i = 0; i < limit && filling->failure == 0; i++) {
        struct pool_memory piece = take_piece(filling, worker ? worker->numa : any_numa);
        if (piece.bytes == 0)
            break;
        filling->taken++;
        filling->busy++;
        pthread_mutex_unlock(&filling->mutex);
        int failure = filling->fill ? filling->fill(filling->argument, worker, &piece)
                                    : memory_populate(piece.start, piece.bytes);
        pthread_mutex_lock(&filling->mutex);
        filling->busy--;
        if (failure && filling->failure == 0)
            filling->failure = failure;
    }
    pthread_cond_signal(&filling->moved);
    pthread_mutex_unlock(&filling->mutex);
}

/* May run late, when there is nothing to do any more. */
static void fill_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    fill_pieces(argument, worker, UINT64_MAX);
}

static void call_fillers(struct pool *pool)
{
    for (uint32_t i = 0; i < pool->placement.worker_count; i++) {
        struct worker *worker = &pool->workers[i];
        pthread_mutex_lock(&worker->numa->mutex);
        worker->own = (struct task){fill_task, &pool->filling, 0, 0};
        worker->own_done = NULL;
        pthread_cond_broadcast(&worker->numa->work);
        pthread_mutex_unlock(&worker->numa->mutex);
    }
}

static bool has_left(const struct filling *filling)
{
    for (size_t m = 0; m < filling->count && filling->failure == 0; m++)
        if (filling->left[m].bytes > 0)
            return true;
    return false;
}

/* Waits until all is filled; while no worker comes for what is left, fills it itself. That none
 * comes is waited for once, not for each piece. */
static void await_fillers(struct filling *filling)
{
    const uint64_t patience_ns = 20000000;
    uint64_t alone = UINT64_MAX; /* `taken`, if nobody else comes */
    pthread_mutex_lock(&filling->mutex);
    while (filling->busy > 0 || has_left(filling)) {
        uint64_t taken = filling->taken;
        struct timespec until = thread_deadline(taken == alone ? 0 : patience_ns);
        int late = pthread_cond_timedwait(&filling->moved, &filling->mutex, &until);
        if (late == 0 || taken != filling->taken || filling->busy > 0 || !has_left(filling))
            continue;
        alone = taken + 1;
        pthread_mutex_unlock(&filling->mutex);
        fill_pieces(filling, NULL, 1);
        pthread_mutex_lock(&filling->mutex);
    }
    pthread_mutex_unlock(&filling->mutex);
}

int pool_populate(struct pool *pool, const struct pool_memory *memory, size_t count,
                  pool_fill *fill, void *argument)
{
    struct filling *filling = &pool->filling;
    struct pool_memory *left = calloc(count + 1, sizeof *left);
    if (!left)
        return ENOMEM;
    memcpy(left, memory, count * sizeof *left);
    pthread_mutex_lock(&filling->mutex);
    filling->left = left;
    filling->count = count;
    filling->fill = fill;
    filling->argument = argument;
    filling->failure = 0;
    pthread_mutex_unlock(&filling->mutex);
    call_fillers(pool);
    await_fillers(filling);
    pthread_mutex_lock(&filling->mutex);
    filling->count = 0;
    filling->left = NULL;
    int failure = filling->failure;
    pthread_mutex_unlock(&filling->mutex);
    free(left);
    return failure;
}
