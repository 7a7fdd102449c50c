/* The books of a session: the time of each epoch, what it cost, and what it waited for.
 *
 * An epoch is closed when its last step is published, and the next one opened. What the pool's
 * workers did meanwhile counts in the epoch under way. Main thread only.
 */
#ifndef PENSTOCK_MPI_BOOKS_H
#define PENSTOCK_MPI_BOOKS_H

#include "base/progress.h"
#include "job.h"
#include "rounds.h"
#include "windows.h"

enum { SERVICE_MAX_EPOCH_STATS = 256 };

/* One epoch as this reader saw it. Later epochs than there is room for are added to the last entry.
 */
struct epoch_stats {
    uint64_t duration_ns;
    uint64_t steps;         /* that the trainer here which came furthest was given */
    uint64_t samples;       /* that trainers here were given: see tally.h */
    uint64_t rows_read;     /* from the store, for this epoch */
    uint64_t stored_bytes;  /* read from the store while the epoch was under way */
    uint64_t memory_bytes;  /* from rows kept as stored, while the epoch was under way */
    uint64_t disk_bytes;    /* from the node's disk cache, while the epoch was under way */
    uint64_t decoded_bytes; /* while the epoch was under way */
    uint64_t chunk_count;   /* decoded while the epoch was under way */
    uint64_t read_ns, decode_ns, copy_ns;               /* of all workers together */
    uint64_t plan_ns, fill_ns, scatter_ns, exchange_ns; /* see struct rounds_times */
    uint64_t sent_bytes;                                /* to other readers */
    uint64_t cpu_ns;                                    /* of this process */
    uint64_t stall_count; /* trainers that were waited for longer than delivery.stall_warning */
    uint64_t blocked_ns[BLOCK_COUNT];
};

struct service_summary {
    struct pool_stats counted; /* what epochs have so far: rows come between sessions, too */
    uint64_t session_count;
    uint64_t epoch_count;
    uint64_t first_epoch;
    struct epoch_stats epochs[SERVICE_MAX_EPOCH_STATS];
};

/* The entry of an epoch; those before the first one, where a session goes back, count in that. */
struct epoch_stats *books_epoch(struct service_summary *summary, uint64_t epoch);

struct books {
    const struct job *job;           /* borrowed */
    struct windows *windows;         /* borrowed */
    struct rounds *rounds;           /* borrowed */
    struct service_summary *summary; /* borrowed */
    uint64_t now_ns;                 /* start of this turn of the service loop */
    uint64_t published;              /* the cursor of the first step that is not published */
    bool finished;                   /* everything is published, the books are closed */
    uint64_t epoch;                  /* being delivered */
    uint64_t epoch_start_ns;
    uint64_t epoch_cpu_ns;           /* of this process, when the epoch began */
    struct rounds_times epoch_times; /* when the epoch began */
    bool said_serving;               /* a supervisor knows that the first batch is there */
    bool show_progress;              /* on rank 0, unless it is quiet */
    struct progress progress;
};

/* A session begins. */
void books_open(struct books *books, const struct job *job, struct windows *windows,
                struct rounds *rounds, struct service_summary *summary, bool quiet);

/* At each turn of the loop: looks at the clock, and puts the time since the last turn on the
 * account of what the oldest round waits for. */
void books_keep(struct books *books);

/* Everything is published: closes the last epoch. */
void books_finish(struct books *books);

/* The session is over before its time: what it did is counted, rows for later epochs included. */
void books_break_off(struct books *books);

/* A trainer is waited for, longer than delivery.stall_warning. */
void books_count_stall(struct books *books);

/* A line for the log as an epoch ends, of which trainers were given `samples`; the table with all
 * readers' figures comes at the end of the run. */
void books_announce(struct books *books, uint64_t epoch, uint64_t samples);

/* Ends the line that shows progress. */
void books_close(struct books *books);

#endif
