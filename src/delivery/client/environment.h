/* Reads from the environment which trainer this process is, and where its service is.
 *
 * base/launcher.h has the launchers, their variables, and which of them counts. The rank and the
 * local rank are looked for separately, since users set RANK and WORLD_SIZE by hand. A trainer of
 * which no launcher says anything is 0 of 1. PALS, PMIx and Kubernetes tell a rank, and no world
 * size: there WORLD_SIZE is the user's. A local rank that nobody tells is 0 of 1, which matters
 * only to nodes with several readers.
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
 * one of a pair is set, and no pair: a launcher is there, and this trainer would count as 0 of 1.
 */
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
