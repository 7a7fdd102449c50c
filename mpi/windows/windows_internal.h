/* For the windows' own files; windows.h is for others. */
#ifndef PENSTOCK_MPI_WINDOWS_WINDOWS_INTERNAL_H
#define PENSTOCK_MPI_WINDOWS_WINDOWS_INTERNAL_H

#include "windows/item_merge.h"
#include "windows/windows.h"

#include "plan/rounds/locality.h"

/* The windows of one source live in a ring by serial number:
 *
 *     retired <= planned <= assigned <= posted <= retired + count
 */
struct window_source {
    const struct plan *plan;
    uint64_t count;
    uint64_t retired;  /* windows before this one are over, their entries free */
    uint64_t planned;  /* windows before this one are PLANNED */
    uint64_t assigned; /* windows before this one have their assignment */
    uint64_t posted;   /* windows before this one have been asked for */
    struct window *ring;
};

struct windows {
    const struct job *job;
    const struct session *session;
    uint64_t round_count;
    size_t capacity;         /* of all rings together */
    struct plan_merge order; /* in which windows are posted */
    uint64_t start;          /* absolute position of the first sample to deliver */
    uint64_t posted;         /* windows of all sources, in this session */
    struct window
        *assigning; /* the next one to post, of which a worker of rank 0 decides; or NULL */
    struct {
        uint64_t serial;
        struct round_reach reach;
        bool found;               /* windows_find(); and of the windows */
        bool listed;              /* windows_are_listed(); if they are not, claimed are */
        uint32_t range;           /* the ranges of positions before this one, and of this one */
        uint64_t position;        /* what is before this position */
        uint32_t claims;          /* in this turn */
    } reading;                    /* the round whose rows are being claimed */
    struct item_merge claims;     /* of that round, in a mix */
    struct locality_near near;    /* which trainers rows are near */
    bool rows_lie_near;           /* on the NUMA nodes of these trainers' rings */
    int32_t pending_load;         /* claimed, but its queue was full; ROW_NONE if there is none */
    uint64_t taken_epoch;         /* whose counts were taken last */
    struct tables tables;         /* of the sources, of their windows, and of `claims`, and */
    struct window_counts *counts; /* [capacity + 1] of the epochs under way, in turn */
    uint32_t source_count;
    struct window_source sources[];
};

/* windows.c */
struct window_counts *windows_counts_of(struct windows *windows, uint64_t epoch);

/* windows_assign.c: posts the next window once rank 0 has decided, which a worker does. True: it is
 * posted. */
bool windows_post(struct windows *windows);

/* The same without workers, at once. False: there is no room for a window. */
bool windows_post_now(struct windows *windows);

/* windows_read.c: goes on to read for a round, which may be behind the last one. */
void windows_read_for(struct windows *windows, uint64_t serial);

/* Claims rows round by round, which is the order in which they are filled from: so that a row that
 * waits for a buffer never waits for one that is due later. True if anything moved. */
bool windows_read_ahead(struct windows *windows);

#endif
