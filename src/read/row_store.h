/* The row store: decoded rows in memory, prefetch buffer and cache in one.
 *
 * A fixed number of row buffers, allocated at the start and spread over NUMA nodes. With ragged
 * fields a row has pages besides its buffer (row_pages.h), which come and go with the buffer. The
 * owner claims a buffer for a row, has a worker fill the buffer, uses the row, and lets go of the
 * buffer. A row that is to be kept can be found until the end. Nothing is allocated after
 * row_store_new(), except the error of a failed row.
 *
 *     free --claim--> LOADING --worker--> READY (or FAILED)
 *                        READY: used `uses` times, then: kept ? stays, found again later : free
 *
 * The owner (one thread) calls all functions, except these. The worker that fills a buffer
 * calls row_store_loaded(), row_store_loaded_incomplete() or row_store_failed(), once. Any thread
 * may call row_store_used(). A worker may look at the buffer that it fills or uses. No function
 * blocks but row_store_new().
 */
#ifndef PENSTOCK_READ_ROW_STORE_H
#define PENSTOCK_READ_ROW_STORE_H

#include "base/error.h"
#include "read/fetch_stage.h"
#include "read/pool.h"
#include "read/row_pages.h"
#include "read/stored_rows.h"

#include <stdbool.h>

/* No buffer, and no NUMA node that is better than another. */
enum { ROW_NONE = -1 };
static const uint32_t ROW_ANY_NUMA = UINT32_MAX;

enum row_state { ROW_FREE, ROW_LOADING, ROW_READY, ROW_FAILED };

struct row_store;

/* Maps `buffer_count` buffers of `row_bytes` (a multiple of 64), spread evenly over the pool's NUMA
 * nodes and touched there. `pool` is borrowed. INVALID: no buffers, or a size that is not possible.
 * NO_MEMORY: the message has count and size. */
MUST_USE enum status row_store_new(struct pool *pool, size_t row_bytes, uint32_t buffer_count,
                                   struct row_store **ret_store, struct error *err);

/* To be called before the first claim, for a dataset with ragged fields: from now on a claim takes
 * the pages of its row, too. Errors as of row_pages_new(). */
MUST_USE enum status row_store_add_pages(struct row_store *store, const struct row_paging *paging,
                                         struct error *err);

/* No worker may use a buffer. NULL is fine. */
void row_store_free(struct row_store *store);

/* The buffer that holds row `row` (loading, ready or failed); ROW_NONE: none does. O(1). */
int32_t row_store_find(const struct row_store *store, uint64_t row);

/* Takes a free buffer for `row`, which must not be in the store, from the NUMA node `numa` where
 * the row is used, as long as the workers of all others have rows to load; else, and for
 * ROW_ANY_NUMA, from the one with the fewest rows loading. The buffer is LOADING, and no uses are
 * expected. ROW_NONE: no buffer is free now, or too few pages are (which cannot be if there are as
 * many pages as row_pages.h says). */
int32_t row_store_claim(struct row_store *store, uint64_t row, uint32_t numa);

/* Expects `uses` more uses of the buffer. */
void row_store_expect(struct row_store *store, int32_t buffer, uint64_t uses);

/* `count` uses of the buffer are over. Any thread. */
void row_store_used(struct row_store *store, int32_t buffer, uint64_t count);

/* Keeps the row after its last use, until the end, if the row is loaded whole. */
void row_store_keep(struct row_store *store, int32_t buffer);

/* Frees the buffers whose last use is over and whose row is not kept; returns how many. A claimed
 * buffer of which no use was expected yet stays. Also hands fetched rows to workers, if there is a
 * fetch stage. Costs one atomic load if no use has ended. */
uint32_t row_store_collect(struct row_store *store);

/* Frees a buffer at once, whatever is expected and whether the row is kept or not: for failed rows,
 * and for claims that are given up. Nobody may be filling or using the buffer. */
void row_store_drop(struct row_store *store, int32_t buffer);

/* Forgets all expected uses. A row that is ready and kept stays, any other ready row is freed. A
 * row on its way still comes, and is freed then, unless it is kept or its uses are expected again.
 * Nobody may be using a row. */
void row_store_forget_uses(struct row_store *store);

/* The worker: the row is loaded. Its bytes are visible to whoever sees READY. */
void row_store_loaded(struct row_store *store, int32_t buffer);

/* The worker: the row is loaded, but lacks samples that another load may get. Such a row is used,
 * and not kept. */
void row_store_loaded_incomplete(struct row_store *store, int32_t buffer);

/* The worker: the load failed. `err` is copied. */
void row_store_failed(struct row_store *store, int32_t buffer, const struct error *err);

/* Whether a claimed buffer is READY and lacks no sample. */
bool row_store_is_whole(const struct row_store *store, int32_t buffer);

/* Any thread. */
enum row_state row_store_state(const struct row_store *store, int32_t buffer);

/* Tells the CPU that the buffer's state or uses are looked at soon. Any thread. */
void row_store_prefetch(const struct row_store *store, int32_t buffer);

/* The error of a FAILED buffer; borrowed until the buffer is free. */
const struct error *row_store_error(const struct row_store *store, int32_t buffer);

/* The memory of a buffer: row_bytes, borrowed. Any thread. */
unsigned char *row_store_data(const struct row_store *store, int32_t buffer);

/* The pages of a claimed buffer's row, for dataset_read_row_with() and for copies. ret_pages is for
 * ret_pages->pages.at(). NULL, and *ret_pages untouched: the store has no pages. Any thread that
 * may look at the buffer. */
struct row_store_pages {
    struct dataset_pages pages;
    const struct row_pages *of;
    int32_t buffer;
};
const struct dataset_pages *row_store_pages(const struct row_store *store, int32_t buffer,
                                            struct row_store_pages *ret_pages);

/* The row of a claimed buffer. */
uint64_t row_store_row(const struct row_store *store, int32_t buffer);

/* The index of the NUMA node on which the buffer lies, among those of the placement. Any thread. */
uint32_t row_store_numa(const struct row_store *store, int32_t buffer);

/* How many buffers hold rows that are kept, or will be once they are loaded. */
uint32_t row_store_kept_count(const struct row_store *store);

/* How many buffers are free. */
uint32_t row_store_free_count(const struct row_store *store);

/* From now on, the load of a row that `stored` was asked to keep records the row there, and later
 * loads of the row play that record. `stored` is borrowed; NULL: none. */
void row_store_use_stored(struct row_store *store, struct stored_rows *stored);

/* From now on, rows go through `stage` before they are decoded, except rows recorded as stored.
 * row_store_collect() hands fetched rows to workers. `stage` is borrowed; NULL: none. */
void row_store_use_stage(struct row_store *store, struct fetch_stage *stage);

/* Starts the load of a claimed buffer: queues the row in the fetch stage, or submits a POOL_NORMAL
 * task to the workers of the buffer's NUMA node. False: the workers' queue is full. The pool must
 * have a dataset. */
MUST_USE bool row_store_load(struct row_store *store, int32_t buffer);

#endif
