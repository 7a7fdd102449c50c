/* The `penstock` command: one function a subcommand, and what they share.
 *
 * cli_<command>() finds "penstock <command>" in argv[0]. Results go to standard output, progress
 * and messages to standard error. The exit code is 0; after a failure, which one line explains, it
 * is that of status_exit_code(). Wrong usage ends the program with EXIT_FINAL. Main thread only.
 */
#ifndef PENSTOCK_CLI_CLI_H
#define PENSTOCK_CLI_CLI_H

#include "base/error.h"

int cli_config(int argc, char **argv);
int cli_synth(int argc, char **argv);
int cli_import(int argc, char **argv);
int cli_ingest(int argc, char **argv);
int cli_derive(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_samples(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_rechunk(int argc, char **argv);
int cli_stats(int argc, char **argv);
int cli_doctor(int argc, char **argv); /* 1: a run would fail */
int cli_verify(int argc, char **argv); /* 2: damage was found */

/* rundir_open() of the run directory of a run that goes on. Its errors; NOT_FOUND says why that may
 * be. */
MUST_USE enum status cli_open_run_dir(const char *path, int *ret_dir, struct error *err);

/* Prints "<command>: <message>" on standard error; returns the exit code, status_exit_code(). */
int cli_fail(const char *command, const struct error *err);

#endif
