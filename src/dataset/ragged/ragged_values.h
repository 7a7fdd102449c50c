/* Reading all values of an array of values of variable length, chunk by chunk, by several threads
 * in bounded memory. Called while opening or holding a dataset. */
#ifndef PENSTOCK_DATASET_RAGGED_RAGGED_VALUES_H
#define PENSTOCK_DATASET_RAGGED_RAGGED_VALUES_H

#include "dataset/dataset_internal.h"

/* A decoded chunk: the values [first, first + count) of a store. */
struct values {
    void *bytes;       /* as of vlen_measure(); NULL: the chunk is missing, and all are empty */
    uint32_t *lengths; /* [count], in items; NULL likewise */
    uint64_t first, count;
};

struct values_reading {
    const struct dataset *dataset;
    const struct zarr_array *view;
    uint64_t threads; /* at most */
    uint64_t room;    /* bytes of chunks on their way, stored and decoded, of all threads */
    /* Called for each chunk in its turn, by one thread at a time. */
    enum status (*visit)(void *argument, const struct values *values, struct error *err);
    void *argument;
    _Atomic uint64_t missing; /* out: chunks that are not there */
    uint64_t most; /* out: the most bytes that any one chunk took while it was read; the larger one
                    * of that and what is there */
};

/* Reads all chunks. Blocks on the store. The error is that of the first chunk that fails, however
 * many threads there are. INVALID: a chunk takes more than the room; the message names chunk, sizes
 * and dataset.hold_limit. CORRUPT: a chunk is no chunk of such values, or is missing and must not
 * be. Others as of store_get() and visit(). */
MUST_USE enum status values_read(struct values_reading *values, struct error *err);

#endif
