/* The meter: puts this reader's metrics into its metrics file, a few times a second, and has them
 * exported where the configuration says so.
 *
 *     service --meter_keep()--> metrics file (RUN_DIR/reader-3.metrics) --> penstock top
 *                                                                       --> scrape.h    HTTP
 *                                                                       --> textfile.h  a file
 *                 --overview.h--> rank 0's overview, for penstock top on its node
 *
 * All figures are what the report is made of: sums over the epochs of the summary, whose open epoch
 * is brought up to date first. Waits of trainers come from their rings, whose numbers begin at 0
 * with each session; the meter adds them up. One page is written with one system call. Nothing here
 * is done for a batch. Main thread only.
 */
#ifndef PENSTOCK_MPI_ACCOUNT_METER_H
#define PENSTOCK_MPI_ACCOUNT_METER_H

#include "account/books.h"
#include "account/tally.h"
#include "metrics/metrics.h"
#include "metrics/series.h"

struct meter;

/* Makes the page, and begins to export it. To be called when the run directory is there. `session`
 * is borrowed until meter_free(). Not collective. INVALID: readers of this node would write to one
 * file. IO, NO_MEMORY: as scrape_new(), textfile_new(), metrics_file_create(). */
MUST_USE enum status meter_new(const struct session *session, struct meter **ret_meter,
                               struct error *err);

/* Where this reader's metrics are scraped, "127.0.0.1:9400"; "": nowhere. Borrowed. */
const char *meter_address(const struct meter *meter);

/* A session begins: its rings are new. After this call meter_end() has to be called. */
void meter_begin(struct meter *meter);

/* Writes the page if the last time is a quarter of a second ago. */
void meter_keep(struct meter *meter, struct books *books, struct tally *tally);

/* The session is over, and its rings are still there: writes the page. Collective. */
void meter_end(struct meter *meter, struct books *books, struct tally *tally);

/* The last values, borrowed. */
const struct metrics_values *meter_values(const struct meter *meter);

/* How the values grew while there were sessions, borrowed. */
const struct series *meter_series(const struct meter *meter);

/* This reader's trainer that has waited longest for batches; zero: it serves none. */
struct metrics_trainer meter_longest_wait(const struct meter *meter);

/* Removes what is outside the run directory: for a process that is about to exit. NULL is fine. */
void meter_leave(struct meter *meter);

/* Ends exports and frees. NULL is fine. */
void meter_free(struct meter *meter);

#endif
