/* The service loop: one session, from its first window to the last batch consumed.
 *
 * The main thread turns a handful of state machines (trainers' sockets, windows, rounds, the stop
 * notice) until nothing moves any more. Then it sleeps on the waker and the trainers' descriptors,
 * for as long as MPI allows. Everything that takes time runs on the pool's workers.
 */
#ifndef PENSTOCK_MPI_LOOP_SERVICE_H
#define PENSTOCK_MPI_LOOP_SERVICE_H

#include "account/books.h"
#include "base/text.h"
#include "job/session.h"

/* Collective. Serves a session until everything is delivered and consumed, and adds its figures to
 * *summary, which is zero before the first session. Blocks. The same status and error on all ranks.
 * OK with *ret_again: a lost trainer is to be waited for; session_scatter() and session_gather()
 * come next. OK without: the run is complete. ENDED: the trainers left early. INTERRUPTED: a signal
 * ended the session in good order; session->stopped_by and session->stop_cursor are set. Any other
 * status: of the error that ended the session. */
MUST_USE enum status service_run(struct session *session, bool quiet,
                                 struct service_summary *summary, bool *ret_again,
                                 struct error *err);

/* Collective: on rank 0 appends the table of epochs, with the cause that bounded each, to `out`,
 * the same figures as one JSON document to `json`, and as one HTML document to `page`, unless this
 * is NULL. */
void service_describe(const struct session *session, const struct service_summary *summary,
                      struct text *out, struct text *json, struct text *page);

#endif
