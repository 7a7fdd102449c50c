/* Constants: arrays without the sample axis, which trainers get once. Read whole from the first
 * store while opening, by one thread. Other ranks have them from the packed dataset. */
#include "dataset/fields/constants.h"

#include "base/size.h"
#include "dataset/fields/select.h"
#include "dataset/fields/small_array.h"
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/axes.h"
#include "zarr/hierarchy/packed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum status refuse_size(const char *name, uint64_t bytes, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "with constant '%s' the constants take %s; the limit is %s, for all of them",
                     name, size_format(bytes).text, size_format(DATASET_CONSTANT_BYTES).text);
}

/* Whether the array has the sample axis of the fields: by the axes' names, or by the number of the
 * first store's frames where one of the two arrays has no names. */
static bool has_sample_axis(const struct dataset *dataset, const struct zarr_node *node)
{
    struct zarr_axis_names names, own;
    bool named = zarr_node_axis_names(node, &own);
    if (node->array.is_scalar)
        return false;

    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        if (!origin->array || origin->index || origin->own_store > 0)
            continue;
        if (!named || !zarr_node_axis_names(origin->array, &names) || !names.names[origin->axis][0])
            return node->array.shape[0] == dataset->store_frames[1];
        for (int axis = 0; axis < node->array.rank; axis++)
            if (strcmp(own.names[axis], names.names[origin->axis]) == 0)
                return true;
    }
    return false;
}

static enum status check_array(const struct dataset *dataset, const struct zarr_node *node,
                               struct error *err)
{
    const struct zarr_array *array = &node->array;
    if (array->rank + (array->item_length > 0) > DATASET_MAX_RANK)
        return error_set(err, STATUS_INVALID, "array '%s' has more than %d dimensions", array->path,
                         DATASET_MAX_RANK);
    if (has_sample_axis(dataset, node))
        return error_set(err, STATUS_INVALID,
                         "array '%s' has the sample axis (%" PRIu64 " long), so that it differs "
                         "from sample to sample: make it a field (dataset.fields)",
                         array->path, dataset->store_frames[1]);
    return STATUS_OK;
}

/* Takes `items`, unless the call fails. */
static enum status keep(struct dataset *dataset, const char *name, const struct zarr_node *node,
                        unsigned char *items, struct error *err)
{
    struct dataset_constant *constant = &dataset->private->constants[dataset->constant_count];
    const struct zarr_array *array = &node->array;
    struct text attributes = {0};
    struct dataset_constant kept = {.name = strdup(name),
                                    .dtype = array->dtype,
                                    .rank = array->is_scalar ? 0 : array->rank,
                                    .data = items,
                                    .bytes = array->total_bytes};
    if (!kept.name)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a constant");
    memcpy(kept.shape, array->shape, (size_t)kept.rank * sizeof *array->shape);
    if (array->item_length > 0)
        kept.shape[kept.rank++] = array->item_length;
    zarr_node_attributes(node, &attributes, NULL);
    kept.attributes = attributes.data;
    dataset->constant_bytes += kept.bytes + attributes.length;
    dataset->constant_count++;
    *constant = kept;
    return STATUS_OK;
}

static enum status read_constant(struct dataset *dataset, const char *path, const char *name,
                                 struct error *err)
{
    struct zarr_hierarchy *hierarchy = NULL;
    const struct zarr_node *node;
    unsigned char *items = NULL;
    const char *uri;
    enum status status =
        small_array_read(dataset, store_joined_at(dataset->private->store, 0, &uri), path,
                         &hierarchy, &node, &items, err);
    if (status != STATUS_OK)
        return status;
    status = check_array(dataset, node, err);
    if (status == STATUS_OK &&
        dataset->constant_bytes + node->array.total_bytes > DATASET_CONSTANT_BYTES)
        status = refuse_size(name, dataset->constant_bytes + node->array.total_bytes, err);
    if (status == STATUS_OK)
        status = keep(dataset, name, node, items, err);
    if (status != STATUS_OK)
        free(items);
    zarr_hierarchy_free(hierarchy);
    return status;
}

