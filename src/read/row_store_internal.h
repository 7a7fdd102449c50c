/* The inside of a row store, shared by row_store.c (buffers, and what becomes of them) and
 * row_load.c (filling them).
 *
 * Buffers lie one after another in one region of memory per NUMA node, touched by its workers.
 * Members that the owner alone uses (rows, free lists, the index) are plain. Members that workers
 * change are atomic:
 *
 *   state    LOADING -> READY or FAILED, by the worker that fills the buffer
 *   pending  uses still to come; whoever takes `pending` to 0 pushes the buffer on the `ended`
 *            list, unless the row is kept: then nobody has anything to do
 *   kept     by the owner alone; workers look at it
 *   ended    a lock-free stack of buffers to look at; the owner takes the whole stack at once
 *
 * `ended` is a hint, not a verdict. After a push, more uses of the buffer may be expected, or the
 * buffer may have been dropped and claimed anew. So row_store_collect() decides by the state that
 * it finds. The end of a load pushes the buffer, too: perhaps nobody wants the row any more. A
 * worker may see the `kept` of the buffer's next row: then the owner has released the row before.
 *
 * A buffer is on the stack at most once. `queued` is set before the push. The owner clears `queued`
 * before looking at `pending` and `state`. So either the owner sees the last use, or the end of the
 * load; or the thread that ended the use or the load sees `queued` cleared, and pushes again. All
 * these accesses are sequentially consistent, except in row_store_state(), which needs the loaded
 * bytes alone.
 */
#ifndef PENSTOCK_READ_ROW_STORE_INTERNAL_H
#define PENSTOCK_READ_ROW_STORE_INTERNAL_H

#include "base/memory.h"
#include "read/row_index.h"
#include "read/row_store.h"

#include <stdatomic.h>
#include <stddef.h>

/* A row buffer: one line of memory, since each use finds the buffer in no cache. */
struct buffer {
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint64_t pending;
    uint64_t row;
    struct error *error;  /* of a FAILED buffer, malloc'ed; NULL: there was no memory */
    _Atomic int state;    /* enum row_state */
    int32_t next_ended;   /* valid while on the stack */
    int32_t next_free;    /* valid while free */
    int32_t tape;         /* while LOADING: of stored_rows_find() */
    int32_t fetch_buffer; /* while LOADING: of the fetch stage; FETCH_NONE: none */
    _Atomic bool queued;
    _Atomic bool kept;
    _Atomic bool incomplete; /* written by the worker, before the state */
    bool expected;           /* uses were expected since the claim */
};
_Static_assert(sizeof(struct buffer) == MEMORY_LINE_BYTES, "a line");

/* The buffers of one NUMA node. */
struct region {
    uint32_t first_buffer, buffer_count;
    uint32_t free_count;
    int32_t first_free;
    uint32_t enough; /* rows loading, for the NUMA node's workers not to run out of them soon */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint32_t loading_count; /* workers write it */
};
_Static_assert(offsetof(struct region, loading_count) == MEMORY_LINE_BYTES &&
                   sizeof(struct region) == 2 * MEMORY_LINE_BYTES,
               "a line of its own: workers read what is before for each sample");

struct row_store {
    struct pool *pool;
    size_t row_bytes;
    uint32_t buffer_count;
    uint32_t kept_count;   /* buffers whose row is kept */
    uint32_t region_count; /* one a NUMA node */
    struct region *regions;
    struct pool_memory *memory; /* of each region */
    struct buffer *buffers;
    struct row_index index;
    struct row_pages *pages;    /* NULL: none */
    struct stored_rows *stored; /* borrowed; NULL: none */
    struct fetch_stage *stage;  /* borrowed; NULL: none */
    int32_t
        fetched; /* a buffer whose fetched row waits for room in the workers' queue, or ROW_NONE */
    _Alignas(MEMORY_LINE_BYTES) _Atomic int32_t ended; /* top of the stack, ROW_NONE when empty */
};
_Static_assert(sizeof(struct row_store) == offsetof(struct row_store, ended) + MEMORY_LINE_BYTES,
               "a line of its own, likewise");

/* row_load.c: hands fetched rows to workers, as far as their queues have room. The owner. */
void row_load_submit_fetched(struct row_store *store);

#endif
