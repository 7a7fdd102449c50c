/* The documents of the destination's arrays and groups. See rechunk_internal.h. Each array's
 * document is made as text, and our own reader parses the text. The parsed array says how chunks
 * are named, laid out and encoded, so that Penstock reads what rechunk writes.
 */
#include "workshop/making/rechunk_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "codec/codec.h"
#include "zarr/chunk/chunk.h"
#include "zarr/metadata/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Chunks along the sample axis, where nothing else was asked for; and the least of arrays with
 * small samples: one file for every few labels costs more than it is worth. */
static const uint64_t default_chunk_bytes = 1 << 20, small_chunk_bytes = 64 << 10;

/* Documents of the source
 * ------------------------------------------------------------------------------------------- */

/* The object in `key` (returned), NULL if there is no such key. */
static enum status get_object(const struct store *store, const char *path, const char *name,
                              struct json_object **ret_object, struct error *err)
{
    char key[ZARR_PATH_BYTES + 16];
    char *text = NULL;
    size_t size = 0;
    snprintf(key, sizeof key, "%s%s%s", path, *path ? "/" : "", name);
    enum status status = store_get_text(store, key, ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);
    *ret_object = NULL;
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = document_parse(text, size, ret_object, err);
    free(text);
    return status != STATUS_OK ? error_prefix(err, status, "'%s': ", key) : STATUS_OK;
}

/* The attributes of a node (returned), an empty object if it has none. Those of a v2 array may
 * stand in consolidated metadata alone, from where they came into its document. */
static enum status get_attributes(const struct store *store, enum zarr_format format,
                                  const char *path, struct json_object *document,
                                  struct json_object **ret_attributes, struct error *err)
{
    struct json_object *attributes = NULL;
    if (format == ZARR_V2) {
        enum status status = get_object(store, path, ".zattrs", &attributes, err);
        if (status != STATUS_OK)
            return status;
    }
    if (!attributes && document && json_object_object_get_ex(document, "attributes", &attributes)) {
        json_object_get(attributes);
    }
    if (!json_object_is_type(attributes, json_type_object)) {
        json_object_put(attributes);
        attributes = json_object_new_object();
    }
    *ret_attributes = attributes;
    return STATUS_OK;
}

/* Shapes
 * ------------------------------------------------------------------------------------------- */

/* Whether the array is refused only since it has no axis, or an axis of length 0: it is copied. */
static bool has_special_shape(const struct zarr_array *array)
{
    return (array->is_scalar || array->is_empty) && !array->is_vlen;
}

static bool is_sampled(const struct zarr_array *array, const struct zarr_array *leader)
{
    return leader && !has_special_shape(array) && array->shape[0] == leader->shape[0];
}

/* The length of chunks along axis 0. */
static uint64_t chunk_length(const struct rechunk_options *options, const struct zarr_array *array,
                             const struct zarr_array *leader)
{
    uint64_t leader_bytes = zarr_array_sample_bytes(leader);
    uint64_t length = options->chunk.rank > 0              ? options->chunk.lengths[0]
                      : leader_bytes < default_chunk_bytes ? default_chunk_bytes / leader_bytes
                                                           : 1;
    length = min_u64(length, array->shape[0]);
    uint64_t sample_bytes = zarr_array_sample_bytes(array);
    uint64_t wanted = size_divide_up(small_chunk_bytes, sample_bytes);
    if (strcmp(array->path, leader->path) != 0 && length < wanted)
        length *= wanted / length;
    return min_u64(length, array->shape[0]);
}

/* Chunks and values (shards, or chunks again) of an array. Arrays that are not along the sample
 * axis keep their chunks. `leader` NULL: there is no such axis. */
static void settle_shapes(const struct rechunk_options *options, const struct zarr_array *array,
                          const struct zarr_array *leader, uint64_t *ret_chunk, uint64_t *ret_value)
{
    bool sampled = is_sampled(array, leader);
    for (int i = 0; i < array->rank; i++) {
        uint64_t length = array->chunk_shape[i];
        if (sampled && i == 0)
            length = chunk_length(options, array, leader);
        else if (sampled)
            length = i < options->chunk.rank ? options->chunk.lengths[i] : array->shape[i];
        uint64_t most = array->is_empty ? UINT64_MAX : array->shape[i];
        length = min_u64(length, most);
        uint64_t value = length;
        if (sampled && options->shard.rank > 0)
            value = i < options->shard.rank ? options->shard.lengths[i] : array->shape[i];
        ret_chunk[i] = length;
        ret_value[i] = size_round_up(min_u64(value, most), length);
    }
}

/* The axis along which the array is stored as differences; 0: as it is. Differences of floats are
 * rounded, and zarr-python does not read those of their bits in v3. */
static int delta_axis_of(const struct rechunk_options *options, const struct zarr_array *array,
                         const struct zarr_array *leader)
{
    bool takes = is_sampled(array, leader) && options->delta_axis < array->rank &&
                 dtype_is_integer(array->dtype) && array->stored_type[0] == '\0';
    return takes ? options->delta_axis : 0;
}

/* Documents of the target
 * ------------------------------------------------------------------------------------------- */

