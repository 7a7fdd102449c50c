/* See hierarchy_internal.h: finding the arrays of a store. By consolidated metadata if there is
 * any, else by name or by a walk through the groups. Blocks on the store; called while opening, by
 * one thread.
 */
#include "zarr/hierarchy/foreign.h"
#include "zarr/hierarchy/hierarchy_internal.h"
#include "zarr/metadata/document.h"

#include <stdlib.h>

/* The root's document in v3. */
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
            status = consolidated_add_v3(builder, consolidated, err);
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
    if (status == STATUS_OK && json_object_object_get_ex(root, "record_size", NULL)) {
        json_object_put(root);
        status = error_set(err, STATUS_UNSUPPORTED,
                           "the metadata of kerchunk's references as Parquet, which are not read: "
                           "write them as JSON, by python3 -m penstock.references IN OUT, and "
                           "reference:// before the file's path");
    } else if (status == STATUS_OK) {
        builder->hierarchy->format = ZARR_V2;
        builder->hierarchy->consolidated = true;
        status = consolidated_add_v2(builder, root, err);
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
    if (status != STATUS_OK || hierarchy->format)
        return status;
    status = error_set(err, STATUS_NOT_FOUND,
                       "no Zarr array or group there: none of zarr.json, .zmetadata, .zarray and "
                       ".zgroup exists");
    foreign_explain(store, err);
    return status;
}
