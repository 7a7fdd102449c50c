/* Threads that read while a dataset is opened or held. See dataset_internal.h. */
#include "dataset/dataset_internal.h"

#include "base/cpu.h"
#include "base/number.h"
#include "base/thread.h"

#include <assert.h>

enum { LEAST_THREADS = 4 }; /* a thread may wait for a file system */

uint64_t dataset_thread_count(const struct dataset *dataset, uint64_t pieces)
{
    bool remote = store_is_remote(dataset->private->store);
    uint32_t threads = remote ? DATASET_MOST_THREADS
                              : min_u32(max_u32(cpu_count(), LEAST_THREADS), DATASET_MOST_THREADS);

    return min_u64(pieces, threads);
}

void dataset_run_threads(const char *name, uint64_t count, void *(*body)(void *), void *argument)
{
    pthread_t threads[DATASET_MOST_THREADS];
    uint64_t started = 0;

    assert(count <= DATASET_MOST_THREADS);
    while (started + 1 < count && thread_start(name, body, argument, &threads[started]))
        started++;
    (void)body(argument);
    for (uint64_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
