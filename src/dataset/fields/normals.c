/* Normals: tables of means and standard deviations for the items of fields' views, from statistics
 * (statistic.h). Called while opening, by one thread.
 *
 * A table has an entry for each index of the axes along which entries differ. If these are the
 * innermost axes, or nearly so, further axes are written out, so that lines of items have entries
 * that lie one behind another. */
#include "dataset/fields/normals.h"

#include "base/number.h"
#include "dataset/fields/select.h"
#include "dataset/fields/statistic.h"
#include "zarr/hierarchy/cf.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_ITEMS = 64, TABLE_LINE_ITEMS = 512, MOST_LINE_ITEMS = 1 << 16, MOST_ENTRIES = 1 << 24 };

/* The index along an axis of the array, of an index of the slice. */
static uint64_t index_in_array(const struct field_slice *slice, uint64_t index)
{
    for (size_t i = 0; i < slice->run_count; i++) {
        if (index < slice->runs[i].count)
            return slice->runs[i].first + index;
        index -= slice->runs[i].count;
    }
    return index;
}

static double value_at(const struct statistic_frame *frame, const struct statistic *statistic,
                       const uint64_t *position)
{
    uint64_t offset = 0;
    for (int axis = 1; axis < frame->rank; axis++) {
        uint64_t index = position[axis];
        if (statistic->lengths[axis] == 1)
            continue;
        if (statistic->lengths[axis] == frame->whole[axis] && !statistic->is_of_slice)
            index =
                index_in_array(&frame->origin->slices[statistic_array_axis(frame, axis)], index);
        offset += index * statistic->strides[axis];
    }
    return statistic->values[offset];
}

/* The lengths of a table with an entry for each index along which either statistic differs. */
static void choose_lengths(const struct statistic_frame *frame, const struct statistic *mean,
                           const struct statistic *std, uint64_t *lengths)
{
    uint64_t line = 1;
    int last = 0;
    for (int axis = 0; axis < ZARR_MAX_RANK; axis++) {
        bool differs =
            (mean->values && mean->lengths[axis] > 1) || (std->values && std->lengths[axis] > 1);
        lengths[axis] = axis > 0 && axis < frame->rank && differs ? frame->lengths[axis] : 1;
        last = lengths[axis] > 1 ? axis : last;
    }
    for (int axis = frame->rank - 1; axis > last; axis--)
        line *= frame->lengths[axis];
    if (last == 0 || line >= LINE_ITEMS)
        return;
    line = 1;
    for (int axis = frame->rank - 1; axis > 0 && line < TABLE_LINE_ITEMS; axis--) {
        if (frame->lengths[axis] > MOST_LINE_ITEMS / line)
            return;
        line *= frame->lengths[axis];
        lengths[axis] = frame->lengths[axis];
    }
}

static bool next_position(uint64_t *position, const uint64_t *lengths, int rank)
{
    for (int i = rank - 1; i > 0; i--) {
        if (++position[i] < lengths[i])
            return true;
        position[i] = 0;
    }
    return false;
}

static void fill_table(const struct statistic_frame *frame, const struct statistic *statistic,
                       const uint64_t *lengths, enum dtype work, void *table)
{
    uint64_t position[ZARR_MAX_RANK] = {0};
    size_t i = 0;
    do {
        double value = value_at(frame, statistic, position);
        if (work == DTYPE_FLOAT32)
            ((float *)table)[i++] = (float)value;
        else
            ((double *)table)[i++] = value;
    } while (next_position(position, lengths, frame->rank));
}

static enum status make_tables(const struct statistic_frame *frame, const struct statistic *mean,
                               const struct statistic *std, struct zarr_normal *normal,
                               struct error *err)
{
    uint64_t lengths[ZARR_MAX_RANK], count = 1;
    size_t item_bytes = dtype_bytes(normal->work);
    choose_lengths(frame, mean, std, lengths);
    for (int axis = frame->rank - 1; axis > 0; axis--) {
        normal->strides[axis] = lengths[axis] > 1 ? count : 0;
        if (lengths[axis] > MOST_ENTRIES / count)
            return error_set(err, STATUS_INVALID, "mean and std have more than %d entries",
                             MOST_ENTRIES);
        count *= lengths[axis];
    }
    normal->count = count;
    normal->mean = mean->values ? calloc(count, item_bytes) : NULL;
    normal->std = std->values ? calloc(count, item_bytes) : NULL;
    if ((mean->values && !normal->mean) || (std->values && !normal->std))
        return error_set(err, STATUS_NO_MEMORY, "no memory for mean and std");
    if (normal->mean)
        fill_table(frame, mean, lengths, normal->work, normal->mean);
    if (normal->std)
        fill_table(frame, std, lengths, normal->work, normal->std);
    return STATUS_OK;
}

static enum status read_tables(const struct dataset *dataset, const struct dataset_options *options,
                               const struct dataset_field_spec *spec,
                               const struct field_origin *origin, struct zarr_normal *normal,
                               struct error *err)
{
    struct statistic_frame frame = statistic_frame_of(origin);
    const struct statistic_reading reading = {dataset, options, &frame};
    struct statistic mean = {0}, std = {0};
    enum status status = STATUS_OK;
    if (spec->stats && (spec->mean || spec->std))
        status = error_set(err, STATUS_INVALID, "stats says mean and std: remove one or the other");
    else if (spec->stats)
        status = statistic_read_stats(&reading, spec, normal->work, &mean, &std, err);
    if (status == STATUS_OK && spec->mean) {
        status = statistic_read(&reading, spec->mean, false, normal->work, &mean, err);
        status = status != STATUS_OK ? error_prefix(err, status, "mean: ") : STATUS_OK;
    }
    if (status == STATUS_OK && spec->std) {
        status = statistic_read(&reading, spec->std, true, normal->work, &std, err);
        status = status != STATUS_OK ? error_prefix(err, status, "std: ") : STATUS_OK;
    }
    if (status == STATUS_OK)
        status = make_tables(&frame, &mean, &std, normal, err);
    free(mean.values);
    free(std.values);
    return status;
}

