/* The fetch stage: chunks of rows on their way from a remote store, before a worker decodes them.
 *
 * A row waits, in order, for one of the stage's fetch buffers. A fetch buffer has memory for the
 * chunks of any row; of ragged fields, of a row of twice the mean (dataset_row_demand()). Once a
 * row has a fetch buffer, the stage asks for all its chunks at once (store/kind/fetch.h). When the
 * last chunk is there, or has failed, the stage wakes the owner, who hands the row to a worker. The
 * worker takes the fetched bytes instead of asking the store:
 *
 *     push --> waiting --> in flight --> fetched --> worker: read, give back
 *                           ^  |
 *                           +--+  indices of shards, where they are not known yet
 *
 * So a few workers keep hundreds of requests in flight. If an index is on its way for one row,
 * other rows that need the same index wait. A chunk or index that cannot be had becomes the error
 * of the read that needs it.
 *
 * A thread of the stage's own, the lister, lists what a row is read from. Listing may read the disk
 * cache. So the owner, who has others to serve, waits for nothing here.
 *
 * The owner (one thread) calls every function but fetch_stage_fetched() and
 * fetch_stage_give_back(), which the worker that has the fetch buffer calls. Nothing is allocated
 * after fetch_stage_new().
 */
#ifndef PENSTOCK_READ_FETCH_STAGE_H
#define PENSTOCK_READ_FETCH_STAGE_H

#include "base/error.h"
#include "base/waker.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

/* No fetch buffer, or no row buffer. */
enum { FETCH_NONE = -1 };

struct fetch_stage;

/* Returns how much memory a stage of at most `memory_bytes` takes, tables included. *ret_rows is
 * the number of its fetch buffers: the most rows on their way at once. Both are 0 for a dataset
 * that is not remote, and where not even one row fits. Pure. */
uint64_t fetch_stage_bytes(const struct dataset *dataset, uint64_t memory_bytes,
                           uint64_t *ret_rows);

/* Returns how much of fetch_stage_bytes() each fetch buffer takes. *ret_requests is the most
 * requests that a row takes. Both are 0 where fetch_stage_bytes() always is. Pure. */
uint64_t fetch_stage_row_bytes(const struct dataset *dataset, uint64_t *ret_requests);

/* Makes a stage for rows of up to `row_buffer_count` row buffers, and starts the lister. `dataset`
 * and `waker` are borrowed. *ret_stage is NULL, with status OK, where fetch_stage_bytes() is 0.
 * NO_MEMORY; IO: the lister cannot be started. */
MUST_USE enum status fetch_stage_new(const struct dataset *dataset, uint64_t memory_bytes,
                                     uint32_t row_buffer_count, struct waker *waker,
                                     struct fetch_stage **ret_stage, struct error *err);

/* Ends the lister, and waits for that, `timeout_ms` at most. No row may be wanted any more. False:
 * the lister still runs, for example because a disk cache hangs; then neither the stage nor the
 * dataset may be freed. NULL is fine. */
MUST_USE bool fetch_stage_stop(struct fetch_stage *stage, uint32_t timeout_ms);

/* Frees the stage. Waits for the lister without limit. If fetches are under way, ends all fetches
 * of the dataset's stores for good (dataset_stop_fetches()). No worker may use the stage. NULL is
 * fine. */
void fetch_stage_free(struct fetch_stage *stage);

/* Queues row `row` for `row_buffer` (0 to row_buffer_count - 1, not queued already). Never blocks.
 */
void fetch_stage_push(struct fetch_stage *stage, int32_t row_buffer, uint64_t row);

/* Takes the next row that is fetched. Returns its row buffer; *ret_fetch_buffer is the fetch
 * buffer, which belongs to the worker from now on. FETCH_NONE: no row is fetched now. Never blocks.
 */
int32_t fetch_stage_take(struct fetch_stage *stage, int32_t *ret_fetch_buffer);

/* The worker: what was fetched for the row, for dataset_read_row_with(). Borrowed until the fetch
 * buffer is given back. */
struct fetched;
struct fetched *fetch_stage_fetched(struct fetch_stage *stage, int32_t fetch_buffer);

/* The worker, when the row is read: gives the fetch buffer back. The owner is not woken here, but
 * when the worker's task ends. */
void fetch_stage_give_back(struct fetch_stage *stage, int32_t fetch_buffer);

#endif
