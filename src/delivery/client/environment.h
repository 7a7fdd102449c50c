/* Reads from the environment which trainer this process is, and where its service is.
 *
 * Launchers nest: torchrun runs under mpirun, mpirun under Slurm, and a process finds the variables
 * of all. The innermost launcher is the one that started the trainers, so the launchers are asked
 * in this order:
 *
 *              rank and world size                   local rank and world size
 *   torchrun   RANK, WORLD_SIZE                      LOCAL_RANK, LOCAL_WORLD_SIZE
 *   Open MPI   OMPI_COMM_WORLD_RANK, …_SIZE          OMPI_COMM_WORLD_LOCAL_RANK, …_LOCAL_SIZE
 *   PMI        PMI_RANK, PMI_SIZE                    MPI_LOCALRANKID, MPI_LOCALNRANKS
 *   Slurm      SLURM_PROCID, SLURM_STEP_NUM_TASKS    SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE
 *   none       0 of 1                                0 of 1
 *
 * A pair is taken as a whole or not at all: the rank of one launcher means nothing in the world of
 * another. The two pairs are looked for separately, since users set RANK and WORLD_SIZE by hand.
 * SLURM_NTASKS is not used: it is the job's, so that a batch script would count as task 0 of many.
 * PMIX_RANK is not used: no variable has the size that belongs to it.
 *
 * Any thread, unless another thread changes the environment meanwhile.
 */
#ifndef PENSTOCK_DELIVERY_CLIENT_ENVIRONMENT_H
#define PENSTOCK_DELIVERY_CLIENT_ENVIRONMENT_H

#include "base/error.h"
#include "delivery/client/dial.h"

/* Fills the members that the caller has not given: run_dir if it is NULL; rank and world_size if
 * world_size is 0; and always local_rank, local_world_size, reader (PENSTOCK_READER, or -1) and
 * cursors. cursors is PENSTOCK_CURSORS, which belongs to the service at PENSTOCK_RUN_DIR: NULL if
 * run_dir is another directory. Strings are borrowed from the environment. On failure *options is
 * untouched.
 *
 * INVALID: a variable is not a number; there is no run_dir; a rank is not below its world size; or
 * only one of RANK and WORLD_SIZE is set, and no other launcher's pair. */
MUST_USE enum status environment_fill(struct dial_options *options, struct error *err);

/* The run directory of the run `name` of --also, beside `run_dir`, in `buffer` of `size` bytes.
 * INVALID: it is too long, or the name has a slash. NOT_FOUND: readers have `run_dir`, and no run
 * has that name. */
MUST_USE enum status environment_named_run(const char *run_dir, const char *name, char *buffer,
                                           size_t size, struct error *err);

/* Reads the state that PENSTOCK_STATE names. A value that begins with { is the state; any other
 * value is the path of a file, which is read into `buffer` of `size` bytes. *ret_state is borrowed
 * from the environment or from `buffer`; NULL: PENSTOCK_STATE is not set. INVALID: the file does
 * not exist, cannot be read, is empty, or has `size` bytes or more. */
MUST_USE enum status environment_state(char *buffer, size_t size, const char **ret_state,
                                       struct error *err);

#endif
