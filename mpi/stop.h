/* How a session ends, the same way for all ranks: when all trainers have left, on the first error
 * anywhere, or when a trainer is lost that will be there again.
 *
 *   1. Any rank tells rank 0 of an error or a loss, or that it has nobody left to serve.
 *   2. Rank 0 decides, once, and broadcasts the stop notice: the outcome of the session.
 *   3. All ranks stop starting work, agree on the highest round and window that any of them has
 *      posted, and post and complete theirs up to there, without data.
 *
 * So nobody leaves a collective half done, and an error counts until the last trainer has consumed
 * its last batch. One nonblocking broadcast a session carries the notice; nothing polls rank 0.
 * Main thread only.
 */
#ifndef PENSTOCK_MPI_STOP_H
#define PENSTOCK_MPI_STOP_H

#include "comm.h"

#include <stdbool.h>

struct stop;

/* NO_MEMORY. Not collective: nothing is posted yet. */
MUST_USE enum status stop_new(const struct comm *comm, struct stop **ret_stop, struct error *err);

/* Collective: from here on stop_free() is, too. */
void stop_begin(struct stop *stop);

/* Tells rank 0 of this rank's first error; later ones are forgotten. Its rank and node are put into
 * the message. */
void stop_event_error(struct stop *stop, const struct error *error);

/* The same for the loss of a trainer that is to be waited for: the session ends, not the run. */
void stop_event_restart(struct stop *stop, const struct error *loss);

/* Asks for an orderly end because of a signal: all ranks go on up to the same round, publish it,
 * and are done. In two steps, neither of which blocks: rank 0 tells all of the signal; all say
 * where they cannot turn back any more, and the furthest of these is where all end. */
void stop_event_drain(struct stop *stop, int signal_number);

/* The signal because of which the run is to end in good order, on all ranks; 0: none. */
int stop_drains(const struct stop *stop);

/* Collective, once stop_drains(): this rank ends after `rounds` rounds at the earliest. */
void stop_offer_end(struct stop *stop, uint64_t rounds);

/* Whether all have said so, and the most that any of them has offered. */
bool stop_agreed_end(struct stop *stop, uint64_t *ret_rounds);

/* Has rank 0 print a warning, with this rank and its node in front; nothing if an earlier one is
 * still on its way there. */
void stop_event_warning(struct stop *stop, const struct error *warning);

/* Tells of the first of this reader's trainers that said goodbye before the end, and that all of
 * them have said it. */
void stop_event_early(struct stop *stop, const struct error *early);
void stop_event_left(struct stop *stop);

/* On rank 0, now and then: two seconds after a trainer has left early, if others are there still,
 * it is warned of, once, or is the outcome. All that mean to leave before the same step have left
 * by then. */
void stop_watch_early(struct stop *stop, bool fails);

/* Tells, the first time it is called, that all trainers of this reader have said goodbye and its
 * children have ended. `early`: status OK, or ENDED and where a trainer stopped before the end. */
void stop_event_idle(struct stop *stop, const struct error *early);

/* Moves events and the notice on; true if anything moved. */
bool stop_progress(struct stop *stop);

/* The outcome once the notice is here, else NULL: status OK, ENDED (trainers left early), or an
 * error. */
const struct error *stop_outcome(const struct stop *stop);

/* Whether the outcome is a loss after which another session follows. */
bool stop_restarts(const struct stop *stop);

/* Collective, after the notice: the maximum over all ranks of each of the `count` values replaces
 * the value.
 */
void stop_agree_highest(struct stop *stop, uint64_t *values, int count);

/* Collective after stop_begin(). NULL is fine, on all ranks then. */
void stop_free(struct stop *stop);

#endif
