/* Finding the arrays of a store: by consolidated metadata where there is some, else by name or by a
 * walk through the groups. Blocks on the store; called while opening, by one thread.
 */
#include "zarr/attributes.h"
#include "zarr/document.h"
#include "zarr/hierarchy_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of keys such as "group/.zarray". */
enum { KEY_BYTES = ZARR_PATH_BYTES + 16 };

enum status discover_check_path(const char *path, struct error *err)
{
    const char *part = path;

    if (strlen(path) >= ZARR_PATH_BYTES)
        return error_set(err, STATUS_UNSUPPORTED, "path '%.40s...' has more than %d bytes", path,
                         ZARR_PATH_BYTES - 1);
    while (*path) {
        size_t length = strcspn(part, "/");
        if (length == 0 || strspn(part, ".") == length)
            return error_set(err, STATUS_CORRUPT, "'%.200s' is not a path", path);
        if (part[length] == '\0')
            break;
        part += length + 1;
    }
    return STATUS_OK;
}

/* Consolidated metadata: one object with a member for each document. */

enum status discover_document(struct builder *builder, const char *path,
                              struct json_object *document, struct error *err)
{
    size_t size;
    const char *text = json_object_to_json_string_length(document, JSON_C_TO_STRING_PLAIN, &size);
    enum status status = discover_check_path(path, err);

    if (status != STATUS_OK)
        return status;
    if (!text || size > ZARR_MAX_DOCUMENT_BYTES)
        return error_set(err, STATUS_CORRUPT, "metadata of '%s' exceeds %d bytes", path,
                         ZARR_MAX_DOCUMENT_BYTES);
    return hierarchy_add(builder, path, text, size, err);
}

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

static enum status add_consolidated_v2(struct builder *builder, struct json_object *root,
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

bool discover_is_array(struct json_object *document)
{
    struct json_object *type;

    return json_object_object_get_ex(document, "node_type", &type) &&
           json_object_is_type(type, json_type_string) &&
           strcmp(json_object_get_string(type), "array") == 0;
}

static enum status add_consolidated_v3(struct builder *builder, struct json_object *consolidated,
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

/* The root: v3 where there is a zarr.json, else v2. */

static enum status open_v3(struct builder *builder, const char *text, size_t size,
                           bool *ret_complete, struct error *err)
{
    struct json_object *root, *consolidated = NULL;
    enum status status = document_parse(text, size, &root, err);

    if (status != STATUS_OK)
        return error_prefix(err, status, "'zarr.json': ");
    builder->hierarchy->format = ZARR_V3;
    json_object_object_get_ex(root, "consolidated_metadata", &consolidated);
    *ret_complete = true;
    if (discover_is_array(root)) {
        status = hierarchy_add(builder, "", text, size, err);
    } else if (json_object_is_type(consolidated, json_type_object)) {
        builder->hierarchy->consolidated = true;
        status = hierarchy_add_group(builder, "", err);
        if (status == STATUS_OK)
            status = add_consolidated_v3(builder, consolidated, err);
        if (status != STATUS_OK)
            error_prefix(err, status, "'zarr.json': consolidated metadata: ");
    } else {
        *ret_complete = false;
    }
    json_object_put(root);
    return status;
}

static enum status open_consolidated_v2(struct builder *builder, const char *text, size_t size,
                                        struct error *err)
{
    struct json_object *root;
    enum status status = document_parse(text, size, &root, err);

    if (status == STATUS_OK) {
        builder->hierarchy->format = ZARR_V2;
        builder->hierarchy->consolidated = true;
        status = add_consolidated_v2(builder, root, err);
        json_object_put(root);
    }
    if (status != STATUS_OK)
        return error_prefix(err, status, "'.zmetadata': ");
    return STATUS_OK;
}

/* Takes what the root's documents hold. *ret_complete: that is all there is, but for what is wanted
 * by name. Without a document there the format stays 0. */
static enum status open_root(struct builder *builder, const struct store *store, bool *ret_complete,
                             struct error *err)
{
    bool is_group;
    char *text;
    size_t size;
    enum status status =
        store_get_text(store, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);

    if (status == STATUS_OK) {
        status = open_v3(builder, text, size, ret_complete, err);
        free(text);
        return status;
    }
    if (status == STATUS_NOT_FOUND)
        status =
            store_get_text(store, ".zmetadata", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);
    if (status == STATUS_OK) {
        *ret_complete = true;
        status = open_consolidated_v2(builder, text, size, err);
        free(text);
        return status;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    builder->hierarchy->format = ZARR_V2;
    status = discover_node(builder, store, "", &is_group, err);
    *ret_complete = status == STATUS_OK && !is_group;
    if (status != STATUS_NOT_FOUND)
        return status;
    builder->hierarchy->format = 0;
    return STATUS_OK;
}

enum status discover_arrays(struct builder *builder, const struct store *store, struct error *err)
{
    struct zarr_hierarchy *hierarchy = builder->hierarchy;
    bool is_complete = false;
    enum status status = open_root(builder, store, &is_complete, err);

    if (status != STATUS_OK)
        return status;
    if (builder->wanted.paths)
        status = discover_named(builder, store, err);
    else if (!is_complete)
        status = discover_walk(builder, store, err);
    if (status == STATUS_OK && !hierarchy->format)
        return error_set(err, STATUS_NOT_FOUND,
                         "no Zarr array or group there: none of zarr.json, .zmetadata, .zarray and "
                         ".zgroup exists");
    return status;
}
