/* The command line of penstock-reader. Main thread. */
#ifndef PENSTOCK_MPI_ARGUMENTS_H
#define PENSTOCK_MPI_ARGUMENTS_H

#include "job/job.h"

enum { ARGUMENTS_MAX_SETTINGS = 128 };

struct arguments {
    struct job_options job;
    char *settings[ARGUMENTS_MAX_SETTINGS];
    struct also_list also;
    const char *report_path, *html_path; /* the report as JSON, and as HTML */
    const char *save_path, *trace_path;
    bool help, version, log_json;
};

/* Fills *arguments, whose pointers lead into argv and into *arguments: neither may move or go away.
 * INVALID: wrong usage; the message names the argument. */
MUST_USE enum status arguments_parse(struct arguments *arguments, int argc, char **argv,
                                     struct error *err);

/* Makes the arguments those of a run of --also. What the command line says besides is of the other
 * run alone, but for --quiet, --verbose and --supervised. `run` is borrowed. */
void arguments_choose_also(struct arguments *arguments, const struct also_run *run);

/* Prints the usage, the command line and all options of the configuration to standard output. */
void arguments_print_help(void);

#endif
