/* Which arrays are the fields of a dataset: those that the configuration names, or those of the
 * default (select_default.c). Called while opening, by one thread. */
#include "dataset/fields/select_internal.h"

#include "dataset/fields/steps.h"
#include "zarr/hierarchy/axes.h"
#include "zarr/hierarchy/cf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_ARRAYS = 12 };

/* "'a', 'b' and 3 more", for messages. */
static void list_arrays(const struct zarr_hierarchy *hierarchy, struct text *out)
{
    for (size_t i = 0; i < hierarchy->node_count && i < MESSAGE_ARRAYS; i++)
        text_append(out, "%s'%.60s'", i ? ", " : "", hierarchy->nodes[i].array.path);
    if (hierarchy->incomplete)
        text_append(out, " and more");
    else if (hierarchy->node_count > MESSAGE_ARRAYS)
        text_append(out, " and %zu more", hierarchy->node_count - MESSAGE_ARRAYS);
}

/* Lists arrays of the store: those that are known may be the named ones alone. */
static enum status refuse_unknown(const struct choice *choice, const char *path, struct error *err)
{
    const struct zarr_wanted some = {.group = choice->group, .most = MESSAGE_ARRAYS};
    struct zarr_hierarchy *opened = NULL;
    struct text list = {0};
    const char *name;
    enum status status = zarr_hierarchy_open_wanted(
        store_joined_at(choice->dataset->private->store, choice->store, &name), &some, &opened,
        NULL);
    const struct zarr_hierarchy *hierarchy = status == STATUS_OK ? opened : choice->hierarchy;
    text_append(&list, "there is no array '%s'", path);
    if (choice->store > 0)
        text_append(&list, " in the store %s",
                    dataset_store_text(choice->dataset, choice->store).text);
    if (hierarchy->node_count == 0)
        text_append(&list, ": the group is empty");
    else
        text_append(&list, "; there are ");
    list_arrays(hierarchy, &list);
    error_set(err, STATUS_NOT_FOUND, "%s%s", list.data,
              strstr(path, "::") ? "; STORE::ARRAY is for mean, std, scale and offset alone: set "
                                   "store: STORE and array: ARRAY of the field"
                                 : "");
    zarr_hierarchy_free(opened);
    text_done(&list);
    return STATUS_NOT_FOUND;
}

struct select_path select_full_path(const struct choice *choice, const char *path)
{
    bool in_group = path[0] != '/' && choice->group[0];
    struct select_path full;
    snprintf(full.text, sizeof full.text, "%.511s%s%.511s", in_group ? choice->group : "",
             in_group && path[0] ? "/" : "", path + (path[0] == '/'));
    size_t length = strlen(full.text);
    while (length > 0 && full.text[length - 1] == '/')
        full.text[--length] = '\0';
    return full;
}

bool select_has(const struct choice *choice, const char *path)
{
    return zarr_hierarchy_find(choice->hierarchy, select_full_path(choice, path).text) != NULL;
}

const struct zarr_node *select_vlen(const struct choice *choice, const char *path)
{
    const struct zarr_node *node =
        zarr_hierarchy_find(choice->hierarchy, select_full_path(choice, path).text);
    return node && zarr_array_has_values(&node->array) ? node : NULL;
}

const char *select_store_advice(const char *path)
{
    return strstr(path, "::") ? "; STORE::ARRAY is for mean, std, scale and offset alone: write "
                                "this array into the dataset's own store, and give its path there"
                              : "";
}

enum status select_array(const struct choice *choice, const char *path,
                         const struct zarr_node **ret_node, struct error *err)
{
    struct select_path whole = select_full_path(choice, path);
    const char *full = whole.text;
    const struct zarr_node *node = zarr_hierarchy_find(choice->hierarchy, full);
    if (!node)
        return refuse_unknown(choice, full, err);
    if (node->status != STATUS_OK)
        return error_set(err, node->status, "array '%s': %s", full, node->reason);
    *ret_node = node;
    return STATUS_OK;
}

int select_axis(const struct zarr_node *node, const char *text)
{
    size_t length = strlen(text);
    if (length > 0 && strspn(text, "0123456789") == length)
        return length < 3 && atoi(text) < node->array.rank ? atoi(text) : -1;
    return zarr_node_axis(node, text);
}

