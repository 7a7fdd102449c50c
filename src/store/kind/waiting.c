/* Threads that wait for fetches, and those that must not wait for a store. */
#include "store/kind/store_internal.h"

#include <assert.h>
#include <pthread.h>

static _Thread_local bool waiting_is_forbidden;

void store_forbid_waiting(bool forbidden)
{
    waiting_is_forbidden = forbidden;
}

void store_may_wait(void)
{
    assert(!waiting_is_forbidden);
}

struct batch {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    size_t left;
};

static void count_down(struct fetch *fetch)
{
    struct batch *batch = fetch->argument;
    pthread_mutex_lock(&batch->mutex);
    if (--batch->left == 0)
        pthread_cond_signal(&batch->done);
    pthread_mutex_unlock(&batch->mutex);
}

void fetch_wait(const struct store *store, struct fetch *fetches, size_t count)
{
    struct batch batch = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, count};
    for (size_t i = 0; i < count; i++) {
        fetches[i].done = count_down;
        fetches[i].argument = &batch;
        fetches[i].own.store = store;
        store->operations->fetch(store, &fetches[i]);
    }
    pthread_mutex_lock(&batch.mutex);
    while (batch.left > 0)
        pthread_cond_wait(&batch.done, &batch.mutex);
    pthread_mutex_unlock(&batch.mutex);
    pthread_cond_destroy(&batch.done);
    pthread_mutex_destroy(&batch.mutex);
}

enum status fetch_run(const struct store *store, struct fetch *fetches, size_t count,
                      struct error *err)
{
    size_t failed = 0;
    fetch_wait(store, fetches, count);
    while (failed < count && fetches[failed].status == STATUS_OK)
        failed++;
    if (failed == count)
        return STATUS_OK;
    if (err)
        *err = fetches[failed].error;
    return fetches[failed].status;
}

enum status fetch_run_ranges(const struct store *store, const struct fetch *of,
                             const struct store_range *ranges, size_t count, struct error *err)
{
    struct fetch fetches[STORE_RANGES_AT_ONCE];
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK;) {
        size_t used = 0;
        for (; i < count && used < STORE_RANGES_AT_ONCE; i++) {
            if (ranges[i].size == 0)
                continue;
            fetches[used++] = (struct fetch){.kind = FETCH_RANGE,
                                             .key = of->key,
                                             .offset = of->offset + ranges[i].offset,
                                             .size = ranges[i].size,
                                             .buffer = ranges[i].buffer,
                                             .etag = of->etag,
                                             .modified_s = of->modified_s};
        }
        status = fetch_run(store, fetches, used, err);
    }
    return status;
}
