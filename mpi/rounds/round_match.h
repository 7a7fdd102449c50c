/* Matches a round: with order.placement local, finds the destination of each of its positions.
 *
 * Every reader looks up all positions of a round, other readers' too. In a large job looking up
 * takes most of a round's planning. So workers share it: each takes the next positions that nobody
 * has taken, until all are. The worker that is done last goes on with the plan.
 */
#ifndef PENSTOCK_MPI_ROUNDS_ROUND_MATCH_H
#define PENSTOCK_MPI_ROUNDS_ROUND_MATCH_H

#include "rounds/round.h"

/* Begins with a round whose reach is set. Main thread, before workers begin. */
void round_match_begin(struct round *round);

/* How many workers may share the looking up of the round, of `workers`; 1 or more. */
uint32_t round_match_workers(const struct round *round, uint32_t workers);

/* Looks up positions until all are taken. True for one caller alone: all are looked up, and
 * round_match_finish() may be called. Any worker. */
bool round_match_look_up(struct round *round);

/* Gives all positions their destinations. One thread. */
void round_match_finish(struct round *round);

#endif
