/* Held arrays in memory once per node: one reader reads them, the others map the same memory.
 *
 * The first reader of a node makes a memfd, fills it with dataset_hold() and seals its size; the
 * others open it through /proc/<pid>/fd, which needs the same user and the same PID namespace and
 * nothing else, and leaves nothing behind.
 */
#ifndef PENSTOCK_MPI_HELD_H
#define PENSTOCK_MPI_HELD_H

#include "comm.h"
#include "dataset/dataset.h"

/* Collective over world. `*ret_memory` is NULL if the dataset holds nothing. Errors are agreed on:
 * the same on all ranks. */
MUST_USE enum status held_share(const struct comm *comm, struct dataset *dataset, void **ret_memory,
                                struct error *err);

void held_free(void *memory, const struct dataset *dataset);

#endif
