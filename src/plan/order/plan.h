/* The plan: pure functions from (dataset shape, seed, epoch, batch) to who gets which sample when.
 *
 * Vocabulary. N samples lie in stores, one after another (one store, most of the time); those of
 * a store with n samples in ceil(n/C) chunk rows of C samples, of which its last may be short;
 * all M rows are numbered through. In epoch e the rows are put into a pseudo-random order; window j
 * takes the next `window_rows` of them; the samples of a window are put into a pseudo-random order
 * of their own; the epoch's sequence is the windows one after another. Step s is positions [s*B,
 * (s+1)*B); trainer t of T owns [t*B/T, (t+1)*B/T) of it:
 *
 *     rows, permuted   | r7 r2 r9 | r0 r5 r1 | r8 ...        window_rows = 3
 *     windows          |    0     |    1     |    2 ...
 *     positions        | 0 ................................. N |
 *     steps            |  0  |  1  |  2  |  3  | ...          B positions each
 *
 * With anchors (anchors.h) only some frames have samples. A row is then C frames with 0 to C
 * samples; M counts the rows that have any, and no other row is in the order. The tables for this
 * are in tables.h. With weights (weights.h) N and M are those of an epoch, which has a sample any
 * number of times, and a row's samples differ from epoch to epoch.
 *
 * Everything here is a function of its arguments: no I/O, no clock, no MPI, no table of all
 * samples. position -> sample and sample -> position cost O(1), and a search among the short rows
 * where there are any, or among the window's rows with anchors. The structs are plain values; all
 * functions are safe from any thread, but for plan_epoch_init() with anchors or cuts, and, with
 * cuts, plan_window_at() and what calls it (tables.h). Positions and samples are 64-bit throughout:
 * 10^10 samples work.
 */
#ifndef PENSTOCK_PLAN_ORDER_PLAN_H
#define PENSTOCK_PLAN_ORDER_PLAN_H

#include "anchors/anchors.h"
#include "base/error.h"
#include "plan/order/cuts.h"
#include "plan/permutation/permutation.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PLAN_MAX_STORES = 1024,
    PLAN_ORDER_VERSION = 1, /* of the algorithm: one more with whatever gives another order */
};

/* The fate of the N mod B samples that do not fill a step. */
enum plan_last {
    PLAN_DROP, /* they are not delivered in this epoch */
    PLAN_PAD,  /* the step is filled: positions from N on repeat the last window's sequence from its
                * start; those samples are delivered with valid = 0 */
    PLAN_PARTIAL, /* the last step is short: with b samples, trainer t gets [t*b/T, (t+1)*b/T) */
};

/* The names of batch.last, in the order of the enum. */
#define PLAN_LAST_NAMES "drop", "pad", "partial"

/* Which trainer gets which sample of a step. */
enum plan_placement {
    PLAN_FIXED, /* the one that the sample's position belongs to */
    PLAN_LOCAL, /* one that the sample's row is near: see locality.h */
};

/* The names of order.placement, in the order of the enum. */
#define PLAN_PLACEMENT_NAMES "fixed", "local"

struct plan_options {
    uint64_t sample_count; /* N, 1 .. 2^48 */
    uint64_t row_length;   /* C, in frames, 1 .. 2^32 - 1 */
    /* Where stores begin, in frames and in rows: [store_count + 1] each, from 0 to all of them.
     * Borrowed for as long as the plan, and all that is made of it, is used. NULL with a count of
     * 0: one store. */
    const uint64_t *store_frames, *store_rows;
    size_t store_count; /* at most PLAN_MAX_STORES */
    /* The frames that samples are at, in the same rows; borrowed as the stores are. NULL: every
     * frame is a sample. */
    const struct anchors *anchors;
    uint64_t window_rows;  /* 0: plan_default_window_rows() */
    uint64_t row_bytes;    /* for the default window: of the dataset, not of the machine */
    uint64_t window_batch; /* for the default window: samples of a step; 0: global_batch */
    uint64_t seed;
    bool shuffle;          /* false: the identity order */
    uint64_t global_batch; /* B, 1 .. 2^31 - 1 */
    enum plan_last last;
    uint32_t trainer_count; /* T, at most B */
    uint32_t locality;      /* 0: a position is its own destination; else a locality_number() */
    struct plan_cuts cuts;  /* zeros: steps have B samples. Else `last` must be PLAN_PARTIAL */
};

