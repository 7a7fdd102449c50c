/* Which arrays are a ragged field, and which fields are delivered for it. */
#include "dataset/fields/select_internal.h"

#include "dataset/fields/steps.h"
#include "dataset/panel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Paths
 * ---------------------------------------------------------------------------------------------- */

bool ragged_has_keys(const struct dataset_field_spec *spec)
{
    const struct dataset_ragged_spec *ragged = &spec->ragged;
    return ragged->offsets || ragged->index || ragged->columns || ragged->values;
}

/* The array of values of variable length that the spec names; NULL: none. Packed datasets name it
 * as offsets, too. */
static const struct zarr_node *find_vlen(const struct choice *choice,
                                         const struct dataset_field_spec *spec)
{
    const struct dataset_ragged_spec *ragged = &spec->ragged;
    if (!ragged_has_keys(spec))
        return select_vlen(choice, spec->array);
    bool is_one = ragged->offsets && ragged->values && !ragged->index && !ragged->columns;
    return is_one ? select_vlen(choice, ragged->values) : NULL;
}

bool ragged_is_asked(const struct choice *choice, const struct dataset_field_spec *spec)
{
    struct ragged_paths paths;
    if (ragged_has_keys(spec) || find_vlen(choice, spec))
        return true;
    return !select_has(choice, spec->array) && ragged_list_paths(spec, &paths, NULL) == STATUS_OK &&
           select_has(choice, paths.offsets);
}

static enum status add_path(struct ragged_paths *paths, const char *path, struct error *err)
{
    if (paths->column_count == RAGGED_MAX_COLUMNS)
        return error_set(err, STATUS_INVALID, "ragged has more than %d columns",
                         RAGGED_MAX_COLUMNS);
    if (strlen(path) >= ZARR_PATH_BYTES)
        return error_set(err, STATUS_INVALID, "ragged: the path '%.40s...' is too long", path);
    strcpy(paths->columns[paths->column_count++], path);
    return STATUS_OK;
}

static enum status add_list(struct ragged_paths *paths, const char *list, struct error *err)
{
    struct text item = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&list, &item))
        status = add_path(paths, item.data ? item.data : "", err);
    text_done(&item);
    return status;
}

static enum status check_keys(const struct dataset_ragged_spec *ragged, struct error *err)
{
    if (!ragged->offsets)
        return error_set(err, STATUS_INVALID,
                         "ragged has no offsets: name the array that says where each sample's "
                         "items begin");
    if (ragged->index && ragged->columns)
        return error_set(err, STATUS_INVALID,
                         "ragged has both index and columns: index are columns that say where in a "
                         "dense tensor an item belongs; choose one of them");
    if (!ragged->index && !ragged->columns && !ragged->values)
        return error_set(err, STATUS_INVALID,
                         "ragged has offsets alone: name an array of values, or columns");
    return STATUS_OK;
}

enum status ragged_list_paths(const struct dataset_field_spec *spec, struct ragged_paths *ret_paths,
                              struct error *err)
{
    const struct dataset_ragged_spec *ragged = &spec->ragged;
    const char *slash = *spec->array ? "/" : "";
    enum status status = STATUS_OK;
    *ret_paths = (struct ragged_paths){0};
    if (ragged_has_keys(spec)) {
        status = check_keys(ragged, err);
        if (status != STATUS_OK)
            return status;
        snprintf(ret_paths->offsets, sizeof ret_paths->offsets, "%.511s", ragged->offsets);
        status = add_list(ret_paths, ragged->index ? ragged->index : ragged->columns, err);
        ret_paths->index_count = ragged->index ? ret_paths->column_count : 0;
        ret_paths->has_values = ragged->values != NULL;
        if (status == STATUS_OK && ragged->values)
            status = add_path(ret_paths, ragged->values, err);
        return status;
    }
    snprintf(ret_paths->offsets, sizeof ret_paths->offsets, "%.500s%sindptr", spec->array, slash);
    snprintf(ret_paths->columns[0], sizeof ret_paths->columns[0], "%.500s%sindices", spec->array,
             slash);
    snprintf(ret_paths->columns[1], sizeof ret_paths->columns[1], "%.500s%sdata", spec->array,
             slash);
    ret_paths->column_count = 2;
    ret_paths->index_count = 1;
    ret_paths->has_values = true;
    return STATUS_OK;
}

