/* Plans a round: works out where each of this reader's samples goes, and from where each of its
 * trainers' samples comes.
 *
 * Sender and receiver count samples in the same order, by position. So no message says which
 * samples it holds, or how many.
 */
#ifndef PENSTOCK_MPI_ROUNDS_ROUND_PLAN_H
#define PENSTOCK_MPI_ROUNDS_ROUND_PLAN_H

#include "rounds/round.h"

/* Empties a round whose reach is set, to be planned. `windows` is borrowed until the round is
 * retired. Main thread. */
void round_reset(struct round *round, struct windows *windows);

/* Empties a round that has been planned, to plan its pass `round->pass` of several. Main thread. */
void round_reset_pass(struct round *round);

/* Lets workers list the counts, fills and arrivals of a round that is reset, and the first time
 * write indices, keys, validity and held fields into the local slots. One worker does, or several
 * where looking up positions is much work (round_match.h). False: the pool has no room, and the
 * caller tries again. Main thread. */
MUST_USE bool round_plan_start(struct round *round);

/* Works out the counts alone, and touches no slot. Main thread, at an early end. */
void round_plan_counts(struct round *round);

#endif
