/* The text file of a reader's metrics, for the textfile collector of Prometheus' node_exporter.
 *
 * A thread writes the snapshot in the reader's metrics file to the file every few seconds: to a
 * temporary name, which is then renamed, and without timestamps, as the collector asks.
 */
#ifndef PENSTOCK_MPI_ACCOUNT_TEXTFILE_H
#define PENSTOCK_MPI_ACCOUNT_TEXTFILE_H

#include "base/error.h"

#include <stdint.h>

struct textfile;

/* Checks that `path` (copied) can be written, and starts the thread. `dir` is the run directory,
 * borrowed until textfile_free(). IO: the file cannot be written, `path` is there and no regular
 * file (links are followed), or no thread can be started. NO_MEMORY. */
MUST_USE enum status textfile_new(int dir, uint32_t reader, const char *path,
                                  struct textfile **ret_textfile, struct error *err);

/* Ends the thread and removes the file: nobody shall take old metrics for new ones. NULL is fine.
 */
void textfile_free(struct textfile *textfile);

/* Removes the file alone: for a process that is about to exit. NULL is fine. */
void textfile_remove(struct textfile *textfile);

#endif
