/* See hierarchy_internal.h: finding arrays by name.
 *
 * A field names "a", or "a.x" for the member x of the structured array "a". Folders may have dots
 * in their names, too. So "g/a.x.y" is looked up as "g/a.x.y", then "g/a.x", then "g/a". A name
 * without a group may also be a member of the root, which is an array then.
 */
#include "zarr/hierarchy/hierarchy_internal.h"

#include <stdio.h>
#include <string.h>

/* Without '/' at either end; false: it is too long to be one. */
static bool trim(const char *path, char ret_path[ZARR_PATH_BYTES])
{
    path += strspn(path, "/");
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    if (length >= ZARR_PATH_BYTES)
        return false;
    memcpy(ret_path, path, length);
    ret_path[length] = '\0';
    return true;
}

enum status discover_group(const struct builder *builder, char ret_path[ZARR_PATH_BYTES],
                           struct error *err)
{
    const char *group = builder->wanted.group ? builder->wanted.group : "";
    if (!trim(group, ret_path))
        return error_set(err, STATUS_INVALID, "group '%.40s...' has more than %d bytes", group,
                         ZARR_PATH_BYTES - 1);
    return STATUS_OK;
}

/* Whether `path` is `above`, or behind it and `separator`. */
static bool is_below(const char *path, const char *above, char separator)
{
    size_t length = strlen(above);
    return length == 0 || (strncmp(path, above, length) == 0 &&
                           (path[length] == '\0' || path[length] == separator));
}

bool discover_wants(const struct builder *builder, const char *path)
{
    char wanted[ZARR_PATH_BYTES];
    if (!builder->wanted.paths)
        return trim(builder->wanted.group ? builder->wanted.group : "", wanted) &&
               is_below(path, wanted, '/');
    for (size_t i = 0; i < builder->wanted.path_count; i++)
        /* NOLINTNEXTLINE(readability-suspicious-call-argument): a member of a structured array */
        if (trim(builder->wanted.paths[i], wanted) && is_below(wanted, path, '.'))
            return true;
    return false;
}

/* Whether the document at `path` was added. */
static bool is_added(const struct zarr_hierarchy *hierarchy, const char *path)
{
    for (size_t i = 0; i < hierarchy->node_count; i++)
        if (strcmp(zarr_array_store_path(&hierarchy->nodes[i].array).text, path) == 0)
            return true;
    return false;
}

/* Adds the array at `path`, if it is one, in the hierarchy's format or the one that is found. */
static enum status look_up(struct builder *builder, const struct store *store, const char *path,
                           bool *ret_found, struct error *err)
{
    static const enum zarr_format formats[] = {ZARR_V3, ZARR_V2};
    struct zarr_hierarchy *hierarchy = builder->hierarchy;
    enum zarr_format settled = hierarchy->format;
    bool is_group = false;
    *ret_found = is_added(hierarchy, path);
    for (size_t i = 0; i < 2 && !*ret_found; i++) {
        if (settled && settled != formats[i])
            continue;
        hierarchy->format = formats[i];
        enum status status = discover_node(builder, store, path, &is_group, err);
        if (status != STATUS_OK && status != STATUS_NOT_FOUND)
            return status;
        *ret_found = status == STATUS_OK && !is_group;
        if (!*ret_found)
            hierarchy->format = settled;
    }
    return STATUS_OK;
}

static enum status find_named(struct builder *builder, const struct store *store, char *path,
                              struct error *err)
{
    bool found = zarr_hierarchy_find(builder->hierarchy, path);
    while (!found) {
        enum status status = look_up(builder, store, path, &found, err);
        char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
        if (slash && dot == slash + 1)
            dot = NULL; /* a hidden folder's name, not a member of a group */
        if (status != STATUS_OK || found || (!dot && (slash || !*path)))
            return status;
        *(dot ? dot : path) = '\0';
    }
    return STATUS_OK;
}

enum status discover_named(struct builder *builder, const struct store *store, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < builder->wanted.path_count; i++) {
        char path[ZARR_PATH_BYTES];
        if (trim(builder->wanted.paths[i], path) && discover_check_path(path, NULL) == STATUS_OK)
            status = find_named(builder, store, path, err);
    }
    return status;
}
