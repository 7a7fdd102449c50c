/* `penstock-reader --check-mpi`, for `penstock doctor`: do processes that the launcher starts find
 * each other, with which MPI, and how fast?
 */
#ifndef PENSTOCK_MPI_CHECK_MPI_H
#define PENSTOCK_MPI_CHECK_MPI_H

/* Collective. Starts MPI, sends messages in a ring of all ranks, ends MPI. Rank 0 prints "mpi
 * library: ...", "mpi exchange: ..." and, where MPI says it, "mpi transport: ..." to standard
 * output. Returns the exit code. */
int check_mpi(void);

#endif
