/* Normals: tables of means and standard deviations, from arrays, for the items of fields' views.
 * Called while opening, by one thread. Numbers instead of an array are one for all, or those of an
 * array of one axis. Statistics (`penstock stats`) are means and standard deviations, too: from
 * least and greatest values where these are wanted.
 *
 * The axes of such an array are axes of the field's array, but for the sample axis: by the names of
 * dimensions, where all axes of both have names; else the one axis of an array that is as long as
 * the field's first such axis is that axis ("channel"); else the last axes, as NumPy broadcasts. An
 * axis has one entry for all indices, or one for each: of the field's array, of which the slice is
 * taken, or of the slice.
 *
 * A table has an entry for each index of the axes along which entries differ. If these are the
 * innermost axes, or nearly so, further axes are written out, so that lines of items have entries
 * that lie one behind another. */
#include "dataset/dataset_internal.h"

#include "base/number.h"
#include "dataset/select_internal.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_ITEMS = 64, TABLE_LINE_ITEMS = 512, MOST_LINE_ITEMS = 1 << 16, MOST_ENTRIES = 1 << 24 };

/* The items of a view, as the tables are to see them. */
struct frame {
    const struct field_origin *origin;
    int rank;                        /* of the view */
    uint64_t lengths[ZARR_MAX_RANK]; /* of the view; the first does not count */
    uint64_t whole[ZARR_MAX_RANK];   /* of the array, in the view's order */
};

/* An array of means, say, and where its entry for an index of the view lies. */
struct statistic {
    bool is_of_slice; /* an axis has no entries for indices outside the field's slice */
    double *values;   /* owned; NULL: there is none */
    uint64_t count;
    uint64_t lengths[ZARR_MAX_RANK]; /* along each axis of the view; 1: one for all */
    uint64_t strides[ZARR_MAX_RANK];
};

static int array_axis(const struct frame *frame, int axis)
{
    return axis <= frame->origin->axis ? axis - 1 : axis;
}

static struct frame frame_of(const struct field_origin *origin)
{
    const struct zarr_array *array = &origin->array->array;
    struct frame frame = {.origin = origin, .rank = array->rank};

    for (int axis = 1; axis < frame.rank; axis++) {
        const struct field_slice *slice = &origin->slices[array_axis(&frame, axis)];

        frame.whole[axis] = frame.lengths[axis] = array->shape[array_axis(&frame, axis)];
        if (slice->runs)
            frame.lengths[axis] = 0;
        for (size_t i = 0; i < slice->run_count; i++)
            frame.lengths[axis] += slice->runs[i].count;
    }
    return frame;
}

/* The view's axes of the array's axes, by names. False: not all axes have names of the frame's. */
static bool match_names(const struct frame *frame, const struct zarr_node *node, int *ret_axes)
{
    struct zarr_axis_names field, names;

    if (!zarr_node_axis_names(frame->origin->array, &field) || !zarr_node_axis_names(node, &names))
        return false;
    for (int i = 0; i < node->array.rank; i++) {
        ret_axes[i] = 0;
        for (int axis = 1; axis < frame->rank; axis++)
            if (names.names[i][0] &&
                strcmp(names.names[i], field.names[array_axis(frame, axis)]) == 0)
                ret_axes[i] = axis;
        if (ret_axes[i] == 0)
            return false;
    }
    return true;
}

static enum status refuse_shape(const struct frame *frame, const struct zarr_array *array,
                                struct error *err)
{
    struct text here = {0}, there = {0};

    for (int i = 0; i < array->rank; i++)
        text_append(&here, i ? ", %" PRIu64 : "%" PRIu64, array->shape[i]);
    for (int axis = 1; axis < frame->rank; axis++)
        text_append(&there, axis > 1 ? ", %" PRIu64 : "%" PRIu64, frame->whole[axis]);
    error_set(err, STATUS_INVALID,
              "array '%s' has the shape [%s], which does not fit samples of [%s]: it takes the "
              "length of an axis, or 1, for each of its axes",
              array->path, here.data, there.data ? there.data : "");
    text_done(&here);
    text_done(&there);
    return STATUS_INVALID;
}

static enum status align(const struct frame *frame, const struct zarr_array *array,
                         const struct zarr_node *node, struct statistic *statistic,
                         struct error *err)
{
    int axes[ZARR_MAX_RANK];
    uint64_t stride = 1;

    for (int axis = 0; axis < ZARR_MAX_RANK; axis++)
        statistic->lengths[axis] = 1;
    if (array->total_bytes == array->item_bytes)
        return STATUS_OK; /* one for all */
    if (!node || !match_names(frame, node, axes)) {
        bool first = array->rank == 1 && frame->rank > 1 &&
                     (array->shape[0] == frame->whole[1] || array->shape[0] == frame->lengths[1]);
        int skip = first ? 1 : frame->rank - array->rank;

        if (skip < 1)
            return refuse_shape(frame, array, err);
        for (int i = 0; i < array->rank; i++)
            axes[i] = skip + i;
    }
    for (int i = array->rank - 1; i >= 0; i--) {
        uint64_t length = array->shape[i];
        bool is_whole = length == frame->whole[axes[i]] && !statistic->is_of_slice;

        if (length != 1 && !is_whole && length != frame->lengths[axes[i]])
            return refuse_shape(frame, array, err);
        statistic->lengths[axes[i]] = length;
        statistic->strides[axes[i]] = length > 1 ? stride : 0;
        stride *= length;
    }
    return STATUS_OK;
}

