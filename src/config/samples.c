/* See options.h: checks of samples across options. Pure. */
#include "config/options.h"

#include "dataset/ranges.h"

#include <string.h>

static enum status check_split(const struct config *config, struct error *err)
{
    const struct config_shares *parts = &config->split_parts;
    bool ranged = config->split_range.end > 0 || config->split_range.text, found = false;
    bool by_ranges = parts->count > 0 && parts->parts[0].range;
    if (ranged && (parts->count > 0 || *config->split_part))
        return error_set(err, STATUS_INVALID,
                         "samples.split_range and samples.split_parts are both set: a split is by "
                         "range or by parts");
    if (config->split_gap > 0 && !ranged && !by_ranges)
        return error_set(err, STATUS_INVALID,
                         "samples.split_gap is set without samples.split_range, or parts by range, "
                         "which the gap belongs to");
    if (by_ranges && strcmp(config->split_by, "episode") != 0)
        return error_set(err, STATUS_INVALID,
                         "samples.split_by is '%s', which is for shares, and samples.split_parts "
                         "are ranges: set one of both",
                         config->split_by);
    if ((parts->count > 0) != (*config->split_part != '\0'))
        return error_set(err, STATUS_INVALID,
                         "samples.split_part is the name of one of samples.split_parts: set both, "
                         "or none");
    for (size_t i = 0; i < parts->count; i++)
        found = found || strcmp(parts->parts[i].name, config->split_part) == 0;
    if (parts->count > 0 && !found)
        return error_set(err, STATUS_INVALID,
                         "samples.split_part '%s' is none of samples.split_parts \"%s\"",
                         config->split_part, parts->text);
    return STATUS_OK;
}

/* The text is the name of an array, or a list of ranges. */
static enum status check_ranges(const char *key, const char *text, struct error *err)
{
    struct range_list list;
    enum status status = range_list_read(text, &list, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "%s: ", key);
    range_list_done(&list);
    return STATUS_OK;
}

enum status config_check_samples(const struct config *config, struct error *err)
{
    if (!!*config->episodes_ends + !!*config->episodes_id + !!*config->episodes_jumps > 1)
        return error_set(err, STATUS_INVALID,
                         "more than one of samples.episodes_ends, samples.episodes_id and "
                         "samples.episodes_jumps is set: episodes are told by their ends, by their "
                         "numbers, or by jumps of the time");
    if (config->draws > 0 && !*config->weight)
        return error_set(
            err, STATUS_INVALID,
            "samples.draws is set without samples.weight, the array of weights by which "
            "samples are drawn");
    enum status status = check_split(config, err);
    if (status == STATUS_OK)
        status = check_ranges("samples.missing", config->missing, err);
    return status != STATUS_OK ? status : check_ranges("samples.where", config->where, err);
}
