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
int cli_inspect(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_samples(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_rechunk(int argc, char **argv);
int cli_doctor(int argc, char **argv); /* 1: a run would fail */
int cli_verify(int argc, char **argv); /* 2: damage was found */

/* Prints "<command>: <message>" on standard error; returns the exit code, status_exit_code(). */
int cli_fail(const char *command, const struct error *err);

#endif