/* Whether a number of the work type is finite, and so is what is divided by it. */
static bool is_usable(double value, enum dtype work, bool divides)
{
    double there = work == DTYPE_FLOAT32 ? (double)(float)value : value;
    double inverse = divides ? 1.0 / there : 0.0;

    return isfinite(there) && isfinite(work == DTYPE_FLOAT32 ? (double)(float)inverse : inverse);
}

/* `what`: "array 'm'". */
static enum status check_values(const struct statistic *statistic, const char *what, bool divides,
                                enum dtype work, struct error *err)
{
    for (uint64_t i = 0; i < statistic->count; i++) {
        double value = statistic->values[i];

        if (!isfinite(value) || (divides && !(value < 0.0 || value > 0.0)))
            return error_set(err, STATUS_INVALID,
                             "%s has %g at %" PRIu64 ": it takes finite numbers%s", what, value, i,
                             divides ? " other than 0" : "");
        if (!is_usable(value, work, divides))
            return error_set(err, STATUS_INVALID,
                             "%s has %g at %" PRIu64 ", which is too %s for %s, in which items of "
                             "this field are normalised: choose another number",
                             what, value, i, fabs(value) < 1.0 ? "small" : "large",
                             dtype_name(work));
    }
    return STATUS_OK;
}

static enum status allocate_values(uint64_t count, struct statistic *statistic, struct error *err)
{
    statistic->count = count;
    statistic->values = calloc(count, sizeof *statistic->values);
    return statistic->values ? STATUS_OK
                             : error_set(err, STATUS_NO_MEMORY, "no memory for mean and std");
}

static enum status take_values(const struct zarr_array *array, const unsigned char *items,
                               struct statistic *statistic, struct error *err)
{
    const struct convert convert = {.from = array->dtype, .to = DTYPE_FLOAT64, .scale = 1.0};

    if (array->item_length > 0 || array->stored_type[0] ||
        !convert_is_possible(array->dtype, DTYPE_FLOAT64))
        return error_set(err, STATUS_INVALID, "array '%s' is not of numbers", array->path);
    enum status status = allocate_values(array->total_bytes / array->item_bytes, statistic, err);
    if (status == STATUS_OK)
        convert_items(&convert, items, statistic->count, statistic->values);
    return status;
}

/* Numbers with commas, perhaps in brackets. False: the text is another one. */
enum { MOST_NUMBERS = 256 };
static bool parse_numbers(const char *text, double numbers[MOST_NUMBERS], size_t *ret_count)
{
    char copy[MOST_NUMBERS * 32], *rest = copy, *item;
    size_t count = 0, length = strlen(text);
    bool has_brackets = length >= 2 && text[0] == '[' && text[length - 1] == ']';

    if (length >= sizeof copy)
        return false;
    snprintf(copy, sizeof copy, "%.*s", (int)(has_brackets ? length - 2 : length),
             text + has_brackets);
    while ((item = strsep(&rest, ",")))
        if (count == MOST_NUMBERS || !number_parse_real(item, -DBL_MAX, DBL_MAX, &numbers[count++]))
            return false;
    *ret_count = count;
    return true;
}

static enum status take_numbers(const struct frame *frame, const double *numbers, size_t count,
                                struct statistic *statistic, struct error *err)
{
    const struct zarr_array array = {.path = "(numbers)",
                                     .rank = 1,
                                     .shape = {count},
                                     .item_bytes = sizeof *numbers,
                                     .total_bytes = count * sizeof *numbers};
    enum status status = align(frame, &array, NULL, statistic, err);

    if (status == STATUS_OK)
        status = allocate_values(count, statistic, err);
    if (status == STATUS_OK)
        memcpy(statistic->values, numbers, count * sizeof *numbers);
    return status;
}

/* What is read for: which dataset, and which field's items. */
struct reading {
    const struct dataset *dataset;
    const struct dataset_options *options;
    const struct frame *frame; /* NULL: of one number */
};

static enum status read_array(const struct reading *reading, const char *text,
                              struct statistic *statistic, struct error *err)
{
    struct zarr_hierarchy *hierarchy = NULL;
    const struct zarr_node *node;
    unsigned char *items = NULL;
    enum status status = small_array_read_named(reading->dataset, reading->options, text,
                                                &hierarchy, &node, &items, err);

    if (status != STATUS_OK)
        return status;
    if (reading->frame)
        status = align(reading->frame, &node->array, node, statistic, err);
    else if (node->array.total_bytes != node->array.item_bytes)
        status = error_set(err, STATUS_INVALID,
                           "array '%s' has more than one item: it takes one "
                           "number for all items of the field",
                           node->array.path);
    if (status == STATUS_OK)
        status = take_values(&node->array, items, statistic, err);
    zarr_hierarchy_free(hierarchy);
    free(items);
    return status;
}

