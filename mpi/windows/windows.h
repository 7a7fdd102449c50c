/* Windows under way: from rank 0's assignment to rows in memory.
 *
 * A window goes through these stages, in order of serial. As many windows are under way at once as
 * the budget allows, so that rows of the next window are read while rounds use one. In a mix each
 * source has windows of its own, and all ranks come upon the windows of all sources in one order
 * (struct plan_merge). A serial counts a source's windows through all epochs of its plan.
 *
 *     ASSIGNING   workers of rank 0 give out the rows; then the broadcast is under way
 *     PLANNING    a worker lists this reader's samples of the window in the order they are due
 *     PLANNED     rows are claimed and read in that order; rounds take samples from it
 *
 * Main thread only, except windows_at() and windows_of_draw(); nothing blocks but windows_new().
 * Workers assign and plan. The plan's tables (plan/order/tables.h) have room for the epochs of all
 * windows under way; the main thread fills them where an epoch begins.
 */
#ifndef PENSTOCK_MPI_WINDOWS_WINDOWS_H
#define PENSTOCK_MPI_WINDOWS_WINDOWS_H

#include "job/session.h"
#include "windows/span.h"

#include <stdatomic.h>

struct window {
    uint32_t source;
    struct plan_epoch epoch; /* of the source's plan */
    struct plan_window plan;
    uint64_t first_draw; /* number of its first sample: see struct reach_source */
    uint64_t start;      /* samples at absolute positions before this one are not delivered */
    uint64_t run_epoch;  /* in which it is needed first */
    uint64_t *rows;      /* [rows] which row of the dataset each is; set when PLANNED */
    uint16_t
        *all_owners;  /* [partitions][rows] the reader of each row in each partition, from rank 0 */
    uint16_t *owners; /* [rows] in this reader's partition */
    int32_t *buffers; /* [rows] the buffer of each row of this reader; ROW_NONE until the
                       * row is claimed */
    uint32_t *uses;   /* [rows] samples of each row that this reader sends */
    struct round_item *items; /* this reader's samples, in the order they are due */
    uint64_t item_count;
    bool is_listed;     /* false: they are more than there is room for, and item_count is 0 */
    uint64_t read_next; /* first item whose row is not claimed yet */
    uint64_t fill_next; /* scratch of whoever lists a round: the next item to take */
    MPI_Request request;
    const struct partition_assigner *assigners; /* [partitions] NULL: rank 0 has them */
    uint64_t exchanged_samples;                 /* rank 0: as the assignment foresees */
    _Atomic uint64_t taken;                     /* rank 0: of the rows, by workers that assign */
    _Atomic uint32_t tasks;                     /* rank 0: of these workers, under way */
    _Atomic bool assigned;                      /* rank 0: they are done */
    _Atomic bool planned;                       /* the planning worker is done */
    const struct job *job;
};

struct windows;

MUST_USE enum status windows_new(const struct session *session, struct windows **ret_windows,
                                 struct error *err);

/* Frees. Rows that are being loaded go on. NULL is fine. */
void windows_free(struct windows *windows);

/* Moves all windows on. True if anything moved. */
bool windows_progress(struct windows *windows);

/* Whether a worker has the assigners. */
bool windows_is_assigning(const struct windows *windows);

/* Finds the windows that a round needs. False: not all of them are PLANNED. */
bool windows_find(const struct windows *windows, struct round_reach *reach);

/* Whether all windows that are found for the round have their samples listed. Else the round's are
 * found by their positions: places.h. Any thread. */
bool windows_are_listed(struct windows *windows, const struct round_reach *reach);

/* The window of that serial, which must be PLANNED and not retired; borrowed until it is retired.
 * Any thread. */
struct window *windows_at(struct windows *windows, uint32_t source, uint64_t serial);

/* The window that holds a draw of a round whose windows are found. Likewise. */
struct window *windows_of_draw(struct windows *windows, const struct round_reach *reach,
                               uint32_t source, uint64_t draw);

/* The most windows under way at once. */
size_t windows_capacity(const struct windows *windows);

/* What is counted for an epoch of the run. */
struct window_counts {
    uint64_t rows_read;         /* from the store */
    uint64_t exchanged_samples; /* rank 0: as its assignment foresees; zero on other ranks */
};

/* The counts of an epoch; counts anew from 0. To be called once the epoch is delivered. In a mix,
 * what is far ahead of the epoch taken last counts for an earlier one. */
struct window_counts windows_take_counts(struct windows *windows, uint64_t epoch);

/* Windows that this round, or one before it, needed are not needed any more: all but those that
 * later rounds may need. `step_over`: no later round has a stripe of the same step. */
void windows_retire(struct windows *windows, const struct round_reach *reach, bool step_over);

/* How many assignments this rank has posted (asked rank 0 for). All ranks must post the same number
 * before they stop. */
uint64_t windows_posted(const struct windows *windows);

/* Ends windows at once: posts assignments until there are `count`, completes all of them and plans
 * their windows, without workers and without reading. True: done; otherwise call again. */
bool windows_drain(struct windows *windows, uint64_t count);

#endif