/* `document` and `attributes` are the source's; the names of dimensions leave `attributes`. */
static enum status write_document(const struct rechunk_options *options, struct target *target,
                                  const struct zarr_array *leader, struct json_object *document,
                                  struct json_object *attributes, struct error *err)
{
    struct zarr_array shaped;
    uint64_t chunk_shape[ZARR_MAX_RANK] = {0};
    struct json_object *root = NULL;
    enum status status = target_shape(target->source, &shaped, err);
    if (status != STATUS_OK)
        return status;
    struct target_origin origin = {
        .document = document,
        .attributes = attributes,
        .dimension_names =
            target_take_dimensions(target->source, shaped.rank, document, attributes),
    };
    target_translate_fill(target->source, origin.dimension_names != NULL, document, attributes);
    settle_shapes(options, &shaped, leader, chunk_shape, target->value_shape);
    target->delta_axis = delta_axis_of(options, &shaped, leader);
    status = target_document(options, &shaped, target->delta_axis, chunk_shape, target->value_shape,
                             &origin, &root, err);
    if (status == STATUS_OK) {
        target_append_json(root, &target->document);
        status = zarr_array_parse(ZARR_V3, shaped.path, target->document.data,
                                  target->document.length, &target->array, err);
    }
    json_object_put(origin.dimension_names);
    json_object_put(root);
    if (status != STATUS_OK && has_special_shape(&target->array)) {
        error_clear(err);
        status = STATUS_OK;
    }
    if (status == STATUS_OK && memcmp(target->array.fill, shaped.fill, shaped.item_bytes) != 0)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "its fill value cannot be written as Zarr v3; leave it out with "
                           "--arrays");
    return status;
}

static enum status make_target(const struct rechunk_options *options, const struct store *store,
                               const struct zarr_node *node, const struct zarr_array *leader,
                               struct target *target, struct error *err)
{
    struct json_object *document = NULL, *attributes = NULL;
    target->source = &node->array;
    enum status status = document_parse(node->document, node->document_bytes, &document, err);
    if (status == STATUS_OK)
        status =
            get_attributes(store, target->source->format,
                           zarr_array_store_path(target->source).text, document, &attributes, err);
    if (status == STATUS_OK)
        status = write_document(options, target, leader, document, attributes, err);
    json_object_put(attributes);
    json_object_put(document);
    if (status != STATUS_OK)
        return error_prefix(err, status, "array '%s': ", node->array.path);

    if (!target->source->is_empty) /* else there is nothing to write but the document */
        target_set_demand(target,
                          min_u64(target->source->chunk_shape[0], target->source->shape[0]));
    return STATUS_OK;
}

/* Groups
 * ------------------------------------------------------------------------------------------- */

static bool has_group(const struct targets *targets, const char *path, size_t length)
{
    for (size_t i = 0; i < targets->group_count; i++)
        if (strlen(targets->groups[i].path) == length &&
            strncmp(targets->groups[i].path, path, length) == 0)
            return true;
    return false;
}

static enum status add_group(struct targets *targets, const struct store *store,
                             enum zarr_format format, const char *path, size_t length,
                             struct error *err)
{
    struct json_object *document = NULL, *attributes = NULL;
    if (has_group(targets, path, length))
        return STATUS_OK;
    enum status status = STATUS_OK;
    char *name = strndup(path, length);
    if (!name)
        return error_set(err, STATUS_NO_MEMORY, "no memory for groups");
    if (format == ZARR_V3)
        status = get_object(store, name, "zarr.json", &document, err);
    if (status == STATUS_OK)
        status = get_attributes(store, format, name, document, &attributes, err);
    if (status == STATUS_OK) {
        struct text text = {0};
        target_append_json(attributes, &text);
        status = targets_add_group(targets, path, length, text.data, err);
        text_done(&text);
    }
    free(name);
    json_object_put(attributes);
    json_object_put(document);
    return status;
}

/* The groups above an array, the root first. */
static enum status add_groups(struct targets *targets, const struct store *store,
                              enum zarr_format format, const char *path, struct error *err)
{
    enum status status = STATUS_OK;
    if (!*path)
        return STATUS_OK; /* an array that is the root */
    status = add_group(targets, store, format, "", 0, err);
    for (const char *slash = strchr(path, '/'); slash && status == STATUS_OK;
         slash = strchr(slash + 1, '/'))
        status = add_group(targets, store, format, path, (size_t)(slash - path), err);
    return status;
}

