/* `penstock config`: the configuration in force, from all its sources. Main thread.
 *
 * Reads the file, the environment and --set as penstock-reader does, checks them, and prints every
 * option as YAML, defaults included. Opens no dataset.
 */
#include "config/config.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/settings.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "Show the configuration in force: defaults, the file, the environment, --set."
    "\v"
    "Examples:\n"
    "  penstock config -c run.yaml\n"
    "  PENSTOCK_ORDER_SEED=4 penstock config -c run.yaml --set delivery.trainers=8 > as-run.yaml\n";

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = state->input;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not an option: name a configuration with -c", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_config(int argc, char **argv)
{
    static const struct argp_child children[] = {{&cli_settings_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {NULL, parse_option, NULL, help, children, NULL, NULL};
    struct cli_settings settings = {0};
    struct config config;
    struct error err;
    argp_parse(&argp, argc, argv, 0, NULL, &settings);
    enum status status = cli_settings_read(&settings, &config, &err);
    if (!status)
        status = config_check(&config, &err);
    if (!status) {
        struct text out = {0};
        config_print(&config, &out);
        fputs(out.data, stdout);
        text_done(&out);
    }
    config_done(&config);
    cli_settings_done(&settings);
    return status ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
}
