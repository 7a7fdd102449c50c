/* Held arrays, in memory once a node: one reader reads them, and the node's other readers map the
 * same memory. Main thread.
 *
 * The first reader of a node makes a memfd, fills it with dataset_hold_with() and seals its size;
 * the others open it through /proc/<pid>/fd. Opening needs the same user and the same PID
 * namespace, and leaves nothing behind.
 */
#ifndef PENSTOCK_MPI_JOB_HELD_H
#define PENSTOCK_MPI_JOB_HELD_H

#include "dataset/dataset.h"
#include "ranks/comm.h"

struct held_options {
    /* How the first reader of a node reads; of other readers, not used. */
    uint32_t thread_count; /* at most; at least 1 */
    uint64_t memory_bytes; /* for the threads, as of dataset_hold_with() */
    bool shows_progress;   /* on standard error, after two seconds */
    /* Called on each reader a few times a second while any reader reads. Not collective. */
    void (*waiting)(void *argument);
    void *argument; /* of waiting() */
};

/* Collective over world. Blocks while the arrays are read. *ret_memory is the caller's, for
 * held_free(), also after a failure; NULL if the dataset holds nothing. The same error on all
 * ranks. NO_MEMORY: the arrays do not fit. IO: the memory cannot be shared; readers have PID
 * namespaces of their own. Other statuses: as dataset_hold_with(). */
MUST_USE enum status held_share(const struct comm *comm, struct dataset *dataset,
                                const struct held_options *options, void **ret_memory,
                                struct error *err);

/* Unmaps. NULL is fine. */
void held_free(void *memory, const struct dataset *dataset);

#endif
