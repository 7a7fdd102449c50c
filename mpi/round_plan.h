/* Plans a round: works out where each of this reader's samples goes, and from where each of its
 * trainers' samples comes.
 *
 * Sender and receiver count samples in the same order, by position. So no message says which
 * samples it holds, or how many.
 */
#ifndef PENSTOCK_MPI_ROUND_PLAN_H
#define PENSTOCK_MPI_ROUND_PLAN_H

#include "round.h"

/* Empties a round whose reach is set, to be planned. `windows` is borrowed until the round is
 * retired. Main thread. */
void round_reset(struct round *round, struct windows *windows);

/* Pool task, which one worker runs: lists the counts, fills and arrivals of `round`, a struct
 * round; writes indices, keys, validity and held fields into the local slots. */
void round_plan_task(struct pool_worker *worker, void *round, uint64_t begin, uint64_t end);

/* Works out the counts alone, and touches no slot. Main thread, at an early end. */
void round_plan_counts(struct round *round);

#endif
