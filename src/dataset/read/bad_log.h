/* The bad log: chunks that could not be read and are masked, on their way from the workers that
 * find them to the main thread.
 *
 * A queue of 1024 chunks, allocated at the start. Workers add; the main thread takes. The same
 * chunk may come again in a later epoch, and the log does not notice.
 */
#ifndef PENSTOCK_DATASET_READ_BAD_LOG_H
#define PENSTOCK_DATASET_READ_BAD_LOG_H

#include "base/error.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stdint.h>

/* A bad chunk, and its samples. Travels between readers as plain bytes. */
struct bad_chunk {
    int32_t source; /* of a mix: the source's number; -1: no mix */
    char array[ZARR_PATH_BYTES];
    struct zarr_index_text chunk;
    uint64_t first_sample, sample_count;
    struct error cause; /* its message begins with array and chunk */
};

struct bad_log;

/* NO_MEMORY. */
MUST_USE enum status bad_log_new(struct bad_log **ret_log, struct error *err);

/* NULL is fine. */
void bad_log_free(struct bad_log *log);

/* Adds a copy of `bad`. False: the queue is full. Any thread. */
MUST_USE bool bad_log_add(struct bad_log *log, const struct bad_chunk *bad);

/* Takes the oldest chunk of the queue. False: the queue is empty, at the cost of one atomic load.
 * One thread. */
bool bad_log_take(struct bad_log *log, struct bad_chunk *ret_bad);

#endif