/* All of it
 * ------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct rechunk_options *options, const struct zarr_node *node)
{
    bool wanted = options->paths.count == 0;
    for (size_t i = 0; i < options->paths.count && !wanted; i++)
        wanted = strcmp(options->paths.names[i] + (options->paths.names[i][0] == '/'),
                        node->array.path) == 0;
    return wanted;
}

static enum status check_names(const struct rechunk_options *options,
                               const struct zarr_hierarchy *hierarchy, struct error *err)
{
    for (size_t i = 0; i < options->paths.count; i++)
        if (!zarr_hierarchy_find(hierarchy, options->paths.names[i]))
            return error_set(err, STATUS_NOT_FOUND, "'%s' has no array '%s'", options->source,
                             options->paths.names[i]);
    if (hierarchy->node_count == 0)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has no arrays", options->source);
    return STATUS_OK;
}

/* The array with the most bytes, whose length is the number of samples. NULL: none has samples. */
static enum status find_leader(const struct rechunk_options *options,
                               const struct zarr_hierarchy *hierarchy,
                               const struct zarr_array **ret_leader, struct error *err)
{
    const struct zarr_array *leader = NULL;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        if (!is_wanted(options, node))
            continue;
        if (has_special_shape(&node->array))
            continue;
        if (node->status != STATUS_OK)
            return error_set(err, node->status,
                             "array '%s' cannot be read: %s; name the others with --arrays",
                             node->array.path, node->reason);
        if (!leader || node->array.total_bytes > leader->total_bytes)
            leader = &node->array;
    }
    *ret_leader = leader;
    return STATUS_OK;
}

/* Adds the identity of the source to the plan: another source, or this one written anew, has
 * another identity. */
static enum status identify_source(const struct store *store, struct targets *targets,
                                   const struct zarr_hierarchy *hierarchy, struct error *err)
{
    text_append(&targets->plan, "penstock rechunk 1\n");
    enum status status = store_identify(store, &targets->plan, err);
    for (size_t i = 0; i < targets->count && status == STATUS_OK; i++) {
        const struct zarr_array *source = targets->arrays[i].source;
        const struct zarr_node *node = zarr_hierarchy_find(hierarchy, source->path);
        struct store_info info = {0};
        struct zarr_path path = zarr_array_store_path(source);
        char key[ZARR_PATH_BYTES + 16];
        snprintf(key, sizeof key, "%s%s%s", path.text, path.text[0] ? "/" : "",
                 source->format == ZARR_V2 ? ".zarray" : "zarr.json");
        status = store_stat(store, key, &info, err);
        if (status == STATUS_NOT_FOUND)
            status = STATUS_OK; /* it stands in consolidated metadata alone */
        text_append(&targets->plan, "%s %" PRIu64 "\n%s\n%s\n", source->path, info.version,
                    node->document, targets->arrays[i].document.data);
    }
    text_append(&targets->plan, "%s\n", targets->root_document.data);
    return status;
}

static enum status check_delta(const struct rechunk_options *options, const struct targets *targets,
                               struct error *err)
{
    bool used = options->delta_axis == 0;
    for (size_t i = 0; i < targets->count; i++)
        used = used || targets->arrays[i].delta_axis > 0;
    if (used)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "--delta %d: no array of integers along the samples has an axis %d. "
                     "Differences of floats are rounded: leave --delta out",
                     options->delta_axis, options->delta_axis);
}

static enum status make_all(const struct rechunk_options *options, const struct store *store,
                            const struct zarr_hierarchy *hierarchy, struct targets *targets,
                            struct error *err)
{
    const struct zarr_array *leader = NULL;
    enum status status = check_names(options, hierarchy, err);
    if (status == STATUS_OK)
        status = find_leader(options, hierarchy, &leader, err);
    if (status != STATUS_OK)
        return status;
    targets->arrays = calloc(hierarchy->node_count, sizeof *targets->arrays);
    if (!targets->arrays)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu arrays", hierarchy->node_count);
    for (size_t i = 0; i < hierarchy->node_count && status == STATUS_OK; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        if (!is_wanted(options, node))
            continue;
        if (targets->count > 0 &&
            strcmp(targets->arrays[targets->count - 1].source->path, node->array.path) == 0)
            return error_set(err, STATUS_UNSUPPORTED,
                             "'%s' is an array and a member of a structured one: leave it out with "
                             "--arrays",
                             node->array.path);
        status = make_target(options, store, node, leader, &targets->arrays[targets->count++], err);
        if (status == STATUS_OK)
            status = add_groups(targets, store, hierarchy->format, node->array.path, err);
    }
    if (status == STATUS_OK && hierarchy->groups_incomplete && options->paths.count == 0)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "'%s' has more than %d groups, or one whose path is not valid: say what to copy "
            "with --arrays",
            options->source, ZARR_MAX_GROUPS);
    if (status == STATUS_OK)
        status = check_delta(options, targets, err);
    for (size_t i = 0;
         i < hierarchy->group_count && options->paths.count == 0 && status == STATUS_OK; i++)
        status = add_group(targets, store, hierarchy->format, hierarchy->groups[i],
                           strlen(hierarchy->groups[i]), err);
    if (status != STATUS_OK)
        return status;
    targets_make_root(targets);
    return identify_source(store, targets, hierarchy, err);
}

enum status targets_make(const struct rechunk_options *options, const struct store *store,
                         const struct zarr_hierarchy *hierarchy, struct targets *ret_targets,
                         struct error *err)
{
    struct targets targets = {
        .work = "rechunk", .folder = ".penstock-rechunk", .source = rechunk_source(store)};
    enum status status = make_all(options, store, hierarchy, &targets, err);
    if (status != STATUS_OK)
        targets_done(&targets);
    else
        *ret_targets = targets;
    return status;
}
