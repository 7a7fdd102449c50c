/* Listings of an Icechunk repository: its nodes, and chunks as its manifests have them. Any thread;
 * listings of chunks read manifests. */
#include "store/icechunk/icechunk_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char document_name[] = "zarr.json";

/* Nodes
 * ---------------------------------------------------------------------------------------------- */

/* Whether a node lies below a path; *ret_skip is what its path has in front of the name there. */
static bool is_below(const struct snapshot_node *node, const char *path, size_t bytes,
                     size_t *ret_skip)
{
    *ret_skip = bytes ? bytes + 1 : 0;
    return node->path_bytes > *ret_skip &&
           (bytes == 0 || (memcmp(node->path, path, bytes) == 0 && node->path[bytes] == '/'));
}

static enum status tell_document(const struct store_visitor *visitor,
                                 const struct snapshot_node *node, struct error *err)
{
    return store_tell(visitor, document_name, false,
                      XXH3_64bits(node->document, node->document_bytes), err);
}

/* Names directly below a node that is a group, or is only the start of others' paths. */
static enum status list_nodes(const struct snapshot *snapshot, const char *path,
                              const struct snapshot_node *own, const struct store_visitor *visitor,
                              struct error *err)
{
    size_t bytes = strlen(path), skip, i = snapshot_find_from(snapshot, path, bytes);
    enum status status = STATUS_OK;
    const char *before = NULL;
    size_t before_bytes = 0, found = own != NULL;
    for (i += own != NULL; status == STATUS_OK && i < snapshot->node_count; i++) {
        const struct snapshot_node *node = &snapshot->nodes[i];
        if (!is_below(node, path, bytes, &skip))
            break;
        const char *at = node->path + skip, *slash = memchr(at, '/', node->path_bytes - skip);
        size_t length = slash ? (size_t)(slash - at) : node->path_bytes - skip;
        char name[1024];
        bool again = before && length == before_bytes && memcmp(at, before, length) == 0;
        if (again || length == 0 || length >= sizeof name || memchr(at, '\0', length))
            continue; /* or what no key can reach */
        memcpy(name, at, length);
        name[length] = '\0';
        if (own && strcmp(name, document_name) > 0) {
            status = tell_document(visitor, own, err);
            own = NULL;
        }
        if (status == STATUS_OK)
            status = store_tell(visitor, name, true, 0, err);
        before = at;
        before_bytes = length;
        found++;
    }
    if (found == 0)
        return error_set(err, STATUS_NOT_FOUND, "the snapshot has nothing below '%s'", path);
    return status == STATUS_OK && own ? tell_document(visitor, own, err) : status;
}

/* Chunks
 * ---------------------------------------------------------------------------------------------- */

struct chunk_name {
    uint32_t number;
    uint64_t content;
};

/* The numbers that chunks have along one axis, behind a beginning of their index. */
struct names {
    struct chunk_name *names; /* owned */
    size_t count, capacity;
    bool is_last; /* the axis is the last one: names are values */
};

static bool add_name(struct names *names, uint32_t number, uint64_t content)
{
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 256;
        struct chunk_name *more = realloc(names->names, capacity * sizeof *more);
        if (!more)
            return false;
        names->names = more;
        names->capacity = capacity;
    }
    names->names[names->count++] = (struct chunk_name){number, content};
    return true;
}

static enum status collect_from(struct manifest_array *array, const struct icechunk_key *key,
                                struct names *names, struct error *err)
{
    uint32_t index[MANIFEST_MOST_AXES + 1], number;
    memcpy(index, key->index, sizeof key->index);
    uint32_t i = manifest_find_from(array, index, key->axes);
    while (manifest_begins(array, i, index, key->axes, &number)) {
        struct chunk_ref ref;
        enum status status = names->is_last ? manifest_ref(array, i, &ref, err) : STATUS_OK;
        if (status == STATUS_OK &&
            !add_name(names, number, names->is_last ? icechunk_content(&ref) : 0))
            status = error_set(err, STATUS_NO_MEMORY, "no memory for the names of chunks");
        if (status != STATUS_OK)
            return status;
        index[key->axes] = number + 1;
        i = names->is_last || number == UINT32_MAX
                ? i + 1
                : manifest_find_from(array, index, key->axes + 1);
    }
    return array->flat.bad ? error_set(err, STATUS_CORRUPT, "a manifest is damaged") : STATUS_OK;
}

