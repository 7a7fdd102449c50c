/* Threads that read while a dataset is opened or held. See dataset_internal.h. */
#include "dataset/dataset_internal.h"

#include "base/cpu.h"
#include "base/number.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

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
    sigset_t all, before;

    assert(count <= DATASET_MOST_THREADS);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started + 1 < count && pthread_create(&threads[started], NULL, body, argument) == 0)
        pthread_setname_np(threads[started++], name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)body(argument);
    for (uint64_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
