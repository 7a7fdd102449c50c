/* For the windows' own files; windows.h is for others. */
#ifndef PENSTOCK_MPI_WINDOWS_INTERNAL_H
#define PENSTOCK_MPI_WINDOWS_INTERNAL_H

#include "item_merge.h"
#include "tapes.h"
#include "windows.h"

/* The windows of one source live in a ring by serial number:
 *
 *     retired <= planned <= assigned <= posted <= retired + count
 *
 * A window whose rows this reader has yet to send as stored is not retired.
 */
struct window_source {
    const struct plan *plan;
    uint64_t count;
    uint64_t retired;  /* windows before this one are over, their entries free */
    uint64_t planned;  /* windows before this one are PLANNED */
    uint64_t assigned; /* windows before this one have their assignment */
    uint64_t posted;   /* windows before this one have been asked for */
    uint64_t released; /* windows before this one are over for rounds */
    struct window *ring;
};

/* What is counted for an epoch of the run. */
struct window_counts {
    uint64_t rows_read; /* from the store */
    uint64_t tape_bytes;
    struct window_ways ways;
};

/* A round whose rows are being claimed, or sent as stored. */
struct windows_round {
    uint64_t serial;
    struct round_reach reach;
    bool found; /* windows_find() */
};

struct windows {
    struct job *job;
    uint64_t round_count;
    size_t capacity;         /* of all rings together */
    struct plan_merge order; /* in which windows are posted */
    uint64_t start;          /* absolute position of the first sample to deliver */
    uint64_t posted;         /* windows of all sources, in this session */
    struct windows_round reading;
    struct item_merge claims;     /* of that round, in a mix */
    int32_t pending_load;         /* claimed, but its queue was full; ROW_NONE if there is none */
    uint64_t taken_epoch;         /* whose counts were taken last */
    struct window_counts *counts; /* [capacity + 1] of the epochs under way, in turn */
    struct tapes *tapes;          /* NULL: rows are not sent as stored */
    struct windows_round sending;
    uint64_t unmeasured; /* windows that are assigned before any rate is measured */
    uint32_t source_count;
    struct window_source sources[];
};

/* windows.c */
struct window_counts *windows_counts_of(struct windows *windows, uint64_t epoch);

/* Retires what rounds do not need any more, but for what is to be sent. */
void windows_retire_released(struct windows *windows);

/* windows_read.c: goes on to a round, which may be behind the last one. */
void windows_go_to(const struct windows *windows, struct windows_round *round, uint64_t serial);

/* Claims rows round by round, which is the order in which they are filled from: so that a row that
 * waits for a buffer never waits for one that is due later. True if anything moved. */
bool windows_read_ahead(struct windows *windows);

/* Sends rows that others want as stored. Round by round, as others claim these rows, once this
 * reader has claimed its own rows of earlier rounds. So a row that is due later never holds up
 * another one: neither here, where it waits for its tape or for a buffer, nor where it is received.
 * True if anything moved. */
bool windows_send_ahead(struct windows *windows);

#endif
