/* Zarr v3 `zarr.json` documents of arrays.
 *
 * The v3 rule for extensions: a member that a reader does not know must stop it, unless the member
 * is an object that says "must_understand": false. Pure.
 */
#include "zarr/document.h"

#include <string.h>

static bool is_known_member(const char *name)
{
    static const char *const known[] = {
        "zarr_format",
        "node_type",
        "shape",
        "data_type",
        "chunk_grid",
        "fill_value",
        "codecs",
        "chunk_key_encoding",
        "attributes",
        "dimension_names",
        "storage_transformers",
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(name, known[i]) == 0)
            return true;
    return false;
}

static enum status refuse_unknown_members(struct json_object *root, struct error *err)
{
    json_object_object_foreach(root, name, value)
    {
        struct json_object *must = NULL;

        if (is_known_member(name))
            continue;
        if (json_object_is_type(value, json_type_object) &&
            json_object_object_get_ex(value, "must_understand", &must) &&
            json_object_is_type(must, json_type_boolean) && !json_object_get_boolean(must))
            continue;
        return error_set(err, STATUS_UNSUPPORTED, "extension '%.60s'", name);
    }
    return STATUS_OK;
}

static enum status refuse_transformers(struct json_object *root, struct error *err)
{
    struct json_object *list, *configuration;
    const char *name;

    if (!json_object_object_get_ex(root, "storage_transformers", &list) || !list)
        return STATUS_OK;
    if (!json_object_is_type(list, json_type_array))
        return error_set(err, STATUS_CORRUPT, "'storage_transformers' is not a list");
    if (json_object_array_length(list) == 0)
        return STATUS_OK;
    enum status status = document_named(json_object_array_get_idx(list, 0), "storage_transformers",
                                        &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    return error_set(err, STATUS_UNSUPPORTED, "storage transformer '%.60s'", name);
}

/* The byte order is not known before the codecs are read. */
static enum status parse_dtype(struct json_object *root, struct zarr_array *array,
                               struct error *err)
{
    struct json_object *value, *configuration;
    const char *name;

