/* See also.h. */
#include "run/also.h"

#include "base/address.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status also_add(struct also_list *list, const char *text, struct error *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    if (length == 0 || !equals[1])
        return error_set(err, STATUS_INVALID,
                         "--also '%s': give a name and a file, as in --also val=val.yaml", text);
    if (strspn(text, letters) != length || length >= ALSO_NAME_BYTES)
        return error_set(err, STATUS_INVALID,
                         "--also '%s': a name has at most %d letters, digits, - and _", text,
                         ALSO_NAME_BYTES - 1);
    struct also_run run = {.text = text, .config_path = equals + 1};
    memcpy(run.name, text, length);
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->runs[i].name, run.name) == 0)
            return error_set(err, STATUS_INVALID, "--also '%s': the name is given twice", text);
    if (list->count == ALSO_MOST)
        return error_set(err, STATUS_INVALID, "more than %d --also runs", ALSO_MOST);
    list->runs[list->count++] = run;
    return STATUS_OK;
}

struct also_common also_common_of(const struct config *training)
{
    struct also_common common = {.trainers = training->trainers,
                                 .trainers_least = training->trainers_least,
                                 .trainers_per_reader = training->trainers_per_reader,
                                 .reconnect_timeout_s = training->reconnect_timeout_s,
                                 .grace_s = training->grace_s,
                                 .drain_timeout_s = training->drain_timeout_s,
                                 .connect_timeout_s = training->connect_timeout_s};
    snprintf(common.mesh, sizeof common.mesh, "%s", training->mesh);
    snprintf(common.mesh_data, sizeof common.mesh_data, "%s", training->mesh_data);
    return common;
}

enum status also_adapt(struct config *config, const struct also_common *common, struct error *err)
{
    config->trainers = common->trainers;
    config->trainers_least = common->trainers_least;
    config->trainers_per_reader = common->trainers_per_reader;
    config->reconnect_timeout_s = common->reconnect_timeout_s;
    config->grace_s = common->grace_s;
    config->drain_timeout_s = common->drain_timeout_s;
    config->connect_timeout_s = common->connect_timeout_s;
    config->epochs = 0;
    config->stall_warning_s = 0; /* its trainers are elsewhere most of the time */
    enum status status = config_put_mesh(config, common->mesh, common->mesh_data, err);
    return status == STATUS_OK ? config_check(config, err) : status;
}

/* The same name of a file however it is written, where its folder is there. */
static void name_file(const char *path, char ret_name[PATH_MAX])
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char folder[PATH_MAX], real[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
             slash ? path : ".");
    if (!*path)
        ret_name[0] = '\0';
    else if (!realpath(folder, real) ||
             snprintf(ret_name, PATH_MAX, "%s/%s", real, name) >= PATH_MAX)
        snprintf(ret_name, PATH_MAX, "%s", path);
}

void also_outputs_of(const struct config *config, const char *name, int readers_on_node,
                     struct also_outputs *ret_outputs)
{
    *ret_outputs = (struct also_outputs){.readers_on_node = readers_on_node};
    snprintf(ret_outputs->run, sizeof ret_outputs->run, "%s", name ? name : "");
    name_file(config->metrics_file, ret_outputs->metrics_file);
    if (config->bad_sample == BAD_SAMPLE_MASK)
        name_file(config->bad_list, ret_outputs->bad_list);
    snprintf(ret_outputs->metrics_listen, sizeof ret_outputs->metrics_listen, "%s",
             config->metrics_listen);
}

/* Whether readers of both would listen at one port: those of a node take one after another. */
static bool share_a_port(const struct also_outputs *a, const struct also_outputs *b)
{
    struct address first, second;
    struct error ignored;
    if (address_parse(a->metrics_listen, &first, &ignored) != STATUS_OK ||
        address_parse(b->metrics_listen, &second, &ignored) != STATUS_OK)
        return false;
    int low = address_port(&first), other = address_port(&second);
    return low > 0 && other > 0 && low < other + b->readers_on_node &&
           other < low + a->readers_on_node && address_same_host(&first, &second);
}

static bool is_of_both(const char *file, const struct also_outputs *other)
{
    return *file && (strcmp(file, other->metrics_file) == 0 || strcmp(file, other->bad_list) == 0);
}

enum status also_compare_outputs(const struct also_outputs *mine, const struct also_outputs *other,
                                 struct error *err)
{
    const bool is_file = is_of_both(mine->metrics_file, other);
    const bool is_list = is_of_both(mine->bad_list, other);
    char run[ALSO_NAME_BYTES + 16] = "the run that is trained on";
    if (*other->run)
        snprintf(run, sizeof run, "run '%s'", other->run);
    if (is_file || is_list)
        return error_set(err, STATUS_INVALID,
                         "%s '%s' is that of %s, too: give each run a file of its own",
                         is_file ? "metrics.file" : "errors.report",
                         text_shown(is_file ? mine->metrics_file : mine->bad_list).text, run);
    if (share_a_port(mine, other))
        return error_set(err, STATUS_INVALID,
                         "metrics.listen '%s': readers of %s, which has '%s', listen at the same "
                         "ports: the readers of a node take one port after another; leave as many "
                         "between the runs, or give port 0",
                         mine->metrics_listen, run, other->metrics_listen);
    return STATUS_OK;
}