/* The path without '/' at both ends: a constant's name. */
static enum status check_name(const struct dataset *dataset, struct text *item, struct error *err)
{
    const char *name = item->data ? item->data : "";
    while (item->length > 0 && item->data[item->length - 1] == '/')
        item->data[--item->length] = '\0';
    name += strspn(name, "/");
    if (!*name || strlen(name) >= DATASET_NAME_BYTES || !text_is_plain(name))
        return error_set(err, STATUS_INVALID,
                         "'%.80s' is no name of an array: it has 1 to %d bytes, and no control "
                         "characters",
                         name, DATASET_NAME_BYTES - 1);
    if (dataset->constant_count == DATASET_MAX_CONSTANTS)
        return error_set(err, STATUS_INVALID, "more than %d constants", DATASET_MAX_CONSTANTS);
    for (size_t i = 0; i < dataset->constant_count; i++)
        if (strcmp(dataset->constants[i].name, name) == 0)
            return error_set(err, STATUS_INVALID, "'%s' is there twice", name);
    return STATUS_OK;
}

enum status constants_settle(struct dataset *dataset, const struct dataset_options *options,
                             struct error *err)
{
    const char *at = options->constants;
    struct text item = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&at, &item)) {
        status = check_name(dataset, &item, err);
        if (status == STATUS_OK)
            status = read_constant(dataset, select_path(options, item.data).text,
                                   item.data + strspn(item.data, "/"), err);
    }
    text_done(&item);
    return status == STATUS_OK ? status : error_prefix(err, status, "dataset.constants: ");
}

void constants_pack(const struct dataset *dataset, struct text *out)
{
    packed_put_number(out, dataset->constant_count);
    for (size_t i = 0; i < dataset->constant_count; i++) {
        const struct dataset_constant *constant = &dataset->constants[i];
        packed_put_run(out, constant->name, strlen(constant->name));
        packed_put_number(out, constant->dtype);
        packed_put_run(out, constant->shape, (size_t)constant->rank * sizeof constant->shape[0]);
        packed_put_run(out, constant->data, constant->bytes);
        packed_put_run(out, constant->attributes, strlen(constant->attributes));
    }
}

static bool take_one(struct packed *packed, struct dataset_constant *ret)
{
    const char *name, *shape, *data, *attributes;
    size_t shape_bytes, data_bytes;
    uint64_t dtype, bytes;
    if (!packed_take_string(packed, &name) || !packed_take_number(packed, &dtype) ||
        !packed_take_run(packed, &shape, &shape_bytes) ||
        !packed_take_run(packed, &data, &data_bytes) || !packed_take_string(packed, &attributes) ||
        shape_bytes > sizeof ret->shape || shape_bytes % sizeof ret->shape[0] != 0)
        return false;
    ret->dtype = (enum dtype)dtype;
    ret->rank = (int)(shape_bytes / sizeof ret->shape[0]);
    memcpy(ret->shape, shape, shape_bytes);
    bytes = dtype <= INT8_MAX ? dtype_bytes(ret->dtype) : 0;
    for (int axis = 0; axis < ret->rank; axis++)
        if (!size_multiply(bytes, ret->shape[axis], &bytes))
            return false;
    if (bytes == 0 || bytes != data_bytes)
        return false;
    void *copy = malloc(data_bytes);
    ret->bytes = data_bytes;
    ret->data = copy ? memcpy(copy, data, data_bytes) : NULL;
    ret->name = strdup(name);
    ret->attributes = strdup(attributes);
    return ret->data && ret->name && ret->attributes;
}

bool constants_unpack(struct dataset *dataset, struct packed *packed)
{
    uint64_t count;
    if (!packed_take_number(packed, &count) || count > DATASET_MAX_CONSTANTS)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        struct dataset_constant *constant = &dataset->private->constants[dataset->constant_count++];
        if (!take_one(packed, constant))
            return false;
        dataset->constant_bytes += constant->bytes + strlen(constant->attributes);
    }
    return true;
}

void constants_free(struct dataset *dataset)
{
    for (size_t i = 0; i < dataset->constant_count; i++) {
        free((char *)dataset->private->constants[i].name);
        free((void *)dataset->private->constants[i].data);
        free((char *)dataset->private->constants[i].attributes);
    }
}
