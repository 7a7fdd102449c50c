/* Of which fields there are statistics, and along which axes. See stats.h. */
#include "workshop/stats/stats.h"

#include "base/convert.h"
#include "base/size.h"
#include "zarr/metadata/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const usual_axes[] = {"channel",   "channels", "variable",
                                         "variables", "band",     "feature"};

bool stats_has_numbers(const struct dataset *dataset, size_t number)
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

/* "axes 1 level, 2 lat", "axis 1", "no axes". */
static void describe_axes(const struct stats_field *field, struct text *out)
{
    text_append(out, field->rank == 0 ? "no axes" : field->rank == 1 ? "axis" : "axes");
    for (int axis = 0; axis < field->rank; axis++) {
        const char *name = field->axis_names[axis];
        text_append(out, "%s %d%s%s", axis ? "," : "", axis + 1, *name ? " " : "",
                    text_shown(name).text);
    }
}

static enum status refuse_axis(const struct stats_field *field, const char *axes, const char *name,
                               struct error *err)
{
    struct text known = {0};
    describe_axes(field, &known);
    error_set(err, STATUS_INVALID, "--by %s=%s: the field's array has no axis '%s'; a frame has %s",
              field->name, axes, name, known.data);
    text_done(&known);
    return STATUS_INVALID;
}

/* `axes`: with commas; `must`: an axis that is not there is an error. *any: one is there. */
static enum status keep_axes(const struct dataset *dataset, struct stats_field *field,
                             const char *axes, bool must, bool *any, struct error *err)
{
    char copy[512], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", axes);
    while ((name = strsep(&rest, ","))) {
        int axis = *name ? dataset_field_axis(dataset, field->number, name) : -1;
        if (axis > 0)
            field->kept[axis - 1] = *any = true;
        else if (axis == 0 && must)
            return error_set(err, STATUS_INVALID,
                             "--by %s=%s: '%s' is the sample axis, over which statistics are",
                             field->name, axes, name);
        else if (*name && must)
            return refuse_axis(field, axes, name, err);
    }
    return STATUS_OK;
}

/* The axes of "FIELD=..."; NULL: it is of another field, or of all. */
static const char *own_axes(const char *by, const struct stats_field *field)
{
    size_t length = strlen(field->name);
    return strncmp(by, field->name, length) == 0 && by[length] == '=' ? by + length + 1 : NULL;
}

/* What is said of this field goes before what is said of all; what is said several times adds up.
 */
static enum status settle_axes(const struct dataset *dataset, struct stats_field *field,
                               const char *const *by, size_t by_count, struct error *err)
{
    bool is_own = false, any = false;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < by_count; i++)
        is_own = is_own || own_axes(by[i], field);
    for (size_t i = 0; i < by_count && status == STATUS_OK; i++) {
        const char *own = own_axes(by[i], field);
        if (own)
            status = keep_axes(dataset, field, own, true, &any, err);
        else if (!is_own && !strchr(by[i], '='))
            status = keep_axes(dataset, field, by[i], false, &any, err);
    }
    if (status == STATUS_OK && !is_own && !any)
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

/* The first of the axes, with commas, that no field has; "": each is one of some field. */
static void find_unused(const struct stats *stats, const char *axes, char ret_name[512])
{
    char copy[512], *rest = copy, *name;
    snprintf(copy, sizeof copy, "%s", axes);
    *ret_name = '\0';
    while (!*ret_name && (name = strsep(&rest, ","))) {
        bool is_used = !*name;
        for (size_t f = 0; f < stats->field_count; f++)
            is_used =
                is_used || dataset_field_axis(stats->dataset, stats->fields[f].number, name) > 0;
        if (!is_used)
            snprintf(ret_name, 512, "%s", name);
    }
}

/* "'t2m' (axes 1 level, 2 lat), 'x' (axis 1)". */
static void describe_all(const struct stats *stats, struct text *out)
{
    for (size_t f = 0; f < stats->field_count; f++) {
        const struct stats_field *field = &stats->fields[f];
        text_append(out, "%s'%s' (", f ? ", " : "", text_shown(field->name).text);
        describe_axes(field, out);
        text_append(out, ")");
    }
}

