/* The zarr.json of one array of the destination: shape, chunk grid, codecs. See rechunk_internal.h.
 * Pure. */
#include "workshop/making/rechunk_internal.h"

#include "base/text.h"

#include <assert.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

/* Codecs
 * ------------------------------------------------------------------------------------------- */

enum { BLOSC_MAX_ITEM_BYTES = 255 }; /* of a shuffle */

static const char *shuffle_of(const struct rechunk_options *options, size_t item_bytes)
{
    if (options->shuffle)
        return options->shuffle;
    return item_bytes > 1 ? "shuffle" : "bitshuffle";
}

/* Codecs whose only setting is a level: what stands around its value. */
static const struct {
    const char *name;
    const char *before, *after;
    int level; /* of RECHUNK_LEVEL_AUTO */
} level_codecs[] = {
    {"zstd", "\"zstd\", \"configuration\": {\"level\": ", ", \"checksum\": false}", 3},
    {"gzip", "\"gzip\", \"configuration\": {\"level\": ", "}", 5},
    {"lz4", "\"numcodecs.lz4\", \"configuration\": {\"acceleration\": ", "}", 1},
};

static bool append_level_codec(const struct rechunk_options *options, const char *name,
                               struct text *out)
{
    for (size_t i = 0; i < sizeof level_codecs / sizeof level_codecs[0]; i++)
        if (strcmp(name, level_codecs[i].name) == 0) {
            int level =
                options->level == RECHUNK_LEVEL_AUTO ? level_codecs[i].level : options->level;
            text_append(out, ", {\"name\": %s%d%s}", level_codecs[i].before, level,
                        level_codecs[i].after);
            return true;
        }
    return false;
}

static bool append_blosc(const struct rechunk_options *options, const char *name, size_t item_bytes,
                         struct text *out)
{
    static const char *const compressors[] = {"lz4", "lz4hc", "zstd", "blosclz", "zlib", "snappy"};
    bool known = false;
    if (strncmp(name, "blosc-", 6) != 0)
        return false;
    for (size_t i = 0; i < sizeof compressors / sizeof compressors[0]; i++)
        known = known || strcmp(name + 6, compressors[i]) == 0;
    if (known)
        text_append(out,
                    ", {\"name\": \"blosc\", \"configuration\": {\"cname\": \"%s\", "
                    "\"clevel\": %d, \"shuffle\": \"%s\", \"typesize\": %zu, \"blocksize\": 0}}",
                    name + 6, options->level == RECHUNK_LEVEL_AUTO ? 3 : options->level,
                    shuffle_of(options, item_bytes),
                    item_bytes <= BLOSC_MAX_ITEM_BYTES ? item_bytes : 1);
    return known;
}

static enum status append_codec(const struct rechunk_options *options, const char *name,
                                size_t item_bytes, struct text *out, struct error *err)
{
    if (strcmp(name, "none") == 0 || append_level_codec(options, name, out) ||
        append_blosc(options, name, item_bytes, out))
        return STATUS_OK;
    if (strcmp(name, "crc32c") == 0) {
        text_append(out, ", {\"name\": \"crc32c\"}");
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "--codec '%s': there are none, zstd, gzip, lz4, blosc-zstd, blosc-lz4, "
                     "blosc-lz4hc, blosc-blosclz, blosc-zlib, and each with +crc32c",
                     name);
}

/* Differences along an axis: numcodecs' delta goes along the last one, so the axis becomes that. */
static void append_delta(const struct zarr_array *array, int axis, struct text *out)
{
    if (axis != array->rank - 1) {
        text_append(out, "{\"name\": \"transpose\", \"configuration\": {\"order\": [");
        for (int i = 0; i < array->rank; i++)
            if (i != axis)
                text_append(out, "%d, ", i);
        text_append(out, "%d]}}, ", axis);
    }
    char letter = dtype_name(array->dtype)[0], order = array->item_bytes > 1 ? '<' : '|';
    text_append(out,
                "{\"name\": \"numcodecs.delta\", \"configuration\": {\"dtype\": \"%c%c%zu\"}}, ",
                order, letter, array->item_bytes);
}