struct plan_mix;
struct plan_tables;

struct plan {
    uint64_t sample_count;  /* of an epoch; of a mix: position_count */
    uint64_t epoch_samples; /* sample_count; of a mix with cuts, whose epochs
                             * have unequal numbers of samples, the mean */
    uint64_t row_length;    /* frames of a row */
    uint64_t row_samples;   /* the most samples of a row: C without anchors */
    uint64_t row_count;     /* rows that have samples; with weights in an epoch */
    uint64_t ever_rows;     /* rows that have samples in any epoch */
    uint64_t copies;        /* how often an epoch has a sample at most: 1 without
                             * weights */
    bool weighted;          /* the anchors have weights: see weights.h */
    uint64_t all_rows;      /* rows that have samples, and rows that have none */
    uint64_t row_base;      /* the number of the first row: of a source of a mix,
                             * the rows of the sources before; else 0 */
    const uint64_t *store_frames, *store_rows; /* as in the options */
    size_t store_count;
    const struct anchors *anchors; /* as in the options */
    struct plan_tables *tables;    /* borrowed from plan_tables_new(); NULL where none are needed */
    uint64_t window_rows, window_count; /* of one epoch */
    uint64_t window_least, window_most; /* bounds of the samples of a window, but for the last one,
                                         * which may have fewer: */
    uint64_t last_least;                /* and that one at least so many */
    uint64_t seed;
    bool shuffle;
    uint64_t global_batch;
    enum plan_last last;
    uint32_t trainer_count;
    uint32_t locality; /* as in the options, or as settled later: see locality.h */
    uint32_t batch;    /* the most samples of a step that a trainer gets: B / T, rounded up */
    uint64_t steps_per_epoch;
    uint64_t position_count; /* positions of an epoch that are delivered: end of the last step. Of a
                              * mix with cuts each step has B, of which its samples are the first */
    uint64_t first_step;     /* absolute: of a mix, in the plan of a plan_epoch alone */
    struct plan_mix *mix;    /* borrowed from plan_mix_new(): see mix.h; NULL: there is none */
    struct plan_cuts cuts;   /* as in the options; of a mix the items alone */
    const uint64_t *step_begins; /* [steps_per_epoch + 1] with cuts, in the plan of a plan_epoch
                                  * alone: the first position of each step; else NULL, and so it is
                                  * in a mix's own plan */
    uint32_t source; /* which source of the mix this is the plan of; PLAN_ALL_SOURCES: it is
                      * the mix's own plan; 0 without a mix */
};
#define PLAN_ALL_SOURCES UINT32_MAX

/* How often a sample comes at most among so many positions of an epoch that follow one another:
 * once, unless it has a weight, or PLAN_PAD repeats a short last window. The plan is not of a mix.
 */
uint64_t plan_most_copies(const struct plan *plan, uint64_t positions);

/* The default of window_rows, from the dataset and the global batch alone, never from the cluster:
 * enough rows that a step mixes samples of many (8 steps' worth, at least 64 rows), at most 16 GiB
 * of them, at most all. `row_samples`: of a row, on average, rounded down. */
uint64_t plan_default_window_rows(uint64_t row_count, uint64_t row_samples, uint64_t row_bytes,
                                  uint64_t global_batch);

/* With anchors a pass over the rows. INVALID: a size out of its range, stores that are not all of
 * the N samples, anchors of other frames or rows, B < T, B > N with PLAN_DROP (no step at all), a
 * sample that is longer than a step's items. */
MUST_USE enum status plan_init(struct plan *ret_plan, const struct plan_options *options,
                               struct error *err);

/* With weights: the rows of an epoch that no epoch before had, on average. A pass over the rows. */
double plan_new_rows(const struct plan *plan, uint64_t epoch);