enum status select_no_axis(const struct zarr_node *node, const char *text, const char *purpose,
                           struct error *err)
{
    struct zarr_axis_names names;
    struct text list = {0};
    if (zarr_node_axis_names(node, &names))
        for (int i = 0; i < node->array.rank; i++)
            text_append(&list, "%s%d %s", i ? ", " : ": ", i,
                        names.names[i][0] ? names.names[i] : "(no name)");
    error_set(err, STATUS_INVALID, "array '%s' has no axis '%s', %s: it has %d, from 0 on%s",
              node->array.path, text, purpose, node->array.rank,
              list.data ? list.data : ", without names");
    text_done(&list);
    return STATUS_INVALID;
}

static enum status set_axis(struct field_origin *origin, const char *text, struct error *err)
{
    int axis = select_axis(origin->array, text);
    if (axis < 0)
        return select_no_axis(origin->array, text, "along which its samples are to lie", err);
    origin->axis = axis;
    return STATUS_OK;
}

enum status select_check_scaling(const struct convert *convert, struct error *err)
{
    enum dtype work = normal_work_type(convert->from);
    bool narrow = work == DTYPE_FLOAT32;
    double scale = narrow ? (double)(float)convert->scale : convert->scale;
    double offset = narrow ? (double)(float)convert->offset : convert->offset;
    if (!isfinite(convert->scale) || !isfinite(convert->offset))
        return error_set(err, STATUS_INVALID, "scale and offset must be finite numbers");
    if (!isfinite(scale) || !isfinite(offset) ||
        (fpclassify(scale) == FP_ZERO && fpclassify(convert->scale) != FP_ZERO))
        return error_set(err, STATUS_INVALID,
                         "scale %g and offset %g are too large or too small for %s, which items of "
                         "%s are scaled in: choose others, or store the array as float64",
                         convert->scale, convert->offset, dtype_name(work),
                         dtype_name(convert->from));
    return STATUS_OK;
}

static enum status set_convert(struct field_origin *origin, const struct dataset_field_spec *spec,
                               struct error *err)
{
    enum dtype from = spec->normal ? spec->normal->from : origin->array->array.dtype;
    struct convert convert = {.from = from, .to = spec->cast, .scale = 1.0, .offset = spec->offset};
    bool normalises = spec->mean || spec->std || spec->stats || spec->normal;
    bool given = spec->scale < 0.0 || spec->scale > 0.0 || spec->offset < 0.0 || spec->offset > 0.0;
    if (fpclassify(spec->scale) != FP_ZERO)
        convert.scale = spec->scale;
    if (spec->cf && given)
        return error_set(
            err, STATUS_INVALID,
            "cf: true takes scale and offset from the array's attributes: remove scale "
            "and offset, or cf");
    if (spec->cf) {
        struct zarr_cf cf;
        enum status status = zarr_node_cf(origin->array, &cf, err);
        if (status != STATUS_OK)
            return status;
        convert.from = from = cf.from;
        convert.scale = cf.scale;
        convert.offset = cf.offset;
    }
    enum status status = select_check_scaling(&convert, err);
    if (status != STATUS_OK)
        return status;
    if (convert.to == DTYPE_NONE) {
        convert.to = dtype_is_floating(from) ? from : DTYPE_FLOAT32;
        bool scaled = convert.scale < 1.0 || convert.scale > 1.0 || convert.offset < 0.0 ||
                      convert.offset > 0.0;
        convert.to = scaled || spec->cf ? convert.to : DTYPE_NONE;
        convert.to = normalises ? DTYPE_FLOAT32 : convert.to;
    }
    origin->convert = convert;
    origin->is_cf = spec->cf;
    origin->scale_is_given = given || spec->cf;
    return STATUS_OK;
}

enum status select_set_name(struct field_origin *origin, const char *name, struct error *err)
{
    size_t length = strlen(name);
    if (length == 0)
        return error_set(err, STATUS_INVALID, "a field's name is empty");
    if (length >= DATASET_NAME_BYTES)
        return error_set(
            err, STATUS_INVALID,
            "field name '%.80s' has %zu bytes; the limit is %d: choose a shorter one in "
            "dataset.fields",
            name, length, DATASET_NAME_BYTES - 1);
    if (!text_is_plain(name))
        return error_set(
            err, STATUS_INVALID,
            "field name '%.200s' holds control characters, or bytes that are no UTF-8: "
            "choose another one in dataset.fields",
            name);
    memcpy(origin->name, name, length + 1);
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct field_origin *)a)->name, ((const struct field_origin *)b)->name);
}

