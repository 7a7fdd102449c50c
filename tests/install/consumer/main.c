/* A trainer outside of Penstock's tree: compiles, links and runs against what was installed. */
#include <penstock.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    struct penstock_options nowhere = {.run_dir = "/nonexistent", .world_size = 1, .timeout_ms = 1};
    struct penstock *connection = NULL;
    char message[PENSTOCK_MESSAGE_BYTES] = "";
    enum penstock_status status = penstock_connect(&nowhere, &connection, message);
    printf("libpenstock %s: %s: %s\n", penstock_version(), penstock_status_text(status), message);
    return status == PENSTOCK_NOT_FOUND && strstr(message, "/nonexistent") ? 0 : 1;
}
