/* See bad_log.h. */
#include "dataset/read/bad_log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { ROOM = 1024 };

struct bad_log {
    pthread_mutex_t mutex;
    _Atomic uint32_t count;       /* written under the mutex */
    uint32_t first;               /* under the mutex */
    struct bad_chunk queue[ROOM]; /* under the mutex */
};

enum status bad_log_new(struct bad_log **ret_log, struct error *err)
{
    struct bad_log *log = calloc(1, sizeof *log);
    if (!log)
        return error_set(err, STATUS_NO_MEMORY, "no memory to list bad chunks");
    pthread_mutex_init(&log->mutex, NULL);
    *ret_log = log;
    return STATUS_OK;
}

void bad_log_free(struct bad_log *log)
{
    if (!log)
        return;
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

bool bad_log_add(struct bad_log *log, const struct bad_chunk *bad)
{
    pthread_mutex_lock(&log->mutex);
    uint32_t count = atomic_load(&log->count);
    if (count < ROOM) {
        log->queue[(log->first + count) % ROOM] = *bad;
        atomic_store(&log->count, count + 1);
    }
    pthread_mutex_unlock(&log->mutex);
    return count < ROOM;
}

bool bad_log_take(struct bad_log *log, struct bad_chunk *ret_bad)
{
    if (atomic_load_explicit(&log->count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&log->mutex);
    *ret_bad = log->queue[log->first];
    log->first = (log->first + 1) % ROOM;
    atomic_fetch_sub(&log->count, 1);
    pthread_mutex_unlock(&log->mutex);
    return true;
}
