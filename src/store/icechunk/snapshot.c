/* See snapshot.h. */
#include "store/icechunk/snapshot.h"

#include "store/icechunk/manifest.h"
#include "store/kind/store_internal.h"

#include <stdlib.h>
#include <string.h>

/* Fields of the tables. */
enum { SNAPSHOT_NODES = 2, SNAPSHOT_FILES = 6, SNAPSHOT_FILES_2 };
enum { NODE_ID, NODE_PATH, NODE_DOCUMENT, NODE_KIND, NODE_DATA };
enum { ARRAY_MANIFESTS = 2 };
enum { FILE_ID, FILE_BYTES };
enum { REF_ID, REF_EXTENTS };
enum { KIND_ARRAY = 1, FILE_STRUCT_BYTES = 32, EXTENT_BYTES = 8 };

static int by_path(const void *left, const void *right)
{
    const struct snapshot_node *a = left, *b = right;
    return store_key_compare(a->path, a->path_bytes, b->path, b->path_bytes);
}

static int by_id(const void *left, const void *right)
{
    const struct snapshot_manifest *a = left, *b = right;
    return memcmp(a->id, b->id, ICECHUNK_ID_BYTES);
}

static void read_node(struct flat *flat, uint32_t table, struct snapshot_node *node)
{
    const unsigned char *path;
    node->table = table;
    node->id = flat_struct(flat, table, NODE_ID, ICECHUNK_NODE_BYTES);
    node->is_array = flat_number(flat, table, NODE_KIND, 1, 0) == KIND_ARRAY;
    node->document = flat_bytes(flat, table, NODE_DOCUMENT, &node->document_bytes);
    path = flat_bytes(flat, table, NODE_PATH, &node->path_bytes);
    if (!node->id || !node->document || !path || node->path_bytes == 0 || path[0] != '/') {
        flat->bad = true;
        return;
    }
    node->path = (const char *)path + 1;
    node->path_bytes--;
}

static bool read_nodes(struct flat *flat, uint32_t root, struct snapshot *snapshot)
{
    uint32_t count, nodes = flat_vector(flat, root, SNAPSHOT_NODES, 4, &count);
    snapshot->nodes = calloc((size_t)count + 1, sizeof *snapshot->nodes);
    if (!snapshot->nodes)
        return false;
    for (uint32_t i = 0; i < count && !flat->bad; i++)
        read_node(flat, flat_item(flat, nodes, i), &snapshot->nodes[i]);
    if (flat->bad)
        return true;
    snapshot->node_count = count;
    qsort(snapshot->nodes, count, sizeof *snapshot->nodes, by_path);
    return true;
}

/* Format 1 has structs, and format 2 tables. */
static bool read_manifests(struct flat *flat, uint32_t root, struct snapshot *snapshot)
{
    uint32_t count_1, count_2;
    uint32_t structs = flat_vector(flat, root, SNAPSHOT_FILES, FILE_STRUCT_BYTES, &count_1);
    uint32_t tables = flat_vector(flat, root, SNAPSHOT_FILES_2, 4, &count_2);
    size_t count = (size_t)count_1 + count_2;
    snapshot->manifests = calloc(count + 1, sizeof *snapshot->manifests);
    if (!snapshot->manifests)
        return false;
    for (uint32_t i = 0; i < count && !flat->bad; i++) {
        uint32_t table = i < count_1 ? 0 : flat_item(flat, tables, i - count_1);
        const unsigned char *id = flat->bytes + structs + (size_t)i * FILE_STRUCT_BYTES;
        uint64_t bytes = i < count_1 ? flat_u32(id + 16) | (uint64_t)flat_u32(id + 20) << 32
                                     : flat_number(flat, table, FILE_BYTES, 8, 0);
        if (i >= count_1)
            id = flat_struct(flat, table, FILE_ID, ICECHUNK_ID_BYTES);
        if (!id) {
            flat->bad = true;
            return true;
        }
        memcpy(snapshot->manifests[i].id, id, ICECHUNK_ID_BYTES);
        snapshot->manifests[i].stored_bytes = bytes;
    }
    snapshot->manifest_count = flat->bad ? 0 : count;
    qsort(snapshot->manifests, snapshot->manifest_count, sizeof *snapshot->manifests, by_id);
    return true;
}