enum status select_sort(struct field_origin *origins, size_t count, struct error *err)
{
    qsort(origins, count, sizeof *origins, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(origins[i - 1].name, origins[i].name) == 0)
            return error_set(err, STATUS_INVALID, "two fields are named '%s'", origins[i].name);
    return STATUS_OK;
}

/* Where the field's own array is chosen from. */
static struct choice choice_of(const struct choice *choice, const struct dataset_field_spec *spec)
{
    struct choice own = *choice;
    if (!spec->store)
        return own;
    own.store = dataset_own_store(choice->dataset, spec->store);
    own.hierarchy = choice->dataset->private->hierarchies[own.store];
    own.group[0] = '\0';
    return own;
}

/* INVALID: a store of the field's own, and several that its items would be matched with one by
 * one. */
static enum status check_store(const struct choice *choice, const struct dataset_field_spec *spec,
                               struct error *err)
{
    size_t stores = choice->dataset->store_count;
    if (!spec->store || stores == 1)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "store: item i is that of frame i, which takes one store in dataset.uri, and "
                     "there are %zu: find items by align or index (no ragged ones), or write them "
                     "into each of these stores",
                     stores);
}

static enum status find_field(const struct choice *choice, const struct dataset_field_spec *spec,
                              struct field_origin *origin, struct error *err)
{
    const struct choice own = choice_of(choice, spec);
    const char *index = spec->align ? spec->align : spec->index;
    const char *axis = spec->sample_axis ? spec->sample_axis : index ? "0" : choice->axis;
    enum status status = index ? STATUS_OK : check_store(choice, spec, err);
    origin->own_store = own.store;
    if (status == STATUS_OK)
        status = select_array(&own, spec->array, &origin->array, err);
    if (status == STATUS_OK && spec->align && spec->index)
        status = error_set(err, STATUS_INVALID,
                           "index and align are both set: frames are found by one of them");
    if (status == STATUS_OK && index)
        status = select_array(choice, index, &origin->index, err);
    if (status == STATUS_OK)
        status = set_axis(origin, axis, err);
    if (status == STATUS_OK)
        status = set_convert(origin, spec, err);
    return status;
}

enum status select_check_index(const struct zarr_array *index, struct error *err)
{
    if (index->rank == 1 && index->item_length == 0 && dtype_is_integer(index->dtype))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "index array '%s' must be one-dimensional and of integers; it is "
                     "%d-dimensional and of %s",
                     index->path, index->rank, dtype_name(index->dtype));
}

/* Of a dataset that is unpacked. */
static enum status keep_matches(const struct dataset_field_spec *spec, struct field_origin *origin,
                                struct error *err)
{
    origin->matches = malloc(spec->match_count * sizeof *origin->matches);
    if (!origin->matches)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the frames of an aligned field");
    memcpy(origin->matches, spec->matches, spec->match_count * sizeof *origin->matches);
    return STATUS_OK;
}

static enum status select_one(const struct choice *choice, const struct dataset_field_spec *spec,
                              struct field_origin *origin, struct error *err)
{
    enum status status = select_set_name(origin, spec->name, err);
    if (status == STATUS_OK)
        status = steps_check(spec, err);
    if (status == STATUS_OK && spec->deliver.is_given)
        status = error_set(err, STATUS_INVALID,
                           "field '%s': deliver is for ragged fields, and array '%s' is none: set "
                           "ragged: {offsets: ..., values: ...} of the field, or remove deliver",
                           spec->name, spec->array);
    if (status != STATUS_OK)
        return status;
    origin->steps = spec->steps;
    origin->step_count = spec->step_count;
    origin->phase_count = spec->phase_count;
    memcpy(origin->phases, spec->phases, sizeof origin->phases);
    origin->segments = spec->segments;
    status = find_field(choice, spec, origin, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "field '%s': ", spec->name);
    origin->is_aligned = spec->align != NULL;
    origin->match = spec->match;
    if (spec->index)
        status = select_check_index(&origin->index->array, err);
    if (status == STATUS_OK && spec->matches)
        status = keep_matches(spec, origin, err);
    return status == STATUS_OK ? STATUS_OK : error_prefix(err, status, "field '%s': ", spec->name);
}

