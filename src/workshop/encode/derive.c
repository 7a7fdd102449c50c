/* See derive.h. */
#include "workshop/encode/derive.h"

#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "workshop/making/journal.h"
#include "workshop/making/rechunk.h"
#include "zarr/hierarchy/hierarchy.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t default_chunk_bytes = 1 << 20;

struct derive {
    const struct derive_options *options;
    char *path;                 /* owned: of the destination */
    const struct store *source; /* borrowed */
    struct zarr_hierarchy *hierarchy;
    struct target *inputs; /* in order of path; owned, what is in them is borrowed */
    size_t input_count;
    const char **names; /* of the field and the copies, in order; [copies.count + 1] */
    struct encoding_plan plan;
    struct encoding *encoding;
    struct targets targets;
    int folder_fd; /* the journal's; -1: not open */
};

/* Inputs
 * ------------------------------------------------------------------------------------------- */

static enum status add_input(struct derive *derive, const struct zarr_node *node, struct error *err)
{
    const struct zarr_array *array = &node->array;
    if (node->status != STATUS_OK)
        return error_set(err, node->status, "array '%s': %s", array->path, node->reason);
    if (array->rank < 1 || array->path[0] == '\0')
        return error_set(err, STATUS_UNSUPPORTED,
                         "array '%s': encoders get arrays with a name and an axis of samples",
                         array->path);
    derive->inputs[derive->input_count++] = (struct target){.source = array, .array = *array};
    return STATUS_OK;
}

static int compare_inputs(const void *a, const void *b)
{
    return strcmp(((const struct target *)a)->array.path, ((const struct target *)b)->array.path);
}

static enum status find_named(struct derive *derive, struct error *err)
{
    const struct derive_options *options = derive->options;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < options->inputs.count && status == STATUS_OK; i++) {
        const struct zarr_node *node =
            zarr_hierarchy_find(derive->hierarchy, options->inputs.names[i]);
        if (!node)
            return error_set(err, STATUS_NOT_FOUND, "'%s' has no array '%s'", options->source,
                             options->inputs.names[i]);
        status = add_input(derive, node, err);
    }
    if (status != STATUS_OK)
        return status;
    qsort(derive->inputs, derive->input_count, sizeof *derive->inputs, compare_inputs);
    for (size_t i = 1; i < derive->input_count; i++)
        if (compare_inputs(&derive->inputs[i - 1], &derive->inputs[i]) == 0)
            return error_set(err, STATUS_INVALID, "--from names '%s' twice",
                             derive->inputs[i].array.path);
    return STATUS_OK;
}

static enum status find_largest(struct derive *derive, struct error *err)
{
    const struct zarr_node *largest = NULL;
    for (size_t i = 0; i < derive->hierarchy->node_count; i++) {
        const struct zarr_node *node = &derive->hierarchy->nodes[i];
        if (node->status == STATUS_OK && node->array.rank > 0 &&
            (!largest || node->array.total_bytes > largest->array.total_bytes))
            largest = node;
    }
    return largest ? add_input(derive, largest, err)
                   : error_set(err, STATUS_NOT_FOUND, "'%s' has no array that can be read",
                               derive->options->source);
}