static int by_number(const void *left, const void *right)
{
    const struct chunk_name *a = left, *b = right;
    return (a->number > b->number) - (a->number < b->number);
}

/* Of all manifests that have chunks with the beginning. */
static enum status collect(const struct icechunk *icechunk, const struct icechunk_key *key,
                           uint32_t axes, struct names *names, struct error *err)
{
    struct snapshot_walk walk = snapshot_walk(&icechunk->snapshot, key->node);
    for (;;) {
        struct snapshot_manifest *manifest;
        const unsigned char *bytes;
        enum status status =
            snapshot_next(&icechunk->snapshot, &walk, key->index, key->axes, axes, &manifest, err);
        if (status != STATUS_OK || !manifest)
            return status;
        status = icechunk_pin(icechunk, manifest, &bytes, err);
        if (status != STATUS_OK)
            return status;
        struct manifest_array array = manifest_array(bytes, manifest->decoded_bytes, key->node->id);
        status = collect_from(&array, key, names, err);
        inflated_unpin(icechunk->inflated, manifest);
        if (status != STATUS_OK)
            return status;
    }
}

static enum status tell_names(struct names *names, const struct store_visitor *visitor,
                              struct error *err)
{
    enum status status = STATUS_OK;
    if (names->count > 0)
        qsort(names->names, names->count, sizeof *names->names, by_number);
    for (size_t i = 0; status == STATUS_OK && i < names->count; i++) {
        char name[16];
        if (i > 0 && names->names[i].number == names->names[i - 1].number)
            continue;
        snprintf(name, sizeof name, "%" PRIu32, names->names[i].number);
        status = store_tell(visitor, name, !names->is_last, names->names[i].content, err);
    }
    return status;
}

static enum status list_chunks(const struct icechunk *icechunk, const char *prefix,
                               const struct store_visitor *visitor, struct error *err)
{
    struct icechunk_key key;
    struct names names = {0};
    uint32_t axes;
    icechunk_read_key(icechunk, prefix, &key);
    enum status status = STATUS_OK;
    if (key.node && !key.is_document)
        status = snapshot_axes(&icechunk->snapshot, key.node, &axes, err);
    if (status != STATUS_OK)
        return status;
    if (!key.node || key.is_document || key.axes >= axes)
        return error_set(err, STATUS_NOT_FOUND, "the snapshot has nothing below '%s'", prefix);
    names.is_last = key.axes + 1 == axes;
    status = collect(icechunk, &key, axes, &names, err);
    if (status == STATUS_OK && names.count == 0)
        status = error_set(err, STATUS_NOT_FOUND, "there is no chunk below '%s'", prefix);
    if (status == STATUS_OK)
        status = tell_names(&names, visitor, err);
    free(names.names);
    return status;
}

/* The chunk of an array without axes has the name "c"; that of others is a folder. */
static enum status list_array(const struct icechunk *icechunk, const struct snapshot_node *node,
                              const struct store_visitor *visitor, struct error *err)
{
    struct icechunk_key key = {.node = node};
    struct icechunk_chunk chunk = {0};
    uint32_t axes;
    uint64_t content = 0;
    enum status status = snapshot_axes(&icechunk->snapshot, node, &axes, err);
    bool has_chunks = status == STATUS_OK && axes > 0;
    if (status == STATUS_OK && axes == 0) {
        status = icechunk_find(icechunk, &key, true, NULL, &chunk, err);
        has_chunks = status == STATUS_OK;
        content = has_chunks ? icechunk_content(&chunk.ref) : 0;
        icechunk_let_go(icechunk, &chunk);
    }
    if (status == STATUS_NOT_FOUND)
        status = STATUS_OK;
    if (status == STATUS_OK && has_chunks)
        status = store_tell(visitor, "c", axes > 0, content, err);
    return status == STATUS_OK ? tell_document(visitor, node, err) : status;
}