static enum status read_statistic(const struct reading *reading, const char *text, bool divides,
                                  enum dtype work, struct statistic *statistic, struct error *err)
{
    double numbers[MOST_NUMBERS];
    char what[128] = "the value";
    size_t count;
    bool are_numbers = reading->frame && parse_numbers(text, numbers, &count);
    enum status status = are_numbers ? take_numbers(reading->frame, numbers, count, statistic, err)
                                     : read_array(reading, text, statistic, err);

    if (!are_numbers)
        snprintf(what, sizeof what, "array '%.100s'", text);
    return status ? status : check_values(statistic, what, divides, work, err);
}

/* Statistics
 * ------------------------------------------------------------------------------------------- */

/* Of the field's own group; they are of the field's slice. */
static enum status read_own(const struct reading *reading, const struct dataset_field_spec *spec,
                            const char *name, enum dtype work, struct statistic *statistic,
                            struct error *err)
{
    struct text text = {0};

    statistic->is_of_slice = true;
    text_append(&text, "%s::%s/%s", spec->stats, spec->name, name);
    enum status status = read_statistic(reading, text.data, false, work, statistic, err);
    text_done(&text);
    return status ? error_prefix(err, status, "stats: ") : STATUS_OK;
}

/* From the least and the greatest value: what maps them to -1 and 1. */
static enum status combine_range(struct statistic *least, struct statistic *greatest,
                                 struct error *err)
{
    if (least->count != greatest->count)
        return error_set(err, STATUS_INVALID, "stats: min and max differ in shape");
    for (uint64_t i = 0; i < least->count; i++) {
        double low = least->values[i], high = greatest->values[i];

        least->values[i] = low / 2 + high / 2;
        greatest->values[i] = high / 2 - low / 2;
    }
    return STATUS_OK;
}

static enum status read_stats(const struct reading *reading, const struct dataset_field_spec *spec,
                              enum dtype work, struct statistic *mean, struct statistic *std,
                              struct error *err)
{
    bool is_range = spec->stats_form == STATS_MIN_MAX;
    enum status status = read_own(reading, spec, is_range ? "min" : "mean", work, mean, err);

    if (status == STATUS_OK)
        status = read_own(reading, spec, is_range ? "max" : "std", work, std, err);
    if (status == STATUS_OK && is_range)
        status = combine_range(mean, std, err);
    for (uint64_t i = 0; status == STATUS_OK && i < std->count; i++)
        if (fpclassify(std->values[i]) == FP_ZERO)
            std->values[i] = 1.0; /* all values are the same */
    return status ? status : check_values(std, "stats: std", true, work, err);
}

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

static double value_at(const struct frame *frame, const struct statistic *statistic,
                       const uint64_t *position)
{
    uint64_t offset = 0;

    for (int axis = 1; axis < frame->rank; axis++) {
        uint64_t index = position[axis];

        if (statistic->lengths[axis] == 1)
            continue;
        if (statistic->lengths[axis] == frame->whole[axis] && !statistic->is_of_slice)
            index = index_in_array(&frame->origin->slices[array_axis(frame, axis)], index);
        offset += index * statistic->strides[axis];
    }
    return statistic->values[offset];
}

/* The lengths of a table with an entry for each index along which either statistic differs. */
static void choose_lengths(const struct frame *frame, const struct statistic *mean,
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

static void fill_table(const struct frame *frame, const struct statistic *statistic,
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

static enum status make_tables(const struct frame *frame, const struct statistic *mean,
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
    struct frame frame = frame_of(origin);
    const struct reading reading = {dataset, options, &frame};
    struct statistic mean = {0}, std = {0};
    enum status status = STATUS_OK;

    if (spec->stats && (spec->mean || spec->std))
        status = error_set(err, STATUS_INVALID, "stats says mean and std: remove one or the other");
    else if (spec->stats)
        status = read_stats(&reading, spec, normal->work, &mean, &std, err);
    if (status == STATUS_OK && spec->mean) {
        status = read_statistic(&reading, spec->mean, false, normal->work, &mean, err);
        status = status ? error_prefix(err, status, "mean: ") : STATUS_OK;
    }
    if (status == STATUS_OK && spec->std) {
        status = read_statistic(&reading, spec->std, true, normal->work, &std, err);
        status = status ? error_prefix(err, status, "std: ") : STATUS_OK;
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
    struct frame frame = frame_of(origin);
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

static enum status read_number(const struct reading *reading, const char *text, bool divides,
                               double *number, struct error *err)
{
    struct statistic statistic = {0};
    enum status status =
        text ? read_statistic(reading, text, divides, DTYPE_FLOAT64, &statistic, err) : STATUS_OK;

    if (text && status == STATUS_OK)
        *number = statistic.values[0];
    free(statistic.values);
    return status ? error_prefix(err, status, "%s: ", divides ? "scale" : "offset") : STATUS_OK;
}

enum status normals_read_scales(const struct dataset *dataset,
                                const struct dataset_options *options,
                                struct dataset_field_spec **ret_fields, struct error *err)
{
    const struct reading reading = {dataset, options, NULL};
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
