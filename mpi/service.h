/* The service loop: a session, from the first window to the last batch consumed.
 *
 * One thread, the main thread, turns a handful of state machines (trainers' sockets, windows,
 * rounds, the stop notice) until nothing moves any more, and then sleeps: on the waker and the
 * trainers' descriptors, for as long as MPI allows. Everything that takes time runs on the pool's
 * workers.
 */
#ifndef PENSTOCK_MPI_SERVICE_H
#define PENSTOCK_MPI_SERVICE_H

#include "job.h"
#include "rounds.h"

enum { SERVICE_MAX_EPOCH_STATS = 256 };

/* One epoch as this reader saw it. Later epochs than there is room for are added to the last entry.
 */
struct epoch_stats {
    uint64_t duration_ns;
    uint64_t steps;        /* that the trainer here which came furthest was given */
    uint64_t samples;      /* that trainers here were given: see tally.h */
    uint64_t rows_read;    /* from the store, for this epoch */
    uint64_t stored_bytes; /* read from the store meanwhile, as all that follows */
    uint64_t memory_bytes; /* instead of that, from rows kept as stored */
    uint64_t disk_bytes;   /* instead of that, from the node's disk cache */
    uint64_t decoded_bytes;
    uint64_t chunk_count;
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
struct epoch_stats *service_epoch(struct service_summary *summary, uint64_t epoch);

/* Collective. Serves until all is delivered and consumed, and adds to *summary, which is zero
 * before the first session. ENDED: the trainers left early. INTERRUPTED: a signal ended it in good
 * order, job->stopped_by and stop_cursor. Any other status: what went wrong. The same on all ranks.
 * *ret_again, with OK: a trainer was lost that is to be waited for; job_scatter() and job_gather()
 * come next. */
MUST_USE enum status service_run(struct job *job, bool quiet, struct service_summary *summary,
                                 bool *ret_again, struct error *err);

/* Collective: rank 0 appends the table of epochs and what bounded them to `out`, and the same as
 * one JSON document to `json`. */
void service_describe(const struct job *job, const struct service_summary *summary,
                      struct text *out, struct text *json);

#endif
