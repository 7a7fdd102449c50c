/* See panel_open.h. */
#include "dataset/ragged/panel_open.h"

#include "base/number.h"
#include "dataset/fields/slices.h"
#include "dataset/ragged/panel_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a panel is settled from. */
struct settling {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct ragged_origin *origin;
    const struct dataset_slice_spec *spec;
    struct coordinates names; /* zero: none was asked for */
};

static const struct dataset_field_spec *find_spec(const struct settling *settling)
{
    const struct dataset_field_spec *spec = settling->options->fields;
    while (strcmp(spec->name, settling->origin->name) != 0)
        spec++;
    return spec;
}

/* "column 7", or "'CD4' (column 7)". */
struct column_text {
    char text[128];
};
static struct column_text column_text(const struct settling *settling, uint64_t column)
{
    struct column_text out;
    bool is_named = column < settling->names.count;
    snprintf(out.text, sizeof out.text,
             is_named ? "'%.80s' (column %" PRIu64 ")" : "%scolumn %" PRIu64,
             is_named ? text_shown(settling->names.names[column]).text : "", column);
    return out;
}

/* Columns
 * ---------------------------------------------------------------------------------------------- */

static enum status check_total(const struct settling *settling, struct error *err)
{
    uint64_t total = settling->origin->column_total, names = settling->names.count;
    if (total == 0 || names == 0 || names == total)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "array '%s' has %" PRIu64 " names, and the matrix of group '%s' %" PRIu64
                     " columns: name another array, or write numbers",
                     settling->names.path, names, settling->origin->group, total);
}

/* Takes numbers, and reads names if there are any. Where nothing says how many columns there are,
 * ends below 0 and open ones come out beyond any column. */
static enum status take_columns(struct settling *settling, struct error *err)
{
    const struct coordinates none = {0};
    struct ragged_origin *origin = settling->origin;
    struct ragged_panel *panel = origin->panel;
    const char *axis = settling->spec->axis;
    bool is_number = strspn(axis, "0123456789") == strlen(axis), has_names = false;
    uint64_t length = origin->column_total > 0 ? origin->column_total : INT64_MAX / 2;
    enum status status = STATUS_OK;
    if (is_number)
        status =
            slices_take(settling->spec->indices, length, &none, &panel->slice, &has_names, err);
    if (is_number && !has_names)
        return status;
    struct error refused = {0};
    if (err)
        refused = *err;
    free(panel->slice.runs);
    panel->slice = (struct field_slice){0};
    status = panel_names_read(settling->dataset, settling->options, 0, origin, axis,
                              &settling->names, err);
    if (status == STATUS_OK && settling->names.count == 0) {
        if (err)
            *err = refused;
        return STATUS_NOT_FOUND;
    }
    if (status == STATUS_OK)
        status = check_total(settling, err);
    if (status == STATUS_OK)
        status = slices_take(settling->spec->indices, settling->names.count, &settling->names,
                             &panel->slice, &has_names, err);
    return status;
}

static enum status check_bound(const struct settling *settling, struct error *err)
{
    const struct field_slice *slice = &settling->origin->panel->slice;
    for (size_t i = 0; i < slice->run_count; i++)
        if (slice->runs[i].first + slice->runs[i].count > PANEL_MOST_COLUMNS)
            return error_set(err, STATUS_INVALID,
                             "'%s' reaches beyond column %d: nothing says how many columns there "
                             "are; write numbers from 0 on, and the ends of ranges",
                             settling->spec->indices, PANEL_MOST_COLUMNS - 1);
    return STATUS_OK;
}

/* Indices of the dtype are below it. */
static uint64_t dtype_bound(enum dtype dtype)
{
    size_t bits = 8 * dtype_bytes(dtype);
    bool is_signed =
        dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32 || dtype == DTYPE_INT64;
    return bits == 64 ? UINT64_C(1) << 63 : UINT64_C(1) << (is_signed ? bits - 1 : bits);
}

