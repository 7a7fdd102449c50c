/* See also.h. */
#include "run/also.h"

#include <string.h>

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
    return (struct also_common){.trainers = training->trainers,
                                .reconnect_timeout_s = training->reconnect_timeout_s,
                                .grace_s = training->grace_s,
                                .drain_timeout_s = training->drain_timeout_s,
                                .connect_timeout_s = training->connect_timeout_s};
}

void also_adapt(struct config *config, const struct also_common *common)
{
    config->trainers = common->trainers;
    config->reconnect_timeout_s = common->reconnect_timeout_s;
    config->grace_s = common->grace_s;
    config->drain_timeout_s = common->drain_timeout_s;
    config->connect_timeout_s = common->connect_timeout_s;
    config->epochs = 0;
    config->stall_warning_s = 0; /* its trainers are elsewhere most of the time */
}
