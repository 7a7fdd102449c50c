/* Plans a round: works out which of this reader's samples go where, and where those come from that
 * its trainers get.
 *
 * Sender and receiver count in the same order (by position), so that neither has to tell the other
 * what is in a message, or which.
 */
#ifndef PENSTOCK_MPI_ROUND_PLAN_H
#define PENSTOCK_MPI_ROUND_PLAN_H

#include "round.h"

/* Empties a round whose epoch, plan and windows are set. */
void round_reset(struct round *round, struct windows *windows);

/* Pool task: counts, fills and arrivals; indices, keys, validity and held fields into the local
 * slots. */
void round_plan_task(struct pool_worker *worker, void *round, uint64_t begin, uint64_t end);

/* The counts alone; touches no slot. Main thread, while stopping. */
void round_plan_counts(struct round *round);

#endif