/* Numbers the columns in the order of the list. */
static enum status number_columns(struct settling *settling, struct error *err)
{
    struct ragged_panel *panel = settling->origin->panel;
    const struct field_slice *slice = &panel->slice;
    uint64_t end = 0;
    for (size_t i = 0; i < slice->run_count; i++)
        end = max_u64(end, slice->runs[i].first + slice->runs[i].count);
    panel->numbers = malloc(end * sizeof *panel->numbers);
    if (!panel->numbers)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " columns", end);
    memset(panel->numbers, 0xff, end * sizeof *panel->numbers);
    for (size_t i = 0; i < slice->run_count; i++)
        for (uint64_t k = 0; k < slice->runs[i].count; k++) {
            uint64_t column = slice->runs[i].first + k;
            if (panel->numbers[column] >= 0)
                return error_set(err, STATUS_INVALID,
                                 "%s is listed twice, as number %" PRId32 " and %" PRIu64
                                 " of the list, from 0 on: leave one of them out",
                                 column_text(settling, column).text, panel->numbers[column],
                                 panel->count);
            panel->numbers[column] = (int32_t)panel->count++;
        }
    enum dtype dtype = settling->origin->columns[panel->column].node->array.dtype;
    uint64_t bound = dtype_bound(dtype);
    panel->number_count = min_u64(end, bound);
    if (panel->count > bound)
        return error_set(err, STATUS_INVALID,
                         "%" PRIu64 " columns, and the array '%s' has indices of %s: list fewer",
                         panel->count, settling->origin->columns[panel->column].node->array.path,
                         dtype_name(dtype));
    return STATUS_OK;
}

/* Other stores
 * ---------------------------------------------------------------------------------------------- */

static enum status compare_names(const struct settling *settling, const struct coordinates *there,
                                 size_t store, struct error *err)
{
    const struct ragged_panel *panel = settling->origin->panel;
    for (uint64_t column = 0; column < panel->number_count; column++) {
        if (panel->numbers[column] < 0 ||
            (column < there->count &&
             strcmp(there->names[column], settling->names.names[column]) == 0))
            continue;
        return error_set(err, STATUS_INVALID,
                         "%s is not at the same column in the store %s: list numbers that mean the "
                         "same in all stores, write one of these anew, or mix them as sources",
                         column_text(settling, column).text,
                         dataset_store_text(settling->dataset, store).text);
    }
    return STATUS_OK;
}

static enum status check_stores(const struct settling *settling, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t s = 1; s < settling->dataset->store_count && status == STATUS_OK; s++) {
        struct coordinates there = {0};
        status = panel_names_read(settling->dataset, settling->options, s, settling->origin,
                                  settling->spec->axis, &there, err);
        if (status == STATUS_OK)
            status = compare_names(settling, &there, s, err);
        coordinates_done(&there);
    }
    return status;
}

/* The tensor
 * ---------------------------------------------------------------------------------------------- */

static enum status settle_tensor(struct ragged_origin *origin, struct error *err)
{
    struct dataset_deliver_spec *deliver = &origin->deliver;
    const struct ragged_panel *panel = origin->panel;
    if (deliver->form != RAGGED_DENSE)
        return STATUS_OK;
    if (deliver->dense_rank == 0 && origin->index_count == 1) {
        deliver->dense_rank = 1;
        deliver->dense_shape[0] = panel->count;
    }
    if ((size_t)deliver->dense_rank != origin->index_count ||
        deliver->dense_shape[panel->column] == panel->count)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "deliver.dense has %" PRIu64
                     " cells along axis %zu, and the slice lists %" PRIu64
                     " columns: give the shape that number there",
                     deliver->dense_shape[panel->column], panel->column, panel->count);
}

enum status panel_settle(const struct dataset *dataset, const struct dataset_options *options,
                         struct ragged_origin *origin, struct error *err)
{
    struct settling settling = {.dataset = dataset, .options = options, .origin = origin};
    const struct dataset_field_spec *spec = find_spec(&settling);
    settling.spec = &spec->slices[0];
    enum status status = take_columns(&settling, err);
    if (status == STATUS_OK)
        status = check_bound(&settling, err);
    if (status == STATUS_OK)
        status = number_columns(&settling, err);
    if (status == STATUS_OK && settling.names.count > 0)
        status = check_stores(&settling, err);
    coordinates_done(&settling.names);
    if (status != STATUS_OK)
        return error_prefix(err, status, "slice of axis '%s': ", settling.spec->axis);
    return settle_tensor(origin, err);
}

void panel_free(struct ragged_panel *panel)
{
    if (!panel)
        return;
    free(panel->slice.runs);
    free(panel->numbers);
    free(panel);
}
