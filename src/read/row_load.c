/* See row_store.h and row_store_internal.h: loading rows. A worker loads a row from the store, from
 * fetched bytes, from a row kept as stored, or from a tape that another reader has sent. */
#include "read/row_store_internal.h"

#include "base/clock.h"
#include "base/trace.h"

/* The tapes of one load: of the row in this reader's memory, and as another reader has sent it. */
struct load_tapes {
    int32_t stored, received; /* STORED_ROWS_NONE, RECEIVED_NONE: there is none */
    uint64_t received_bytes;
    struct stored_rows_pass stored_pass, received_pass;
};

/* The tape that the load plays or records; NULL: none. */
static struct zarr_tape *start_tapes(struct row_store *store, uint32_t numa,
                                     struct load_tapes *tapes)
{
    struct zarr_tape *source = NULL;
    if (tapes->stored != STORED_ROWS_NONE) {
        stored_rows_start(store->stored, tapes->stored, numa, &tapes->stored_pass);
        source = &tapes->stored_pass.tape;
    }
    if (tapes->received == RECEIVED_NONE || (source && source->play))
        return source;
    received_tapes_start(store->received, tapes->received, tapes->received_bytes,
                         &tapes->received_pass);
    return &tapes->received_pass.tape;
}

/* A received tape is kept, if the row is to be. */
static void end_tapes(struct row_store *store, struct load_tapes *tapes, bool loaded)
{
    if (tapes->received != RECEIVED_NONE) {
        if (tapes->stored != STORED_ROWS_NONE)
            stored_rows_record_whole(&tapes->stored_pass,
                                     received_tapes_memory(store->received, tapes->received),
                                     tapes->received_bytes);
        received_tapes_give_back(store->received, tapes->received);
    }
    if (tapes->stored != STORED_ROWS_NONE)
        stored_rows_end(&tapes->stored_pass, loaded);
}

/* The task of row_store_load() and row_store_load_tape(). */
static void load_row(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)end;
    struct row_store *store = argument;
    int32_t buffer = (int32_t)begin;
    uint64_t row = row_store_row(store, buffer);
    const struct buffer *own = &store->buffers[buffer];
    int32_t fetch_buffer = own->fetch_buffer;
    struct load_tapes tapes = {
        .stored = own->tape, .received = own->received, .received_bytes = own->received_bytes};
    struct error err;
    struct fetched *fetched = NULL;
    uint64_t start_ns = trace_on() ? clock_now_ns() : 0;
    if (fetch_buffer != FETCH_NONE)
        fetched = fetch_stage_fetched(store->stage, fetch_buffer);
    struct zarr_tape *tape = start_tapes(store, worker->numa, &tapes);
    struct row_store_pages of_pages;
    const struct dataset_pages *pages = row_store_pages(store, buffer, &of_pages);
    enum status status = dataset_read_row_with(worker->reader, row, row_store_data(store, buffer),
                                               pages, tape, fetched, &worker->stats, &err);
    bool incomplete = dataset_reader_may_try_again(worker->reader);
    if (fetch_buffer != FETCH_NONE)
        fetch_stage_give_back(store->stage, fetch_buffer);
    end_tapes(store, &tapes, status == STATUS_OK && !incomplete);
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
