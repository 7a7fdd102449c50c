/* See row_store.h and row_store_internal.h: loading rows. A worker loads a row from the store, from
 * fetched bytes, or from a row kept as stored. */
#include "read/row_store_internal.h"

#include "base/clock.h"
#include "base/trace.h"

/* The task of row_store_load(). */
static void load_row(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)end;
    struct row_store *store = argument;
    int32_t buffer = (int32_t)begin;
    uint64_t row = row_store_row(store, buffer);
    int32_t fetch_buffer = store->buffers[buffer].fetch_buffer, entry = store->buffers[buffer].tape;
    struct stored_rows_pass pass;
    struct error err;
    struct fetched *fetched = NULL;
    uint64_t start_ns = trace_on() ? clock_now_ns() : 0;
    if (fetch_buffer != FETCH_NONE)
        fetched = fetch_stage_fetched(store->stage, fetch_buffer);
    if (entry != STORED_ROWS_NONE)
        stored_rows_start(store->stored, entry, worker->numa, &pass);
    struct row_store_pages of_pages;
    const struct dataset_pages *pages = row_store_pages(store, buffer, &of_pages);
    enum status status = dataset_read_row_with(worker->reader, row, row_store_data(store, buffer),
                                               pages, entry != STORED_ROWS_NONE ? &pass.tape : NULL,
                                               fetched, &worker->stats.read, &err);
    bool incomplete = dataset_reader_may_try_again(worker->reader);
    if (fetch_buffer != FETCH_NONE)
        fetch_stage_give_back(store->stage, fetch_buffer);
    if (entry != STORED_ROWS_NONE)
        stored_rows_end(&pass, status == STATUS_OK && !incomplete);
    if (start_ns)
        trace_note(TRACE_ROW, start_ns, clock_now_ns(), row);
    if (status != STATUS_OK)
        row_store_failed(store, buffer, &err);
    else if (incomplete)
        row_store_loaded_incomplete(store, buffer);
    else
        row_store_loaded(store, buffer);
}

void row_store_use_stored(struct row_store *store, struct stored_rows *stored)
{
    store->stored = stored;
}

void row_store_use_stage(struct row_store *store, struct fetch_stage *stage)
{
    store->stage = stage;
}

/* Gives a claimed buffer's row to the workers of its NUMA node; false when their queue is full. */
static bool submit(struct row_store *store, int32_t buffer)
{
    store->buffers[buffer].tape =
        store->stored ? stored_rows_find(store->stored, row_store_row(store, buffer))
                      : STORED_ROWS_NONE;
    return pool_submit(store->pool, row_store_numa(store, buffer), POOL_NORMAL, load_row, store,
                       (uint64_t)buffer, (uint64_t)buffer + 1);
}

void row_load_submit_fetched(struct row_store *store)
{
    for (;;) {
        if (store->fetched == ROW_NONE) {
            int32_t fetch_buffer = FETCH_NONE,
                    buffer = fetch_stage_take(store->stage, &fetch_buffer);
            if (buffer == FETCH_NONE)
                return;
            store->buffers[buffer].fetch_buffer = fetch_buffer;
            store->fetched = buffer;
        }
        if (!submit(store, store->fetched))
            return;
        store->fetched = ROW_NONE;
    }
}

bool row_store_load(struct row_store *store, int32_t buffer)
{
    uint64_t row = row_store_row(store, buffer);
    store->buffers[buffer].fetch_buffer = FETCH_NONE;
    if (!store->stage || (store->stored && stored_rows_has(store->stored, row)))
        return submit(store, buffer);
    fetch_stage_push(store->stage, buffer, row);
    row_load_submit_fetched(store);
    return true;
}
