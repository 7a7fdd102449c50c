/* The commands of `penstock` that make datasets, as of cli.h. */
#ifndef PENSTOCK_WORKSHOP_COMMANDS_COMMANDS_H
#define PENSTOCK_WORKSHOP_COMMANDS_COMMANDS_H

int cli_synth(int argc, char **argv);
int cli_import(int argc, char **argv);
int cli_ingest(int argc, char **argv);
int cli_derive(int argc, char **argv);
int cli_rechunk(int argc, char **argv);
int cli_stats(int argc, char **argv);

#endif
