/* See watchdog.h. */
#include "job/watchdog.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 200, RETRIES_TOLD_EVERY_S = 30 };

static const uint64_t second_ns = 1000000000u;

struct watchdog {
    const struct comm *comm;
    struct store_watch *watch;
    uint64_t timeout_ns;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t stop; /* `stopping` is set */
    bool stopping;       /* under the mutex */
    struct waker *waker; /* under the mutex; NULL: the main thread does not ask */
    struct error error;  /* under the mutex */
    _Atomic bool has_error;
    uint64_t warned_number; /* the thread's own: of the call that was last told of */
    uint64_t told_retries;  /* the thread's own: as last told of */
    uint64_t told_ns;       /* the thread's own: when they were told of */
};

static enum status describe(const struct watchdog *watchdog, const struct store_watch_call *call,
                            struct error *err)
{
    return error_set(
        err, STATUS_TIMEOUT,
        "reading '%s' has not come back for %.1f s (store.timeout is %.0f s): the file "
        "system hangs",
        call->path, (double)call->age_ns / 1e9, (double)watchdog->timeout_ns / 1e9);
}

static void warn(const struct watchdog *watchdog, const char *message)
{
    fprintf(stderr, "penstock-reader: warning: reader %d on %s: %s\n", watchdog->comm->rank,
            watchdog->comm->node_name, message);
}

static void tell_retries(struct watchdog *watchdog)
{
    struct error last, told;
    uint64_t now = clock_now_ns(), retries = store_watch_retries(watchdog->watch, &last);
    if (retries == watchdog->told_retries ||
        (watchdog->told_ns && now - watchdog->told_ns < RETRIES_TOLD_EVERY_S * second_ns))
        return;
    watchdog->told_retries = retries;
    watchdog->told_ns = now;
    error_set(&told, STATUS_IO, "%llu reads were tried again so far, the last after: %.700s",
              (unsigned long long)retries, last.message);
    warn(watchdog, told.message);
}

/* The main thread hangs in the store itself, or is not yet, or no longer, where it would ask. */
static void end_process(const struct watchdog *watchdog, const struct error *error)
{
    fprintf(stderr, "penstock-reader: error: reader %d on %s: %s\n", watchdog->comm->rank,
            watchdog->comm->node_name, error->message);
    _exit(1);
}

/* Under the mutex. */
static void raise_error(struct watchdog *watchdog, const struct store_watch_call *call)
{
    if (atomic_load(&watchdog->has_error) || watchdog->error.status != STATUS_OK)
        return;
    describe(watchdog, call, &watchdog->error);
    if (!watchdog->waker)
        end_process(watchdog, &watchdog->error);
    atomic_store(&watchdog->has_error, true);
    waker_wake(watchdog->waker);
}

static void look(struct watchdog *watchdog)
{
    struct store_watch_call call;
    struct error error;
    tell_retries(watchdog);
    if (store_watch_take_note(watchdog->watch, &error))
        warn(watchdog, error.message);
    if (!store_watch_oldest(watchdog->watch, &call) || call.age_ns < watchdog->timeout_ns / 2)
        return;
    if (call.number != watchdog->warned_number) {
        describe(watchdog, &call, &error);
        warn(watchdog, error.message);
        watchdog->warned_number = call.number;
    }
    if (call.age_ns >= watchdog->timeout_ns)
        raise_error(watchdog, &call);
}

static void *watch(void *argument)
{
    struct watchdog *watchdog = argument;
    pthread_mutex_lock(&watchdog->mutex);
    while (!watchdog->stopping) {
        look(watchdog);
        struct timespec until = thread_deadline(LOOK_MS * UINT64_C(1000000));
        pthread_cond_timedwait(&watchdog->stop, &watchdog->mutex, &until);
    }
    pthread_mutex_unlock(&watchdog->mutex);
    return NULL;
}

enum status watchdog_new(const struct comm *comm, struct store_watch *store_watch,
                         uint64_t timeout_s, struct watchdog **ret_watchdog, struct error *err)
{
    struct watchdog *watchdog = calloc(1, sizeof *watchdog);
    if (!watchdog)
        return error_set(err, STATUS_NO_MEMORY, "no memory to watch the store");
    watchdog->comm = comm;
    watchdog->watch = store_watch;
    watchdog->timeout_ns = timeout_s * second_ns;
    thread_cond_init(&watchdog->stop);
    pthread_mutex_init(&watchdog->mutex, NULL);
    if (!thread_start("watchdog", watch, watchdog, &watchdog->thread)) {
        error_set_errno(err, STATUS_IO, "start a thread to watch the store");
        pthread_mutex_destroy(&watchdog->mutex);
        pthread_cond_destroy(&watchdog->stop);
        free(watchdog);
        return STATUS_IO;
    }
    *ret_watchdog = watchdog;
    return STATUS_OK;
}

void watchdog_serve(struct watchdog *watchdog, struct waker *waker)
{
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->waker = waker;
    pthread_mutex_unlock(&watchdog->mutex);
}

bool watchdog_take(struct watchdog *watchdog, struct error *ret_error)
{
    if (!atomic_load_explicit(&watchdog->has_error, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&watchdog->mutex);
    *ret_error = watchdog->error;
    atomic_store(&watchdog->has_error, false);
    pthread_mutex_unlock(&watchdog->mutex);
    return true;
}

void watchdog_free(struct watchdog *watchdog)
{
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->mutex);
    watchdog->stopping = true;
    pthread_cond_signal(&watchdog->stop);
    pthread_mutex_unlock(&watchdog->mutex);
    pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->stop);
    pthread_mutex_destroy(&watchdog->mutex);
    free(watchdog);
}
