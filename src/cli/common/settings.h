/* The configuration of a run on the command line: --config FILE, the environment and --set
 * KEY=VALUE, the same for every subcommand that takes it. Main thread.
 *
 * cli_parse() (options.h) fills a `struct cli_settings`; the command then reads the configuration.
 */
#ifndef PENSTOCK_CLI_COMMON_SETTINGS_H
#define PENSTOCK_CLI_COMMON_SETTINGS_H

#include "base/error.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "run/also.h"
#include "store/store.h"

#include <stddef.h>

struct cli_settings {
    const char *path;         /* of --config; NULL: none */
    const char **assignments; /* of --set, in order; owned */
    size_t assignment_count;
    struct also_list also; /* of --also, where a command takes such */
};

/* Room for as many assignments as there are arguments. */
void cli_settings_init(struct cli_settings *settings, int argc);

/* Reads the configuration from all its sources; config_check() is left to the caller. config_done()
 * frees the configuration, also after a failure. INVALID, NOT_FOUND, IO: as of config.h. NO_MEMORY.
 */
MUST_USE enum status cli_settings_read(const struct cli_settings *settings,
                                       struct config *ret_config, struct error *err);

/* For what reads the configuration more than once, or has other programs read it. INVALID: a file
 * of it is a stream. */
MUST_USE enum status cli_settings_check_files(const struct cli_settings *settings,
                                              struct error *err);

/* The settings of a run of --also: its file alone. Borrowed from `settings`: not to be freed. */
struct cli_settings cli_settings_of_also(const struct cli_settings *settings, int run);

/* Opens the dataset at `uri` with the options `store.*`. Errors of config.h and
 * store_open(). */
MUST_USE enum status cli_open_store(const struct config *config, const char *uri,
                                    struct store **ret_store, struct error *err);

/* cli_settings_read() and cli_open_store(), where nothing else of the configuration is wanted. */
MUST_USE enum status cli_settings_open_store(const struct cli_settings *settings, const char *uri,
                                             struct store **ret_store, struct error *err);

/* Reads and checks the configuration, and opens the dataset as a run would, but for the disk cache:
 * looking writes nothing. Errors as of cli_settings_read(), config_check() and dataset_open();
 * *ret_dataset is the caller's. */
MUST_USE enum status cli_settings_open(const struct cli_settings *settings,
                                       struct config *ret_config, struct dataset **ret_dataset,
                                       struct error *err);

void cli_settings_done(struct cli_settings *settings);

#endif
