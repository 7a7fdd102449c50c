/* Stored rows: rows as the store holds them (compressed), kept in memory for later epochs. Using
 * such a row again costs decoding, but no read.
 *
 * All stored bytes of a row come in a fixed sequence of chunk reads. So a row is kept as a tape
 * (zarr/chunk/chunk.h): the answers of the store, one after another. The owner asks for a row to be
 * kept. The next load of the row records the tape. Later loads play the tape instead of asking the
 * store, until the end:
 *
 *     keep --> ASKED --load--> RECORDED --load, load, ...
 *                ^        |
 *                +--------+ the load failed, or was incomplete, or the arena was full
 *
 * Tapes lie in an arena of pages (page_arena.h). Each tape is a chain of pages, so half a page a
 * row is the only waste:
 *
 *     tape   first_page -> | size | bytes ... | size | by |-> | tes ... | MISSING | size | b |->
 *            ...
 *
 * Nothing is allocated after stored_rows_new(). A full arena is no error: the row stays ASKED, and
 * its next load reads the store again.
 *
 * The owner (one thread) calls every function, except where a comment says otherwise. "Kept" in
 * row_store.h means decoded rows. A row may be kept in both ways.
 */
#ifndef PENSTOCK_READ_STORED_ROWS_H
#define PENSTOCK_READ_STORED_ROWS_H

#include "base/error.h"
#include "read/pool.h"
#include "zarr/chunk/chunk.h"

#include <stdbool.h>
#include <stdint.h>

struct page_arena;
struct stored_rows;

/* How much memory a row of about `mean_row_bytes` stored bytes (dataset_stored_row_bytes()) takes
 * on average, with its tables and its share of half-used pages. For the budget: n times as much
 * memory holds n rows, but for the spread of their sizes. Pure. */
uint64_t stored_rows_row_cost(uint64_t mean_row_bytes);

/* *ret_mean_bytes is how many bytes a row takes in the store on average. *ret_cost_bytes is how
 * much memory a stored row takes, a twentieth more for the spread of sizes. Both are 0 if rows are
 * not to be kept as stored (`wanted` is false), or nothing is known of their size. Blocks on the
 * store. Errors as of dataset_stored_row_bytes(). Any thread. */
MUST_USE enum status stored_rows_estimate(const struct dataset *dataset, bool wanted,
                                          uint64_t *ret_mean_bytes, uint64_t *ret_cost_bytes,
                                          struct error *err);

/* Takes `memory_bytes` in all, tables included, for at most `row_limit` rows of about
 * `mean_row_bytes` stored bytes. The memory is spread evenly over the pool's NUMA nodes and touched
 * by their workers. INVALID: there is no room for even one row. NO_MEMORY. */
MUST_USE enum status stored_rows_new(struct pool *pool, uint64_t memory_bytes,
                                     uint64_t mean_row_bytes, uint64_t row_limit,
                                     struct stored_rows **ret_rows, struct error *err);

/* No load may be under way. NULL is fine. */
void stored_rows_free(struct stored_rows *rows);

/* Asks that the next load of `row` records the row. Does nothing if the row is ASKED or RECORDED
 * already. False: there is no room for another row. O(1). */
bool stored_rows_keep(struct stored_rows *rows, uint64_t row);

/* Whether `row` is RECORDED, so that its next load will not ask the store. O(1). */
bool stored_rows_has(const struct stored_rows *rows, uint64_t row);

/* A snapshot. */
struct stored_rows_stats {
    uint64_t arena_bytes;   /* pages, without tables */
    uint64_t used_bytes;    /* pages of recorded rows, and of rows that are being recorded */
    uint64_t recorded_rows; /* rows on tape */
    uint64_t played_count;  /* loads that played a row */
    uint64_t full_count;    /* recordings given up because the arena was full */
};

/* Any thread. */
void stored_rows_stats(const struct stored_rows *rows, struct stored_rows_stats *ret_stats);

/* The worker's side, for row_load.c
 * ---------------------------------------------------------------------------------------------- */

/* No entry. */
enum { STORED_ROWS_NONE = -1 };

/* One load's work on a tape. */
struct stored_rows_pass {
    struct zarr_tape tape; /* for dataset_read_row_with() */
    struct stored_rows *rows;
    struct page_arena *arena; /* where the tape lies */
    int32_t entry;
    uint32_t numa;      /* pages are taken there first */
    int32_t first_page; /* of the tape */
    int32_t page;       /* where the pass is; NO_PAGE: before the first page */
    size_t at;          /* offset in `page` */
    uint64_t bytes;     /* recorded so far, or left to be played */
    bool full;          /* the arena was full */
};

/* The owner, before submitting the load of `row`: returns the entry that the load is to record or
 * play; STORED_ROWS_NONE: there is none. No other load of the row may be under way. O(1). */
int32_t stored_rows_find(const struct stored_rows *rows, uint64_t row);

/* The worker: begins the load. ret_pass->tape is for dataset_read_row_with(). `numa` is the NUMA
 * node that pages are taken from first. */
void stored_rows_start(struct stored_rows *rows, int32_t entry, uint32_t numa,
                       struct stored_rows_pass *ret_pass);

/* The worker: ends the load. `loaded`: the load got the whole row; if not, a recording is thrown
 * away. */
void stored_rows_end(struct stored_rows_pass *pass, bool loaded);

#endif
