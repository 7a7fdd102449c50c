/* Runs a program and takes what it prints, and finds things in that. Main thread; blocks until the
 * program has ended. */
#ifndef PENSTOCK_CLI_DOCTOR_OUTPUT_OF_H
#define PENSTOCK_CLI_DOCTOR_OUTPUT_OF_H

#include "base/text.h"

enum { OUTPUT_TIMEOUT = -1, OUTPUT_NOT_STARTED = -2 };

/* Runs `words` (NULL behind the last), with standard input empty, and appends standard output and
 * error to *output, of which no more than 256 MiB are kept. Returns the exit code, 128 + N after
 * signal N, or one of the constants above. After `timeout_s` the program is killed with all that
 * it has started in its process group. SIGHUP, SIGINT and SIGTERM end this process meanwhile, and
 * the group with SIGTERM. */
int output_of(const char *const *words, unsigned timeout_s, struct text *output);

/* What follows `start` in the text up to the end of the line, cut to `size`, or "". */
void output_line_after(const char *text, const char *start, char *ret_line, size_t size);

/* Why a launcher and what it has started failed: the last error of a program of Penstock; else the
 * first of the blocks that launchers draw between lines of dashes, as one line; else the last line
 * that says something. */
void output_cause(const char *text, char *ret_line, size_t size);

#endif
