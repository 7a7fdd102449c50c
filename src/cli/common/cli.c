/* See cli.h. */
#include "cli/common/cli.h"

#include "delivery/ring/rundir.h"

#include <stdio.h>

int cli_fail(const char *command, const struct error *err)
{
    fprintf(stderr, "%s: %s\n", command, err->message);
    return status_exit_code((enum status)err->status);
}

enum status cli_open_run_dir(const char *path, int *ret_dir, struct error *err)
{
    enum status status = rundir_open(path, false, ret_dir, err);
    if (status == STATUS_NOT_FOUND)
        error_set(err, status,
                  "there is no run directory '%s': the run has ended, or has another, which it "
                  "prints at its start (run_dir)",
                  path);
    return status;
}
