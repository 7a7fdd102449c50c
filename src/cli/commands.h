/* The commands of `penstock` but those that make datasets (workshop/commands/commands.h), as of
 * cli.h. */
#ifndef PENSTOCK_CLI_COMMANDS_H
#define PENSTOCK_CLI_COMMANDS_H

int cli_config(int argc, char **argv);
int cli_demo(int argc, char **argv); /* becomes another program, which has the exit code */
int cli_inspect(int argc, char **argv);
int cli_plan(int argc, char **argv);
int cli_samples(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_trace(int argc, char **argv);
int cli_doctor(int argc, char **argv); /* 1: a run would fail */
int cli_verify(int argc, char **argv); /* 2: damage was found */

#endif
