/* Stored rows: rows as the store holds them (compressed), kept in memory for later epochs. Using
 * such a row again costs decoding, but no read.
 *
 * All stored bytes of a row come in a fixed sequence of chunk reads, so a row is kept as a tape
 * (zarr/chunk.h): the answers of the store, one after another. The owner asks for a row to be kept;
 * its next load records the tape, later loads play it instead of asking the store:
 *
 *     keep --> ASKED --load--> RECORDED --load, load, ...--> drop
 *                ^        |
 *                +--------+ the load failed, or was incomplete, or the arena was full
 *
 * Tapes lie in an arena of pages (page_arena.h). Each tape is a chain of pages, so that there is no
 * fragmentation but half a page a row:
 *
 *     tape   first_page -> | size | bytes ... | size | by |-> | tes ... | MISSING | size | b |->
 *            ...
 *
 * Nothing is allocated after stored_rows_new(). A full arena is no error: the row stays ASKED and
 * is read again from the store when it is needed again.
 *
 * Owner (one thread): everything but the worker's side below. To be kept apart from row_store.h's
 * "kept", which is for decoded rows; a row may be in both.
 */
#ifndef PENSTOCK_READ_STORED_ROWS_H
#define PENSTOCK_READ_STORED_ROWS_H

#include "base/error.h"
#include "read/pool.h"
#include "zarr/chunk.h"

#include <stdbool.h>
#include <stdint.h>

struct stored_rows;

/* How rows of about `mean_row_bytes` stored bytes (dataset_stored_row_bytes()) are laid out: what
 * one takes on average, with its tables and its share of half-used pages. For the budget: an arena
 * of n times this holds n rows, but for the spread of their sizes. */
uint64_t stored_rows_row_cost(uint64_t mean_row_bytes);

/* What rows of the dataset take in the store on average, and what one takes in memory, a twentieth
 * more for their spread; both 0 when rows are not to be kept as stored: not asked for (`wanted`),
 * or nothing is known of their size. Blocks on the store; IO. */
MUST_USE enum status stored_rows_estimate(const struct dataset *dataset, bool wanted,
                                          uint64_t *ret_mean_bytes, uint64_t *ret_cost_bytes,
                                          struct error *err);

/* Takes `memory_bytes` in all, tables included, laid out for rows of `mean_row_bytes` stored bytes
 * and no more than `row_limit` of them. Spread evenly over the pool's NUMA nodes, touched by their
 * workers. INVALID: room for no row at all. NO_MEMORY. */
MUST_USE enum status stored_rows_new(struct pool *pool, uint64_t memory_bytes,
                                     uint64_t mean_row_bytes, uint64_t row_limit,
                                     struct stored_rows **ret_rows, struct error *err);

/* No load may be under way. NULL is fine. */
void stored_rows_free(struct stored_rows *rows);

/* Asks that the next load of `row` records it; nothing if it is asked for or recorded already.
 * false: as many rows as there is room for are asked for or recorded. O(1). */
bool stored_rows_keep(struct stored_rows *rows, uint64_t row);

/* Forgets the row; nothing if it is neither asked for nor recorded. Its pages are free at once, or
 * when the load that records or plays it now is over. O(pages of the row). */
void stored_rows_drop(struct stored_rows *rows, uint64_t row);

/* Whether the next load of `row` will not touch the store. O(1). */
bool stored_rows_has(const struct stored_rows *rows, uint64_t row);

/* Whether stored_rows_keep() was called and stored_rows_drop() was not. O(1). */
bool stored_rows_is_asked(const struct stored_rows *rows, uint64_t row);

/* Bytes of the arena that a recorded row takes, whole pages; 0 if it is not recorded. O(1). */
uint64_t stored_rows_row_bytes(const struct stored_rows *rows, uint64_t row);

/* A snapshot; from any thread. */
struct stored_rows_stats {
    uint64_t arena_bytes;    /* pages, without tables */
    uint64_t used_bytes;     /* of those, by recorded rows and such as are being recorded */
    uint64_t recorded_rows;  /* that can be played, dropped ones that are being played included */
    uint64_t recorded_count; /* loads that recorded a row */
    uint64_t played_count;   /* loads that played one */
    uint64_t full_count;     /* recordings given up because the arena was full */
};
void stored_rows_stats(const struct stored_rows *rows, struct stored_rows_stats *ret_stats);

/* The worker's side, for row_store.c
 * ---------------------------------------------------------------------------------------------- */

enum { STORED_ROWS_NONE = -1 };

/* One load's work on a tape. */
struct stored_rows_pass {
    struct zarr_tape tape; /* for dataset_read_row_with() */
    struct stored_rows *rows;
    int32_t entry;
    uint32_t numa; /* pages are taken there first */
    int32_t first_page, page;
    uint32_t at;    /* in `page` */
    uint64_t bytes; /* recorded so far, or left to be played */
    uint64_t page_count;
    bool full;
};

/* Owner: what the load of `row` that is about to be submitted shall record or play;
 * STORED_ROWS_NONE if nothing. Each entry goes to stored_rows_start() and stored_rows_end(), or to
 * stored_rows_cancel() where the load did not come about. No two loads of one row at once. */
int32_t stored_rows_claim(struct stored_rows *rows, uint64_t row);
void stored_rows_cancel(struct stored_rows *rows, int32_t entry);

/* Worker: begins and ends the load. `loaded` tells whether it got all that can be had; if not, what
 * was recorded is thrown away. */
void stored_rows_start(struct stored_rows *rows, int32_t entry, uint32_t numa,
                       struct stored_rows_pass *ret_pass);
void stored_rows_end(struct stored_rows_pass *pass, bool loaded);

#endif