/* 64 bits of all that decides which sample stands where, for telling orders apart: XXH3-64 of
 *
 *     penstock order <PLAN_ORDER_VERSION>\n
 *     dataset <fingerprint, 16 hex digits>\n
 *     samples <N> rows <C> window <window_rows>\n
 *     stores <frames of the first> <of the second>...\n
 *     seed <seed> shuffle <0 or 1> batch <B> last <enum plan_last>\n
 *     placement local\n                                      only if it is
 *     anchors <anchors_hash(), 16 hex digits>\n              only if there are any
 *     budget <items> <plan_cuts_hash(), 16 hex digits>\n     only with cuts
 *
 * Of a mix the lines from the third on are instead
 *
 *     mix <position_count> seed <seed> batch <B> last <enum plan_last>\n
 *     placement local\n                                      only if it is
 *     source <weight> <id of its plan, with fingerprint 0>\n  for each source
 *     schedule <pieces> <mix_pieces_hash(), 16 hex digits>\n  only with one
 *
 * `window_rows` is what was settled, also where it was left to the default. The number of epochs
 * and of trainers is not in it: an order is the same however much of it is taken, and by how many.
 */
uint64_t plan_order_id(const struct plan *plan, uint64_t fingerprint);

/* A row that is shorter than C. */
struct plan_short {
    uint64_t row_position; /* in an epoch's permuted order */
    uint64_t lack_before;  /* samples that the short rows at earlier positions lack together */
};

/* The order of one epoch. */
struct plan_epoch {
    struct plan plan;
    uint64_t epoch;
    uint64_t window_key;
    uint64_t weight_key; /* of the samples of rows, with weights */
    struct permutation rows;
    const struct plan_counts *counts; /* borrowed from plan.tables; NULL: short rows are enough */
    const struct plan_cut *cut;       /* likewise; NULL without cuts */
    size_t short_count;
    struct plan_short shorts[PLAN_MAX_STORES + 1]; /* by row_position; one more behind the last */
};

/* With anchors a pass over the rows, and with cuts over the samples, unless plan.tables have this
 * epoch: see tables.h for how long they do. Of a mix's own plan the plan and the number are set
 * alone. */
void plan_epoch_init(struct plan_epoch *ret_epoch, const struct plan *plan, uint64_t epoch);

/* The row at position i of the epoch's row order, i < M: its number among all rows of the dataset,
 * or of the mix. All functions take and give rows by this number. */
uint64_t plan_row_at(const struct plan_epoch *epoch, uint64_t i);

/* The first frame of a row. */
uint64_t plan_row_first(const struct plan *plan, uint64_t row);

/* The frame of sample `offset` of a row. Without anchors frames are samples. With weights an offset
 * is row_length more for each copy of the sample that comes before in the epoch. */
uint64_t plan_frame_at(const struct plan *plan, uint64_t row, uint64_t offset);

/* The index of a sample's key: its frame, changed for each further copy. */
uint64_t plan_key_index(const struct plan *plan, uint64_t offset, uint64_t frame);

/* One window of an epoch: rows first_row_position .. +row_count of the row order, samples at
 * positions [first_position, first_position + sample_count). Refers to its epoch, which must stay
 * where it is. */
struct plan_window {
    uint64_t index;
    uint64_t first_row_position;
    uint64_t row_count;
    uint64_t first_position;
    uint64_t sample_count;
    uint64_t row_samples;       /* of each row but for the short ones */
    const uint32_t *row_begins; /* [row_count] samples of the rows before; NULL: of equal rows */
    const struct plan_short *shorts; /* [short_count], and one more: borrowed from the epoch */
    size_t short_count;
    bool shuffle;
    struct permutation samples;
    const struct plan_epoch *weighted; /* the epoch, with weights; else NULL */
    const uint32_t *numbers; /* [sample_count] with cuts: which sample, counted row after row, is at
                              * each position; NULL: as the permutation says */
    const uint32_t *positions; /* [sample_count] likewise: the position of each sample */
};

/* Window `index` < window_count. */
void plan_window_at(struct plan_window *ret_window, const struct plan_epoch *epoch, uint64_t index);

/* The window that holds position p < N. */
uint64_t plan_window_of(const struct plan_epoch *epoch, uint64_t position);

/* Samples of row `window_row` < row_count of the window: 1 .. C. */
uint64_t plan_window_row_samples(const struct plan_window *window, uint64_t window_row);

/* Where a sample lies within its window: row `window_row` of the window, and the sample's number in
 * the row. */
