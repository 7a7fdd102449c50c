/* See statistic.h. */
#include "dataset/fields/statistic.h"

#include "base/number.h"
#include "dataset/fields/small_array.h"
#include "zarr/hierarchy/axes.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NUMBERS = 256 };

struct statistic_frame statistic_frame_of(const struct field_origin *origin)
{
    const struct zarr_array *array = &origin->array->array;
    struct statistic_frame frame = {.origin = origin, .rank = array->rank};
    for (int axis = 1; axis < frame.rank; axis++) {
        const struct field_slice *slice = &origin->slices[statistic_array_axis(&frame, axis)];
        frame.whole[axis] = frame.lengths[axis] = array->shape[statistic_array_axis(&frame, axis)];
        if (slice->runs)
            frame.lengths[axis] = 0;
        for (size_t i = 0; i < slice->run_count; i++)
            frame.lengths[axis] += slice->runs[i].count;
    }
    return frame;
}

/* The view's axes of the array's axes, by names. False: not all axes have names of the frame's. */
static bool match_names(const struct statistic_frame *frame, const struct zarr_node *node,
                        int *ret_axes)
{
    struct zarr_axis_names field, names;
    if (!zarr_node_axis_names(frame->origin->array, &field) || !zarr_node_axis_names(node, &names))
        return false;
    for (int i = 0; i < node->array.rank; i++) {
        ret_axes[i] = 0;
        for (int axis = 1; axis < frame->rank; axis++)
            if (names.names[i][0] &&
                strcmp(names.names[i], field.names[statistic_array_axis(frame, axis)]) == 0)
                ret_axes[i] = axis;
        if (ret_axes[i] == 0)
            return false;
    }
    return true;
}

static enum status refuse_shape(const struct statistic_frame *frame, const struct zarr_array *array,
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

static enum status align(const struct statistic_frame *frame, const struct zarr_array *array,
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

static enum status take_numbers(const struct statistic_frame *frame, const double *numbers,
                                size_t count, struct statistic *statistic, struct error *err)
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

static enum status read_array(const struct statistic_reading *reading, const char *text,
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

enum status statistic_read(const struct statistic_reading *reading, const char *text, bool divides,
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
    return status != STATUS_OK ? status : check_values(statistic, what, divides, work, err);
}

/* Statistics
 * ------------------------------------------------------------------------------------------- */

/* Of the field's own group; they are of the field's slice. */
static enum status read_own(const struct statistic_reading *reading,
                            const struct dataset_field_spec *spec, const char *name,
                            enum dtype work, struct statistic *statistic, struct error *err)
{
    struct text text = {0};
    statistic->is_of_slice = true;
    text_append(&text, "%s::%s/%s", spec->stats, spec->name, name);
    enum status status = statistic_read(reading, text.data, false, work, statistic, err);
    text_done(&text);
    if (status == STATUS_NOT_FOUND && err)
        text_append(&text, "%s", err->message);
    if (text.data)
        error_set(err, status,
                  "%s: 'penstock stats -c RUN.yaml -o STORE' writes statistics of each field of "
                  "RUN.yaml, and stats: STORE reads those of the field of the same name",
                  text.data);
    text_done(&text);
    return status != STATUS_OK ? error_prefix(err, status, "stats: ") : STATUS_OK;
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

enum status statistic_read_stats(const struct statistic_reading *reading,
                                 const struct dataset_field_spec *spec, enum dtype work,
                                 struct statistic *mean, struct statistic *std, struct error *err)
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
    return status != STATUS_OK ? status : check_values(std, "stats: std", true, work, err);
}