/* "[{filter}..., {bytes}, {codec}...]" */
static enum status make_codecs(const struct rechunk_options *options,
                               const struct zarr_array *array, int delta_axis, struct text *out,
                               struct error *err)
{
    char names[128];
    snprintf(names, sizeof names, "%s", options->codec);
    text_append(out, "[");
    if (delta_axis > 0)
        append_delta(array, delta_axis, out);
    text_append(out, "{\"name\": \"bytes\"%s}",
                dtype_swap_bytes(array->dtype) > 1 ? ", \"configuration\": {\"endian\": \"little\"}"
                                                   : "");
    char *rest = names, *name;
    while ((name = strsep(&rest, "+"))) {
        enum status status = append_codec(options, name, array->item_bytes, out, err);
        if (status != STATUS_OK)
            return status;
    }
    text_append(out, "]");
    return STATUS_OK;
}

/* The document
 * ------------------------------------------------------------------------------------------- */

static struct json_object *shape_json(const uint64_t *shape, int rank)
{
    struct json_object *list = json_object_new_array();
    for (int i = 0; i < rank; i++)
        json_object_array_add(list, json_object_new_uint64(shape[i]));
    return list;
}

static struct json_object *named(const char *name, struct json_object *configuration)
{
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "name", json_object_new_string(name));
    json_object_object_add(object, "configuration", configuration);
    return object;
}

static struct json_object *grid_json(const uint64_t *value_shape, int rank)
{
    struct json_object *configuration = json_object_new_object();
    json_object_object_add(configuration, "chunk_shape", shape_json(value_shape, rank));
    return named("regular", configuration);
}

/* The codecs as they are, or inside shards where a value is larger than a chunk. */
static struct json_object *codecs_json(const struct text *codecs, const uint64_t *chunk_shape,
                                       const uint64_t *value_shape, int rank)
{
    if (memcmp(chunk_shape, value_shape, (size_t)rank * sizeof *chunk_shape) == 0)
        return target_json(codecs->data);
    struct json_object *configuration = json_object_new_object();
    json_object_object_add(configuration, "chunk_shape", shape_json(chunk_shape, rank));
    json_object_object_add(configuration, "codecs", target_json(codecs->data));
    json_object_object_add(configuration, "index_codecs",
                           target_json("[{\"name\": \"bytes\", \"configuration\": {\"endian\": "
                                       "\"little\"}}, {\"name\": \"crc32c\"}]"));
    json_object_object_add(configuration, "index_location", json_object_new_string("end"));
    struct json_object *list = json_object_new_array();
    json_object_array_add(list, named("sharding_indexed", configuration));
    return list;
}

enum status target_document(const struct rechunk_options *options, const struct zarr_array *source,
                            int delta_axis, const uint64_t *chunk_shape,
                            const uint64_t *value_shape, const struct target_origin *origin,
                            struct json_object **ret_document, struct error *err)
{
    struct text codecs = {0};
    int rank = source->is_scalar ? 0 : source->rank;
    enum status status = make_codecs(options, source, delta_axis, &codecs, err);
    if (status != STATUS_OK) {
        text_done(&codecs);
        return status;
    }
    struct json_object *root = json_object_new_object();
    json_object_object_add(root, "zarr_format", json_object_new_int(3));
    json_object_object_add(root, "node_type", json_object_new_string("array"));
    json_object_object_add(root, "shape", shape_json(source->shape, rank));
    json_object_object_add(root, "data_type", target_type(source));
    json_object_object_add(root, "chunk_grid", grid_json(value_shape, rank));
    json_object_object_add(root, "chunk_key_encoding",
                           target_json("{\"name\": \"default\", \"configuration\": "
                                       "{\"separator\": \"/\"}}"));
    json_object_object_add(root, "fill_value", target_fill(source, origin->document));
    json_object_object_add(root, "codecs", codecs_json(&codecs, chunk_shape, value_shape, rank));
    json_object_object_add(root, "attributes", json_object_get(origin->attributes));
    if (origin->dimension_names)
        json_object_object_add(root, "dimension_names", json_object_get(origin->dimension_names));
    text_done(&codecs);
    *ret_document = root;
    return STATUS_OK;
}