static void *copy_table(const void *table, size_t bytes)
{
    void *copy = table ? malloc(bytes) : NULL;
    return copy ? memcpy(copy, table, bytes) : NULL;
}

static bool can_be_read_as(const struct field_origin *origin, enum dtype from)
{
    enum dtype dtype = origin->array->array.dtype;
    return from == dtype || (dtype_is_integer(dtype) && from == dtype_other_sign(dtype));
}

/* Of a packed dataset: the same again, where it fits the view. */
static enum status copy_normal(const struct field_origin *origin, const struct zarr_normal *from,
                               struct zarr_normal *normal, struct error *err)
{
    struct statistic_frame frame = statistic_frame_of(origin);
    size_t last = 0, bytes = from->count * dtype_bytes(from->work);
    for (int axis = 1; axis < frame.rank; axis++)
        last += from->strides[axis] * (frame.lengths[axis] - 1);
    if (last >= max_u64(from->count, 1) || from->strides[0] != 0 || from->missing_count < 0 ||
        from->missing_count > NORMAL_MAX_MISSING || !can_be_read_as(origin, from->from) ||
        from->work != normal_work_type(from->from))
        return error_set(err, STATUS_CORRUPT, "packed dataset: a normal does not fit its field");
    *normal = *from;
    normal->mean = copy_table(from->mean, bytes);
    normal->std = copy_table(from->std, bytes);
    if ((from->mean && !normal->mean) || (from->std && !normal->std))
        return error_set(err, STATUS_NO_MEMORY, "no memory for mean and std");
    return STATUS_OK;
}

static enum status settle(const struct dataset *dataset, const struct dataset_options *options,
                          const struct dataset_field_spec *spec, struct field_origin *origin,
                          struct error *err)
{
    if (!spec->mean && !spec->std && !spec->stats && !spec->cf && !spec->normal)
        return STATUS_OK;
    struct zarr_normal *normal = origin->normal = calloc(1, sizeof *normal);
    if (!normal)
        return error_set(err, STATUS_NO_MEMORY, "no memory for mean and std");
    if (spec->normal)
        return copy_normal(origin, spec->normal, normal, err);
    normal->from = origin->convert.from;
    normal->work = normal_work_type(normal->from);
    if (spec->cf) {
        struct zarr_cf cf;
        enum status status = zarr_node_cf(origin->array, &cf, err);
        if (status != STATUS_OK)
            return status;
        normal->missing_count = cf.missing_count;
        memcpy(normal->missing, cf.missing, sizeof normal->missing);
    }
    return read_tables(dataset, options, spec, origin, normal, err);
}

/* Scales that stand elsewhere
 * ------------------------------------------------------------------------------------------- */

static enum status read_number(const struct statistic_reading *reading, const char *text,
                               bool divides, double *number, struct error *err)
{
    struct statistic statistic = {0};
    enum status status =
        text ? statistic_read(reading, text, divides, DTYPE_FLOAT64, &statistic, err) : STATUS_OK;
    if (text && status == STATUS_OK)
        *number = statistic.values[0];
    free(statistic.values);
    return status != STATUS_OK ? error_prefix(err, status, "%s: ", divides ? "scale" : "offset")
                               : STATUS_OK;
}

enum status normals_read_scales(const struct dataset *dataset,
                                const struct dataset_options *options,
                                struct dataset_field_spec **ret_fields, struct error *err)
{
    const struct statistic_reading reading = {dataset, options, NULL};
    bool has_some = false;
    *ret_fields = NULL;
    for (size_t f = 0; options->fields && f < options->field_count; f++)
        has_some |= options->fields[f].scale_at || options->fields[f].offset_at;
    if (!has_some)
        return STATUS_OK;
    struct dataset_field_spec *fields = calloc(options->field_count, sizeof *fields);
    if (!fields)
        return error_set(err, STATUS_NO_MEMORY, "no memory for fields");
    memcpy(fields, options->fields, options->field_count * sizeof *fields);
    *ret_fields = fields;
    for (size_t f = 0; f < options->field_count; f++) {
        struct dataset_field_spec *field = &fields[f];
        enum status status = read_number(&reading, field->scale_at, true, &field->scale, err);
        if (status == STATUS_OK)
            status = read_number(&reading, field->offset_at, false, &field->offset, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "field '%s': ", field->name);
    }
    return STATUS_OK;
}

enum status normals_settle(struct dataset *dataset, const struct dataset_options *options,
                           struct error *err)
{
    for (size_t f = 0; options->fields && f < options->field_count; f++) {
        const struct dataset_field_spec *spec = &options->fields[f];
        struct field_origin *origin = dataset_origin(dataset, spec->name);
        if (!origin)
            continue;
        enum status status = settle(dataset, options, spec, origin, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "field '%s': ", spec->name);
    }
    return STATUS_OK;
}

void normals_free(struct zarr_normal *normal)
{
    if (!normal)
        return;
    free(normal->mean);
    free(normal->std);
    free(normal);
}
