/* See watch.h. A table of calls. Each call has a mutex, for which only the watchdog's look
 * contends. */
#include "store/watch.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_CALLS = 1024, UNWATCHED = -1 };

struct watched_call {
    pthread_mutex_t mutex;
    _Atomic bool taken;
    uint64_t number;                   /* under the mutex; 0: no call */
    uint64_t start_ns;                 /* under the mutex */
    char path[STORE_WATCH_PATH_BYTES]; /* under the mutex */
};

struct store_watch {
    _Atomic uint32_t next;
    _Atomic uint64_t calls;
    pthread_mutex_t retry_mutex;
    uint64_t retries;  /* under retry_mutex */
    struct error last; /* under retry_mutex */
    struct error note; /* under retry_mutex; status OK: none */
    struct watched_call table[MOST_CALLS];
};

enum status store_watch_new(struct store_watch **ret_watch, struct error *err)
{
    struct store_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return error_set(err, STATUS_NO_MEMORY, "no memory to watch the store");
    pthread_mutex_init(&watch->retry_mutex, NULL);
    for (int i = 0; i < MOST_CALLS; i++)
        pthread_mutex_init(&watch->table[i].mutex, NULL);
    *ret_watch = watch;
    return STATUS_OK;
}

void store_watch_free(struct store_watch *watch)
{
    if (!watch)
        return;
    for (int i = 0; i < MOST_CALLS; i++)
        pthread_mutex_destroy(&watch->table[i].mutex);
    pthread_mutex_destroy(&watch->retry_mutex);
    free(watch);
}

int store_watch_begin(struct store_watch *watch, const char *uri, const char *key)
{
    if (!watch)
        return UNWATCHED;
    uint32_t first = atomic_fetch_add_explicit(&watch->next, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < MOST_CALLS; i++) {
        struct watched_call *watched = &watch->table[(first + i) % MOST_CALLS];
        if (atomic_exchange(&watched->taken, true))
            continue;
        pthread_mutex_lock(&watched->mutex);
        watched->number = atomic_fetch_add(&watch->calls, 1) + 1;
        watched->start_ns = clock_now_ns();
        snprintf(watched->path, sizeof watched->path, "%s%s%s", uri, *key ? "/" : "", key);
        pthread_mutex_unlock(&watched->mutex);
        return (int)((first + i) % MOST_CALLS);
    }
    return UNWATCHED;
}

void store_watch_end(struct store_watch *watch, int call)
{
    if (!watch || call == UNWATCHED)
        return;
    struct watched_call *watched = &watch->table[call];
    pthread_mutex_lock(&watched->mutex);
    watched->number = 0;
    pthread_mutex_unlock(&watched->mutex);
    atomic_store(&watched->taken, false);
}

void store_watch_retried(struct store_watch *watch, const struct error *cause)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->retry_mutex);
    watch->retries++;
    watch->last = *cause;
    pthread_mutex_unlock(&watch->retry_mutex);
}

void store_watch_note(struct store_watch *watch, const struct error *note)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->retry_mutex);
    if (watch->note.status == STATUS_OK)
        watch->note = *note;
    pthread_mutex_unlock(&watch->retry_mutex);
}

bool store_watch_take_note(struct store_watch *watch, struct error *ret_note)
{
    pthread_mutex_lock(&watch->retry_mutex);
    bool found = watch->note.status != STATUS_OK;
    if (found)
        *ret_note = watch->note;
    error_clear(&watch->note);
    pthread_mutex_unlock(&watch->retry_mutex);
    return found;
}

bool store_watch_oldest(struct store_watch *watch, struct store_watch_call *ret_call)
{
    uint64_t now = clock_now_ns();
    bool found = false;
    for (int i = 0; i < MOST_CALLS; i++) {
        struct watched_call *watched = &watch->table[i];
        if (!atomic_load(&watched->taken))
            continue;
        pthread_mutex_lock(&watched->mutex);
        uint64_t age_ns = now > watched->start_ns ? now - watched->start_ns : 0;
        if (watched->number && (!found || age_ns > ret_call->age_ns)) {
            ret_call->number = watched->number;
            ret_call->age_ns = age_ns;
            snprintf(ret_call->path, sizeof ret_call->path, "%s", watched->path);
            found = true;
        }
        pthread_mutex_unlock(&watched->mutex);
    }
    return found;
}

uint64_t store_watch_retries(struct store_watch *watch, struct error *ret_last)
{
    pthread_mutex_lock(&watch->retry_mutex);
    uint64_t retries = watch->retries;
    *ret_last = watch->last;
    pthread_mutex_unlock(&watch->retry_mutex);
    return retries;
}
