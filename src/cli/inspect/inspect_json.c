/* `penstock inspect --json`: one object, sizes in bytes.
 *
 *     {"uri", "zarr_format", "consolidated",
 *      "arrays": [{"path", "readable", "reason"}, or
 *                 {"path", "readable", "dtype", "stored_dtype", "shape",
 *                  "dimensions": names or null, "chunks", "shards", "codecs",
 *                  "attributes": of scale_factor, add_offset, _FillValue, missing_value, units and
 *                  calendar those that there are, as text,
 *                  "stored_bytes", "stored_estimated", "decoded_bytes"}],
 *      "kind": such as "AnnData", or null, "about": what the samples are,
 *      "dataset": {"frames", "samples", "sample_bytes", "row_length", "rows", "row_bytes",
 * "fingerprint", "fields": [{"name", "dtype", "shape", "sample_bytes", "held",
 * "store": of its own, if it has one}],
 * "ragged": [{"name", "items", "sample_items": of all samples, "most_frame_items", "item_bytes",
 * "page_items", "page_bytes", "most_row_pages", "decode_amplification"}], "cost":
 * {"window_rows", "window_bytes", "memory_bytes", "stored_bytes", "read_bytes": of a sample, null:
 * not known, "amplification", "chunks": decoded for one, "findings": of small, large, across,
 * unaligned, memory, "suggestion": {"chunk", "amplification", "chunks"} or null}}, "dataset_error":
 * why "dataset" is null}
 */
#include "base/dtype.h"
#include "base/text.h"
#include "cli/inspect/inspect.h"
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/axes.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>

static void add_text(struct json_object *object, const char *key, const char *text)
{
    json_object_object_add(object, key, json_object_new_string(text_shown(text).text));
}

static void add_count(struct json_object *object, const char *key, uint64_t count)
{
    json_object_object_add(object, key, json_object_new_uint64(count));
}

static void add_number(struct json_object *object, const char *key, double number)
{
    json_object_object_add(object, key, json_object_new_double(number));
}

static void add_flag(struct json_object *object, const char *key, bool flag)
{
    json_object_object_add(object, key, json_object_new_boolean(flag));
}

static void add_shape(struct json_object *object, const char *key, const uint64_t *shape, int rank)
{
    struct json_object *list = json_object_new_array();
    for (int i = 0; i < rank; i++)
        json_object_array_add(list, json_object_new_uint64(shape[i]));
    json_object_object_add(object, key, list);
}

static void add_names(struct json_object *object, const struct zarr_node *node)
{
    struct json_object *list = json_object_new_array();
    struct zarr_axis_names names;
    bool found = zarr_node_axis_names(node, &names);
    for (int i = 0; i < node->array.rank; i++)
        json_object_array_add(list,
                              names.names[i][0] ? json_object_new_string(names.names[i]) : NULL);
    json_object_object_add(object, "dimensions", found ? list : NULL);
    if (!found)
        json_object_put(list);
}

/* Attributes that give values their meaning. */
static struct json_object *attributes_json(const struct zarr_node *node)
{
    struct json_object *object = json_object_new_object();
    struct zarr_encoding encoding;
    zarr_node_encoding(node, &encoding);
#define ADD_PART(name, key) \
    if (encoding.name[0])   \
        add_text(object, key, encoding.name);
    ZARR_ENCODING_TABLE(ADD_PART)
#undef ADD_PART
    return object;
}

static struct json_object *array_json(const struct zarr_node *node,
                                      const struct stored_size *stored)
{
    const struct zarr_array *array = &node->array;
    struct json_object *object = json_object_new_object();
    add_text(object, "path", array->path);
    add_flag(object, "readable", node->status == STATUS_OK);
    if (node->status != STATUS_OK) {
        add_text(object, "reason", node->reason);
        return object;
    }
    struct text codecs = {0};
    codec_chain_describe(&array->codecs, &codecs);
    add_text(object, "dtype", dtype_name(array->dtype));
    if (array->stored_type[0])
        add_text(object, "stored_dtype", array->stored_type);
    add_shape(object, "shape", array->shape, array->rank);
    add_names(object, node);
    add_shape(object, "chunks", array->chunk_shape, array->rank);
    if (array->shard_level_count > 0) {
        uint64_t shards[ZARR_MAX_RANK];
        zarr_array_shard_shape(array, shards);
        add_shape(object, "shards", shards, array->rank);
    }
    add_text(object, "codecs", codecs.data);
    json_object_object_add(object, "attributes", attributes_json(node));
    if (stored->bytes != STORED_UNKNOWN) {
        add_count(object, "stored_bytes", stored->bytes);
        add_flag(object, "stored_estimated", stored->is_estimate);
    }
    add_count(object, "decoded_bytes", array->total_bytes);
    text_done(&codecs);
    return object;
}

