/* `penstock config`: the configuration in force, from all its sources. Main thread.
 *
 * Reads the file, the environment and --set as penstock-reader does, checks them, and prints every
 * option as YAML, defaults included. Opens no dataset.
 */
#include "config/config.h"
#include "base/text.h"
#include "cli/cli.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    const char *config_path;
    const char **assignments; /* --set, in order */
    size_t assignment_count;
};

static const struct argp_option option_table[] = {
    {"config", 'c', "FILE", 0, "the run's configuration", 0},
    {"set", 's', "KEY=VALUE", 0, "one option over the file and the environment", 0},
    {0},
};

static const char help[] =
    "Show the configuration in force: defaults, the file, the environment, --set."
    "\v"
    "Examples:\n"
    "  penstock config -c run.yaml\n"
    "  PENSTOCK_ORDER_SEED=4 penstock config -c run.yaml --set delivery.trainers=8 > as-run.yaml\n";

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'c':
        options->config_path = argument;
        return 0;
    case 's':
        options->assignments[options->assignment_count++] = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not an option: name a configuration with -c", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum status configure(const struct options *options, struct config *config,
                             struct error *err)
{
    enum status status = STATUS_OK;
    if (options->config_path)
        status = config_read_file(config, options->config_path, err);
    if (!status)
        status = config_read_environment(config, err);
    for (size_t i = 0; !status && i < options->assignment_count; i++)
        status = config_set(config, options->assignments[i], err);
    return status ? status : config_check(config, err);
}

int cli_config(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse_option, NULL, help, NULL, NULL, NULL};
    struct options options = {0};
    struct config config;
    struct error err;
    enum status status = config_init(&config, &err);
    if (status)
        return cli_fail(argv[0], &err);
    options.assignments = calloc((size_t)argc, sizeof *options.assignments);
    if (!options.assignments) {
        status = error_set(&err, STATUS_NO_MEMORY, "no memory for %d arguments", argc);
    } else {
        argp_parse(&argp, argc, argv, 0, NULL, &options);
        status = configure(&options, &config, &err);
    }
    if (!status) {
        struct text out = {0};
        config_print(&config, &out);
        fputs(out.data, stdout);
        text_done(&out);
    }
    free(options.assignments);
    config_done(&config);
    return status ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
}
