/* PATH and LD_LIBRARY_PATH as the user had them. Open MPI's mpirun, called by a name with a slash,
 * puts its own bin and lib in front for all that it starts, so that a trainer's `python3` would be
 * the system's and not that of the virtual environment that is first in PATH. Readers themselves
 * may need these to be started. One thread, before there are others.
 */
#ifndef PENSTOCK_MPI_USER_PATH_H
#define PENSTOCK_MPI_USER_PATH_H

/* In a reader: sees to it that PENSTOCK_PATH and PENSTOCK_LD_LIBRARY_PATH say what they were
 * (empty: not set), where mpirun has changed them. penstock-run, which knows, has set both itself;
 * else they are PATH and LD_LIBRARY_PATH without the entries in front that mpirun's programs lie
 * in, where PATH has those once more further back. */
void user_path_note(void);

/* In what becomes a trainer: makes it so, if anything was noted. */
void user_path_restore(void);

#endif
