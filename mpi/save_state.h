/* Writing where a run goes on that a signal has ended. Main thread. */
#ifndef PENSTOCK_MPI_SAVE_STATE_H
#define PENSTOCK_MPI_SAVE_STATE_H

#include "job.h"

/* After an orderly end, on rank 0: writes the state at which all trainers stopped to `path` (NULL:
 * to a new file in the current directory) and tells on standard error what to resume with. A file
 * that cannot be written is told there, too, with the state. */
void save_state(const struct job *job, const char *path);

#endif
