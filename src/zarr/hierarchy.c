/* Finding the arrays of a store. See hierarchy.h.
 *
 * Three ways lead to the same list of documents: consolidated metadata, a walk through the groups,
 * and a packed hierarchy. Each document becomes a node by zarr_array_parse(), whatever came of it.
 */
#include "zarr/hierarchy.h"

#include "zarr/document.h"
#include "zarr/packed.h"

#include <stdlib.h>
#include <string.h>

struct builder {
    struct zarr_hierarchy *hierarchy;
    size_t capacity;
};

/* Keys such as "group/.zarray" and their format's document names. */
enum { KEY_BYTES = ZARR_PATH_BYTES + 16 };

static enum status builder_init(struct builder *builder, struct error *err)
{
    builder->capacity = 0;
    builder->hierarchy = calloc(1, sizeof *builder->hierarchy);
    if (!builder->hierarchy)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of arrays");
    return STATUS_OK;
}

static enum status grow(struct builder *builder, struct error *err)
{
    size_t capacity = builder->capacity ? 2 * builder->capacity : 16;
    struct zarr_node *nodes;

    if (builder->hierarchy->node_count == ZARR_MAX_ARRAYS)
        return error_set(err, STATUS_INVALID, "more than %d arrays", ZARR_MAX_ARRAYS);
    if (builder->hierarchy->node_count < builder->capacity)
        return STATUS_OK;
    nodes = realloc(builder->hierarchy->nodes, capacity * sizeof *nodes);
    if (!nodes)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of arrays");
    builder->hierarchy->nodes = nodes;
    builder->capacity = capacity;
    return STATUS_OK;
}

/* Adds the array at `path`; a document that does not parse is recorded, not an error. */
static enum status add_array(struct builder *builder, const char *path, const char *document,
                             size_t size, struct error *err)
{
    struct error reason;
    enum status status = grow(builder, err);

    if (status != STATUS_OK)
        return status;
    struct zarr_node *node = &builder->hierarchy->nodes[builder->hierarchy->node_count];
    memset(node, 0, sizeof *node);
    error_clear(&reason);
    node->status =
        zarr_array_parse(builder->hierarchy->format, path, document, size, &node->array, &reason);
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

/* Paths come from foreign documents and reach messages: relative, clean, printable, not too long.
 */
static enum status check_path(const char *path, struct error *err)
{
    const char *part = path;

    if (strlen(path) >= ZARR_PATH_BYTES)
        return error_set(err, STATUS_UNSUPPORTED, "path '%.40s...' has more than %d bytes", path,
                         ZARR_PATH_BYTES - 1);
    for (const char *at = path; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, STATUS_CORRUPT, "an array's path holds a control character");
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

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const struct zarr_node *)a)->array.path,
                  ((const struct zarr_node *)b)->array.path);
}

static void sort_nodes(struct zarr_hierarchy *hierarchy)
{
    if (hierarchy->node_count > 0)
        qsort(hierarchy->nodes, hierarchy->node_count, sizeof *hierarchy->nodes, compare_nodes);
}

/* Consolidated metadata: one object with a member for each document. */

static enum status add_document(struct builder *builder, const char *path,
                                struct json_object *document, struct error *err)
{
    size_t size;
    const char *text = json_object_to_json_string_length(document, JSON_C_TO_STRING_PLAIN, &size);
    enum status status = check_path(path, err);

    if (status != STATUS_OK)
        return status;
    if (!text || size > ZARR_MAX_DOCUMENT_BYTES)
        return error_set(err, STATUS_CORRUPT, "metadata of '%s' exceeds %d bytes", path,
                         ZARR_MAX_DOCUMENT_BYTES);
    return add_array(builder, path, text, size, err);
}

