/* See threads.h. */
#include "dataset/threads.h"

#include "base/cpu.h"
#include "base/number.h"
#include "dataset/dataset_internal.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <time.h>

enum {
    LEAST_THREADS = 4, /* a thread may wait for a file system */
    LOOK_MS = 100,
};

uint64_t dataset_thread_count(const struct dataset *dataset, uint64_t pieces)
{
    bool remote = store_is_remote(dataset->private->store);
    uint32_t threads = remote ? DATASET_MOST_THREADS
                              : min_u32(max_u32(cpu_count(), LEAST_THREADS), DATASET_MOST_THREADS);

    return min_u64(pieces, threads);
}

uint64_t threads_start(pthread_t *threads, uint64_t count, const char *name, void *(*body)(void *),
                       void *argument)
{
    sigset_t all, before;
    uint64_t started = 0;
    int failure = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < count &&
           (failure = pthread_create(&threads[started], NULL, body, argument)) == 0)
        pthread_setname_np(threads[started++], name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failure;
    return started;
}

static bool has_ended(pthread_t thread)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

void threads_await(const pthread_t *threads, uint64_t count, void (*look)(void *), void *argument)
{
    for (uint64_t i = 0; i < count; i++)
        while (!has_ended(threads[i]))
            look(argument);
}

void threads_run(const char *name, uint64_t count, void *(*body)(void *), void *argument)
{
    pthread_t threads[DATASET_MOST_THREADS];

    assert(count <= DATASET_MOST_THREADS);
    uint64_t started = threads_start(threads, count > 0 ? count - 1 : 0, name, body, argument);
    (void)body(argument);
    for (uint64_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
