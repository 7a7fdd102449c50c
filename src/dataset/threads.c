/* See threads.h. */
#include "dataset/threads.h"

#include "base/cpu.h"
#include "base/number.h"
#include "base/thread.h"
#include "dataset/dataset_internal.h"

#include <assert.h>

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
    uint64_t started = 0;
    while (started < count && thread_start(name, body, argument, &threads[started]))
        started++;
    return started;
}

void threads_await(const pthread_t *threads, uint64_t count, void (*look)(void *), void *argument)
{
    for (uint64_t i = 0; i < count; i++)
        while (!thread_join_within(threads[i], LOOK_MS * UINT64_C(1000000)))
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