/* The length of the path in an array's v2 key ("a/.zarray": 1; ".zarray": 0); -1 for other keys. */
static ptrdiff_t v2_path_length(const char *key)
{
    static const char name[] = ".zarray";
    size_t length = strlen(key), name_length = sizeof name - 1;

    if (length < name_length || strcmp(key + length - name_length, name) != 0)
        return -1;
    length -= name_length;
    if (length == 0)
        return 0;
    return key[length - 1] == '/' ? (ptrdiff_t)length - 1 : -1;
}

static enum status add_v2_document(struct builder *builder, const char *key, size_t path_length,
                                   struct json_object *document, struct error *err)
{
    char *path = strndup(key, path_length);
    enum status status;

    if (!path)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the list of arrays");
    status = add_document(builder, path, document, err);
    free(path);
    return status;
}

static enum status add_consolidated_v2(struct builder *builder, struct json_object *root,
                                       struct error *err)
{
    struct json_object *metadata;
    enum status status = document_expect(root, "zarr_consolidated_format", 1, err);

    if (status == STATUS_OK)
        status = document_member(root, "metadata", json_type_object, &metadata, err);
    if (status != STATUS_OK)
        return status;
    json_object_object_foreach(metadata, key, document)
    {
        ptrdiff_t length = v2_path_length(key);

        if (length < 0)
            continue;
        status = add_v2_document(builder, key, (size_t)length, document, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static bool is_array_node(struct json_object *document)
{
    struct json_object *type;

    return json_object_object_get_ex(document, "node_type", &type) &&
           json_object_is_type(type, json_type_string) &&
           strcmp(json_object_get_string(type), "array") == 0;
}

static enum status add_consolidated_v3(struct builder *builder, struct json_object *consolidated,
                                       struct error *err)
{
    struct json_object *metadata;
    enum status status =
        document_member(consolidated, "metadata", json_type_object, &metadata, err);

    if (status != STATUS_OK)
        return status;
    json_object_object_foreach(metadata, path, document)
    {
        if (!json_object_is_type(document, json_type_object))
            return error_set(err, STATUS_CORRUPT, "metadata of '%.200s' is not an object", path);
        if (!is_array_node(document))
            continue;
        status = add_document(builder, path, document, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* The walk: a stack of group paths would do, but recursion is bounded and reads better. */

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

/* The document `name` of the node at `path`; NOT_FOUND if it has none. */
static enum status get_document(const struct store *store, const char *path, const char *name,
                                size_t limit, char **ret_text, size_t *ret_size, struct error *err)
{
    char key[KEY_BYTES];
    size_t length = strlen(path);

    memcpy(key, path, length);
    if (length > 0)
        key[length++] = '/';
    memcpy(key + length, name, strlen(name) + 1);
    return store_get_text(store, key, limit, ret_text, ret_size, err);
}

static enum status walk_node_v2(struct builder *builder, const struct store *store,
                                const char *path, int depth, struct error *err)
{
    char *text;
    size_t size;
    enum status status =
        get_document(store, path, ".zarray", ZARR_MAX_DOCUMENT_BYTES, &text, &size, err);

    if (status == STATUS_OK) {
        status = add_array(builder, path, text, size, err);
        free(text);
        return status;
    }
    if (status == STATUS_NOT_FOUND)
        status = get_document(store, path, ".zgroup", ZARR_MAX_DOCUMENT_BYTES, &text, &size, err);
    if (status != STATUS_OK)
        return status;
    free(text);
    return walk_group(builder, store, path, depth, err);
}

static enum status walk_node_v3(struct builder *builder, const struct store *store,
                                const char *path, int depth, struct error *err)
{
    struct json_object *root;
    char *text;
    size_t size;
    enum status status =
        get_document(store, path, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);

    if (status != STATUS_OK)
        return status;
    status = document_parse(text, size, &root, err);
    if (status == STATUS_OK) {
        bool is_array = is_array_node(root);
        json_object_put(root);
        status = is_array ? add_array(builder, path, text, size, err)
                          : walk_group(builder, store, path, depth, err);
    } else {
        status = add_array(builder, path, text, size, err); /* records why it cannot be read */
    }
    free(text);
    return status;
}

/* A folder without a document is not part of the hierarchy. */
static enum status walk_node(struct builder *builder, const struct store *store, const char *path,
                             int depth, struct error *err)
{
    struct error local;
    enum status status;

    error_clear(&local);
    status = builder->hierarchy->format == ZARR_V2
                 ? walk_node_v2(builder, store, path, depth, &local)
                 : walk_node_v3(builder, store, path, depth, &local);
    if (status == STATUS_NOT_FOUND && depth > 0)
        return STATUS_OK;
    if (status != STATUS_OK && err)
        *err = local;
    return status;
}

/* The root: v3 where there is a zarr.json, else v2. */

static enum status open_v3(struct builder *builder, const struct store *store, const char *text,
                           size_t size, struct error *err)
{
    struct json_object *root, *consolidated = NULL;
    enum status status = document_parse(text, size, &root, err);

    if (status != STATUS_OK)
        return error_prefix(err, status, "'zarr.json': ");
    builder->hierarchy->format = ZARR_V3;
    json_object_object_get_ex(root, "consolidated_metadata", &consolidated);
    if (is_array_node(root)) {
        status = add_array(builder, "", text, size, err);
    } else if (json_object_is_type(consolidated, json_type_object)) {
        builder->hierarchy->consolidated = true;
        status = add_consolidated_v3(builder, consolidated, err);
        if (status != STATUS_OK)
            error_prefix(err, status, "'zarr.json': consolidated metadata: ");
    } else {
        status = walk_group(builder, store, "", 0, err);
    }
    json_object_put(root);
    return status;
}

static enum status open_consolidated_v2(struct builder *builder, const char *text, size_t size,
                                        struct error *err)
{
    struct json_object *root;
    enum status status = document_parse(text, size, &root, err);

    if (status == STATUS_OK) {
        builder->hierarchy->consolidated = true;
        status = add_consolidated_v2(builder, root, err);
        json_object_put(root);
    }
    if (status != STATUS_OK)
        return error_prefix(err, status, "'.zmetadata': ");
    return STATUS_OK;
}

static enum status open_root(struct builder *builder, const struct store *store, struct error *err)
{
    char *text;
    size_t size;
    enum status status =
        store_get_text(store, "zarr.json", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);

    if (status == STATUS_OK) {
        status = open_v3(builder, store, text, size, err);
        free(text);
        return status;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    builder->hierarchy->format = ZARR_V2;
    status = store_get_text(store, ".zmetadata", ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);
    if (status == STATUS_OK) {
        status = open_consolidated_v2(builder, text, size, err);
        free(text);
        return status;
    }
    if (status != STATUS_NOT_FOUND)
        return status;
    status = walk_node(builder, store, "", 0, err);
    if (status == STATUS_NOT_FOUND)
        return error_set(err, STATUS_NOT_FOUND,
                         "no Zarr array or group there: none of zarr.json, .zmetadata, .zarray and "
                         ".zgroup exists");
    return status;
}

enum status zarr_hierarchy_open(const struct store *store, struct zarr_hierarchy **ret_hierarchy,
                                struct error *err)
{
    struct builder builder;
    enum status status = builder_init(&builder, err);

    if (status != STATUS_OK)
        return status;
    status = open_root(&builder, store, err);
    if (status != STATUS_OK) {
        zarr_hierarchy_free(builder.hierarchy);
        return error_prefix(err, status, "'%s': ", store_uri(store));
    }
    sort_nodes(builder.hierarchy);
    *ret_hierarchy = builder.hierarchy;
    return STATUS_OK;
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

void zarr_hierarchy_pack(const struct zarr_hierarchy *hierarchy, struct text *out)
{
    packed_put_number(out, hierarchy->format);
    packed_put_number(out, hierarchy->consolidated);
    packed_put_number(out, hierarchy->node_count);
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];

        packed_put_run(out, node->array.path, strlen(node->array.path));
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
        enum status status = add_array(builder, path, document, size, err);
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
    free(hierarchy->nodes);
    free(hierarchy);
}
