/* See sparse_group.h. */
#include "zarr/hierarchy/sparse_group.h"

#include "base/text.h"
#include "zarr/hierarchy/group_attributes.h"
#include "zarr/metadata/document.h"

#include <stdio.h>
#include <string.h>

static uint64_t take_length(struct json_object *shape, size_t i)
{
    struct json_object *item = json_object_array_get_idx(shape, i);
    int64_t length = json_object_is_type(item, json_type_int) ? json_object_get_int64(item) : 0;
    return length > 0 && length < INT64_MAX ? (uint64_t)length : 0;
}

static void take_attributes(struct json_object *attributes, struct zarr_sparse_group *group)
{
    struct json_object *encoding, *shape;
    if (json_object_object_get_ex(attributes, "encoding-type", &encoding) &&
        json_object_is_type(encoding, json_type_string) &&
        text_is_plain(json_object_get_string(encoding)))
        snprintf(group->encoding, sizeof group->encoding, "%s", json_object_get_string(encoding));
    if (json_object_object_get_ex(attributes, "shape", &shape) &&
        json_object_is_type(shape, json_type_array) && json_object_array_length(shape) == 2) {
        group->row_count = take_length(shape, 0);
        group->column_count = take_length(shape, 1);
    }
}

enum status zarr_sparse_group_read(const struct store *store, enum zarr_format format,
                                   const char *path, struct zarr_sparse_group *ret_group,
                                   struct error *err)
{
    struct json_object *root, *attributes;
    enum status status = group_attributes_read(store, format, path, &root, &attributes, err);
    *ret_group = (struct zarr_sparse_group){0};
    if (status != STATUS_OK)
        return status;
    if (attributes)
        take_attributes(attributes, ret_group);
    json_object_put(root);
    return STATUS_OK;
}

bool zarr_sparse_group_is_empty(const struct zarr_hierarchy *hierarchy,
                                const struct zarr_array *array)
{
    static const char offsets[] = "indptr";
    const char *slash = strrchr(array->path, '/'), *name = slash ? slash + 1 : array->path;
    char path[ZARR_PATH_BYTES + sizeof "indices"];
    if (strcmp(name, offsets) != 0)
        return false;
    snprintf(path, sizeof path, "%.*sindices", (int)(name - array->path), array->path);
    const struct zarr_node *indices = zarr_hierarchy_find(hierarchy, path);
    return indices && zarr_array_lacks_items(&indices->array);
}
