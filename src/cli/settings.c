/* See settings.h. */
#include "cli/settings.h"

#include <errno.h>
#include <stdlib.h>

enum { OPTION_CONFIG = 'c', OPTION_SET = 's', LONG_CONFIG = 0x1000, LONG_SET };

static const char config_text[] = "a run's configuration";
static const char set_text[] =
    "one option of it, over the file and the environment, such as store.s3_endpoint=URL";

static const struct argp_option short_table[] = {
    {"config", OPTION_CONFIG, "FILE", 0, config_text, 0},
    {"set", OPTION_SET, "KEY=VALUE", 0, set_text, 0},
    {0},
};

static const struct argp_option long_table[] = {
    {"config", LONG_CONFIG, "FILE", 0, config_text, 0},
    {"set", LONG_SET, "KEY=VALUE", 0, set_text, 0},
    {0},
};

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct cli_settings *settings = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        settings->assignments = calloc((size_t)state->argc, sizeof *settings->assignments);
        return settings->assignments ? 0 : ENOMEM;
    case OPTION_CONFIG:
    case LONG_CONFIG:
        settings->path = argument;
        return 0;
    case OPTION_SET:
    case LONG_SET:
        settings->assignments[settings->assignment_count++] = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp cli_settings_argp = {short_table, parse_option, NULL, NULL, NULL, NULL, NULL};
const struct argp cli_settings_long_argp = {long_table, parse_option, NULL, NULL, NULL, NULL, NULL};

enum status cli_settings_read(const struct cli_settings *settings, struct config *ret_config,
                              struct error *err)
{
    *ret_config = (struct config){0};
    enum status status = config_init(ret_config, err);
    if (!status && settings->path)
        status = config_read_file(ret_config, settings->path, err);
    if (!status)
        status = config_read_environment(ret_config, err);
    for (size_t i = 0; i < settings->assignment_count && !status; i++)
        status = config_set(ret_config, settings->assignments[i], err);
    return status;
}

enum status cli_open_store(const struct config *config, const char *uri, struct store **ret_store,
                           struct error *err)
{
    struct store_settings settings;
    enum status status = config_store_settings(config, &settings, err);
    if (status)
        return status;
    const struct store_options options = {.retries = (uint32_t)config->store_retries,
                                          .settings = &settings};
    return store_open_with(uri, &options, ret_store, err);
}

void cli_settings_done(struct cli_settings *settings)
{
    free(settings->assignments);
}
