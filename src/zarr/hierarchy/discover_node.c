/* One node: its path, and its document, which is found where it lies. See hierarchy_internal.h. */
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/hierarchy_internal.h"
#include "zarr/metadata/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool discover_is_array(struct json_object *document)
{
    struct json_object *type;
    return json_object_object_get_ex(document, "node_type", &type) &&
           json_object_is_type(type, json_type_string) &&
           strcmp(json_object_get_string(type), "array") == 0;
}

enum status discover_get_document(const struct store *store, const char *path, const char *name,
                                  size_t limit, char **ret_text, size_t *ret_size,
                                  struct error *err)
{
    char key[ZARR_PATH_BYTES + 16];
    snprintf(key, sizeof key, "%s%s%s", path, *path ? "/" : "", name);
    return store_get_text(store, key, limit, ret_text, ret_size, err);
}

/* With what its attributes say of its axes and values. Attributes that are not there, cannot be
 * read or make no sense, say nothing. */
static enum status add_v2_array(struct builder *builder, const struct store *store,
                                const char *path, const char *text, size_t size, struct error *err)
{
    struct json_object *document = NULL, *attributes = NULL;
    char *attributes_text;
    size_t attributes_size;
    enum status status = discover_get_document(store, path, ".zattrs", ZARR_MAX_DOCUMENT_BYTES,
                                               &attributes_text, &attributes_size, err);
    if (status == STATUS_NO_MEMORY)
        return status;
    if (status != STATUS_OK)
        return hierarchy_add(builder, path, text, size, err);
    if (document_parse(attributes_text, attributes_size, &attributes, NULL) == STATUS_OK &&
        document_parse(text, size, &document, NULL) == STATUS_OK &&
        attributes_take(document, attributes))
        status = discover_document(builder, path, document, err);
    else
        status = hierarchy_add(builder, path, text, size, err);
    json_object_put(attributes);
    json_object_put(document);
    free(attributes_text);
    return status;
}

static enum status find_v2(struct builder *builder, const struct store *store, const char *path,
                           bool *ret_is_group, struct error *err)
{
    char *text;
    size_t size;
    enum status status =
        discover_get_document(store, path, ".zarray", ZARR_MAX_DOCUMENT_BYTES, &text, &size, err);
    if (status == STATUS_OK) {
        status = add_v2_array(builder, store, path, text, size, err);
        free(text);
        return status;
    }
    if (status == STATUS_NOT_FOUND)
        status = discover_get_document(store, path, ".zgroup", ZARR_MAX_DOCUMENT_BYTES, &text,
                                       &size, err);
    if (status != STATUS_OK)
        return status;
    free(text);
    *ret_is_group = true;
    return STATUS_OK;
}

static enum status find_v3(struct builder *builder, const struct store *store, const char *path,
                           bool *ret_is_group, struct error *err)
{
    struct json_object *root = NULL;
    char *text;
    size_t size;
    enum status status = discover_get_document(store, path, "zarr.json",
                                               ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);
    if (status != STATUS_OK)
        return status;
    *ret_is_group =
        document_parse(text, size, &root, NULL) == STATUS_OK && !discover_is_array(root);
    if (!*ret_is_group)
        status = hierarchy_add(builder, path, text, size, err); /* or records what is wrong */
    json_object_put(root);
    free(text);
    return status;
}

enum status discover_node(struct builder *builder, const struct store *store, const char *path,
                          bool *ret_is_group, struct error *err)
{
    *ret_is_group = false;
    return builder->hierarchy->format == ZARR_V2 ? find_v2(builder, store, path, ret_is_group, err)
                                                 : find_v3(builder, store, path, ret_is_group, err);
}
