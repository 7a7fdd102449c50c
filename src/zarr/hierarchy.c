/* The list of a store's arrays. See hierarchy.h; discover.c finds them.
 *
 * Each document becomes a node by zarr_array_parse(), whatever came of it, whether it was found in
 * a store or in a packed hierarchy.
 */
#include "zarr/hierarchy_internal.h"

#include "zarr/packed.h"

#include <stdlib.h>
#include <string.h>

static enum status builder_init(struct builder *builder, struct error *err)
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

    for (size_t i = 1; !status && i < builder->hierarchy->nodes[first].array.member_count; i++)
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

static void sort_nodes(struct zarr_hierarchy *hierarchy)
{
    if (hierarchy->node_count > 0)
        qsort(hierarchy->nodes, hierarchy->node_count, sizeof *hierarchy->nodes, compare_nodes);
    if (hierarchy->group_count > 0)
        qsort(hierarchy->groups, hierarchy->group_count, sizeof *hierarchy->groups, compare_paths);
}

enum status zarr_hierarchy_open_wanted(const struct store *store, const struct zarr_wanted *wanted,
                                       struct zarr_hierarchy **ret_hierarchy, struct error *err)
{
    struct builder builder;
    enum status status = builder_init(&builder, err);

    if (status != STATUS_OK)
        return status;
    if (wanted)
        builder.wanted = *wanted;
    status = discover_arrays(&builder, store, err);
    if (status != STATUS_OK && status != STATUS_ENDED) {
        zarr_hierarchy_free(builder.hierarchy);
        return error_prefix(err, status, "'%s': ", store_uri(store));
    }
    sort_nodes(builder.hierarchy);
    *ret_hierarchy = builder.hierarchy;
    return STATUS_OK;
}

enum status zarr_hierarchy_open(const struct store *store, struct zarr_hierarchy **ret_hierarchy,
                                struct error *err)
{
    return zarr_hierarchy_open_wanted(store, NULL, ret_hierarchy, err);
}

const struct zarr_node *zarr_hierarchy_find(const struct zarr_hierarchy *hierarchy,
                                            const char *path)
{
    path += path[0] == '/';
    for (size_t i = 0; i < hierarchy->node_count; i++)
        if (strcmp(hierarchy->nodes[i].array.path, path) == 0)
            return &hierarchy->nodes[i];
    return NULL;
}

/* The members of a structured dtype share one. */
static size_t count_documents(const struct zarr_hierarchy *hierarchy)
{
    size_t count = 0;

    for (size_t i = 0; i < hierarchy->node_count; i++)
        count += hierarchy->nodes[i].array.member_index == 0;
    return count;
}

void zarr_hierarchy_pack(const struct zarr_hierarchy *hierarchy, struct text *out)
{
    packed_put_number(out, hierarchy->format);
    packed_put_number(out, hierarchy->consolidated);
    packed_put_number(out, count_documents(hierarchy));
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];

        if (node->array.member_index > 0)
            continue;
        packed_put_run(out, node->array.path, node->array.key_path_bytes);
        packed_put_run(out, node->document, node->document_bytes);
    }
}

static enum status unpack_nodes(struct builder *builder, struct packed *packed, uint64_t count,
                                struct error *err)
{
    for (uint64_t i = 0; i < count; i++) {
        const char *path, *document;
        size_t size;

        if (!packed_take_string(packed, &path) || !packed_take_run(packed, &document, &size))
            return error_set(err, STATUS_CORRUPT, "packed metadata ends early");
        enum status status = hierarchy_add(builder, path, document, size, err);
        if (status != STATUS_OK)
            return status;
    }
    if (packed->left > 0)
        return error_set(err, STATUS_CORRUPT, "packed metadata is followed by %zu bytes",
                         packed->left);
    return STATUS_OK;
}

enum status zarr_hierarchy_unpack(const void *bytes, size_t size,
                                  struct zarr_hierarchy **ret_hierarchy, struct error *err)
{
    struct packed packed = {bytes, size};
    uint64_t format, consolidated, count;
    struct builder builder;
    enum status status;

    if (!packed_take_number(&packed, &format) || !packed_take_number(&packed, &consolidated) ||
        !packed_take_number(&packed, &count) || (format != ZARR_V2 && format != ZARR_V3))
        return error_set(err, STATUS_CORRUPT, "packed metadata has no valid header");
    status = builder_init(&builder, err);
    if (status != STATUS_OK)
        return status;
    builder.hierarchy->format = (enum zarr_format)format;
    builder.hierarchy->consolidated = consolidated != 0;
    status = unpack_nodes(&builder, &packed, count, err);
    if (status != STATUS_OK) {
        zarr_hierarchy_free(builder.hierarchy);
        return status;
    }
    sort_nodes(builder.hierarchy);
    *ret_hierarchy = builder.hierarchy;
    return STATUS_OK;
}

void zarr_hierarchy_free(struct zarr_hierarchy *hierarchy)
{
    if (!hierarchy)
        return;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        free(hierarchy->nodes[i].reason);
        free(hierarchy->nodes[i].document);
    }
    for (size_t i = 0; i < hierarchy->group_count; i++)
        free(hierarchy->groups[i]);
    free(hierarchy->groups);
    free(hierarchy->nodes);
    free(hierarchy);
}
