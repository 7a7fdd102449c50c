/* What the commands of `penstock` share.
 *
 * A command is a function cli_<command>(), which finds "penstock <command>" in argv[0]. Results go
 * to standard output, progress and messages to standard error. The exit code is 0; after a failure,
 * which one line explains, it is that of status_exit_code(). Wrong usage ends the program with
 * EXIT_FINAL. Main thread only.
 */
#ifndef PENSTOCK_CLI_COMMON_CLI_H
#define PENSTOCK_CLI_COMMON_CLI_H

#include "base/error.h"

/* rundir_open() of the run directory of a run that goes on. Its errors; NOT_FOUND says why that may
 * be. */
MUST_USE enum status cli_open_run_dir(const char *path, int *ret_dir, struct error *err);

/* Prints "<command>: <message>" on standard error; returns the exit code, status_exit_code(). */
int cli_fail(const char *command, const struct error *err);

#endif
