/* The overview: rank 0 writes the metrics of readers of other nodes into a file of its run
 * directory (metrics/overview.h), while somebody looks, so that one `penstock top` shows the whole
 * job.
 *
 *     top  --lock--> rank 0  --ask--> rank r: its last snapshot  --answer--> rank 0 --> the file
 *
 * Rank 0 asks each reader of another node two or three times a second, a few at a time, and asks
 * again only when the answer is there: one message of some KiB is on its way from each reader at
 * most. While nobody looks, rank 0 makes a system call now and then, and the others test a receive.
 * Where all readers are on one node there is nothing to do. Main thread only.
 */
#ifndef PENSTOCK_MPI_ACCOUNT_OVERVIEW_H
#define PENSTOCK_MPI_ACCOUNT_OVERVIEW_H

#include "metrics/metrics.h"
#include "ranks/comm.h"

struct overview;

/* Makes the file in the run directory `dir`, on rank 0. `most_trainers`: of any reader. `comm` is
 * borrowed until overview_free(). Not collective: nothing is posted yet. *ret_overview is the
 * caller's; NULL: all readers are on one node. IO, NO_MEMORY. */
MUST_USE enum status overview_new(const struct comm *comm, int dir, uint32_t most_trainers,
                                  struct overview **ret_overview, struct error *err);

/* On all ranks, at the start of a session: from now on this rank answers. After this call
 * overview_end() has to be called. NULL is fine, as for all that follow. */
void overview_begin(struct overview *overview);

/* Moves on, now and then; never blocks. `snapshot` is this rank's own, as it is now. */
void overview_keep(struct overview *overview, uint64_t now_ns,
                   const struct metrics_snapshot *snapshot);

/* Collective, at the end of a session: asks and answers for the last time, and waits until nothing
 * is on its way. */
void overview_end(struct overview *overview, const struct metrics_snapshot *snapshot);

/* Frees. Not collective. */
void overview_free(struct overview *overview);

#endif
