/* What the commands that make datasets share: which part of the work this process does, its
 * threads and memory, and what is told at the end. Main thread. */
#ifndef PENSTOCK_CLI_MAKING_H
#define PENSTOCK_CLI_MAKING_H

#include "tools/making.h"

struct argp_state;

/* Reads "0/4" of --part, or calls argp_error(). */
void cli_making_part(const struct argp_state *state, const char *option, char *argument,
                     struct making_options *making);

/* Settles what is 0: the part by the launcher's variables (part_count), threads, and memory. */
void cli_making_settle(struct making_options *making);

/* Prints what was done, and the digest where all is. `claim`: what reading back has shown, for a
 * destination that is complete. */
void cli_making_tell(const struct making_options *making, const struct making_result *result,
                     const char *claim);

#endif
