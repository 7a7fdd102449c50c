/* Consolidated metadata: one object with a member for each document. See hierarchy_internal.h. */
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/hierarchy_internal.h"
#include "zarr/metadata/document.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Of keys such as "group/.zarray". */
enum { KEY_BYTES = ZARR_PATH_BYTES + 16 };

/* The length of the path in a v2 key that ends in `name` ("a/.zarray": 1; ".zarray": 0); -1 for
 * other keys. */
static ptrdiff_t v2_path_length(const char *key, const char *name)
{
    size_t length = strlen(key), name_length = strlen(name);
    if (length < name_length || strcmp(key + length - name_length, name) != 0)
        return -1;
    length -= name_length;
    if (length == 0)
        return 0;
    return key[length - 1] == '/' ? (ptrdiff_t)length - 1 : -1;
}

static enum status add_v2_document(struct builder *builder, struct json_object *metadata,
                                   const char *key, size_t path_length,
                                   struct json_object *document, struct error *err)
{
    char path[ZARR_PATH_BYTES], attributes_key[KEY_BYTES];
    struct json_object *attributes;
    if (path_length >= ZARR_PATH_BYTES)
        return error_set(err, STATUS_UNSUPPORTED, "path '%.40s...' has more than %d bytes", key,
                         ZARR_PATH_BYTES - 1);
    snprintf(path, sizeof path, "%.*s", (int)path_length, key);
    if (!discover_wants(builder, path))
        return STATUS_OK;
    snprintf(attributes_key, sizeof attributes_key, "%s%s.zattrs", path, *path ? "/" : "");
    if (json_object_object_get_ex(metadata, attributes_key, &attributes))
        (void)attributes_take(document, attributes);
    return discover_document(builder, path, document, err);
}

/* Few need the groups, so one whose path is not valid keeps nobody from the arrays. */
static enum status add_group(struct builder *builder, const char *path, struct error *err)
{
    if (discover_check_path(path, NULL) == STATUS_OK)
        return hierarchy_add_group(builder, path, err);
    builder->hierarchy->groups_incomplete = true;
    return STATUS_OK;
}

static enum status add_v2_group(struct builder *builder, const char *key, size_t path_length,
                                struct error *err)
{
    char path[ZARR_PATH_BYTES + 1]; /* one more: what is too long stays too long */
    snprintf(path, sizeof path, "%.*s",
             (int)(path_length < sizeof path ? path_length : sizeof path - 1), key);
    return add_group(builder, path, err);
}

enum status consolidated_add_v2(struct builder *builder, struct json_object *root,
                                struct error *err)
{
    struct json_object *metadata;
    enum status status = document_expect(root, "zarr_consolidated_format", 1, err);
    if (status == STATUS_OK)
        status = document_member(root, "metadata", json_type_object, &metadata, err);
    if (status != STATUS_OK)
        return status;
    json_object_object_foreach(metadata, key, document)
    {
        ptrdiff_t array = v2_path_length(key, ".zarray"), group = v2_path_length(key, ".zgroup");
        if (array >= 0)
            status = add_v2_document(builder, metadata, key, (size_t)array, document, err);
        else if (group >= 0)
            status = add_v2_group(builder, key, (size_t)group, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status consolidated_add_v3(struct builder *builder, struct json_object *consolidated,
                                struct error *err)
{
    struct json_object *metadata;
    enum status status =
        document_member(consolidated, "metadata", json_type_object, &metadata, err);
    if (status != STATUS_OK)
        return status;
    json_object_object_foreach(metadata, path, document)
    {
        if (!json_object_is_type(document, json_type_object))
            return error_set(err, STATUS_CORRUPT, "metadata of '%.200s' is not an object", path);
        if (!discover_is_array(document))
            status = add_group(builder, path, err);
        else if (discover_wants(builder, path))
            status = discover_document(builder, path, document, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}