static int compare_specs(const void *a, const void *b)
{
    const struct dataset_field_spec *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

/* Ragged fields in order of name. */
static enum status select_ragged(const struct choice *choice,
                                 const struct dataset_field_spec **specs, size_t count,
                                 struct field_origin *origins, size_t *origin_count,
                                 struct ragged_origin *ragged, struct error *err)
{
    enum status status = STATUS_OK;
    if (count > RAGGED_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "%zu ragged fields; the limit is %d", count,
                         RAGGED_MAX_FIELDS);
    qsort(specs, count, sizeof *specs, compare_specs);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct choice own = choice_of(choice, specs[i]);
        status = check_store(choice, specs[i], err);
        if (status == STATUS_OK)
            status = ragged_select(choice, &own, specs[i], &ragged[i], origins, origin_count, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "field '%s': ", specs[i]->name);
    }
    return status;
}

static enum status select_configured(const struct choice *choice,
                                     const struct dataset_field_spec *specs, size_t spec_count,
                                     struct field_origin *origins, size_t *ret_count,
                                     struct ragged_origin *ragged, size_t *ret_ragged_count,
                                     struct error *err)
{
    const struct dataset_field_spec *asked[DATASET_MAX_FIELDS];
    size_t count = 0, asked_count = 0;
    enum status status;
    if (spec_count == 0)
        return error_set(err, STATUS_INVALID, "dataset.fields is empty");
    if (spec_count > DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "%zu fields; the limit is %d", spec_count,
                         DATASET_MAX_FIELDS);
    if (choice->exclude[0])
        return error_set(
            err, STATUS_INVALID,
            "dataset.exclude is for the default fields: remove it, and leave unwanted fields "
            "out of dataset.fields");
    for (size_t i = 0; i < spec_count; i++) {
        const struct choice own = choice_of(choice, &specs[i]);
        if (ragged_is_asked(&own, &specs[i])) {
            asked[asked_count++] = &specs[i];
            continue;
        }
        status = select_one(choice, &specs[i], &origins[count++], err);
        if (status != STATUS_OK)
            return status;
    }
    status = select_ragged(choice, asked, asked_count, origins, &count, ragged, err);
    if (status == STATUS_OK)
        status = select_sort(origins, count, err);
    if (status != STATUS_OK)
        return status;
    *ret_count = count;
    *ret_ragged_count = asked_count;
    return STATUS_OK;
}

enum status select_begin(const struct dataset_options *options, struct choice *choice,
                         struct error *err)
{
    const char *group = options->group ? options->group : "";
    group += strspn(group, "/");
    size_t length = strlen(group);
    while (length > 0 && group[length - 1] == '/')
        length--;
    if (length >= sizeof choice->group)
        return error_set(err, STATUS_INVALID, "dataset.group '%.40s...' has more than %zu bytes",
                         group, sizeof choice->group - 1);
    *choice = (struct choice){
        .axis = options->sample_axis && *options->sample_axis ? options->sample_axis : "0",
        .exclude = options->exclude ? options->exclude : ""};
    memcpy(choice->group, group, length);
    return STATUS_OK;
}

struct select_path select_path(const struct dataset_options *options, const char *path)
{
    struct choice choice = {0};
    (void)!select_begin(options, &choice, NULL); /* valid by now */
    return select_full_path(&choice, path);
}

enum status select_fields(struct dataset *dataset, const struct dataset_options *options,
                          struct error *err)
{
    struct dataset_private *private = dataset->private;
    struct choice choice;
    enum status status = select_begin(options, &choice, err);
    if (status != STATUS_OK)
        return status;
    choice.dataset = dataset;
    choice.hierarchy = private->hierarchies[0];
    return options->fields ? select_configured(&choice, options->fields, options->field_count,
                                               private->origins, &dataset->field_count,
                                               private->ragged_origins, &dataset->ragged_count, err)
                           : select_default(&choice, private->origins, &dataset->field_count, err);
}

const struct zarr_node *select_find(const struct dataset_options *options,
                                    const struct zarr_hierarchy *hierarchy, const char *path)
{
    struct choice choice;
    if (select_begin(options, &choice, NULL) != STATUS_OK)
        return NULL;
    return zarr_hierarchy_find(hierarchy, select_full_path(&choice, path).text);
}

struct field_origin *dataset_origin(const struct dataset *dataset, const char *name)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        struct field_origin *origin = &dataset->private->origins[i];
        if (strcmp(origin->name, name) == 0)
            return origin->ragged ? NULL : origin;
    }
    return NULL;
}
