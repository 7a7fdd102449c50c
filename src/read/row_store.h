/* The row store: decoded rows in memory, prefetch buffer and cache in one.
 *
 * A fixed number of row buffers, allocated at start, spread over NUMA nodes. The owner claims a
 * buffer for a row, has a worker fill it, uses it, and lets go of it; a row that is to be kept
 * stays findable until the end. Nothing is allocated after row_store_new(), but for the
 * error of a failed row.
 *
 *     free --claim--> LOADING --worker--> READY (or FAILED)
 *                        READY: used `uses` times, then: kept ? stays, found again later : free
 *
 * All functions belong to the owner (one thread), except row_store_loaded(),
 * row_store_loaded_incomplete() and row_store_failed(), of which the worker that fills the buffer
 * calls once, and row_store_used(), which any worker may call.
 */
#ifndef PENSTOCK_READ_ROW_STORE_H
#define PENSTOCK_READ_ROW_STORE_H

#include "base/error.h"
#include "read/fetch_stage.h"
#include "read/pool.h"
#include "read/stored_rows.h"

#include <stdbool.h>

enum { ROW_NONE = -1 };

enum row_state { ROW_FREE, ROW_LOADING, ROW_READY, ROW_FAILED };

struct row_store;

/* Maps `buffer_count` buffers of `row_bytes`, spread evenly over the pool's NUMA nodes and touched
 * there. NO_MEMORY: the message has count and size. */
MUST_USE enum status row_store_new(struct pool *pool, size_t row_bytes, uint32_t buffer_count,
                                   struct row_store **ret_store, struct error *err);
void row_store_free(struct row_store *store);

/* The buffer that holds row `row` (loading or ready), ROW_NONE if there is none. O(1). */
int32_t row_store_find(const struct row_store *store, uint64_t row);

/* Takes a free buffer for `row`, in state LOADING with no uses; from the NUMA node with the fewest
 * rows loading. ROW_NONE: no buffer is free now. The row must not be in the store. */
int32_t row_store_claim(struct row_store *store, uint64_t row);

/* Adds `uses` to what is still to come from this buffer. */
void row_store_expect(struct row_store *store, int32_t buffer, uint64_t uses);

/* `count` uses are over. From any thread. */
void row_store_used(struct row_store *store, int32_t buffer, uint64_t count);

/* Keeps the row after its last use, until the end, if it is loaded whole. */
void row_store_keep(struct row_store *store, int32_t buffer);

/* Frees the buffers whose last use is over and that are not kept. A claimed buffer of which nothing
 * was expected yet stays. One atomic load when there are none. Returns how many. */
uint32_t row_store_collect(struct row_store *store);

/* Frees a buffer at once, whatever is expected of it and kept or not: for failed rows and claims
 * that are given up. Nobody may be filling or using it. */
void row_store_drop(struct row_store *store, int32_t buffer);

/* Forgets all that is expected: of rows that are ready those that are kept stay, and of those on
 * their way each comes, and is freed then unless it is kept or expected again. Nobody may be using
 * a row. */
void row_store_forget_uses(struct row_store *store);

/* The worker's answers. `err` is copied. Loaded bytes are visible to whoever sees READY. A row that
 * was loaded incomplete lacks samples that may be had another time: it is used, but not kept. */
void row_store_loaded(struct row_store *store, int32_t buffer);
void row_store_loaded_incomplete(struct row_store *store, int32_t buffer);
void row_store_failed(struct row_store *store, int32_t buffer, const struct error *err);

/* Whether a buffer in use is READY and lacks nothing. */
bool row_store_is_whole(const struct row_store *store, int32_t buffer);

enum row_state row_store_state(const struct row_store *store, int32_t buffer);

/* The error of a FAILED buffer; borrowed until the buffer is free. */
const struct error *row_store_error(const struct row_store *store, int32_t buffer);

unsigned char *row_store_data(const struct row_store *store, int32_t buffer);
uint64_t row_store_row(const struct row_store *store, int32_t buffer);
uint32_t row_store_numa(const struct row_store *store, int32_t buffer);
uint32_t row_store_free_count(const struct row_store *store);

/* From now on rows that `stored` (borrowed, may be NULL) was asked to keep are recorded there when
 * they are loaded, and loaded from there once it has them. */
void row_store_use_stored(struct row_store *store, struct stored_rows *stored);

/* From now on rows go through `stage` (borrowed, may be NULL) before they are decoded, but for
 * those held as stored; row_store_collect() hands on what has been fetched. */
void row_store_use_stage(struct row_store *store, struct fetch_stage *stage);

/* Submits the read of a claimed buffer to its NUMA node's workers, as a POOL_NORMAL task; false
 * when their queue is full. With a fetch stage, it is queued there. The pool must have
 * a dataset. */
MUST_USE bool row_store_load(struct row_store *store, int32_t buffer);

#endif
