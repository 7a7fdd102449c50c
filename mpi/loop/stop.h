/* Ends a session the same way on all ranks: when all trainers have left, at the first error of any
 * rank, when a trainer is lost that is to come again, or when all trainers skip steps.
 *
 *   1. A rank tells rank 0 of an error, of a loss, or that all its trainers have left.
 *   2. Rank 0 decides, once, and broadcasts the stop notice: the outcome of the session.
 *   3. All ranks stop starting work, agree on the highest round and window that any of them has
 *      posted, and post and complete theirs up to there, without data.
 *
 * So no rank leaves a collective half done, and an error counts until the last trainer has consumed
 * its last batch. One nonblocking broadcast a session carries the notice: no rank has to ask rank
 * 0. Main thread only.
 */
#ifndef PENSTOCK_MPI_LOOP_STOP_H
#define PENSTOCK_MPI_LOOP_STOP_H

#include "ranks/comm.h"

#include <stdbool.h>

struct stop;

/* `comm` is borrowed until stop_free(). Not collective: nothing is posted yet. NO_MEMORY. */
MUST_USE enum status stop_new(const struct comm *comm, struct stop **ret_stop, struct error *err);

/* Collective: posts the receives and the broadcast. After this call stop_free() is collective, too.
 */
void stop_begin(struct stop *stop);

/* Tells rank 0 of this rank's first error, with this rank and its node put into the message. Later
 * errors are dropped. */
void stop_event_error(struct stop *stop, const struct error *error);

/* On rank 0: ends the session with an error of another run. */
void stop_end(struct stop *stop, const struct error *error);

/* Tells rank 0 of the loss of a trainer that may come again: the session ends, and the run goes on.
 * This rank's later losses are dropped. */
void stop_event_restart(struct stop *stop, const struct error *loss);

/* Asks for an orderly end because of a signal: all ranks go on to the same round, publish it, and
 * are done. Two steps, which do not block, settle the round: rank 0 tells all ranks of the signal;
 * each rank offers the first round at which it can end (stop_offer_end()), and the highest offer is
 * where all end. */
void stop_event_drain(struct stop *stop, int signal_number);

/* On all ranks: the signal because of which the run ends in good order; 0: none. */
int stop_drains(const struct stop *stop);

/* Collective, once stop_drains() is not 0: this rank can end after `rounds` rounds, and no earlier.
 */
void stop_offer_end(struct stop *stop, uint64_t rounds);

/* Whether all ranks have offered an end. If so, *ret_rounds is the highest offer. */
bool stop_agreed_end(struct stop *stop, uint64_t *ret_rounds);

/* Has rank 0 print a warning, with this rank and its node in front. The warning is dropped if an
 * earlier one of this rank is still on its way. */
void stop_event_warning(struct stop *stop, const struct error *warning);

/* stop_event_early() tells rank 0 of this reader's first trainer that said goodbye before the end;
 * stop_event_left() tells that all trainers of this reader have said goodbye. */
void stop_event_early(struct stop *stop, const struct error *early);
void stop_event_left(struct stop *stop);

/* To be called on rank 0 now and then. If some trainers are still there two seconds after one has
 * left early, the early leave is printed as a warning, once; or, with `fails`, is the session's
 * error. Trainers that leave before the same step on purpose have all left within the two seconds.
 */
void stop_watch_early(struct stop *stop, bool fails);

/* Tells rank 0 that all trainers of this reader have said goodbye, and that its children have
 * ended. Later calls do nothing. `early`: status OK; or ENDED, with the step at which a trainer
 * stopped before the end. */
void stop_event_idle(struct stop *stop, const struct error *early);

/* Tells rank 0 that no trainer of this reader wants a batch before `cursor`, and whether the cursor
 * is `far`: no round of this reader that is open carries that step. STOP_WANTS_NOTHING: the reader
 * has no trainers any more. 0 is what a session begins with. Drops the news while an earlier one is
 * still on its way: to be called again and again. */
#define STOP_WANTS_NOTHING UINT64_MAX
void stop_event_skip(struct stop *stop, uint64_t cursor, bool far);

/* On rank 0: the least cursor that any reader's trainers want, as told so far, and whether a cursor
 * is far for any reader. */
uint64_t stop_wanted(const struct stop *stop, bool *ret_far);

/* On rank 0: ends the session, so that delivery goes on at `cursor`, which no trainer wants a batch
 * before. Does nothing where another end is decided, or being agreed on. */
void stop_skip(struct stop *stop, uint64_t cursor);

/* Moves events and the notice on; never blocks. True if anything moved. */
bool stop_progress(struct stop *stop);

/* The session's outcome, borrowed; NULL until the notice is here. Its status is OK, ENDED (trainers
 * left early), or an error's. */
const struct error *stop_outcome(const struct stop *stop);

/* Whether the outcome is the loss of a trainer after which another session follows. */
bool stop_restarts(const struct stop *stop);

/* Whether the outcome is that delivery goes on at *ret_cursor. */
bool stop_skips(const struct stop *stop, uint64_t *ret_cursor);

/* Collective, after the notice: replaces each of the `count` values by its maximum over all ranks.
 * Blocks. */
void stop_agree_highest(struct stop *stop, uint64_t *values, int count);

/* Frees. Collective if stop_begin() was called. NULL is fine, on all ranks or on none. */
void stop_free(struct stop *stop);

#endif
