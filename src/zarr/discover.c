/* Finding the arrays of a store: by consolidated metadata where there is some, else by a walk
 * through the groups. Blocks on the store; called while opening, by one thread.
 */
#include "zarr/document.h"
#include "zarr/hierarchy_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of keys such as "group/.zarray". */
enum { KEY_BYTES = ZARR_PATH_BYTES + 16 };

/* Paths come from foreign documents and reach messages: relative, clean, printable, not too long.
 */
static enum status check_path(const char *path, struct error *err)
{
    const char *part = path;

    if (strlen(path) >= ZARR_PATH_BYTES)
        return error_set(err, STATUS_UNSUPPORTED, "path '%.40s...' has more than %d bytes", path,
                         ZARR_PATH_BYTES - 1);
    for (const char *at = path; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, STATUS_CORRUPT, "an array's path holds a control character");
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

static enum status add_document(struct builder *builder, const char *path,
                                struct json_object *document, struct error *err)
{
    size_t size;
    const char *text = json_object_to_json_string_length(document, JSON_C_TO_STRING_PLAIN, &size);
    enum status status = check_path(path, err);

    if (status != STATUS_OK)
        return status;
    if (!text || size > ZARR_MAX_DOCUMENT_BYTES)
        return error_set(err, STATUS_CORRUPT, "metadata of '%s' exceeds %d bytes", path,
                         ZARR_MAX_DOCUMENT_BYTES);
    return hierarchy_add(builder, path, text, size, err);
}

/* The names that xarray gives the axes of a v2 array, in its attributes. */
static const char dimensions[] = "_ARRAY_DIMENSIONS";

/* Puts them into the array's document. */
static void take_dimensions(struct json_object *document, struct json_object *attributes)
{
    struct json_object *names;

    if (json_object_is_type(document, json_type_object) &&
        json_object_is_type(attributes, json_type_object) &&
        json_object_object_get_ex(attributes, dimensions, &names) &&
        json_object_is_type(names, json_type_array))
        json_object_object_add(document, dimensions, json_object_get(names));
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
    snprintf(attributes_key, sizeof attributes_key, "%s%s.zattrs", path, *path ? "/" : "");
    if (json_object_object_get_ex(metadata, attributes_key, &attributes))
        take_dimensions(document, attributes);
    return add_document(builder, path, document, err);
}

/* Few need the groups, so one whose path is not valid keeps nobody from the arrays. */
static enum status add_group(struct builder *builder, const char *path, struct error *err)
{
    if (check_path(path, NULL) == STATUS_OK)
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

static bool is_array_node(struct json_object *document)
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
        status = is_array_node(document) ? add_document(builder, path, document, err)
                                         : add_group(builder, path, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* The walk: from group to group, not into arrays. */

struct walk {
    struct builder *builder;
    const struct store *store;
    const char *prefix;
    int depth;
};

static enum status walk_node(struct builder *builder, const struct store *store, const char *path,
                             int depth, struct error *err);

static enum status visit_child(const char *name, bool is_prefix, void *argument, struct error *err)
{
    const struct walk *walk = argument;
    char path[ZARR_PATH_BYTES];
    size_t prefix_length = strlen(walk->prefix), name_length = strlen(name);

    if (!is_prefix)
        return STATUS_OK;
    if (prefix_length + 1 + name_length >= sizeof path)
        return error_set(err, STATUS_UNSUPPORTED, "a path below '%.80s' has more than %zu bytes",
                         walk->prefix, sizeof path - 1);
    memcpy(path, walk->prefix, prefix_length);
    if (prefix_length > 0)
        path[prefix_length++] = '/';
    memcpy(path + prefix_length, name, name_length + 1);
    return walk_node(walk->builder, walk->store, path, walk->depth + 1, err);
}

static enum status walk_group(struct builder *builder, const struct store *store, const char *path,
                              int depth, struct error *err)
{
    struct walk walk = {builder, store, path, depth};

    if (depth == ZARR_MAX_GROUP_DEPTH)
        return error_set(err, STATUS_INVALID, "groups nested more than %d deep at '%.200s'",
                         ZARR_MAX_GROUP_DEPTH, path);
    enum status status = hierarchy_add_group(builder, path, err);
    return status == STATUS_OK ? store_list(store, path, visit_child, &walk, err) : status;
}

/* The document `name` of the node at `path`; NOT_FOUND if it has none. */
static enum status get_document(const struct store *store, const char *path, const char *name,
                                size_t limit, char **ret_text, size_t *ret_size, struct error *err)
{
    char key[KEY_BYTES];

    snprintf(key, sizeof key, "%s%s%s", path, *path ? "/" : "", name);
    return store_get_text(store, key, limit, ret_text, ret_size, err);
}

/* With what its attributes say of its axes. Attributes that are not there, cannot be read or make
 * no sense, say nothing. */
static enum status add_v2_array(struct builder *builder, const struct store *store,
                                const char *path, const char *text, size_t size, struct error *err)
{
    struct json_object *document = NULL, *attributes = NULL;
    char *attributes_text;
    size_t attributes_size;
    enum status status = get_document(store, path, ".zattrs", ZARR_MAX_DOCUMENT_BYTES,
                                      &attributes_text, &attributes_size, err);

    if (status == STATUS_NO_MEMORY)
        return status;
    if (status != STATUS_OK)
        return hierarchy_add(builder, path, text, size, err);
    if (document_parse(attributes_text, attributes_size, &attributes, NULL) == STATUS_OK &&
        json_object_object_get_ex(attributes, dimensions, NULL) &&
        document_parse(text, size, &document, NULL) == STATUS_OK) {
        take_dimensions(document, attributes);
        status = add_document(builder, path, document, err);
    } else {
        status = hierarchy_add(builder, path, text, size, err);
    }
    json_object_put(attributes);
    json_object_put(document);
    free(attributes_text);
    return status;
}

static enum status walk_node_v2(struct builder *builder, const struct store *store,
                                const char *path, int depth, struct error *err)
{
    char *text;
    size_t size;
    enum status status =
        get_document(store, path, ".zarray", ZARR_MAX_DOCUMENT_BYTES, &text, &size, err);

    if (status == STATUS_OK) {
        status = add_v2_array(builder, store, path, text, size, err);
        free(text);
        return status;
    }
    if (status == STATUS_NOT_FOUND)
        status = get_document(store, path, ".zgroup", ZARR_MAX_DOCUMENT_BYTES, &text, &size, err);
    if (status != STATUS_OK)
        return status;
    free(text);
    return walk_group(builder, store, path, depth, err);
}

static enum status walk_node_v3(struct builder *builder, const struct store *store,
                                const char *path, int depth, struct error *err)
{
    struct json_object *root;
    char *text;
    size_t size;
    enum status status =
        get_document(store, path, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);

    if (status != STATUS_OK)
        return status;
    status = document_parse(text, size, &root, err);
    if (status == STATUS_OK) {
        bool is_array = is_array_node(root);
        json_object_put(root);
        status = is_array ? hierarchy_add(builder, path, text, size, err)
                          : walk_group(builder, store, path, depth, err);
    } else {
        status = hierarchy_add(builder, path, text, size, err); /* records why it cannot be read */
    }
    free(text);
    return status;
}

/* A folder without a document is not part of the hierarchy. */
static enum status walk_node(struct builder *builder, const struct store *store, const char *path,
                             int depth, struct error *err)
{
    struct error local;
    enum status status;

    error_clear(&local);
    status = builder->hierarchy->format == ZARR_V2
                 ? walk_node_v2(builder, store, path, depth, &local)
                 : walk_node_v3(builder, store, path, depth, &local);
    if (status == STATUS_NOT_FOUND && depth > 0)
        return STATUS_OK;
    if (status != STATUS_OK && err)
        *err = local;
    return status;
}

/* The root: v3 where there is a zarr.json, else v2. */

static enum status open_v3(struct builder *builder, const struct store *store, const char *text,
                           size_t size, struct error *err)
{
    struct json_object *root, *consolidated = NULL;
    enum status status = document_parse(text, size, &root, err);

    if (status != STATUS_OK)
        return error_prefix(err, status, "'zarr.json': ");
    builder->hierarchy->format = ZARR_V3;
    json_object_object_get_ex(root, "consolidated_metadata", &consolidated);
    if (is_array_node(root)) {
        status = hierarchy_add(builder, "", text, size, err);
    } else if (json_object_is_type(consolidated, json_type_object)) {
        builder->hierarchy->consolidated = true;
        status = hierarchy_add_group(builder, "", err);
        if (status == STATUS_OK)
            status = add_consolidated_v3(builder, consolidated, err);
        if (status != STATUS_OK)
            error_prefix(err, status, "'zarr.json': consolidated metadata: ");
    } else {
        status = walk_group(builder, store, "", 0, err);
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
        builder->hierarchy->consolidated = true;
        status = add_consolidated_v2(builder, root, err);
        json_object_put(root);
    }
    if (status != STATUS_OK)
        return error_prefix(err, status, "'.zmetadata': ");
    return STATUS_OK;
}

enum status discover_arrays(struct builder *builder, const struct store *store, struct error *err)
{
    char *text;
    size_t size;
    enum status status =
        store_get_text(store, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);

    if (status == STATUS_OK) {
        status = open_v3(builder, store, text, size, err);
        free(text);
        return status;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    builder->hierarchy->format = ZARR_V2;
    status = store_get_text(store, ".zmetadata", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);
    if (status == STATUS_OK) {
        status = open_consolidated_v2(builder, text, size, err);
        free(text);
        return status;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    status = walk_node(builder, store, "", 0, err);
    if (status == STATUS_NOT_FOUND)
        return error_set(err, STATUS_NOT_FOUND,
                         "no Zarr array or group there: none of zarr.json, .zmetadata, .zarray and "
                         ".zgroup exists");
    return status;
}