static struct json_object *field_json(const struct dataset *dataset, size_t f)
{
    const struct dataset_field *field = &dataset->fields[f];
    const char *store = dataset_field_store(dataset, f);
    struct json_object *object = json_object_new_object();
    add_text(object, "name", field->name);
    add_text(object, "dtype", dtype_name(field->dtype));
    add_shape(object, "shape", field->shape, field->rank);
    add_count(object, "sample_bytes", field->sample_bytes);
    add_flag(object, "held", field->source == FIELD_HELD);
    if (store)
        add_text(object, "store", store);
    return object;
}

static void add_finding(struct json_object *list, bool found, const char *name)
{
    if (found)
        json_object_array_add(list, json_object_new_string(name));
}

static struct json_object *cost_json(const struct inspection *inspection)
{
    const struct layout_cost *cost = &inspection->cost;
    bool known = inspection->sizes_error.status == STATUS_OK;
    struct json_object *object = json_object_new_object();
    struct json_object *findings = json_object_new_array(), *suggestion = NULL;
    add_count(object, "window_rows", cost->window_rows);
    add_count(object, "window_bytes", cost->window_bytes);
    add_count(object, "memory_bytes", cost->memory_bytes);
    json_object_object_add(object, "stored_bytes",
                           known ? json_object_new_double(cost->stored_bytes) : NULL);
    json_object_object_add(object, "read_bytes",
                           known ? json_object_new_double(cost->read_bytes) : NULL);
    add_number(object, "amplification", cost->amplification);
    add_number(object, "chunks", cost->chunks);
    add_finding(findings, cost->small, "small");
    add_finding(findings, cost->large, "large");
    add_finding(findings, cost->across, "across");
    add_finding(findings, cost->unaligned, "unaligned");
    add_finding(findings, cost->window_bytes > cost->memory_bytes, "memory");
    json_object_object_add(object, "findings", findings);
    if (cost->chunk > 0) {
        suggestion = json_object_new_object();
        add_count(suggestion, "chunk", cost->chunk);
        add_number(suggestion, "chunks", cost->chunk_reads);
        add_number(suggestion, "amplification", cost->chunk_amplification);
    }
    json_object_object_add(object, "suggestion", suggestion);
    return object;
}

static struct json_object *ragged_json(const struct dataset *dataset)
{
    struct json_object *list = json_object_new_array();
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        struct json_object *object = json_object_new_object();
        add_text(object, "name", ragged->name);
        add_count(object, "items", ragged->item_count);
        add_count(object, "sample_items", ragged->sample_items);
        add_count(object, "most_frame_items", ragged->most_frame_items);
        add_count(object, "item_bytes", ragged_item_bytes(ragged));
        add_count(object, "page_items", ragged->page_items);
        add_count(object, "page_bytes", ragged->page_bytes);
        add_count(object, "most_row_pages", dataset_most_row_pages(dataset));
        add_number(object, "decode_amplification", ragged->decode_amplification);
        json_object_array_add(list, object);
    }
    return list;
}

static struct json_object *dataset_json(const struct inspection *inspection)
{
    const struct dataset *dataset = inspection->dataset;
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, dataset->fingerprint);
    struct json_object *object = json_object_new_object();
    add_count(object, "frames", dataset->frame_count);
    add_count(object, "samples", dataset->sample_count);
    add_count(object, "sample_bytes", dataset->sample_bytes);
    add_count(object, "row_length", dataset->row_length);
    add_count(object, "rows", dataset->row_count);
    add_count(object, "row_bytes", dataset->row_bytes);
    add_text(object, "fingerprint", fingerprint);
    struct json_object *fields = json_object_new_array();
    for (size_t i = 0; i < dataset->field_count; i++)
        json_object_array_add(fields, field_json(dataset, i));
    json_object_object_add(object, "fields", fields);
    if (dataset->ragged_count > 0)
        json_object_object_add(object, "ragged", ragged_json(dataset));
    json_object_object_add(object, "cost", cost_json(inspection));
    return object;
}

void inspect_print_json(const struct inspection *inspection)
{
    const struct zarr_hierarchy *hierarchy = inspection->hierarchy;
    struct json_object *root = json_object_new_object();
    add_text(root, "uri", inspection->uri);
    add_count(root, "zarr_format", hierarchy->format);
    add_flag(root, "consolidated", hierarchy->consolidated);
    struct json_object *arrays = json_object_new_array();
    for (size_t i = 0; i < hierarchy->node_count; i++)
        json_object_array_add(arrays, array_json(&hierarchy->nodes[i], &inspection->stored[i]));
    json_object_object_add(root, "arrays", arrays);
    json_object_object_add(
        root, "kind", inspection->kind.name ? json_object_new_string(inspection->kind.name) : NULL);
    if (inspection->kind.name)
        add_text(root, "about", inspection->kind.about.data);
    json_object_object_add(root, "dataset", inspection->dataset ? dataset_json(inspection) : NULL);
    if (!inspection->dataset)
        add_text(root, "dataset_error", inspection->dataset_error.message);
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                  JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(root);
}