struct plan_location {
    uint64_t window_row;
    uint64_t offset;
};

/* Position (first_position <= p < first_position + sample_count) -> location, and back: with
 * weights from the number of the sample within those that its row has in the epoch, instead of the
 * offset. */
struct plan_location plan_location_at(const struct plan_window *window, uint64_t position);
uint64_t plan_position_of(const struct plan_window *window, struct plan_location location);

/* The frame of the sample at position p < position_count of the epoch, padding resolved.
 * Convenience for printing and checking; the service works window by window. */
uint64_t plan_sample_at(const struct plan_epoch *epoch, uint64_t position);

/* A position p < position_count with padding resolved: p itself below N, else the position it
 * repeats. */
uint64_t plan_unpad(const struct plan_epoch *epoch, uint64_t position);

/* Steps and positions. With cuts these functions, plan_local_batch_at(), plan_recipient_of() and
 * all functions of rounds that take a step or a position want the plan of its epoch: plan_epoch's.
 */

/* The first position of `step` <= steps_per_epoch; of the last one the end. */
uint64_t plan_step_first(const struct plan *plan, uint64_t step);

/* The step that has a position. */
uint64_t plan_step_of(const struct plan *plan, uint64_t position);

/* Samples of `step`: B, less in a PLAN_PARTIAL last step; with cuts 1 to B. Of a mix with cuts the
 * tables of its source must have the step: mix.h. */
uint64_t plan_step_samples(const struct plan *plan, uint64_t step);

struct plan_epoch;

/* The bound of the longest sample of `step`, which docs/inside/order.md defines; 0 without cuts.
 * Fills the window's table, unless plan_window_at() has been called for it. */
uint64_t plan_step_bound(const struct plan_epoch *epoch, uint64_t step);

/* Samples of a step on average, rounded up: B without cuts. */
static inline uint64_t plan_mean_samples(const struct plan *plan)
{
    return plan->cuts.items > 0
               ? (plan->epoch_samples + plan->steps_per_epoch - 1) / plan->steps_per_epoch
               : plan->global_batch;
}

/* The samples of a step that one trainer gets: positions [first, first + count). */
struct plan_local_batch {
    uint64_t first;
    uint32_t count;
};
struct plan_local_batch plan_local_batch_at(const struct plan *plan, uint64_t step,
                                            uint32_t trainer);

/* The recipient of a position: a trainer, which gets it as sample `offset` of its batch of a step.
 */
struct plan_recipient {
    uint64_t step;
    uint32_t trainer;
    uint32_t offset;
};
struct plan_recipient plan_recipient_of(const struct plan *plan, uint64_t position);

/* The trainer of sample `offset` of a step of so many samples. */
static inline uint32_t plan_trainer_of(const struct plan *plan, uint64_t offset, uint64_t samples)
{
    /* The one with floor(t*b/T) <= o < floor((t+1)*b/T) is the largest t with t*b < (o+1)*T. */
    return (uint32_t)(((offset + 1) * plan->trainer_count - 1) / samples);
}

/* The random key delivered with a sample, a function of (seed, epoch, index), where the index is
 * plan_key_index(). */
uint64_t plan_sample_key(uint64_t seed, uint64_t epoch, uint64_t index);

/* The same of many at a time, for a fraction of the cost each. `rows`: positions in the epoch's row
 * order, replaced by the rows that stand there. Locations: of consecutive positions, or of any, all
 * in `window`.
 */
void plan_rows_at(const struct plan_epoch *epoch, uint64_t *rows, size_t count);
void plan_locations_at(const struct plan_window *window, uint64_t first_position, size_t count,
                       struct plan_location *ret_locations);
void plan_locations_of(const struct plan_window *window, const uint64_t *positions, size_t count,
                       struct plan_location *ret_locations);
void plan_positions_of(const struct plan_window *window, const struct plan_location *locations,
                       size_t count, uint64_t *ret_positions);
/* With weights: replaces these numbers by offsets. */
void plan_offsets_settle(const struct plan_window *window, struct plan_location *locations,
                         size_t count);
void plan_sample_keys(uint64_t seed, uint64_t epoch, const uint64_t *indices, size_t count,
                      uint64_t *ret_keys);

#endif
