/* Which NICs MPI is to use, where readers of one node would take the same: see topology/nics.h.
 * Main thread. */
#ifndef PENSTOCK_MPI_RANKS_NICS_H
#define PENSTOCK_MPI_RANKS_NICS_H

enum { NICS_BYTES = 256 };

/* Before MPI_Init: sets UCX_NET_DEVICES by the launcher's word on the processes of this node, which
 * are those of `run_count` runs (comm.h). Not if the user has set it, or UCX_TLS, which may leave
 * such devices out, or UCX's own way to choose one. Whatever is not known sets nothing. Writes
 * what it has set, or "". */
void nics_choose(int run_count, char ret_nics[NICS_BYTES]);

/* Behind MPI_Init, which has read it: trainers do not inherit what was set. */
void nics_forget(const char *nics);

#endif
