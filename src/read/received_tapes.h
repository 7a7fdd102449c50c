/* Tapes that came from another reader: a fixed number of buffers, each for the tape of one row
 * (stored_rows.h). The owner takes a buffer, has a tape received into the buffer, and hands the
 * buffer to the row store (row_store_load_tape()); the worker that loads the row gives it back.
 *
 * Buffers are spread over the pool's NUMA nodes and touched there. Nothing is allocated after
 * received_tapes_new(). The owner (one thread) calls every function, except where a comment says
 * otherwise.
 */
#ifndef PENSTOCK_READ_RECEIVED_TAPES_H
#define PENSTOCK_READ_RECEIVED_TAPES_H

#include "base/error.h"
#include "read/stored_rows.h"

/* No buffer. */
enum { RECEIVED_NONE = -1 };

struct received_tapes;

/* Makes `count` buffers (at least one) of `buffer_bytes`, or a few less: as many on each NUMA node;
 * where there are fewer buffers than NUMA nodes, one on each of the first ones. NO_MEMORY. */
MUST_USE enum status received_tapes_new(struct pool *pool, uint32_t count, uint32_t buffer_bytes,
                                        struct received_tapes **ret_tapes, struct error *err);

/* No load may be under way. NULL is fine. */
void received_tapes_free(struct received_tapes *tapes);

/* How many buffers there are: their numbers are 0 .. count - 1. */
uint32_t received_tapes_count(const struct received_tapes *tapes);

/* Takes a buffer, of the NUMA node `numa` if one is free there. RECEIVED_NONE: none is free now. */
int32_t received_tapes_take(struct received_tapes *tapes, uint32_t numa);

/* Whether received_tapes_take() gives a buffer. */
bool received_tapes_has_free(const struct received_tapes *tapes);

/* The memory of a buffer; borrowed. Any thread. */
unsigned char *received_tapes_memory(const struct received_tapes *tapes, int32_t buffer);

/* Gives a buffer back. Any thread. */
void received_tapes_give_back(struct received_tapes *tapes, int32_t buffer);

/* The worker: begins to play a tape of `bytes`. ret_pass->tape is for dataset_read_row_with(). */
void received_tapes_start(struct received_tapes *tapes, int32_t buffer, uint64_t bytes,
                          struct stored_rows_pass *ret_pass);

#endif
