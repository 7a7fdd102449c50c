/* What the environment says about this trainer: its rank, its place on the node, where the service
 * is.
 *
 * Reads the variables that torchrun, Slurm, Open MPI and PMI set. Not while another thread changes
 * the environment.
 */
#ifndef PENSTOCK_CLIENT_ENVIRONMENT_H
#define PENSTOCK_CLIENT_ENVIRONMENT_H

#include "base/error.h"
#include "delivery/connect.h"

/* Fills what is not given: run_dir where NULL, rank and world_size where world_size is 0, and
 * always the place on the node and the reader. Strings are borrowed from the environment. INVALID:
 * a variable that is not a number, no run_dir, a rank that is not below the world size. */
MUST_USE enum status environment_fill(struct connect_options *options, struct error *err);

#endif
