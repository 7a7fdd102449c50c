/* The `penstock` command: one function a subcommand, and what they share.
 *
 * Each cli_<command>() has argv[0] set to "penstock <command>", prints results to standard output
 * and progress and messages to standard error, and returns the exit code: 0, or with one line
 * that says what failed that of status_exit_code(). Wrong usage exits with EXIT_FINAL, too, from
 * within argp. Main thread only.
 */
#ifndef PENSTOCK_CLI_CLI_H
#define PENSTOCK_CLI_CLI_H

#include "base/error.h"

int cli_config(int argc, char **argv);
int cli_synth(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_rechunk(int argc, char **argv);
int cli_verify(int argc, char **argv); /* 2: damage was found */

/* Prints "<command>: <message>" on standard error; returns the exit code, status_exit_code(). */
int cli_fail(const char *command, const struct error *err);

#endif
