/* Where trainers had stopped, as readers that died told their supervisor: the text of --left.
 *
 *     left 3 4100        the trainer of rank 3 goes on at cursor 4100
 *     left 5 4099
 *     .                  the end
 *
 * These are the lines that readers print; of one rank the last counts, not the furthest, for
 * trainers that all start again go back to a checkpoint: readers say so before a session starts,
 * and a supervisor forgets all cursors at its first batch. Rank 0 alone has the file or, for "-",
 * the standard input that a launcher passes on to it: nodes need not share anything, and no command
 * line is too short. Main thread.
 */
#ifndef PENSTOCK_MPI_LEFT_H
#define PENSTOCK_MPI_LEFT_H

#include "comm.h"

#include <stdint.h>

/* Collective over world. ret_left[rank] becomes cursor + 1 where the text names a rank; others
 * stay. `path` counts on rank 0, which waits for the end of the text up to a minute; NULL: there is
 * none. INVALID: no such lines, or of no rank or cursor of this run (ranks below `trainers`,
 * cursors up to `end`). NOT_FOUND, IO: the file. TIMEOUT: the text had no end. */
MUST_USE enum status left_share(const struct comm *comm, const char *path, uint64_t trainers,
                                uint64_t end, uint64_t *ret_left, struct error *err);

#endif
