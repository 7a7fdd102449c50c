/* What the subcommands share. See cli.h. */
#include "cli/cli.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int cli_fail(const char *command, const struct error *err)
{
    fprintf(stderr, "%s: %s\n", command, err->message);
    return status_exit_code((enum status)err->status);
}

uint64_t cli_count(const struct argp_state *state, const char *option, const char *text,
                   uint64_t low, uint64_t high)
{
    char *end = NULL;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end || errno || value < low || value > high)
        argp_error(state, "%s '%s': not a whole number from %" PRIu64 " to %" PRIu64, option, text,
                   low, high);
    return value;
}
