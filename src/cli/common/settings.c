/* See settings.h. */
#include "cli/common/settings.h"

#include "base/launcher.h"

#include <stdlib.h>

void cli_settings_init(struct cli_settings *settings, int argc)
{
    *settings = (struct cli_settings){.assignments = calloc((size_t)argc, sizeof(char *))};
}

static enum status check_file(const char *path, struct error *err)
{
    return path && config_file_is_stream(path)
               ? error_set(err, STATUS_INVALID,
                           "the configuration '%s' can be read once, and is read by several "
                           "programs: write it to a file",
                           path)
               : STATUS_OK;
}

/* Started by mpirun or srun with others, who find another standard input. */
static bool is_one_of_several(void)
{
    const struct launcher *launcher = launcher_of_size();
    return (launcher && atoi(launcher_value(launcher->size)) > 1) || launcher_of_half();
}

enum status cli_settings_read(const struct cli_settings *settings, struct config *ret_config,
                              struct error *err)
{
    *ret_config = (struct config){0};
    enum status status = settings->assignments
                             ? config_init(ret_config, err)
                             : error_set(err, STATUS_NO_MEMORY, "no memory for options");
    if (status == STATUS_OK && is_one_of_several())
        status = check_file(settings->path, err);
    if (status == STATUS_OK && settings->path)
        status = config_read_file(ret_config, settings->path, err);
    if (status == STATUS_OK)
        status = config_read_environment(ret_config, err);
    for (size_t i = 0; i < settings->assignment_count && status == STATUS_OK; i++)
        status = config_set(ret_config, settings->assignments[i], err);
    return status;
}

enum status cli_settings_check_files(const struct cli_settings *settings, struct error *err)
{
    enum status status = check_file(settings->path, err);
    for (int i = 0; i < settings->also.count && status == STATUS_OK; i++)
        status = check_file(settings->also.runs[i].config_path, err);
    return status;
}

struct cli_settings cli_settings_of_also(const struct cli_settings *settings, int run)
{
    return (struct cli_settings){.path = settings->also.runs[run].config_path,
                                 .assignments = settings->assignments};
}

enum status cli_open_store(const struct config *config, const char *uri, struct store **ret_store,
                           struct error *err)
{
    struct store_settings settings;
    enum status status = config_store_settings(config, &settings, err);
    if (status != STATUS_OK)
        return status;
    const struct store_options options = {.retries = (uint32_t)config->store_retries,
                                          .settings = &settings};
    return store_open_with(uri, &options, ret_store, err);
}

enum status cli_settings_open_store(const struct cli_settings *settings, const char *uri,
                                    struct store **ret_store, struct error *err)
{
    struct config config;
    enum status status = cli_settings_read(settings, &config, err);
    if (status == STATUS_OK)
        status = cli_open_store(&config, uri, ret_store, err);
    config_done(&config);
    return status;
}

enum status cli_settings_open(const struct cli_settings *settings, struct config *ret_config,
                              struct dataset **ret_dataset, struct error *err)
{
    enum status status = cli_settings_read(settings, ret_config, err);
    if (status == STATUS_OK)
        status = config_check(ret_config, err);
    if (status != STATUS_OK)
        return status;
    return config_open_dataset(ret_config, false, NULL, ret_dataset, err);
}

void cli_settings_done(struct cli_settings *settings)
{
    free(settings->assignments);
}
