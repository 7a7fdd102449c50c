/* `penstock config`: the configuration in force, from all its sources. Main thread.
 *
 * Reads the file, the environment and --set as penstock-reader does, checks them, and prints every
 * option as YAML, defaults included. Opens no dataset.
 */
#include "config/config.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"

#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "Show the configuration in force: defaults, the file, the environment, --set."
    "\v"
    "Examples:\n"
    "  penstock config -c run.yaml\n"
    "  PENSTOCK_ORDER_SEED=4 penstock config -c run.yaml --set delivery.trainers=8 > as-run.yaml\n";

int cli_config(int argc, char **argv)
{
    static const struct cli_command command = {.help = help, .configured = true};
    struct cli_settings settings = {0};
    struct config config;
    struct error err;
    cli_parse(&command, argc, argv, &settings);
    enum status status = cli_settings_read(&settings, &config, &err);
    if (status == STATUS_OK)
        status = config_check(&config, &err);
    if (status == STATUS_OK) {
        struct text out = {0};
        config_print(&config, &out);
        fputs(out.data, stdout);
        text_done(&out);
    }
    config_done(&config);
    cli_settings_done(&settings);
    return status != STATUS_OK ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
}