static enum status find_inputs(struct derive *derive, struct error *err)
{
    size_t count = derive->options->inputs.count;
    enum status status = zarr_hierarchy_open(derive->source, &derive->hierarchy, err);
    if (status != STATUS_OK)
        return status;
    derive->inputs = calloc(count + 1, sizeof *derive->inputs);
    if (!derive->inputs)
        return error_set(err, STATUS_NO_MEMORY, "no memory for arrays");
    return count > 0 ? find_named(derive, err) : find_largest(derive, err);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum status sort_names(struct derive *derive, struct error *err)
{
    const struct derive_options *options = derive->options;
    derive->names = calloc(options->copies.count + 1, sizeof *derive->names);
    if (!derive->names)
        return error_set(err, STATUS_NO_MEMORY, "no memory for arrays");
    for (size_t i = 0; i < options->copies.count; i++)
        derive->names[i] = options->copies.names[i];
    derive->names[options->copies.count] = options->field;
    qsort(derive->names, options->copies.count + 1, sizeof *derive->names, compare_names);
    return STATUS_OK;
}

/* The request
 * ------------------------------------------------------------------------------------------- */

static enum status make_request(const struct derive *derive, struct digest_text *ret_request,
                                struct error *err)
{
    const struct derive_options *options = derive->options;
    struct text text = {0};
    text_append(&text, "penstock derive 1\n%s\n%" PRIu64 " %" PRIu64 " %s %d %s\n", options->field,
                options->chunk, options->shard, options->codec, options->level,
                options->shuffle ? options->shuffle : "");
    text_append(&text, "%" PRIu64 " %s\n", options->encoding.batch, options->encoding.command);
    enum status status = store_identify(derive->source, &text, err);
    for (size_t i = 0; i < derive->input_count && status == STATUS_OK; i++) {
        const struct zarr_node *node =
            zarr_hierarchy_find(derive->hierarchy, derive->inputs[i].array.path);
        text_append(&text, "%s\n%s\n", node->array.path, node->document);
    }
    for (size_t i = 0; i <= options->copies.count && status == STATUS_OK; i++) {
        const struct zarr_node *node = zarr_hierarchy_find(derive->hierarchy, derive->names[i]);
        if (derive->names[i] != options->field)
            text_append(&text, "with %s\n%s\n", derive->names[i], node ? node->document : "");
    }
    *ret_request = digest_of_text(text.data ? text.data : "", text.length);
    text_done(&text);
    return status;
}

/* Targets
 * ------------------------------------------------------------------------------------------- */

static void set_chunks(const struct derive_options *options, struct target_wish *wish)
{
    uint64_t bytes = dtype_bytes(wish->dtype), count = wish->shape[0];
    for (int d = 1; d < wish->rank; d++)
        bytes *= wish->shape[d];
    uint64_t chunk = options->chunk > 0 ? options->chunk : max_u64(default_chunk_bytes / bytes, 1);
    memcpy(wish->chunk, wish->shape, sizeof wish->chunk);
    memcpy(wish->value, wish->shape, sizeof wish->value);
    wish->chunk[0] = min_u64(chunk, count);
    wish->value[0] = wish->chunk[0];
    if (options->shard > 0)
        wish->value[0] = size_round_up(min_u64(options->shard, count), wish->chunk[0]);
}

/* The attributes in the document that the source has, as a JSON object (returned). */
static struct json_object *attributes_of(struct json_object *document)
{
    struct json_object *attributes = NULL;
    if (json_object_object_get_ex(document, "attributes", &attributes) &&
        json_object_is_type(attributes, json_type_object))
        json_object_get(attributes);
    else
        attributes = json_object_new_object();
    return attributes;
}

/* An array of the source as it is, in chunks of its own. */
static enum status add_copy(struct derive *derive, const char *name, struct error *err)
{
    const struct derive_options *options = derive->options;
    const struct zarr_node *node = zarr_hierarchy_find(derive->hierarchy, name);
    if (!node)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has no array '%s'", options->source, name);
    const struct zarr_array *array = &node->array;
    if (node->status != STATUS_OK)
        return error_set(err, node->status, "array '%s': %s", name, node->reason);
    bool is_text = array->item_length > 0 && strchr(array->stored_type, 'U');
    if (array->rank < 1 || strchr(array->path, '/') || (array->item_length > 0 && !is_text))
        return error_set(err, STATUS_UNSUPPORTED,
                         "--with '%s': arrays of numbers and of texts in the root group are copied",
                         name);
    struct json_object *document = json_tokener_parse(node->document);
    struct json_object *attributes = attributes_of(document);
    struct json_object *names = target_take_dimensions(array, array->rank, document, attributes);
    struct text text = {0};
    struct target_wish wish = {.path = array->path,
                               .dtype = array->dtype,
                               .text_length = is_text ? array->item_length : 0,
                               .rank = array->rank,
                               .codec = options->codec,
                               .level = options->level,
                               .shuffle = options->shuffle};
    target_translate_fill(array, names != NULL, document, attributes);
    target_append_json(attributes, &text);
    wish.attributes = text.data;
    wish.dimension_names = names;
    for (int d = 0; d < array->rank; d++) {
        wish.shape[d] = array->shape[d];
        wish.chunk[d] = wish.value[d] = min_u64(array->chunk_shape[d], array->shape[d]);
    }
    enum status status = targets_add(&derive->targets, &wish, err);
    if (status == STATUS_OK)
        derive->targets.arrays[derive->targets.count - 1].source = array;
    text_done(&text);
    json_object_put(names);
    json_object_put(attributes);
    json_object_put(document);
    return status;
}

/* The field among the copies, in order of path. */
static enum status add_arrays(struct derive *derive, const struct target_wish *wish,
                              struct error *err)
{
    const struct derive_options *options = derive->options;
    const char **names = derive->names;
    enum status status = STATUS_OK;
    for (size_t i = 0; i <= options->copies.count && status == STATUS_OK; i++) {
        if (i > 0 && strcmp(names[i - 1], names[i]) == 0)
            status =
                error_set(err, STATUS_INVALID, "two arrays would have the name '%s'", names[i]);
        else if (names[i] != options->field)
            status = add_copy(derive, names[i], err);
        else
            status = targets_add(&derive->targets, wish, err);
        if (status == STATUS_OK && names[i] == options->field)
            encoding_cut(&options->encoding, &derive->targets.arrays[i]);
    }
    return status;
}

static enum status add_root(struct derive *derive, const char *request, struct error *err)
{
    const struct derive_options *options = derive->options;
    struct text attributes = {0};
    text_append(&attributes, "{\"penstock_derive\":{\"request\":\"%s\",\"source\":", request);
    text_append_json(&attributes, options->source);
    text_append(&attributes, ",\"command\":");
    text_append_json(&attributes, options->encoding.command);
    text_append(&attributes, "}}");
    enum status status = targets_add_group(&derive->targets, "", 0, attributes.data, err);
    text_done(&attributes);
    return status;
}

static enum status make_targets(struct derive *derive, const char *request, struct error *err)
{
    const struct derive_options *options = derive->options;
    struct target_wish wish = {
        .path = options->field,
        .shape = {derive->inputs[0].array.shape[0]},
        .codec = options->codec,
        .level = options->level,
        .shuffle = options->shuffle,
        .attributes = "{}",
    };
    enum status status = encoding_settle(derive->encoding, derive->folder_fd, request, &wish, err);
    if (status == STATUS_OK)
        status = add_root(derive, request, err);
    if (status != STATUS_OK)
        return status;
    set_chunks(options, &wish);
    status = add_arrays(derive, &wish, err);
    if (status != STATUS_OK)
        return status;
    targets_make_root(&derive->targets);
    text_append(&derive->targets.plan, "penstock derive 1\n%s\n%s\n", request,
                derive->targets.root_document.data);
    derive->targets.source = encoding_source(derive->encoding);
    return STATUS_OK;
}

/* All of it
 * ------------------------------------------------------------------------------------------- */

/* Nothing is left where there was nothing. */
static void remove_folder(const struct derive *derive)
{
    char path[4096];
    if (derive->options->making.part_count > 1 ||
        faccessat(derive->folder_fd, "encoded", F_OK, 0) == 0)
        return;
    unlinkat(derive->folder_fd, "encoded.lock", 0);
    unlinkat(derive->folder_fd, "encoded.part", 0);
    snprintf(path, sizeof path, "%s/%s", derive->path, derive->targets.folder);
    if (rmdir(path) == 0)
        rmdir(derive->path);
}

/* What is wrong with --with or the codec is told before an encoder runs, whose first result belongs
 * to one command. The field, whose shape is not known yet, has a stand-in. */
static enum status check_arrays(struct derive *derive, struct error *err)
{
    const struct derive_options *options = derive->options;
    struct target_wish stand_in = {.path = options->field,
                                   .dtype = DTYPE_FLOAT32,
                                   .rank = 1,
                                   .shape = {derive->inputs[0].array.shape[0]},
                                   .codec = options->codec,
                                   .level = options->level,
                                   .shuffle = options->shuffle,
                                   .attributes = "{}"};
    const struct targets none = {.work = derive->targets.work, .folder = derive->targets.folder};
    set_chunks(options, &stand_in);
    enum status status = add_arrays(derive, &stand_in, err);
    targets_done(&derive->targets);
    derive->targets = none;
    return status;
}

static enum status prepare(struct derive *derive, const char *request, struct error *err)
{
    derive->plan = (struct encoding_plan){
        .options = &derive->options->encoding,
        .memory_bytes = derive->options->making.memory_bytes,
        .inner = rechunk_source(derive->source),
        .inputs = derive->inputs,
        .input_count = derive->input_count,
        .output = derive->options->field,
    };
    enum status status = encoding_new(&derive->plan, &derive->encoding, err);
    if (status == STATUS_OK)
        status = check_arrays(derive, err);
    if (status == STATUS_OK)
        status = journal_open_folder(derive->path, &derive->targets, &derive->folder_fd, err);
    if (status != STATUS_OK)
        return status;
    status = make_targets(derive, request, err);
    if (status != STATUS_OK)
        remove_folder(derive);
    return status;
}

static enum status derive_all(struct derive *derive, struct making_result *result,
                              struct error *err)
{
    const struct making_options *making = &derive->options->making;
    struct digest_text request;
    enum status status = making_path(making->destination, &derive->path, err);
    if (status == STATUS_OK)
        status = find_inputs(derive, err);
    if (status == STATUS_OK)
        status = sort_names(derive, err);
    if (status == STATUS_OK)
        status = rechunk_check_apart(derive->source, derive->hierarchy, making, err);
    if (status == STATUS_OK)
        status = make_request(derive, &request, err);
    if (status != STATUS_OK)
        return status;
    bool shared = making->part_count > 1;
    if (!shared || !making_has_ended(derive->path, derive->targets.folder, request.text)) {
        status = prepare(derive, request.text, err);
        if (status == STATUS_OK)
            status = encoding_make(derive->encoding, making, &derive->targets, result, err);
        if (status == STATUS_OK ||
            !(shared && making_has_ended(derive->path, derive->targets.folder, request.text)))
            return status;
    }
    *result = (struct making_result){.already_complete = true};
    return STATUS_OK;
}

enum status derive_run(const struct derive_options *options, const struct store *source,
                       struct making_result *ret_result, struct error *err)
{
    struct derive derive = {
        .options = options,
        .source = source,
        .targets = {.work = "derive", .folder = ".penstock-derive"},
        .folder_fd = -1,
    };
    enum status status = derive_all(&derive, ret_result, err);
    encoding_free(derive.encoding);
    if (derive.folder_fd >= 0)
        close(derive.folder_fd);
    targets_done(&derive.targets);
    free(derive.names);
    free(derive.inputs);
    free(derive.path);
    zarr_hierarchy_free(derive.hierarchy);
    return status;
}
