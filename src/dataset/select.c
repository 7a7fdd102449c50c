/* Which arrays are the fields of a dataset: those that the configuration names, or by default all
 * whose axis 0 has the sample count. Called while opening, by one thread. */
#include "dataset/dataset_internal.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_ARRAYS = 12 };

/* "'a', 'b' and 3 more", for messages. */
static void list_arrays(const struct zarr_hierarchy *hierarchy, struct text *out)
{
    for (size_t i = 0; i < hierarchy->node_count && i < MESSAGE_ARRAYS; i++)
        text_append(out, "%s'%.60s'", i ? ", " : "", hierarchy->nodes[i].array.path);
    if (hierarchy->node_count > MESSAGE_ARRAYS)
        text_append(out, " and %zu more", hierarchy->node_count - MESSAGE_ARRAYS);
}

static enum status refuse_unknown(const struct zarr_hierarchy *hierarchy, const char *path,
                                  struct error *err)
{
    struct text list = {0};

    if (hierarchy->node_count == 0)
        return error_set(err, STATUS_NOT_FOUND, "there is no array '%s': the group is empty", path);
    list_arrays(hierarchy, &list);
    error_set(err, STATUS_NOT_FOUND, "there is no array '%s'; there are %s", path, list.data);
    text_done(&list);
    return STATUS_NOT_FOUND;
}

static enum status find_array(const struct zarr_hierarchy *hierarchy, const char *path,
                              const struct zarr_array **ret_array, struct error *err)
{
    const struct zarr_node *node = zarr_hierarchy_find(hierarchy, path);

    if (!node)
        return refuse_unknown(hierarchy, path, err);
    if (node->status != STATUS_OK)
        return error_set(err, node->status, "array '%s': %s", path, node->reason);
    *ret_array = &node->array;
    return STATUS_OK;
}

static enum status set_name(struct field_origin *origin, const char *name, struct error *err)
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
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return error_set(err, STATUS_INVALID, "a field's name holds a control character");
    memcpy(origin->name, name, length + 1);
    return STATUS_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct field_origin *)a)->name, ((const struct field_origin *)b)->name);
}

static enum status sort_by_name(struct field_origin *origins, size_t count, struct error *err)
{
    qsort(origins, count, sizeof *origins, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(origins[i - 1].name, origins[i].name) == 0)
            return error_set(err, STATUS_INVALID, "two fields are named '%s'", origins[i].name);
    return STATUS_OK;
}

static enum status select_one(const struct zarr_hierarchy *hierarchy,
                              const struct dataset_field_spec *spec, struct field_origin *origin,
                              struct error *err)
{
    enum status status = set_name(origin, spec->name, err);

    if (status != STATUS_OK)
        return status;
    status = find_array(hierarchy, spec->array, &origin->array, err);
    if (status == STATUS_OK && spec->index)
        status = find_array(hierarchy, spec->index, &origin->index, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "field '%s': ", spec->name);
    if (!spec->index)
        return STATUS_OK;
    if (origin->index->rank != 1 || origin->index->item_extent > 0 ||
        !dtype_is_integer(origin->index->dtype))
        return error_set(
            err, STATUS_INVALID,
            "field '%s': index array '%s' must be one-dimensional and of integers; it is "
            "%d-dimensional and of %s",
            spec->name, spec->index, origin->index->rank, dtype_name(origin->index->dtype));
    return STATUS_OK;
}

enum status select_configured(const struct zarr_hierarchy *hierarchy,
                              const struct dataset_field_spec *specs, size_t spec_count,
                              struct field_origin *origins, size_t *ret_count, struct error *err)
{
    enum status status;

    if (spec_count == 0)
        return error_set(err, STATUS_INVALID, "dataset.fields is empty");
    if (spec_count > DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "%zu fields; the limit is %d", spec_count,
                         DATASET_MAX_FIELDS);
    for (size_t i = 0; i < spec_count; i++) {
        status = select_one(hierarchy, &specs[i], &origins[i], err);
        if (status != STATUS_OK)
            return status;
    }
    status = sort_by_name(origins, spec_count, err);
    if (status == STATUS_OK)
        *ret_count = spec_count;
    return status;
}

/* Decoded size of an array as far as it is known: of one whose dtype we do not have, its items. */
static uint64_t known_size(const struct zarr_array *array)
{
    uint64_t size = array->rank > 0;

    if (array->total_bytes > 0)
        return array->total_bytes;
    for (int i = 0; i < array->rank; i++)
        if (!size_multiply(size, array->shape[i], &size))
            return UINT64_MAX;
    return size;
}

/* The samples lie along axis 0 of the largest array; another one as large must agree. */
static enum status find_sample_count(const struct zarr_hierarchy *hierarchy,
                                     uint64_t *ret_sample_count, struct error *err)
{
    const struct zarr_array *largest = NULL;

    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_array *array = &hierarchy->nodes[i].array;
        if (known_size(array) > (largest ? known_size(largest) : 0))
            largest = array;
    }
    if (!largest)
        return error_set(err, STATUS_INVALID, "there are no arrays with samples");
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_array *array = &hierarchy->nodes[i].array;
        if (known_size(array) == known_size(largest) && array->shape[0] != largest->shape[0])
            return error_set(
                err, STATUS_INVALID,
                "which arrays hold the samples is ambiguous: '%s' and '%s' are equally "
                "large and have %" PRIu64 " and %" PRIu64 " along axis 0: list dataset.fields",
                largest->path, array->path, largest->shape[0], array->shape[0]);
    }
    *ret_sample_count = largest->shape[0];
    return STATUS_OK;
}

/* An array that may belong to the samples and cannot be read is not left out in silence. */
static enum status take_default(const struct zarr_node *node, uint64_t sample_count,
                                struct field_origin *origins, size_t *count, struct error *err)
{
    const struct zarr_array *array = &node->array;
    bool may_belong =
        array->rank > 0 ? array->shape[0] == sample_count : node->status == STATUS_CORRUPT;

    if (!may_belong)
        return STATUS_OK;
    if (node->status != STATUS_OK)
        return error_set(err, node->status,
                         "array '%s': %s. To do without it, list dataset.fields without it",
                         array->path, node->reason);
    if (*count == DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID,
                         "more than %d arrays have %" PRIu64 " samples: list dataset.fields",
                         DATASET_MAX_FIELDS, sample_count);
    struct field_origin *origin = &origins[(*count)++];
    origin->array = array;
    return set_name(origin, array->path[0] ? array->path : "data", err);
}

enum status select_default(const struct zarr_hierarchy *hierarchy, struct field_origin *origins,
                           size_t *ret_count, struct error *err)
{
    uint64_t sample_count = 0;
    size_t count = 0;
    enum status status = find_sample_count(hierarchy, &sample_count, err);

    for (size_t i = 0; status == STATUS_OK && i < hierarchy->node_count; i++)
        status = take_default(&hierarchy->nodes[i], sample_count, origins, &count, err);
    if (status == STATUS_OK)
        status = sort_by_name(origins, count, err);
    if (status == STATUS_OK)
        *ret_count = count;
    return status;
}