/* Arrays
 * ---------------------------------------------------------------------------------------------- */

static enum status check_offsets(const struct zarr_array *array, struct error *err)
{
    if (array->rank == 1 && array->item_length == 0 && dtype_is_integer(array->dtype) &&
        array->shape[0] >= 2)
        return STATUS_OK;
    if (array->rank == 1 && array->shape[0] < 2)
        return error_set(err, STATUS_INVALID,
                         "array '%s' has one item, and so no sample: offsets have one item more "
                         "than there are samples",
                         array->path);
    return error_set(err, STATUS_INVALID,
                     "array '%s' is %d-dimensional and of %s: offsets are one-dimensional and of "
                     "integers; name another array in ragged.offsets",
                     array->path, array->rank, dtype_name(array->dtype));
}

static enum status check_index(const struct zarr_array *array, struct error *err)
{
    if (array->rank == 1 && array->item_length == 0 && dtype_is_integer(array->dtype))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "array '%s' is %d-dimensional and of %s: a column of indices is "
                     "one-dimensional and of integers (other arrays can be `columns`)",
                     array->path, array->rank, dtype_name(array->dtype));
}

/* A column may be without items: then no sample has any. */
static enum status find_column(const struct choice *choice, const char *path,
                               const struct zarr_node **ret_node, struct error *err)
{
    const struct zarr_node *node =
        zarr_hierarchy_find(choice->hierarchy, select_full_path(choice, path).text);
    if (!node || !zarr_array_lacks_items(&node->array))
        return select_array(choice, path, ret_node, err);
    *ret_node = node;
    return STATUS_OK;
}

static enum status find_arrays(const struct choice *choice, const struct ragged_paths *paths,
                               struct ragged_origin *ragged, struct error *err)
{
    enum status status = select_array(choice, paths->offsets, &ragged->offsets.node, err);
    if (status == STATUS_OK)
        status = check_offsets(&ragged->offsets.node->array, err);
    for (size_t i = 0; i < paths->column_count && status == STATUS_OK; i++) {
        status = find_column(choice, paths->columns[i], &ragged->columns[i].node, err);
        if (status == STATUS_OK && i < paths->index_count)
            status = check_index(&ragged->columns[i].node->array, err);
    }
    ragged->column_count = paths->column_count;
    ragged->index_count = paths->index_count;
    ragged->has_values = paths->has_values;
    return status;
}

/* Values
 * ---------------------------------------------------------------------------------------------- */

static bool is_number(const struct zarr_array *array)
{
    return array->item_length == 0 && !array->stored_type[0] && array->dtype < DTYPE_COMPLEX64 &&
           array->dtype != DTYPE_NONE;
}

