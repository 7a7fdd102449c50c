/* The service loop: a session, from the first window to the last batch consumed.
 *
 * One thread, the main thread, turns a handful of state machines (trainers' sockets, windows,
 * rounds, the stop notice) until nothing moves any more, and then sleeps: on the waker and the
 * trainers' descriptors, for as long as MPI allows. Everything that takes time runs on the pool's
 * workers.
 */
#ifndef PENSTOCK_MPI_SERVICE_H
#define PENSTOCK_MPI_SERVICE_H

#include "base/text.h"
#include "books.h"
#include "job.h"

/* Collective. Serves until all is delivered and consumed, and adds to *summary, which is zero
 * before the first session. ENDED: the trainers left early. INTERRUPTED: a signal ended it in good
 * order, job->stopped_by and stop_cursor. Any other status: what went wrong. The same on all ranks.
 * *ret_again, with OK: a trainer was lost that is to be waited for; job_scatter() and job_gather()
 * come next. */
MUST_USE enum status service_run(struct job *job, bool quiet, struct service_summary *summary,
                                 bool *ret_again, struct error *err);

/* Collective: rank 0 appends the table of epochs and what bounded them to `out`, and the same as
 * one JSON document to `json`. */
void service_describe(const struct job *job, const struct service_summary *summary,
                      struct text *out, struct text *json);

#endif
