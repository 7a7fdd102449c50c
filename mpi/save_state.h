/* Writes the state from which a run goes on, after a signal has ended the run. Main thread. */
#ifndef PENSTOCK_MPI_SAVE_STATE_H
#define PENSTOCK_MPI_SAVE_STATE_H

#include "job/session.h"

/* To be called on rank 0 after an orderly end. Writes the state at which all trainers stopped to
 * `path` (NULL: a new file in the current directory), and prints on standard error how to resume.
 * If the file cannot be written, prints the reason and the state there. */
void save_state(const struct session *session, const char *path);

#endif