static enum status settle_convert(const struct dataset_field_spec *spec,
                                  struct ragged_origin *ragged, struct error *err)
{
    const struct zarr_array *values =
        ragged->has_values ? &ragged->columns[ragged->column_count - 1].node->array : NULL;
    const struct convert wish = {.from = values ? values->dtype : DTYPE_FLOAT64,
                                 .to = spec->cast,
                                 .scale = fpclassify(spec->scale) != FP_ZERO ? spec->scale : 1.0,
                                 .offset = spec->offset};
    bool scaled = wish.scale < 1.0 || wish.scale > 1.0 || wish.offset < 0.0 || wish.offset > 0.0;
    enum status status = select_check_scaling(&wish, err);
    bool is_dense = ragged->deliver.form == RAGGED_DENSE;
    struct convert *convert = &ragged->convert;
    if (status != STATUS_OK)
        return status;
    if (!values && (scaled || (spec->cast != DTYPE_NONE && !is_dense)))
        return error_set(err, STATUS_INVALID,
                         "cast, scale and offset are of the values of a ragged field, and this one "
                         "has none: set ragged.values");
    ragged->cell = spec->cast != DTYPE_NONE ? spec->cast : DTYPE_FLOAT32;
    if (!values)
        return STATUS_OK;
    *convert = wish;
    if (scaled && spec->cast == DTYPE_NONE)
        convert->to = dtype_is_floating(values->dtype) ? values->dtype : DTYPE_FLOAT32;
    if (dtype_is_integer(spec->cast) && (scaled || !is_dense))
        return error_set(err, STATUS_INVALID,
                         "cast: %s: values can become float16, bfloat16, float32 or float64; "
                         "integers only where they are delivered dense, without scale and offset",
                         dtype_name(spec->cast));
    if (!is_dense)
        return STATUS_OK;
    if (values->rank != 1 || !is_number(values))
        return error_set(err, STATUS_INVALID,
                         "array '%s' is %d-dimensional and of %s: values that are delivered dense "
                         "are one-dimensional, and integers, bool or floating point",
                         values->path, values->rank,
                         values->stored_type[0] ? values->stored_type : dtype_name(values->dtype));
    ragged->cell = convert->to != DTYPE_NONE ? convert->to : values->dtype;
    if (dtype_is_integer(ragged->cell) && dtype_is_floating(values->dtype))
        return error_set(err, STATUS_INVALID,
                         "cast: %s: the values of array '%s' are %s, and would be cut off: cast "
                         "them to a floating dtype",
                         dtype_name(ragged->cell), values->path, dtype_name(values->dtype));
    if (dtype_is_integer(ragged->cell))
        convert->to = DTYPE_NONE; /* at the ends of the dtype: read.c */
    return STATUS_OK;
}

/* Forms
 * ---------------------------------------------------------------------------------------------- */

static enum status refuse_key(const char *key, const char *instead, struct error *err)
{
    return error_set(err, STATUS_INVALID, "%s is not for ragged fields: %s", key, instead);
}

/* Without a conversion. Offsets may be given. */
static enum status take_vlen(const struct choice *choice, const struct zarr_node *node,
                             const struct dataset_field_spec *spec, struct ragged_origin *ragged,
                             struct error *err)
{
    const char *offsets = spec->ragged.offsets;
    enum status status = STATUS_OK;
    bool is_scaled =
        (spec->scale < 0.0 || spec->scale > 0.0) && (spec->scale < 1.0 || spec->scale > 1.0);
    if (spec->cast != DTYPE_NONE || is_scaled || spec->offset < 0.0 || spec->offset > 0.0)
        return error_set(
            err, STATUS_INVALID,
            "cast, scale and offset are not for array '%s', whose values have variable "
            "length: trainers convert them",
            node->array.path);
    ragged->offsets.node = ragged->columns[0].node = node;
    ragged->column_count = 1;
    ragged->has_values = ragged->is_vlen = true;
    ragged->is_group = false;
    ragged->cell = DTYPE_FLOAT32;
    ragged->convert = (struct convert){.from = node->array.dtype, .scale = 1.0};
    if (offsets && strcmp(offsets, spec->ragged.values) != 0) {
        status = select_array(choice, offsets, &ragged->given.node, err);
        if (status == STATUS_OK)
            status = check_offsets(&ragged->given.node->array, err);
    }
    return status;
}

static enum status check_spec(const struct dataset_field_spec *spec, struct error *err)
{
    static const char leave[] = "leave it out, or write the arrays anew";
    if (spec->mean || spec->std || spec->stats)
        return refuse_key(spec->mean  ? "mean"
                          : spec->std ? "std"
                                      : "stats",
                          "use scale and offset", err);
    if (spec->cf)
        return refuse_key("cf", "use scale and offset", err);
    if (spec->crop_count > 0)
        return refuse_key("crop", leave, err);
    if (spec->segments)
        return refuse_key("segments", leave, err);
    if (spec->phase_count > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "steps by epoch are not for ragged fields: give one list of steps");
    if (spec->sample_axis)
        return refuse_key("sample_axis", "offsets and columns lie along axis 0", err);
    if (spec->align)
        return refuse_key("align", "name an index array, or write an entry for each frame", err);
    return STATUS_OK;
}

