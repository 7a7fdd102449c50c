/* The walk from group to group, not into arrays. See hierarchy_internal.h. */
#include "zarr/hierarchy/hierarchy_internal.h"

#include <stdlib.h>
#include <string.h>

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
    return store_list(store, path, visit_child, &walk, err);
}

/* A folder without a document is not part of the hierarchy. */
static enum status walk_node(struct builder *builder, const struct store *store, const char *path,
                             int depth, struct error *err)
{
    struct error local;
    bool is_group;
    error_clear(&local);
    enum status status = discover_node(builder, store, path, &is_group, &local);
    if (status == STATUS_NOT_FOUND && depth > 0)
        return STATUS_OK;
    if (status == STATUS_OK && is_group)
        status = hierarchy_add_group(builder, path, &local);
    if (status == STATUS_OK && is_group)
        status = walk_group(builder, store, path, depth, &local);
    if (status != STATUS_OK && err)
        *err = local;
    return status;
}

/* The format of a folder below a root that has none. */
static enum status settle_format(struct builder *builder, const struct store *store,
                                 const char *path, struct error *err)
{
    size_t size;
    char *text;
    enum status status = discover_get_document(store, path, "zarr.json",
                                               ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return status;
    builder->hierarchy->format = status == STATUS_OK ? ZARR_V3 : ZARR_V2;
    if (status == STATUS_OK)
        free(text);
    return STATUS_OK;
}

enum status discover_walk(struct builder *builder, const struct store *store, struct error *err)
{
    char group[ZARR_PATH_BYTES];
    bool is_group;
    enum status status = discover_group(builder, group, err);
    if (status != STATUS_OK || (!*group && !builder->hierarchy->format))
        return status; /* at the root, without a document: nothing is there */
    if (!builder->hierarchy->format)
        status = settle_format(builder, store, group, err);
    if (status == STATUS_OK)
        status = discover_node(builder, store, group, &is_group, err);
    if (status == STATUS_OK && is_group)
        status = hierarchy_add_group(builder, group, err);
    else if (status != STATUS_NOT_FOUND)
        return status; /* an array, or an error */
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        status = walk_group(builder, store, group, 0, err);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}
