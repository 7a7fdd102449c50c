/* The fetch stage: chunks of rows on their way from a remote store, before a worker decodes them.
 *
 * Rows wait in order for one of the stage's fetch buffers, each with memory for whatever any row
 * takes. Once a row has a fetch buffer, all its chunks are asked for at once (store/fetch.h); when
 * the last one is there, or has failed, the owner is woken and hands the row to a worker, which
 * takes the bytes instead of asking the store:
 *
 *     push --> waiting --> in flight --> fetched --> worker: read, give back
 *                           ^  |
 *                           +--+  indices of shards, where they are not known yet
 *
 * So a few workers keep hundreds of requests in flight. An index that is on its way for one row is
 * waited for by the others that need it. What cannot be had becomes the error of the read that
 * needs it.
 *
 * What a row takes is listed by a thread of the stage's own, the lister, which may have to read the
 * disk cache for that: the owner, who has others to serve, waits for nothing here.
 *
 * Owner (one thread): everything but what says that the worker calls it. Nothing is allocated after
 * fetch_stage_new().
 */
#ifndef PENSTOCK_READ_FETCH_STAGE_H
#define PENSTOCK_READ_FETCH_STAGE_H

#include "base/error.h"
#include "base/waker.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

enum { FETCH_NONE = -1 };

struct fetch_stage;

/* What a stage of at most `memory_bytes` takes, tables included, and how many rows it has on their
 * way at most: 0 for a dataset that is not remote, or of whose rows not even one fits. Pure. */
uint64_t fetch_stage_bytes(const struct dataset *dataset, uint64_t memory_bytes,
                           uint64_t *ret_rows);

/* For up to `row_buffer_count` rows at once; `dataset` and `waker` are borrowed. *ret_stage is NULL
 * where fetch_stage_bytes() is 0. NO_MEMORY; IO: the lister cannot be started. */
MUST_USE enum status fetch_stage_new(const struct dataset *dataset, uint64_t memory_bytes,
                                     uint32_t row_buffer_count, struct waker *waker,
                                     struct fetch_stage **ret_stage, struct error *err);

/* Ends the thread that lists what rows take, as no row is to be read any more, and waits for it, at
 * most that long. False: it still runs, as it does where a disk cache hangs. Then the stage must
 * not be freed, nor its dataset. NULL is fine. */
MUST_USE bool fetch_stage_stop(struct fetch_stage *stage, uint32_t timeout_ms);

/* Ends the dataset's fetches, waits for them, frees. No worker may use the stage. NULL is fine. */
void fetch_stage_free(struct fetch_stage *stage);

/* Queues a row for `row_buffer` (0 to row_buffer_count - 1, not queued already). Never blocks. */
void fetch_stage_push(struct fetch_stage *stage, int32_t row_buffer, uint64_t row);

/* The next row that is fetched: its row buffer, and the fetch buffer in
 * *ret_fetch_buffer, which is the worker's then;
 * FETCH_NONE if there is none now. Never blocks. */
int32_t fetch_stage_take(struct fetch_stage *stage, int32_t *ret_fetch_buffer);

/* The worker: what was fetched for the row, for dataset_read_row_with(); borrowed until the buffer
 * is given back. */
struct fetched;
struct fetched *fetch_stage_fetched(struct fetch_stage *stage, int32_t fetch_buffer);

/* The worker, when the row is read. The owner is not woken: it is when the worker's task ends. */
void fetch_stage_give_back(struct fetch_stage *stage, int32_t fetch_buffer);

#endif