enum status snapshot_read(unsigned char *bytes, size_t size, struct snapshot *ret_snapshot,
                          struct error *err)
{
    struct snapshot snapshot = {.bytes = bytes, .size = size};
    struct flat flat = {bytes, size, false};
    uint32_t root = flat_root(&flat, "Ichk");
    enum status status = STATUS_OK;
    if (!read_nodes(&flat, root, &snapshot) || !read_manifests(&flat, root, &snapshot))
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the nodes of a snapshot");
    else if (flat.bad)
        status = error_set(err, STATUS_CORRUPT, "what is in it leads out of its %zu bytes", size);
    if (status != STATUS_OK) {
        snapshot_done(&snapshot);
        return status;
    }
    *ret_snapshot = snapshot;
    return STATUS_OK;
}

void snapshot_done(struct snapshot *snapshot)
{
    free(snapshot->manifests);
    free(snapshot->nodes);
    free(snapshot->bytes);
    *snapshot = (struct snapshot){0};
}

size_t snapshot_find_from(const struct snapshot *snapshot, const char *path, size_t bytes)
{
    size_t low = 0, high = snapshot->node_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct snapshot_node *node = &snapshot->nodes[middle];
        if (store_key_compare(node->path, node->path_bytes, path, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct snapshot_node *snapshot_find(const struct snapshot *snapshot, const char *path,
                                          size_t bytes)
{
    size_t i = snapshot_find_from(snapshot, path, bytes);
    const struct snapshot_node *node = &snapshot->nodes[i];
    return i < snapshot->node_count && node->path_bytes == bytes &&
                   memcmp(node->path, path, bytes) == 0
               ? node
               : NULL;
}

/* Manifests of an array
 * ---------------------------------------------------------------------------------------------- */

struct snapshot_walk snapshot_walk(const struct snapshot *snapshot,
                                   const struct snapshot_node *node)
{
    struct snapshot_walk walk = {.flat = {snapshot->bytes, snapshot->size, false}};
    walk.refs = flat_vector(&walk.flat, flat_table(&walk.flat, node->table, NODE_DATA),
                            ARRAY_MANIFESTS, 4, &walk.count);
    return walk;
}

/* Whether the numbers lie in the half-open extents at `extents`. */
static bool fits(const unsigned char *extents, const uint32_t *index, uint32_t fixed)
{
    for (uint32_t i = 0; i < fixed; i++)
        if (index[i] < flat_u32(extents + (size_t)i * EXTENT_BYTES) ||
            index[i] >= flat_u32(extents + (size_t)i * EXTENT_BYTES + 4))
            return false;
    return true;
}

enum status snapshot_next(const struct snapshot *snapshot, struct snapshot_walk *walk,
                          const uint32_t *index, uint32_t fixed, uint32_t axes,
                          struct snapshot_manifest **ret_manifest, struct error *err)
{
    struct flat *flat = &walk->flat;
    *ret_manifest = NULL;
    while (walk->next < walk->count && !flat->bad) {
        uint32_t count, table = flat_item(flat, walk->refs, walk->next++);
        uint32_t extents = flat_vector(flat, table, REF_EXTENTS, EXTENT_BYTES, &count);
        struct snapshot_manifest wanted;
        const unsigned char *id = flat_struct(flat, table, REF_ID, ICECHUNK_ID_BYTES);
        if (flat->bad || !id || (axes > 0 && count != axes))
            return error_set(err, STATUS_CORRUPT,
                             "the snapshot's extents of a manifest have %u axes, the chunk has %u",
                             count, axes);
        if (!fits(flat->bytes + extents, index, fixed))
            continue;
        memcpy(wanted.id, id, ICECHUNK_ID_BYTES);
        *ret_manifest =
            bsearch(&wanted, snapshot->manifests, snapshot->manifest_count, sizeof wanted, by_id);
        if (!*ret_manifest)
            return error_set(err, STATUS_CORRUPT,
                             "the snapshot does not list a manifest that it "
                             "refers to");
        return STATUS_OK;
    }
    return flat->bad ? error_set(err, STATUS_CORRUPT, "the snapshot is damaged") : STATUS_OK;
}

enum status snapshot_axes(const struct snapshot *snapshot, const struct snapshot_node *node,
                          uint32_t *ret_axes, struct error *err)
{
    struct snapshot_walk walk = snapshot_walk(snapshot, node);
    struct flat *flat = &walk.flat;
    uint32_t axes = 1;
    if (walk.count > 0)
        (void)flat_vector(flat, flat_item(flat, walk.refs, 0), REF_EXTENTS, EXTENT_BYTES, &axes);
    if (flat->bad || axes > MANIFEST_MOST_AXES)
        return error_set(err, STATUS_CORRUPT, "the snapshot is damaged, or an array has %u axes",
                         axes);
    *ret_axes = axes;
    return STATUS_OK;
}
