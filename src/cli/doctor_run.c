/* The run's part of `penstock doctor`: see doctor.h. */
#include "base/size.h"
#include "cli/doctor.h"
#include "cli/output_of.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLAN_TIMEOUT_S = 60 };

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static const char *advice_on_storage(const struct error *err, const char *uri)
{
    if (err->status == STATUS_NOT_FOUND)
        return "check dataset.uri, and that the file system is mounted on this node";
    if (starts_with(uri, "s3:") || starts_with(uri, "http"))
        return "check the address, credentials and proxies as this node has them (AWS_*, "
               "https_proxy), and 'penstock inspect' with the same uri";
    return "check that this user may read the dataset on this node; 'penstock inspect' and "
           "'penstock verify' say more";
}

/* True: the dataset was opened, so that there is something to plan. */
static bool check_storage(struct diagnosis *diagnosis, const struct config *config)
{
    struct dataset_options options = config_dataset_options(config, NULL);
    struct dataset *dataset = NULL;
    struct error err;
    options.cache_dir = NULL;
    if (dataset_open(&options, &dataset, &err) != STATUS_OK) {
        diagnosis_add(diagnosis, FINDING_FAILURE, "storage", advice_on_storage(&err, config->uri),
                      "%s", err.message);
        return false;
    }
    diagnosis_add(diagnosis, FINDING_OK, "storage", NULL, "%s: %" PRIu64 " samples of %s",
                  text_shown(config->uri).text, dataset->sample_count,
                  size_format(dataset->sample_bytes).text);
    dataset_free(dataset);
    return true;
}

/* The folder that exists, of a path that may not. */
static void check_writable(struct diagnosis *diagnosis, const char *check, const char *path)
{
    char folder[DOCTOR_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash; access(folder, F_OK) < 0 && (slash = strrchr(folder, '/'));)
        *(slash == folder ? slash + 1 : slash) = '\0';
    struct stat info;
    bool fine =
        stat(folder, &info) == 0 && S_ISDIR(info.st_mode) && access(folder, W_OK | X_OK) == 0;
    diagnosis_add(diagnosis, fine ? FINDING_OK : FINDING_FAILURE, check,
                  fine ? NULL : "name a directory that this user may write to on every node",
                  fine ? "'%s' can be written to" : "'%s' cannot be written to",
                  text_shown(folder).text);
}

/* `penstock plan` says whether memory suffices, and why not. */
static void check_plan(struct diagnosis *diagnosis, const struct cli_settings *settings,
                       uint64_t node_count)
{
    char self[DOCTOR_PATH_BYTES], nodes[32], readers[32];
    if (!doctor_find_program("penstock", self))
        return;
    snprintf(nodes, sizeof nodes, "--nodes=%" PRIu64, node_count);
    snprintf(readers, sizeof readers, "--readers=%" PRIu64, node_count);
    const char *const first[] = {self, "plan", "--json", nodes, readers, NULL};
    struct text output = {0};
    int code = doctor_ask(first, settings, PLAN_TIMEOUT_S, &output);
    output.data[strcspn(output.data, "\n")] = '\0';
    if (code == 0)
        diagnosis_add(diagnosis, FINDING_OK, "plan", NULL, "memory and steps: the run can start");
    else
        diagnosis_add(diagnosis, FINDING_FAILURE, "plan",
                      "'penstock plan' with the same options shows the memory by purpose", "%s",
                      code == OUTPUT_TIMEOUT ? "penstock plan does not come to its end"
                                             : text_shown(output.data).text);
    text_done(&output);
}

/* config_done() frees *ret_config in any case. */
static enum status read_configuration(const struct cli_settings *settings,
                                      struct config *ret_config, struct error *err)
{
    enum status status = cli_settings_read(settings, ret_config, err);
    return status ? status : config_check(ret_config, err);
}

bool doctor_needs(struct diagnosis *diagnosis, const struct cli_settings *settings,
                  uint64_t node_count, struct needs *ret_needs)
{
    struct config config;
    struct error err;
    enum status status = read_configuration(settings, &config, &err);
    if (status)
        diagnosis_add(diagnosis, FINDING_FAILURE, "configuration",
                      "docs/configuration.md has every option", "%s", err.message);
    else
        *ret_needs = (struct needs){
            .trainers = (config.trainers + node_count - 1) / node_count,
            .remote = starts_with(config.uri, "s3:") || starts_with(config.uri, "http"),
            .signs = starts_with(config.uri, "s3:"),
        };
    config_done(&config);
    return status == STATUS_OK;
}

void doctor_run(struct diagnosis *diagnosis, const struct cli_settings *settings,
                uint64_t node_count)
{
    struct config config;
    struct error err;
    if (read_configuration(settings, &config, &err) == STATUS_OK) {
        if (check_storage(diagnosis, &config))
            check_plan(diagnosis, settings, node_count);
        if (config.cache_dir[0])
            check_writable(diagnosis, "cache_dir", config.cache_dir);
        bool automatic = strcmp(config.run_dir, "auto") == 0;
        check_writable(diagnosis, "run_dir", automatic ? "/tmp" : config.run_dir);
    }
    config_done(&config);
}
