/* Windows under way: from rank 0's assignment to rows in memory.
 *
 * A window goes through these stages, in order of serial; as many windows as the budget allows are
 * under way at once, so that the next one is read while one is used:
 *
 *     ASSIGNING   rank 0 has given out the rows, the broadcast is under way
 *     PLANNING    a worker lists this reader's samples of the window in the order they are due
 *     PLANNED     rows are claimed and read in that order; rounds take samples from it
 *
 * The main thread calls everything, but for windows_at() and windows_serial_of(); the planning runs
 * on a worker.
 */
#ifndef PENSTOCK_MPI_WINDOWS_H
#define PENSTOCK_MPI_WINDOWS_H

#include "job.h"

#include <stdatomic.h>

struct window {
    struct plan_epoch epoch;
    struct plan_window plan;
    uint16_t *owners;         /* [rows] from rank 0 */
    int32_t *buffers;         /* [rows] where this reader's rows are; ROW_NONE until claimed */
    uint32_t *uses;           /* [rows] samples of each row that this reader sends */
    struct round_item *items; /* this reader's samples, in the order they are due */
    uint64_t item_count;
    uint64_t read_next; /* first item whose row is not claimed yet */
    uint64_t fill_next; /* first item that no round has taken; moved by rounds */
    MPI_Request request;
    _Atomic bool planned; /* the worker is done */
    const struct job *job;
};

struct windows;

MUST_USE enum status windows_new(struct job *job, struct windows **ret_windows, struct error *err);

/* Rows that are on their way go on. NULL is fine. */
void windows_free(struct windows *windows);

/* Moves everything on; true if anything moved. */
bool windows_progress(struct windows *windows);

/* Whether the window is PLANNED. */
bool windows_planned(const struct windows *windows, uint64_t serial);

/* A window that is PLANNED and not retired. From any thread. */
struct window *windows_at(struct windows *windows, uint64_t serial);

/* The serial of the window that holds a position (padding resolved) of an epoch. From any thread.
 */
uint64_t windows_serial_of(const struct windows *windows, const struct plan_epoch *epoch,
                           uint64_t position);

/* Rows of an epoch that were read from the store, once it is delivered; counts anew from 0. */
uint64_t windows_take_rows_read(struct windows *windows, uint64_t epoch);

/* Windows before `serial` are not needed any more. */
void windows_retire(struct windows *windows, uint64_t serial);

/* How many assignments this rank has asked for; all ranks must come to the same number before they
 * stop. */
uint64_t windows_posted(const struct windows *windows);

/* Stop: posts until `count` assignments are asked for and completes and plans all of them, without
 * workers and without reading; true when done. To be called again until then. */
bool windows_drain(struct windows *windows, uint64_t count);

#endif
