/* The log as JSON lines, with --log json: each line of standard error becomes an object.
 *
 *     {"program":"penstock-reader","time":"2026-01-31T12:00:00.123Z","level":"warning","rank":3,
 *      "host":"n1","message":"..."}
 *
 * From log_json_begin() on, `stderr` is a stream of our own, whose lines are written to descriptor
 * 2 as objects, with one system call each, so that lines of several ranks do not mix. An object has
 * PIPE_BUF bytes (4096) at most: a message that is longer is cut and ends in "...". The level
 * comes from how a line begins: "penstock-reader: error: ", "penstock-reader: warning: ", else
 * info. What is not our process's (trainers, the launcher, libraries that write to descriptor 2)
 * stays as it is. penstock-sieve (launch/sieve.c) knows objects by how they begin. Any thread may
 * write to `stderr`, as always.
 */
#ifndef PENSTOCK_MPI_LOG_JSON_H
#define PENSTOCK_MPI_LOG_JSON_H

#include "base/error.h"

/* To be called once, before there are threads. NO_MEMORY. */
MUST_USE enum status log_json_begin(struct error *err);

/* From now on objects have the rank, too. Before, nobody knows it. */
void log_json_set_rank(int rank);

#endif