static enum status take_index(const struct choice *choice, const struct dataset_field_spec *spec,
                              struct ragged_origin *ragged, struct error *err)
{
    enum status status = select_array(choice, spec->index, &ragged->index.node, err);
    if (status == STATUS_OK)
        status = select_check_index(&ragged->index.node->array, err);
    if (status == STATUS_OK && ragged->deliver.form == RAGGED_DENSE)
        status = error_set(err, STATUS_INVALID,
                           "index joins a ragged field, and deliver is dense: joined fields are "
                           "delivered as csr or padded; choose one of these, or leave index out");
    ragged->is_held = true;
    return status;
}

/* The columns of a matrix are one axis: the number of a column of indices, or the name of an array
 * of names (ragged/panel_open.h). */
static enum status take_slice(const struct dataset_field_spec *spec, struct ragged_origin *ragged,
                              struct error *err)
{
    const char *axis = spec->slices[0].axis;
    bool is_number = strspn(axis, "0123456789") == strlen(axis);
    unsigned long number = is_number ? strtoul(axis, NULL, 10) : 1;
    if (spec->slice_count > 1)
        return error_set(err, STATUS_INVALID,
                         "slice has %zu axes: of a ragged field one can be sliced",
                         spec->slice_count);
    if (ragged->is_vlen)
        return error_set(err, STATUS_INVALID,
                         "slice is for columns of indices, and the values of array '%s' have none: "
                         "leave it out",
                         ragged->offsets.node->array.path);
    if (ragged->is_held)
        return error_set(err, STATUS_INVALID,
                         "slice and index: a joined field has all columns; leave one of them out");
    if (ragged->index_count == 0)
        return error_set(err, STATUS_INVALID,
                         "slice takes columns of indices: name them in ragged.index");
    if (number == 0 || number > ragged->index_count || (!is_number && ragged->index_count > 1))
        return error_set(err, STATUS_INVALID,
                         "slice of axis '%s': axes are numbers from 1 to %zu, of the columns of "
                         "indices%s",
                         axis, ragged->index_count,
                         ragged->index_count > 1 ? "" : ", or the name of an array of names");
    ragged->panel = calloc(1, sizeof *ragged->panel);
    if (!ragged->panel)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a slice");
    ragged->panel->column = number - 1;
    return STATUS_OK;
}

static enum status check_deliver(const struct ragged_origin *ragged, struct error *err)
{
    const struct dataset_deliver_spec *deliver = &ragged->deliver;
    bool pads = deliver->pad_items > 0 || deliver->form == RAGGED_BOUND;
    if (deliver->form == RAGGED_BOUND && deliver->pad_items > 0)
        return error_set(err, STATUS_INVALID, "deliver.pad is given twice");
    if (deliver->multiple > 0 && deliver->form != RAGGED_CSR)
        return error_set(err, STATUS_INVALID,
                         "deliver.pad_to_multiple_of is for csr, without pad or dense");
    if (deliver->form == RAGGED_BOUND && ragged->step_count > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "deliver: {pad: bound} is for samples of one step: leave out steps, or "
                         "give a number");
    if (pads && (deliver->dense_rank > 0 || deliver->form == RAGGED_DENSE))
        return error_set(err, STATUS_INVALID, "deliver has both pad and dense: choose one of them");
    if (deliver->truncates && deliver->form != RAGGED_PAD)
        return error_set(err, STATUS_INVALID,
                         "deliver.truncate is for pad: {pad: N, truncate: true}");
    if (deliver->combine != RAGGED_SUM && deliver->form != RAGGED_DENSE)
        return error_set(err, STATUS_INVALID,
                         "deliver.combine is for dense: {dense: [N, ...], combine: max}");
    if (deliver->form == RAGGED_DENSE && ragged->index_count == 0)
        return error_set(err, STATUS_INVALID,
                         "deliver: dense takes columns of indices: name them in ragged.index");
    return STATUS_OK;
}

