/* The fields of a dataset by default: all arrays in the group whose sample axis has the sample
 * count. Called while opening, by one thread. */
#include "dataset/fields/select_internal.h"

#include "base/size.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

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

/* The path of an array in the group, as its field is named; NULL if it lies elsewhere. */
static const char *name_in_group(const struct choice *choice, const struct zarr_node *node)
{
    const char *path = node->array.path;
    size_t length = strlen(choice->group);
    if (strncmp(path, choice->group, length) != 0)
        return NULL;
    path += length;
    if (length > 0 && path[0] == '/')
        path++;
    else if (length > 0 && path[0] != '\0')
        return NULL;
    return path[0] ? path : "data";
}

static bool is_excluded(const struct choice *choice, const char *name)
{
    const char *list = choice->exclude;
    struct text pattern = {0};
    bool excluded = false;
    while (text_list_take(&list, &pattern))
        excluded = excluded || fnmatch(pattern.data, name, 0) == 0;
    text_done(&pattern);
    return excluded;
}

/* A pattern that fits nothing is a slip. */
static enum status check_exclude(const struct choice *choice, struct error *err)
{
    const char *list = choice->exclude;
    struct text pattern = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&list, &pattern)) {
        bool used = false;
        for (size_t i = 0; i < choice->hierarchy->node_count && !used; i++) {
            const char *name = name_in_group(choice, &choice->hierarchy->nodes[i]);
            used = name && fnmatch(pattern.data, name, 0) == 0;
        }
        if (!used)
            status = error_set(err, STATUS_INVALID, "dataset.exclude: '%s' fits no array%s%s",
                               pattern.data, choice->group[0] ? " in group " : "", choice->group);
    }
    text_done(&pattern);
    return status;
}

/* The name under which an array may be a default field; NULL: it may not. */
static const char *default_name(const struct choice *choice, const struct zarr_node *node)
{
    const char *name = name_in_group(choice, node);
    return name && !is_excluded(choice, name) ? name : NULL;
}

/* Samples along the sample axis; 0 where there is no such axis, or the shape could not be read. */
static uint64_t samples_of(const struct choice *choice, const struct zarr_node *node)
{
    int axis = node->array.rank > 0 ? select_axis(node, choice->axis) : -1;
    return axis < 0 ? 0 : node->array.shape[axis];
}

static bool is_empty_default(const struct choice *choice, const struct zarr_node *node)
{
    return node->array.is_empty && default_name(choice, node);
}

/* `largest` cannot be read, and other arrays are empty: these would have had the samples. */
static enum status refuse_empty(const struct choice *choice, const struct zarr_node *largest,
                                struct error *err)
{
    const struct zarr_hierarchy *hierarchy = choice->hierarchy;
    const struct zarr_node *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < hierarchy->node_count; i++)
        if (is_empty_default(choice, &hierarchy->nodes[i])) {
            first = first ? first : &hierarchy->nodes[i];
            count++;
        }
    if (!first)
        return STATUS_OK;
    struct text others = {0};
    if (count > 1)
        text_append(&others, " (and so %s %zu more)", count > 2 ? "are" : "is", count - 1);
    error_set(err, STATUS_INVALID,
              "there are no samples: array '%s' is empty%s, and '%s', the largest of the others, "
              "cannot be read: write the dataset with samples, or list dataset.fields",
              first->array.path, others.data ? others.data : "", largest->array.path);
    text_done(&others);
    return STATUS_INVALID;
}

/* The samples lie along the sample axis of the largest array; another one as large must agree. */
static enum status find_sample_count(const struct choice *choice, uint64_t *ret_sample_count,
                                     struct error *err)
{
    const struct zarr_hierarchy *hierarchy = choice->hierarchy;
    const struct zarr_node *largest = NULL;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        if (default_name(choice, node) && samples_of(choice, node) > 0 &&
            known_size(&node->array) > (largest ? known_size(&largest->array) : 0))
            largest = node;
    }
    if (!largest)
        return error_set(err, STATUS_INVALID, "there are no arrays with samples%s%s",
                         choice->group[0] ? " in group " : "", choice->group);
    enum status status =
        largest->status == STATUS_OK ? STATUS_OK : refuse_empty(choice, largest, err);
    if (status != STATUS_OK)
        return status;
    uint64_t count = samples_of(choice, largest);
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        uint64_t other = samples_of(choice, node);
        if (default_name(choice, node) && other > 0 && other != count &&
            known_size(&node->array) == known_size(&largest->array))
            return error_set(
                err, STATUS_INVALID,
                "which arrays hold the samples is ambiguous: '%s' and '%s' are equally "
                "large and have %" PRIu64 " and %" PRIu64 " along axis %s: list dataset.fields",
                largest->array.path, node->array.path, count, other, choice->axis);
    }
    *ret_sample_count = count;
    return STATUS_OK;
}

/* An array that may belong to the samples and cannot be read is not left out in silence. */
static enum status take_default(const struct choice *choice, const struct zarr_node *node,
                                uint64_t sample_count, struct field_origin *origins, size_t *count,
                                struct error *err)
{
    const char *name = default_name(choice, node);
    bool may_belong = node->array.rank > 0 ? samples_of(choice, node) == sample_count
                                           : node->status == STATUS_CORRUPT;
    if (!name || !may_belong)
        return STATUS_OK;
    if (node->status != STATUS_OK)
        return error_set(err, node->status,
                         "array '%s': %s. To do without it, list dataset.fields without it, or "
                         "name it in dataset.exclude",
                         node->array.path, node->reason);
    if (*count == DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID,
                         "more than %d arrays have %" PRIu64 " samples: list dataset.fields",
                         DATASET_MAX_FIELDS, sample_count);
    struct field_origin *origin = &origins[(*count)++];
    origin->array = node;
    origin->axis = select_axis(node, choice->axis);
    return select_set_name(origin, name, err);
}

enum status select_default(const struct choice *choice, struct field_origin *origins,
                           size_t *ret_count, struct error *err)
{
    uint64_t sample_count = 0;
    size_t count = 0;
    enum status status = check_exclude(choice, err);
    if (status == STATUS_OK)
        status = find_sample_count(choice, &sample_count, err);
    for (size_t i = 0; status == STATUS_OK && i < choice->hierarchy->node_count; i++)
        status =
            take_default(choice, &choice->hierarchy->nodes[i], sample_count, origins, &count, err);
    if (status == STATUS_OK)
        status = select_sort(origins, count, err);
    if (status == STATUS_OK)
        *ret_count = count;
    return status;
}
