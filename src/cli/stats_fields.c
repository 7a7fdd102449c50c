/* Of which fields there are statistics, and along which axes. See stats.h. */
#include "cli/stats.h"

#include "base/convert.h"
#include "base/size.h"
#include "zarr/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual_axes[] = {"channel",   "channels", "variable",
                                         "variables", "band",     "feature"};

static bool has_numbers(const struct dataset *dataset, size_t number)
{
    const struct dataset_field *field = &dataset->fields[number];
    const struct zarr_array *array = dataset_field_array(dataset, number);
    return (field->source == FIELD_ROW || field->source == FIELD_HELD) && array &&
           array->item_length == 0 && convert_is_possible(field->dtype, DTYPE_FLOAT64);
}

static void describe_frame(const struct dataset *dataset, size_t number, struct stats_field *field)
{
    const struct zarr_array *array = dataset_field_array(dataset, number);
    *field = (struct stats_field){.number = number,
                                  .name = dataset->fields[number].name,
                                  .dtype = dataset->fields[number].dtype,
                                  .rank = array->rank - 1,
                                  .frame_items = 1};
    for (int axis = 0; axis < field->rank; axis++) {
        field->lengths[axis] = array->shape[axis + 1];
        field->frame_items *= field->lengths[axis];
        dataset_field_axis_name(dataset, number, axis + 1, field->axis_names[axis]);
    }
    bool is_wide = dtype_bytes(field->dtype) > 2 && field->dtype != DTYPE_FLOAT32;
    field->key_bits = is_wide ? 64 : 32;
}

/* The samples' one axis, or the one that is named as channels are. */
static void keep_usual_axis(const struct dataset *dataset, struct stats_field *field)
{
    field->kept[0] = field->rank == 1;
    for (size_t i = 0; field->rank > 1 && i < sizeof usual_axes / sizeof *usual_axes; i++) {
        int axis = dataset_field_axis(dataset, field->number, usual_axes[i]);
        if (axis > 0) {
            field->kept[axis - 1] = true;
            return;
        }
    }
}

/* `axes`: with commas; `must`: an axis that is not there is an error. */
static enum status keep_axes(const struct dataset *dataset, struct stats_field *field,
                             const char *axes, bool must, bool *ret_any, struct error *err)
{
    char copy[512], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", axes);
    while ((name = strsep(&rest, ","))) {
        int axis = *name ? dataset_field_axis(dataset, field->number, name) : -1;
        if (axis > 0)
            field->kept[axis - 1] = *ret_any = true;
        else if (axis == 0 && must)
            return error_set(err, STATUS_INVALID,
                             "--by %s=%s: '%s' is the sample axis, over which statistics are",
                             field->name, axes, name);
        else if (*name && must)
            return error_set(err, STATUS_INVALID, "--by %s=%s: the field's array has no axis '%s'",
                             field->name, axes, name);
    }
    return STATUS_OK;
}

static enum status settle_axes(const struct dataset *dataset, struct stats_field *field,
                               const char *const *by, size_t by_count, bool *by_used,
                               struct error *err)
{
    size_t length = strlen(field->name);
    bool is_said = false, any = false;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < by_count && !status; i++) {
        bool is_own = strncmp(by[i], field->name, length) == 0 && by[i][length] == '=';
        if (is_own) {
            memset(field->kept, 0, sizeof field->kept);
            is_said = by_used[i] = true;
            status = keep_axes(dataset, field, by[i] + length + 1, true, &any, err);
        } else if (!is_said && !strchr(by[i], '=')) {
            any = false;
            status = keep_axes(dataset, field, by[i], false, &any, err);
            by_used[i] |= any;
            is_said = any;
        }
    }
    if (!status && !is_said)
        keep_usual_axis(dataset, field);
    return status;
}

static enum status allocate(struct stats_field *field, struct error *err)
{
    field->entry_count = 1;
    for (int axis = 0; axis < field->rank; axis++)
        if (field->kept[axis])
            field->entry_count *= field->lengths[axis];
    if (field->entry_count > STATS_MOST_ENTRIES)
        return error_set(err, STATUS_INVALID,
                         "field '%s': %s entries along the axes that are kept: %s at most; choose "
                         "others with --by",
                         field->name, count_format(field->entry_count).text,
                         count_format(STATS_MOST_ENTRIES).text);
    field->moments = calloc(field->entry_count, sizeof *field->moments);
    field->targets = calloc(field->entry_count * STATS_MOST_TARGETS, sizeof *field->targets);
    field->target_counts = calloc(field->entry_count, sizeof *field->target_counts);
    if (field->moments && field->targets && field->target_counts)
        return STATUS_OK;
    return error_set(err, STATUS_NO_MEMORY, "no memory for statistics");
}

static enum status refuse_unused(const char *const *by, size_t by_count, const bool *by_used,
                                 struct error *err)
{
    for (size_t i = 0; i < by_count; i++)
        if (!by_used[i])
            return error_set(err, STATUS_INVALID, "--by %s: no field has such %s", by[i],
                             strchr(by[i], '=') ? "a name and numbers" : "an axis");
    return STATUS_OK;
}

enum status stats_take_fields(struct stats *stats, const struct dataset *dataset,
                              const char *const *by, size_t by_count, struct text *notes,
                              struct error *err)
{
    bool *by_used = calloc(by_count + 1, sizeof *by_used);
    enum status status =
        by_used ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for options");
    stats->dataset = dataset;
    for (size_t f = 0; f < dataset->field_count && !status; f++) {
        const struct dataset_field *from = &dataset->fields[f];
        struct stats_field *field = &stats->fields[stats->field_count];
        if (!has_numbers(dataset, f)) {
            if (from->source != FIELD_MADE)
                text_append(notes, "left out: field '%s', which is ragged or has no numbers\n",
                            text_shown(from->name).text);
            continue;
        }
        describe_frame(dataset, f, field);
        stats->field_count++;
        status = settle_axes(dataset, field, by, by_count, by_used, err);
        if (!status)
            status = allocate(field, err);
    }
    if (!status)
        status = refuse_unused(by, by_count, by_used, err);
    if (!status && stats->field_count == 0)
        status = error_set(err, STATUS_INVALID, "no field has numbers");
    free(by_used);
    return status;
}

void stats_done(struct stats *stats)
{
    for (size_t f = 0; f < stats->field_count; f++) {
        free(stats->fields[f].moments);
        free(stats->fields[f].targets);
        free(stats->fields[f].target_counts);
    }
}