static enum status list_with(const struct store *store, const char *prefix,
                             const struct store_visitor *visitor, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    const struct snapshot_node *node = snapshot_find(&icechunk->snapshot, prefix, strlen(prefix));
    struct icechunk_key key;
    if (node && node->is_array)
        return list_array(icechunk, node, visitor, err);
    icechunk_read_key(icechunk, prefix, &key);
    return !node && key.node ? list_chunks(icechunk, prefix, visitor, err)
                             : list_nodes(&icechunk->snapshot, prefix, node, visitor, err);
}

enum status icechunk_list(const struct store *store, const char *prefix, store_visit *visit,
                          void *argument, struct error *err)
{
    return list_with(store, prefix, &(struct store_visitor){visit, NULL, argument}, err);
}

enum status icechunk_names(const struct store *store, const char *prefix, store_visit_name *visit,
                           void *argument, struct error *err)
{
    return list_with(store, prefix, &(struct store_visitor){NULL, visit, argument}, err);
}

/* Sizes
 * ---------------------------------------------------------------------------------------------- */

static enum status add_chunks(const struct icechunk *icechunk, const struct snapshot_node *node,
                              struct store_usage *usage, struct error *err)
{
    struct snapshot_walk walk = snapshot_walk(&icechunk->snapshot, node);
    for (;;) {
        struct snapshot_manifest *manifest;
        const unsigned char *bytes;
        enum status status = snapshot_next(&icechunk->snapshot, &walk, NULL, 0, 0, &manifest, err);
        if (status != STATUS_OK || !manifest)
            return status;
        status = icechunk_pin(icechunk, manifest, &bytes, err);
        if (status != STATUS_OK)
            return status;
        struct manifest_array array = manifest_array(bytes, manifest->decoded_bytes, node->id);
        for (uint32_t i = 0; status == STATUS_OK && i < array.count; i++) {
            struct chunk_ref ref;
            status = manifest_ref(&array, i, &ref, err);
            if (status == STATUS_OK &&
                __builtin_add_overflow(usage->bytes, ref.length, &usage->bytes))
                status = error_set(err, STATUS_CORRUPT, "the sizes exceed 2^64 bytes");
            usage->count++;
        }
        inflated_unpin(icechunk->inflated, manifest);
        if (status != STATUS_OK)
            return status;
    }
}

enum status icechunk_usage(const struct store *store, const char *prefix, uint64_t most,
                           struct store_usage *ret_usage, struct error *err)
{
    const struct icechunk *icechunk = icechunk_of(store);
    const struct snapshot *snapshot = &icechunk->snapshot;
    const struct snapshot_node *own = snapshot_find(snapshot, prefix, strlen(prefix));
    struct store_usage usage = {0};
    size_t bytes = strlen(prefix), skip, i = snapshot_find_from(snapshot, prefix, bytes);
    enum status status = STATUS_OK;
    (void)most;
    for (; status == STATUS_OK && i < snapshot->node_count; i++) {
        const struct snapshot_node *node = &snapshot->nodes[i];
        if (node != own && !is_below(node, prefix, bytes, &skip))
            break;
        usage.bytes += node->document_bytes;
        usage.count++;
        if (node->is_array)
            status = add_chunks(icechunk, node, &usage, err);
    }
    if (status == STATUS_OK && usage.count == 0)
        return error_set(err, STATUS_NOT_FOUND, "the snapshot has nothing below '%s'", prefix);
    if (status == STATUS_OK)
        *ret_usage = usage;
    return status;
}
