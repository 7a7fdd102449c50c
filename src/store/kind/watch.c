/* See watch.h. A table of calls, each in a cache line of its own.
 *
 * A thread goes back to the entry that it had last. So threads that make one call at a
 * time share no cache line, unless the watchdog looks. An entry is
 *
 *     FREE --begin--> TAKEN --> BUSY --end--> FREE
 *                                ^ |
 *                                | v
 *                              LOOKED_AT      by store_watch_oldest(), which reads uri and key;
 *                                             the end of the call waits for that
 */
#include "store/kind/watch.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_BITS = 10, MOST_CALLS = 1 << CALL_BITS, UNWATCHED = -1, LINE_BYTES = 64 };
enum { FREE, TAKEN, BUSY, LOOKED_AT };

struct watched_call {
    _Alignas(LINE_BYTES) _Atomic int state;
    /* Whoever has set TAKEN or LOOKED_AT uses these. */
    uint64_t count; /* calls that had this entry */
    uint64_t start_ns;
    const char *uri, *key; /* borrowed until the call ends */
};
_Static_assert(sizeof(struct watched_call) == LINE_BYTES, "a call has a cache line");

struct store_watch {
    struct watched_call table[MOST_CALLS];
    pthread_mutex_t retry_mutex;
    uint64_t retries;  /* under retry_mutex */
    struct error last; /* under retry_mutex */
    struct error note; /* under retry_mutex; status OK: none */
};

enum status store_watch_new(struct store_watch **ret_watch, struct error *err)
{
    struct store_watch *watch = aligned_alloc(LINE_BYTES, sizeof *watch);
    if (!watch)
        return error_set(err, STATUS_NO_MEMORY, "no memory to watch the store");
    memset(watch, 0, sizeof *watch);
    pthread_mutex_init(&watch->retry_mutex, NULL);
    *ret_watch = watch;
    return STATUS_OK;
}

void store_watch_free(struct store_watch *watch)
{
    if (!watch)
        return;
    pthread_mutex_destroy(&watch->retry_mutex);
    free(watch);
}

/* Calls
 * ---------------------------------------------------------------------------------------------- */

static _Thread_local bool has_index;
static _Thread_local uint32_t last_index;

/* Where the thread looks for a free entry first. New threads begin far from each other (Knuth's
 * multiplicative hashing of their number). */
static uint32_t first_index(void)
{
    static _Atomic uint32_t threads;
    if (!has_index) {
        has_index = true;
        last_index = atomic_fetch_add(&threads, 1) * UINT32_C(2654435769) >> (32 - CALL_BITS);
    }
    return last_index;
}

static bool change(struct watched_call *watched, int from, int to)
{
    return atomic_compare_exchange_strong_explicit(&watched->state, &from, to, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

int store_watch_begin(struct store_watch *watch, const char *uri, const char *key)
{
    if (!watch)
        return UNWATCHED;
    uint32_t first = first_index();
    for (uint32_t i = 0; i < MOST_CALLS; i++) {
        uint32_t index = (first + i) % MOST_CALLS;
        struct watched_call *watched = &watch->table[index];
        if (!change(watched, FREE, TAKEN))
            continue;
        watched->count++;
        watched->start_ns = clock_now_ns();
        watched->uri = uri;
        watched->key = key;
        atomic_store_explicit(&watched->state, BUSY, memory_order_release);
        last_index = index;
        return (int)index;
    }
    return UNWATCHED;
}

void store_watch_end(struct store_watch *watch, int call)
{
    if (!watch || call == UNWATCHED)
        return;
    while (!change(&watch->table[call], BUSY, FREE))
        sched_yield(); /* it is looked at, for as long as it takes to copy a line of text */
    last_index = (uint32_t)call;
    has_index = true;
}

bool store_watch_oldest(struct store_watch *watch, struct store_watch_call *ret_call)
{
    uint64_t now = clock_now_ns();
    bool found = false;
    for (uint32_t i = 0; i < MOST_CALLS; i++) {
        struct watched_call *watched = &watch->table[i];
        if (!change(watched, BUSY, LOOKED_AT))
            continue;
        uint64_t age_ns = now > watched->start_ns ? now - watched->start_ns : 0;
        if (!found || age_ns > ret_call->age_ns) {
            ret_call->number = watched->count << CALL_BITS | i;
            ret_call->age_ns = age_ns;
            snprintf(ret_call->path, sizeof ret_call->path, "%s%s%s", watched->uri,
                     *watched->key ? "/" : "", watched->key);
            found = true;
        }
        atomic_store_explicit(&watched->state, BUSY, memory_order_release);
    }
    return found;
}

/* Retries and notes
 * ---------------------------------------------------------------------------------------------- */

void store_watch_retried(struct store_watch *watch, const struct error *cause)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->retry_mutex);
    watch->retries++;
    watch->last = *cause;
    pthread_mutex_unlock(&watch->retry_mutex);
}

uint64_t store_watch_retries(struct store_watch *watch, struct error *ret_last)
{
    pthread_mutex_lock(&watch->retry_mutex);
    uint64_t retries = watch->retries;
    *ret_last = watch->last;
    pthread_mutex_unlock(&watch->retry_mutex);
    return retries;
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
