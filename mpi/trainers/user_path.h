/* Keeps PATH and LD_LIBRARY_PATH for trainers as the user had them. Open MPI's mpirun, when called
 * by a name with a slash, puts its own folders bin and lib in front of these variables, for every
 * process that it starts. A trainer's `python3` would then be the system's, and not that of the
 * user's virtual environment. Readers keep mpirun's entries, which they may need to start. To be
 * called before other threads exist. */
#ifndef PENSTOCK_MPI_TRAINERS_USER_PATH_H
#define PENSTOCK_MPI_TRAINERS_USER_PATH_H

/* In a reader whose PATH mpirun has changed: sets PENSTOCK_PATH and PENSTOCK_LD_LIBRARY_PATH to the
 * user's values (empty: the variable was not set). Does nothing if penstock-run has set them, which
 * knows the user's values. Otherwise the user's values are PATH and LD_LIBRARY_PATH without
 * mpirun's entries in front, which PATH has a second time further back. */
void user_path_note(void);

/* In a child that becomes a trainer: sets PATH and LD_LIBRARY_PATH to the noted values, if there
 * are any. */
void user_path_restore(void);

#endif
