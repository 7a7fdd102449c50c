/* A hierarchy as bytes, and back. See hierarchy.h. */
#include "zarr/hierarchy/hierarchy_internal.h"

#include "zarr/hierarchy/packed.h"

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
    status = hierarchy_build_begin(&builder, err);
    if (status != STATUS_OK)
        return status;
    builder.hierarchy->format = (enum zarr_format)format;
    builder.hierarchy->consolidated = consolidated != 0;
    status = unpack_nodes(&builder, &packed, count, err);
    if (status != STATUS_OK) {
        zarr_hierarchy_free(builder.hierarchy);
        return status;
    }
    hierarchy_build_end(&builder);
    *ret_hierarchy = builder.hierarchy;
    return STATUS_OK;
}
