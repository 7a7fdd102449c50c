/* See row_store.h and row_store_internal.h: loading rows. A worker loads a row from the store, from
 * fetched bytes, or from a row kept as stored. */
#include "read/row_store_internal.h"

/* The task of row_store_load(). */
static void load_row(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)end;
    struct row_store *store = argument;
    int32_t buffer = (int32_t)begin;
    uint64_t row = row_store_row(store, buffer);
    int32_t tape = store->buffers[buffer].tape, fetch_buffer = store->buffers[buffer].fetch_buffer;
    int32_t received = store->buffers[buffer].received;
    struct stored_rows_pass pass, received_pass;
    struct zarr_tape *source = NULL;
    struct error err;
    struct fetched *fetched = NULL;
    if (fetch_buffer != FETCH_NONE)
        fetched = fetch_stage_fetched(store->stage, fetch_buffer);
    if (tape != STORED_ROWS_NONE) {
        stored_rows_start(store->stored, tape, worker->numa, &pass);
        source = &pass.tape;
    }
    if (received != RECEIVED_NONE && !(source && source->play)) {
        received_tapes_start(store->received, received, store->buffers[buffer].received_bytes,
                             &received_pass);
        source = &received_pass.tape;
    }
    enum status status = dataset_read_row_with(worker->reader, row, row_store_data(store, buffer),
                                               source, fetched, &worker->stats, &err);
    bool incomplete = dataset_reader_may_try_again(worker->reader);
    if (fetch_buffer != FETCH_NONE)
        fetch_stage_give_back(store->stage, fetch_buffer);
    if (received != RECEIVED_NONE) {
        if (tape != STORED_ROWS_NONE)
            stored_rows_record_whole(&pass, received_tapes_memory(store->received, received),
                                     store->buffers[buffer].received_bytes);
        received_tapes_give_back(store->received, received);
    }
    if (tape != STORED_ROWS_NONE)
        stored_rows_end(&pass, status == STATUS_OK && !incomplete);
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

void row_store_use_received(struct row_store *store, struct received_tapes *tapes)
{
    store->received = tapes;
}

/* Gives a claimed buffer's row to the workers of its NUMA node; false when their queue is full. */
static bool submit(struct row_store *store, int32_t buffer)
{
    int32_t tape = STORED_ROWS_NONE;
    if (store->stored)
        tape = stored_rows_claim(store->stored, row_store_row(store, buffer));
    store->buffers[buffer].tape = tape;
    bool submitted = pool_submit(store->pool, row_store_numa(store, buffer), POOL_NORMAL, load_row,
                                 store, (uint64_t)buffer, (uint64_t)buffer + 1);
    if (!submitted && tape != STORED_ROWS_NONE)
        stored_rows_cancel(store->stored, tape);
    return submitted;
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
    store->buffers[buffer].received = RECEIVED_NONE;
    if (!store->stage || (store->stored && stored_rows_has(store->stored, row)))
        return submit(store, buffer);
    fetch_stage_push(store->stage, buffer, row);
    row_load_submit_fetched(store);
    return true;
}

bool row_store_load_tape(struct row_store *store, int32_t buffer, int32_t received, uint64_t bytes)
{
    store->buffers[buffer].fetch_buffer = FETCH_NONE;
    store->buffers[buffer].received = received;
    store->buffers[buffer].received_bytes = bytes;
    return submit(store, buffer);
}