static enum status refuse_by(const struct stats *stats, const char *by, struct error *err,
                             const char *axis)
{
    struct text known = {0};
    describe_all(stats, &known);
    if (axis)
        error_set(err, STATUS_INVALID,
                  "--by %s: no field has an axis '%s' in a frame; there are %s", by, axis,
                  known.data);
    else
        error_set(err, STATUS_INVALID,
                  "--by %s: no field has such a name and numbers; there are %s", by, known.data);
    text_done(&known);
    return STATUS_INVALID;
}

static enum status refuse_unused(const struct stats *stats, const char *const *by, size_t by_count,
                                 struct error *err)
{
    for (size_t i = 0; i < by_count; i++) {
        char name[512];
        bool is_used = !strchr(by[i], '=');
        for (size_t f = 0; f < stats->field_count; f++)
            is_used = is_used || own_axes(by[i], &stats->fields[f]);
        if (!is_used)
            return refuse_by(stats, by[i], err, NULL);
        find_unused(stats, strchr(by[i], '=') ? "" : by[i], name);
        if (*name)
            return refuse_by(stats, by[i], err, name);
    }
    return STATUS_OK;
}

/* Whether a field's group is what `name` is in DST, or lies in it. */
static bool is_at(const char *field, const char *name)
{
    size_t length = strlen(name);
    return strncmp(field, name, length) == 0 && (!field[length] || field[length] == '/');
}

/* Fields' groups in DST must not be where stats_write() puts something else. */
static enum status refuse_meeting(const struct stats *stats, const struct stats_field *field,
                                  struct error *err)
{
    static const char *const in_root[] = {"quantile", "zarr.json", ".penstock-stats"};
    static const char *const in_group[] = {"count", "mean",      "std",      "min",
                                           "max",   "quantiles", "zarr.json"};
    for (size_t i = 0; i < sizeof in_root / sizeof *in_root; i++)
        if (is_at(field->name, in_root[i]))
            return error_set(err, STATUS_INVALID,
                             "field '%s': '%s' is another thing in the statistics' store: give the "
                             "field another name",
                             field->name, in_root[i]);
    for (size_t f = 0; f < stats->field_count; f++) {
        const char *other = stats->fields[f].name;
        size_t length = strlen(other);
        if (strncmp(field->name, other, length) != 0 || field->name[length] != '/')
            continue;
        for (size_t i = 0; i < sizeof in_group / sizeof *in_group; i++)
            if (is_at(field->name + length + 1, in_group[i]))
                return error_set(err, STATUS_INVALID,
                                 "fields '%s' and '%s': '%s' is the name of statistics of '%s': "
                                 "give one of the fields another name",
                                 other, field->name, field->name, other);
    }
    return STATUS_OK;
}

enum status stats_take_fields(struct stats *stats, const struct dataset *dataset,
                              const char *const *by, size_t by_count, struct error *err)
{
    enum status status = STATUS_OK;
    stats->dataset = dataset;
    for (size_t f = 0; f < dataset->field_count && status == STATUS_OK; f++) {
        struct stats_field *field = &stats->fields[stats->field_count];
        if (!stats_has_numbers(dataset, f)) /* made ones */
            continue;
        describe_frame(dataset, f, field);
        stats->field_count++;
        status = settle_axes(dataset, field, by, by_count, err);
        if (status == STATUS_OK)
            status = allocate(field, err);
    }
    if (status == STATUS_OK)
        status = refuse_unused(stats, by, by_count, err);
    for (size_t f = 0; f < stats->field_count && status == STATUS_OK; f++)
        status = refuse_meeting(stats, &stats->fields[f], err);
    if (status == STATUS_OK && stats->field_count == 0)
        status = error_set(err, STATUS_INVALID, "no field has numbers");
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
