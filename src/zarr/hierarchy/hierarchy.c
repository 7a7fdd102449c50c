/* The list of a store's arrays: opened, asked, freed. See hierarchy.h. */
#include "zarr/hierarchy/hierarchy_internal.h"

#include <stdlib.h>
#include <string.h>

enum status zarr_hierarchy_open_wanted(const struct store *store, const struct zarr_wanted *wanted,
                                       struct zarr_hierarchy **ret_hierarchy, struct error *err)
{
    struct builder builder;
    enum status status = hierarchy_build_begin(&builder, err);
    if (status != STATUS_OK)
        return status;
    if (wanted)
        builder.wanted = *wanted;
    status = discover_arrays(&builder, store, err);
    if (status != STATUS_OK && status != STATUS_ENDED) {
        zarr_hierarchy_free(builder.hierarchy);
        return error_prefix(err, status, "'%s': ", store_uri(store));
    }
    hierarchy_build_end(&builder);
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