    if (!json_object_object_get_ex(root, "data_type", &value))
        return error_set(err, STATUS_CORRUPT, "'data_type' is missing");
    enum status status = document_named(value, "data_type", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    enum dtype dtype = configuration ? DTYPE_NONE : dtype_by_name(name);
    if (dtype == DTYPE_NONE)
        return error_set(err, STATUS_UNSUPPORTED, "data type '%.60s'", name);
    return document_set_dtype(array, dtype, true, err);
}

static enum status parse_grid(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *grid, *configuration, *extents;
    const char *name;

    if (!json_object_object_get_ex(root, "chunk_grid", &grid))
        return error_set(err, STATUS_CORRUPT, "'chunk_grid' is missing");
    enum status status = document_named(grid, "chunk_grid", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    if (strcmp(name, "regular") != 0)
        return error_set(err, STATUS_UNSUPPORTED, "chunk grid '%.60s' (only regular)", name);
    status = document_member(configuration, "chunk_shape", json_type_array, &extents, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'chunk_grid': ");
    return document_chunk_shape(extents, array, err);
}

static enum status parse_keys(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *encoding, *configuration, *separator;
    const char *name;

    if (!json_object_object_get_ex(root, "chunk_key_encoding", &encoding))
        return error_set(err, STATUS_CORRUPT, "'chunk_key_encoding' is missing");
    enum status status = document_named(encoding, "chunk_key_encoding", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    if (strcmp(name, "default") == 0) {
        array->key_prefixed = true;
        array->key_separator = '/';
    } else if (strcmp(name, "v2") == 0) {
        array->key_prefixed = false;
        array->key_separator = '.';
    } else {
        return error_set(err, STATUS_UNSUPPORTED, "chunk key encoding '%.60s'", name);
    }
    if (!json_object_object_get_ex(configuration, "separator", &separator))
        return STATUS_OK;
    return document_separator(separator, &array->key_separator, err);
}

/* The array -> bytes codec. Without "endian" it can only be meant for items of one byte. */
static enum status parse_bytes_codec(struct json_object *configuration, struct zarr_array *array,
                                     struct error *err)
{
    struct json_object *endian = NULL;

    if (!json_object_object_get_ex(configuration, "endian", &endian) || !endian) {
        if (array->item_bytes == 1)
            return STATUS_OK;
        return error_set(err, STATUS_CORRUPT, "codec 'bytes' lacks 'endian', which %s needs",
                         dtype_name(array->dtype));
    }
    const char *text =
        json_object_is_type(endian, json_type_string) ? json_object_get_string(endian) : "";
    bool is_little = strcmp(text, "little") == 0;
    if (!is_little && strcmp(text, "big") != 0)
        return error_set(err, STATUS_CORRUPT, "codec 'bytes': 'endian' is neither little nor big");
    return document_set_dtype(array, array->dtype, is_little, err);
}

static enum status parse_codec(struct json_object *value, bool *has_bytes, struct zarr_array *array,
                               struct error *err)
{
    struct json_object *configuration;
    const char *name;
    enum status status = document_named(value, "codecs", &name, &configuration, err);

    if (status != STATUS_OK)
        return status;
    if (strcmp(name, "bytes") == 0) {
        if (*has_bytes)
            return error_set(err, STATUS_CORRUPT, "codec 'bytes' stands twice");
        *has_bytes = true;
        return parse_bytes_codec(configuration, array, err);
    }
    if (*has_bytes)
        return codec_chain_add(&array->codecs, CODEC_ZARR_V3, name, configuration,
                               array->item_bytes, err);
    return error_set(err, STATUS_UNSUPPORTED, "codec '%.60s'%s", name,
                     strcmp(name, "sharding_indexed") == 0 ? "" : " before 'bytes'");
}

static enum status parse_codecs(struct json_object *root, struct zarr_array *array,
                                struct error *err)
{
    struct json_object *list;
    bool has_bytes = false;
    enum status status = document_member(root, "codecs", json_type_array, &list, err);

    for (size_t i = 0; status == STATUS_OK && i < json_object_array_length(list); i++)
        status = parse_codec(json_object_array_get_idx(list, i), &has_bytes, array, err);
    if (status == STATUS_OK && !has_bytes)
        return error_set(err, STATUS_CORRUPT, "'codecs' has no codec from array to bytes");
    return status;
}

static enum status check_node_type(struct json_object *root, struct error *err)
{
    struct json_object *type;
    enum status status = document_member(root, "node_type", json_type_string, &type, err);

    if (status == STATUS_OK && strcmp(json_object_get_string(type), "array") != 0)
        return error_set(err, STATUS_CORRUPT, "'node_type' is '%.40s', expected 'array'",
                         json_object_get_string(type));
    return status;
}

enum status metadata_v3_parse(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *fill = NULL;
    enum status status = document_expect(root, "zarr_format", ZARR_V3, err);

    if (status == STATUS_OK)
        status = check_node_type(root, err);
    if (status == STATUS_OK)
        status = document_shape(root, array, err);
    if (status == STATUS_OK)
        status = parse_dtype(root, array, err);
    if (status == STATUS_OK)
        status = parse_grid(root, array, err);
    if (status == STATUS_OK)
        status = parse_codecs(root, array, err);
    if (status == STATUS_OK)
        status = parse_keys(root, array, err);
    if (status == STATUS_OK)
        status = refuse_transformers(root, err);
    if (status == STATUS_OK)
        status = refuse_unknown_members(root, err);
    if (status != STATUS_OK)
        return status;
    if (!json_object_object_get_ex(root, "fill_value", &fill))
        return error_set(err, STATUS_CORRUPT, "'fill_value' is missing");
    return fill_parse(ZARR_V3, array->dtype, fill, array->fill, err);
}
