/* See cli.h. */
#include "cli/cli.h"

#include <stdio.h>

int cli_fail(const char *command, const struct error *err)
{
    fprintf(stderr, "%s: %s\n", command, err->message);
    return status_exit_code((enum status)err->status);
}
