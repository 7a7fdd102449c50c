/* Where trainers had stopped, as readers that died told their supervisor. The supervisor gives the
 * next readers this text with --left.
 *
 *     left 3 4100        the trainer of rank 3 goes on at cursor 4100
 *     left 5 4099
 *     locality 262148    the run's locality_number(), with order.placement local
 *     trainers 6         of a session with another number of them than before
 *     .                  the end
 *
 * Readers print these lines. The last line of a rank counts, and not the furthest cursor: trainers
 * that all start again go back to a checkpoint. Readers print the lines before a session starts,
 * and the supervisor forgets all cursors at the session's first batch. Rank 0 alone reads the file
 * or, for "-", its standard input, which launchers pass on: nodes need not share a file system, and
 * the text may be longer than a command line. Main thread.
 */
#ifndef PENSTOCK_MPI_JOB_LEFT_H
#define PENSTOCK_MPI_JOB_LEFT_H

#include "ranks/comm.h"

#include <stdint.h>

/* Collective over world. ret_left[rank] becomes cursor + 1 for each rank that the text names; its
 * other elements stay. *ret_locality and *ret_trainers stay without such a line. `path` counts on
 * rank 0 alone; NULL: there is no text. Rank 0 waits up to a minute for each part of the text. The
 * same error on all ranks. INVALID: a line is not as above, a rank is not below `trainers`, a
 * cursor is above `end`, or the text is too long. NOT_FOUND, IO: the file cannot be read. IO: the
 * text ends without the line ".", as where a launcher is killed that passes it on. TIMEOUT: the
 * text did not end in time. */
MUST_USE enum status left_share(const struct comm *comm, const char *path, uint64_t trainers,
                                uint64_t end, uint64_t *ret_left, uint32_t *ret_locality,
                                uint32_t *ret_trainers, struct error *err);

#endif
