/* The inside of a row store, shared by row_store.c (buffers, and what becomes of them) and
 * row_load.c (filling them).
 *
 * Buffers lie one after another in one region of memory per NUMA node, touched by its
 * workers. What the owner alone needs (rows, free lists, the index) is plain; what workers change
 * is atomic:
 *
 *   state    LOADING -> READY or FAILED, by the worker that fills the buffer
 *   pending  uses still to come; whoever takes it to 0 pushes the buffer on the `ended` list
 *   ended    a lock-free stack of buffers to look at; the owner takes all of it at once
 *
 * `ended` is a hint, not a verdict: more uses may be expected of a buffer after it was pushed, or
 * it may have been dropped and claimed anew, so row_store_collect() decides by what it finds then.
 * A load that ends pushes, too: its row may be one that nobody wants any more.
 * A buffer is on the stack at most once: `queued` is set before the push and cleared by the owner
 * before it looks at `pending` and `state`, so that either the owner sees the last use or the end
 * of the load, or who did that sees `queued` cleared and pushes again. (All of these are
 * sequentially consistent, but for row_store_state(), which looks at what was loaded alone.)
 */
#ifndef PENSTOCK_READ_ROW_STORE_INTERNAL_H
#define PENSTOCK_READ_ROW_STORE_INTERNAL_H

#include "read/row_index.h"
#include "read/row_store.h"

#include <stdatomic.h>

struct buffer {
    _Atomic int state; /* enum row_state */
    _Atomic uint64_t pending;
    _Atomic bool queued;
    int32_t next_ended;   /* valid while on the stack */
    int32_t next_free;    /* valid while free */
    int32_t tape;         /* of stored_rows_claim(), while LOADING */
    int32_t fetch_buffer; /* of the fetch stage, with a worker; FETCH_NONE: none */
    uint64_t row;
    uint32_t numa;
    bool kept;
    bool incomplete;     /* written by the worker, before the state */
    bool expected;       /* something was, since the claim */
    struct error *error; /* of a FAILED buffer, malloc'ed; NULL when even that failed */
};

struct region {
    uint32_t first_buffer, buffer_count;
    uint32_t free_count;
    int32_t first_free;
    _Atomic uint32_t loading_count;
};

struct row_store {
    struct pool *pool;
    size_t row_bytes;
    uint32_t buffer_count;
    uint32_t region_count; /* one a NUMA node */
    struct region *regions;
    struct pool_memory *memory; /* of each region */
    struct buffer *buffers;
    struct row_index index;
    struct stored_rows *stored; /* borrowed; NULL: none */
    struct fetch_stage *stage;  /* borrowed; NULL: none */
    int32_t fetched;            /* a buffer whose row waits for room in the queue, or ROW_NONE */
    _Atomic int32_t ended;      /* top of the stack, ROW_NONE when empty */
};

/* row_load.c: hands rows that have been fetched to workers. */
void row_load_submit_fetched(struct row_store *store);

#endif
