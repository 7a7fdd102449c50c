/* What the environment says about this trainer: its rank, its local rank, where the service
 * is.
 *
 * Launchers nest: torchrun runs under mpirun, mpirun under Slurm, and a process finds the variables
 * of all of them. The innermost one knows it as a trainer, so these are asked in turn:
 *
 *              rank and world size                   local rank and world size
 *   torchrun   RANK, WORLD_SIZE                      LOCAL_RANK, LOCAL_WORLD_SIZE
 *   Open MPI   OMPI_COMM_WORLD_RANK, …_SIZE          OMPI_COMM_WORLD_LOCAL_RANK, …_LOCAL_SIZE
 *   PMI        PMI_RANK, PMI_SIZE                    MPI_LOCALRANKID, MPI_LOCALNRANKS
 *   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS    SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE
 *   none       0 of 1                                0 of 1
 *
 * A pair is taken as a whole or not at all: the rank of one launcher means nothing in the world of
 * another. The two pairs are looked for separately, for those who set RANK and WORLD_SIZE by hand.
 * Not used: SLURM_NTASKS, which speaks of the job, so that a batch script would take itself for
 * task 0 of many; PMIX_RANK, beside which no variable has a size.
 *
 * Not while another thread changes the environment.
 */
#ifndef PENSTOCK_CLIENT_ENVIRONMENT_H
#define PENSTOCK_CLIENT_ENVIRONMENT_H

#include "base/error.h"
#include "client/dial.h"

/* Fills what is not given: run_dir where NULL, rank and world_size where world_size is 0, and
 * always the local rank, the reader (PENSTOCK_READER, or -1), and where cursors outlive
 * processes (PENSTOCK_CURSORS, of the supervisor of the service at PENSTOCK_RUN_DIR; not for
 * another). Strings are borrowed from the environment. INVALID: a variable that is not a number, no
 * run_dir, a rank that is not below its world size, one of RANK and WORLD_SIZE without the other
 * and no other launcher's pair. */
MUST_USE enum status environment_fill(struct dial_options *options, struct error *err);

/* The state of PENSTOCK_STATE: what it holds if that begins with {, else what is in the file of
 * that name, read into `buffer`. *ret_state is NULL if it is not set, else borrowed from the
 * environment or from `buffer`. INVALID: the file is not there, cannot be read, is empty, or does
 * not fit. */
MUST_USE enum status environment_state(char *buffer, size_t size, const char **ret_state,
                                       struct error *err);

#endif
