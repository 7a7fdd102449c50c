/* Trainers that stop consuming: who is waited for.
 *
 * All trainers get equally many batches, so one that keeps its slots holds up all others. That is
 * as it should be for a while (a checkpoint, an evaluation); after delivery.stall_warning it is
 * said who it is, and again when it has lasted twice as long, four times, and so on. In training
 * that is synchronous the others stop, too, with their slots full: those that have come least far
 * are named. Main thread only.
 */
#ifndef PENSTOCK_MPI_STALL_H
#define PENSTOCK_MPI_STALL_H

#include "job.h"

struct stall;

/* NO_MEMORY. `job` is borrowed. */
MUST_USE enum status stall_new(const struct job *job, struct stall **ret_stall, struct error *err);
void stall_free(struct stall *stall);

/* Looks at this reader's trainers, at most twice a second. `waiting`: nothing moves before one of
 * them releases a batch. True if there is something to say: *ret_warning; *ret_first tells whether
 * it was not said of this stall before. */
bool stall_look(struct stall *stall, uint64_t now_ns, bool waiting, struct error *ret_warning,
                bool *ret_first);

#endif
