/* See relay.h. */
#include "store/kind/relay.h"

#include "base/thread.h"

#include <pthread.h>
#include <stdlib.h>

struct relays {
    const struct store *store;
    relay_begin *begin;
    size_t relay_bytes;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct relay *free;          /* owned */
    struct fetch *first, **last; /* the queue; by own.next */
    bool stopping;
    pthread_t threads[RELAY_THREADS];
    size_t thread_count;
};

void relay_finish(struct fetch *fetch, enum status status)
{
    fetch->status = status;
    fetch->done(fetch);
}

static void finish_stopped(const struct relays *relays, struct fetch *fetch)
{
    relay_finish(fetch, error_set(&fetch->error, STATUS_LOST, "'%s': the store was stopped",
                                  relays->store->uri));
}

struct relay *relay_take(struct relays *relays)
{
    pthread_mutex_lock(&relays->mutex);
    struct relay *relay = relays->free;
    if (relay)
        relays->free = relay->next;
    pthread_mutex_unlock(&relays->mutex);
    return relay ? relay : malloc(relays->relay_bytes);
}

void relay_put(struct relays *relays, struct relay *relay)
{
    pthread_mutex_lock(&relays->mutex);
    relay->next = relays->free;
    relays->free = relay;
    pthread_mutex_unlock(&relays->mutex);
}

enum status relay_choose(struct fetch *fetch, uint64_t length, uint64_t *ret_offset,
                         size_t *ret_size)
{
    fetch->total = length;
    *ret_offset = 0;
    *ret_size = 0;
    switch (fetch->kind) {
    case FETCH_WHOLE:
        if (length > fetch->capacity)
            return error_set(&fetch->error, STATUS_CORRUPT,
                             "it has %llu bytes, at most %zu can be right",
                             (unsigned long long)length, fetch->capacity);
        *ret_size = length;
        break;
    case FETCH_RANGE:
        *ret_offset = fetch->offset;
        *ret_size = fetch->size;
        break;
    case FETCH_SUFFIX:
        *ret_offset = length - (fetch->size <= length ? fetch->size : length);
        *ret_size = fetch->size;
        break;
    default:
        return STATUS_OK;
    }
    if (*ret_offset > length || *ret_size > length - *ret_offset)
        return error_set(&fetch->error, STATUS_CORRUPT,
                         "it has %llu bytes, more are needed: it was cut short",
                         (unsigned long long)length);
    fetch->got = *ret_size;
    return STATUS_OK;
}

/* Threads
 * ---------------------------------------------------------------------------------------------- */

static void *run_thread(void *argument)
{
    struct relays *relays = argument;
    pthread_mutex_lock(&relays->mutex);
    for (;;) {
        struct fetch *fetch = relays->first;
        if (!fetch && relays->stopping)
            break;
        if (!fetch) {
            pthread_cond_wait(&relays->work, &relays->mutex);
            continue;
        }
        relays->first = fetch->own.next;
        if (!relays->first)
            relays->last = &relays->first;
        bool stopping = relays->stopping;
        pthread_mutex_unlock(&relays->mutex);
        if (stopping)
            finish_stopped(relays, fetch);
        else
            (void)relays->begin(relays->store, fetch, true);
        pthread_mutex_lock(&relays->mutex);
    }
    pthread_mutex_unlock(&relays->mutex);
    return NULL;
}

/* Clears what a fetch is to give. False: the store was stopped, and the fetch is done. */
static bool clear(struct relays *relays, struct fetch *fetch)
{
    fetch->got = 0;
    fetch->total = fetch->version = 0;
    fetch->encoded = false;
    fetch->own.next = NULL;
    pthread_mutex_lock(&relays->mutex);
    bool stopping = relays->stopping;
    pthread_mutex_unlock(&relays->mutex);
    if (stopping)
        finish_stopped(relays, fetch);
    return !stopping;
}

static void enqueue(struct relays *relays, struct fetch *fetch)
{
    pthread_mutex_lock(&relays->mutex);
    bool stopping = relays->stopping;
    if (!stopping) {
        *relays->last = fetch;
        relays->last = &fetch->own.next;
        pthread_cond_signal(&relays->work);
    }
    pthread_mutex_unlock(&relays->mutex);
    if (stopping)
        finish_stopped(relays, fetch);
}

void relays_fetch(struct relays *relays, struct fetch *fetch)
{
    if (clear(relays, fetch) && !relays->begin(relays->store, fetch, false))
        enqueue(relays, fetch);
}

enum status relays_new(const char *name, const struct store *store, size_t relay_bytes,
                       relay_begin *begin, struct relays **ret_relays, struct error *err)
{
    struct relays *relays = calloc(1, sizeof *relays);
    if (!relays)
        return error_set(err, STATUS_NO_MEMORY, "no memory for requests");
    pthread_mutex_init(&relays->mutex, NULL);
    pthread_cond_init(&relays->work, NULL);
    relays->store = store;
    relays->relay_bytes = relay_bytes;
    relays->begin = begin;
    relays->last = &relays->first;
    while (relays->thread_count < RELAY_THREADS &&
           thread_start(name, run_thread, relays, &relays->threads[relays->thread_count]))
        relays->thread_count++;
    if (relays->thread_count == 0) {
        relays_free(relays);
        return error_set(err, STATUS_IO, "no thread for what has to wait before a request");
    }
    *ret_relays = relays;
    return STATUS_OK;
}

void relays_stop(struct relays *relays)
{
    pthread_mutex_lock(&relays->mutex);
    relays->stopping = true;
    pthread_cond_broadcast(&relays->work);
    pthread_mutex_unlock(&relays->mutex);
}

void relays_join(struct relays *relays)
{
    for (size_t i = 0; i < relays->thread_count; i++)
        pthread_join(relays->threads[i], NULL);
    relays->thread_count = 0;
}

void relays_free(struct relays *relays)
{
    if (!relays)
        return;
    while (relays->free) {
        struct relay *next = relays->free->next;
        free(relays->free);
        relays->free = next;
    }
    pthread_cond_destroy(&relays->work);
    pthread_mutex_destroy(&relays->mutex);
    free(relays);
}