static const char *column_name(const struct ragged_origin *ragged, size_t column)
{
    const char *path = ragged->columns[column].node->array.path, *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Adds the field that delivers a column, or the tensor (column_count). */
static enum status add_origin(const struct ragged_origin *ragged, size_t column,
                              struct field_origin *origins, size_t *count, struct error *err)
{
    bool is_main = column == ragged->column_count ||
                   (ragged->has_values && column == ragged->column_count - 1);
    char name[DATASET_NAME_BYTES + ZARR_PATH_BYTES];
    if (*count == DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "more than %d fields", DATASET_MAX_FIELDS);
    struct field_origin *origin = &origins[(*count)++];
    *origin = (struct field_origin){.ragged = ragged, .is_items = true, .column = column};
    if (ragged->deliver.form != RAGGED_CSR) {
        origin->steps = ragged->steps;
        origin->step_count = ragged->step_count;
    }
    snprintf(name, sizeof name, "%s%s%s", ragged->name, is_main ? "" : ".",
             is_main ? "" : column_name(ragged, column));
    return select_set_name(origin, name, err);
}

enum status ragged_select(const struct choice *choice, const struct choice *own,
                          const struct dataset_field_spec *spec, struct ragged_origin *ragged,
                          struct field_origin *origins, size_t *count, struct error *err)
{
    struct ragged_paths paths;
    struct field_origin named;
    enum status status = check_spec(spec, err);
    *ragged = (struct ragged_origin){.deliver = spec->deliver,
                                     .steps = spec->steps,
                                     .step_count = spec->step_count,
                                     .is_group = !ragged_has_keys(spec),
                                     .own_store = own->store};
    if (status == STATUS_OK)
        status = select_set_name(&named, spec->name, err);
    if (status == STATUS_OK)
        status = steps_check(spec, err);
    const struct zarr_node *vlen = find_vlen(own, spec);
    if (status == STATUS_OK && vlen)
        status = take_vlen(own, vlen, spec, ragged, err);
    if (status == STATUS_OK && !vlen)
        status = ragged_list_paths(spec, &paths, err);
    if (status == STATUS_OK && !vlen)
        status = find_arrays(own, &paths, ragged, err);
    if (status == STATUS_OK && spec->index)
        status = take_index(choice, spec, ragged, err);
    if (status == STATUS_OK && spec->slice_count > 0)
        status = take_slice(spec, ragged, err);
    if (status != STATUS_OK)
        return status;
    strcpy(ragged->name, spec->name);
    status = check_deliver(ragged, err);
    if (status == STATUS_OK && !vlen)
        status = settle_convert(spec, ragged, err);
    if (status != STATUS_OK)
        return status;
    if (ragged->is_group) {
        const char *path = ragged->offsets.node->array.path, *slash = strrchr(path, '/');
        snprintf(ragged->group, sizeof ragged->group, "%.*s", slash ? (int)(slash - path) : 0,
                 path);
    }
    if (spec->ragged.lengths) {
        ragged->lengths = malloc(sizeof *ragged->lengths);
        if (!ragged->lengths)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the lengths of samples");
        *ragged->lengths = *spec->ragged.lengths;
        ragged->is_held = spec->ragged.is_held;
        status = length_list_copy(&ragged->list, spec->ragged.list, spec->ragged.list_bytes, err);
        if (status != STATUS_OK)
            return status;
    }
    if (ragged->deliver.form == RAGGED_DENSE)
        return add_origin(ragged, ragged->column_count, origins, count, err);
    for (size_t i = 0; i < ragged->column_count && status == STATUS_OK; i++)
        status = add_origin(ragged, i, origins, count, err);
    return status;
}
