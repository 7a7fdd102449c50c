/* See hierarchy_internal.h: a hierarchy while it is built. Nodes and groups are added, then sorted.
 *
 * Each document becomes a node by zarr_array_parse(), whether parsing succeeds or not, and whether
 * the document comes from a store or from a packed hierarchy.
 */
#include "zarr/hierarchy/hierarchy_internal.h"

#include <stdlib.h>
#include <string.h>

enum status hierarchy_build_begin(struct builder *builder, struct error *err)
{
    *builder = (struct builder){0};
    builder->hierarchy = calloc(1, sizeof *builder->hierarchy);
    if (!builder->hierarchy)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of arrays");
    return STATUS_OK;
}

static enum status grow(struct builder *builder, struct error *err)
{
    size_t capacity = builder->capacity ? 2 * builder->capacity : 16;
    struct zarr_node *nodes;
    if (builder->wanted.most > 0 && builder->hierarchy->node_count == builder->wanted.most) {
        builder->hierarchy->incomplete = true;
        return error_set(err, STATUS_ENDED, "more arrays than have to be known");
    }
    if (builder->hierarchy->node_count == ZARR_MAX_ARRAYS)
        return error_set(err, STATUS_INVALID,
                         "more than %d arrays: name those that are wanted, or a group "
                         "(dataset.fields, dataset.group)",
                         ZARR_MAX_ARRAYS);
    if (builder->hierarchy->node_count < builder->capacity)
        return STATUS_OK;
    nodes = realloc(builder->hierarchy->nodes, capacity * sizeof *nodes);
    if (!nodes)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of arrays");
    builder->hierarchy->nodes = nodes;
    builder->capacity = capacity;
    return STATUS_OK;
}

static enum status add_member(struct builder *builder, const char *path, const char *document,
                              size_t size, size_t member, struct error *err)
{
    struct error reason;
    enum status status = grow(builder, err);
    if (status != STATUS_OK)
        return status;
    struct zarr_node *node = &builder->hierarchy->nodes[builder->hierarchy->node_count];
    memset(node, 0, sizeof *node);
    error_clear(&reason);
    node->status = zarr_array_parse_member(builder->hierarchy->format, path, document, size, member,
                                           &node->array, &reason);
    node->reason = node->status == STATUS_OK ? NULL : strdup(reason.message);
    node->document = malloc(size + 1);
    node->document_bytes = size;
    builder->hierarchy->node_count++;
    if (!node->document || (node->status != STATUS_OK && !node->reason))
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of arrays");
    memcpy(node->document, document, size);
    node->document[size] = '\0';
    return STATUS_OK;
}

enum status hierarchy_add(struct builder *builder, const char *path, const char *document,
                          size_t size, struct error *err)
{
    enum status status = add_member(builder, path, document, size, 0, err);
    size_t first = builder->hierarchy->node_count - 1;
    for (size_t i = 1;
         status == STATUS_OK && i < builder->hierarchy->nodes[first].array.member_count; i++)
        status = add_member(builder, path, document, size, i, err);
    return status;
}

enum status hierarchy_add_group(struct builder *builder, const char *path, struct error *err)
{
    struct zarr_hierarchy *hierarchy = builder->hierarchy;
    if (hierarchy->group_count == ZARR_MAX_GROUPS) {
        hierarchy->groups_incomplete = true;
        return STATUS_OK;
    }
    if (hierarchy->group_count == builder->group_capacity) {
        size_t capacity = builder->group_capacity ? 2 * builder->group_capacity : 16;
        char **groups = realloc(hierarchy->groups, capacity * sizeof *groups);
        if (!groups)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the list of groups");
        hierarchy->groups = groups;
        builder->group_capacity = capacity;
    }
    hierarchy->groups[hierarchy->group_count] = strdup(path);
    if (!hierarchy->groups[hierarchy->group_count])
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of groups");
    hierarchy->group_count++;
    return STATUS_OK;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const struct zarr_node *)a)->array.path,
                  ((const struct zarr_node *)b)->array.path);
}

void hierarchy_build_end(struct builder *builder)
{
    struct zarr_hierarchy *hierarchy = builder->hierarchy;
    if (hierarchy->node_count > 0)
        qsort(hierarchy->nodes, hierarchy->node_count, sizeof *hierarchy->nodes, compare_nodes);
    if (hierarchy->group_count > 0)
        qsort(hierarchy->groups, hierarchy->group_count, sizeof *hierarchy->groups, compare_paths);
}
