/* The run's part of `penstock doctor`: see doctor.h. */
#include "base/size.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/output_of.h"
#include "delivery/ring/rundir.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLAN_TIMEOUT_S = 60 };

/* Of a list of stores, which may be NULL. */
static void add_store_needs(const char *uris, struct needs *needs)
{
    struct text uri = {0};
    while (text_list_take(&uris, &uri)) {
        bool signs = false;
        needs->remote |= store_uri_is_remote(uri.data, &signs);
        needs->signs |= signs;
    }
    text_done(&uri);
}

static void add_config_needs(const struct config *config, struct needs *needs)
{
    add_store_needs(config->uri, needs);
    add_store_needs(config->virtual_prefixes, needs);
    for (size_t i = 0; i < config->field_count; i++)
        add_store_needs(config->fields[i].store, needs);
    for (uint32_t i = 0; i < config->source_count; i++)
        add_config_needs(config->sources[i].config, needs);
}

static const char *advice_on_storage(const struct error *err, const struct config *config)
{
    struct needs needs = {0};
    add_config_needs(config, &needs);
    if (err->status == STATUS_NOT_FOUND)
        return "check dataset.uri and the stores of fields, and that the file system is mounted on "
               "this node";
    if (needs.remote)
        return "check the address, store.proxy, and credentials as this node has them, and "
               "'penstock inspect' with the same uri";
    return "check that this user may read the dataset on this node; 'penstock inspect' and "
           "'penstock verify' say more";
}

struct run_name {
    char text[ALSO_NAME_BYTES + 16];
};

/* "run 'val': ", or "". */
static struct run_name name_run(const char *run)
{
    struct run_name name = {""};
    if (run)
        snprintf(name.text, sizeof name.text, "run '%s': ", run);
    return name;
}

/* What is legal and probably not meant, a line each; notes are left to `penstock plan`. */
static void add_doubts(struct diagnosis *diagnosis, const struct dataset *dataset, const char *run)
{
    static const char mark[] = "warning: ";
    struct text doubts = {0};
    char *rest = NULL;
    dataset_describe_doubts(dataset, &doubts);
    for (char *line = doubts.data ? strtok_r(doubts.data, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        if (strncmp(line, mark, strlen(mark)) == 0)
            diagnosis_add(diagnosis, FINDING_WARNING, "dataset", NULL, "%s%s", name_run(run).text,
                          line + strlen(mark));
    text_done(&doubts);
}

/* `run`: NULL, or of --also. True: the dataset was opened, so that there is something to plan. */
static bool check_storage(struct diagnosis *diagnosis, const struct config *config, const char *run)
{
    struct dataset *dataset = NULL;
    struct error err;
    if (config_open_dataset(config, false, NULL, &dataset, &err) != STATUS_OK) {
        diagnosis_add(diagnosis, FINDING_FAILURE, "storage", advice_on_storage(&err, config),
                      "%s%s", name_run(run).text, err.message);
        return false;
    }
    bool fills_empty = config->missing_chunk == MISSING_CHUNK_FILL;
    if (doctor_look_at_arrays(diagnosis, dataset, run, fills_empty, &err) != STATUS_OK)
        diagnosis_add(diagnosis, FINDING_FAILURE, "storage", advice_on_storage(&err, config),
                      "%s%s", name_run(run).text, err.message);
    else
        diagnosis_add(diagnosis, FINDING_OK, "storage", NULL, "%s%s: %" PRIu64 " samples of %s",
                      name_run(run).text,
                      config->source_count > 0 ? "the mix" : text_shown(config->uri).text,
                      dataset->sample_count, size_format(dataset->sample_bytes).text);
    add_doubts(diagnosis, dataset, run);
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

static void say_plan(struct diagnosis *diagnosis, const struct cli_settings *settings,
                     const char *json)
{
    static const char key[] = "\"node_memory_bytes\":";
    const char *at = strstr(json, key);
    if (settings->also.count == 0 || !at)
        diagnosis_add(diagnosis, FINDING_OK, "plan", NULL, "memory and steps: the run can start");
    else
        diagnosis_add(diagnosis, FINDING_OK, "plan", NULL,
                      "memory and steps: the %d runs can start together; their readers take %s of "
                      "a node, on the same cores",
                      1 + settings->also.count,
                      size_format(strtoull(at + strlen(key), NULL, 10)).text);
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
        say_plan(diagnosis, settings, output.data);
    else
        diagnosis_add(diagnosis, FINDING_FAILURE, "plan",
                      "'penstock plan' with the same options shows the memory by purpose", "%s",
                      code == OUTPUT_TIMEOUT ? "penstock plan does not come to its end"
                                             : text_shown(output.data).text);
    text_done(&output);
}

/* config_done() frees *ret_config in any case. `run`: NULL, or of --also. */
static enum status read_configuration(const struct cli_settings *settings, const char *run,
                                      struct config *ret_config, struct error *err)
{
    enum status status = cli_settings_read(settings, ret_config, err);
    if (status != STATUS_OK)
        return status;
    return run ? config_check_beside(ret_config, err) : config_check(ret_config, err);
}

/* False: it is wrong, as a finding says. */
static bool add_needs(struct diagnosis *diagnosis, const struct cli_settings *settings,
                      const char *run, struct needs *needs)
{
    struct config config;
    struct error err;
    enum status status = read_configuration(settings, run, &config, &err);
    if (status != STATUS_OK) {
        diagnosis_add(diagnosis, FINDING_FAILURE, "configuration",
                      "docs/use/configuration.md has every option", "%s%s", name_run(run).text,
                      err.message);
    } else {
        if (!run)
            needs->trainers = config.trainers;
        add_config_needs(&config, needs);
    }
    config_done(&config);
    return status == STATUS_OK;
}

bool doctor_needs(struct diagnosis *diagnosis, const struct cli_settings *settings,
                  uint64_t node_count, struct needs *ret_needs)
{
    struct needs needs = {0};
    bool right = add_needs(diagnosis, settings, NULL, &needs);
    for (int i = 0; i < settings->also.count; i++) {
        const struct cli_settings also = cli_settings_of_also(settings, i);
        right &= add_needs(diagnosis, &also, settings->also.runs[i].name, &needs);
    }
    needs.trainers = (needs.trainers + node_count - 1) / node_count;
    if (right)
        *ret_needs = needs;
    return right;
}

/* True: there is a dataset to plan with. */
static bool check_run(struct diagnosis *diagnosis, const struct cli_settings *settings,
                      const char *run)
{
    struct config config;
    struct error err;
    bool opened = false;
    if (read_configuration(settings, run, &config, &err) == STATUS_OK) {
        opened = check_storage(diagnosis, &config, run);
        if (config.cache_dir[0])
            check_writable(diagnosis, "cache_dir", config.cache_dir);
        bool automatic = strcmp(config.run_dir, "auto") == 0;
        if (!run)
            check_writable(diagnosis, "run_dir", automatic ? rundir_parent() : config.run_dir);
    }
    config_done(&config);
    return opened;
}

void doctor_run(struct diagnosis *diagnosis, const struct cli_settings *settings,
                uint64_t node_count)
{
    bool opened = check_run(diagnosis, settings, NULL);
    for (int i = 0; i < settings->also.count; i++) {
        const struct cli_settings also = cli_settings_of_also(settings, i);
        opened &= check_run(diagnosis, &also, settings->also.runs[i].name);
    }
    if (opened)
        check_plan(diagnosis, settings, node_count);
}
