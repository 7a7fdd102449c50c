/* How a run ends, the same way for all ranks: at its end, on an error anywhere, when all trainers
 * have left.
 *
 *     any rank   reports an error, or that its trainers have left, to rank 0
 *     rank 0     decides, once, and broadcasts the stop notice: the outcome of the run
 *     all ranks  stop starting work, agree on the highest round and window that any of them has
 * posted, post and complete theirs up to there (without data), and so leave no collective half done
 *
 * One nonblocking broadcast a run carries the notice; nothing polls rank 0. Main thread only.
 */
#ifndef PENSTOCK_MPI_STOP_H
#define PENSTOCK_MPI_STOP_H

#include "comm.h"

#include <stdbool.h>

struct stop;

/* `serving_readers`: readers that serve any trainer. NO_MEMORY. */
MUST_USE enum status stop_new(const struct comm *comm, uint32_t serving_readers,
                              struct stop **ret_stop, struct error *err);

/* Reports this rank's first error; later ones are forgotten. Its rank and node are put into the
 * message. */
void stop_report_error(struct stop *stop, const struct error *error);

/* Reports that all trainers of this reader have said goodbye before the end. `error` says when.
 * Once. */
void stop_report_left(struct stop *stop, const struct error *error);

/* Rank 0: everything is delivered. */
void stop_decide_end(struct stop *stop);

/* Moves reports and the notice on; true if anything moved. */
bool stop_progress(struct stop *stop);

/* The outcome once the notice is here, else NULL: status OK, ENDED (the trainers left early), or an
 * error. */
const struct error *stop_outcome(const struct stop *stop);

/* Collective, after the notice: the maximum over all ranks of each of the `count` values, in place.
 */
void stop_agree_highest(struct stop *stop, uint64_t *values, int count);

void stop_free(struct stop *stop);

#endif
