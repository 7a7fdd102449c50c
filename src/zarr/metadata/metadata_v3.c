/* Zarr v3 `zarr.json` documents of arrays; what they say of dtypes and codecs is read in
 * metadata_v3_dtype.c and metadata_v3_codecs.c.
 *
 * The v3 rule for extensions: a member that a reader does not know must stop it, unless the member
 * is an object that says "must_understand": false. Pure.
 */
#include "zarr/metadata/document.h"
#include "zarr/metadata/item.h"

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

/* "dimension_names": null, or for each axis a name or null. */
static enum status check_names(struct json_object *root, const struct zarr_array *array,
                               struct error *err)
{
    struct json_object *list;
    if (!json_object_object_get_ex(root, "dimension_names", &list) || !list)
        return STATUS_OK;
    if (!json_object_is_type(list, json_type_array))
        return error_set(err, STATUS_CORRUPT, "'dimension_names' is not a list");
    size_t count = json_object_array_length(list);
    if (count != (array->is_scalar ? 0 : (size_t)array->rank))
        return error_set(err, STATUS_CORRUPT, "'dimension_names' has %zu names for %d axes", count,
                         array->rank);
    for (size_t i = 0; i < count; i++) {
        struct json_object *name = json_object_array_get_idx(list, i);
        if (name && !json_object_is_type(name, json_type_string))
            return error_set(err, STATUS_CORRUPT,
                             "'dimension_names' axis %zu is neither a name nor null", i);
    }
    return STATUS_OK;
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
        status = metadata_v3_dtype(root, array, err);
    if (status == STATUS_OK)
        status = metadata_v3_grid(root, array, err);
    if (status == STATUS_OK)
        status = metadata_v3_codecs(root, array, err);
    if (status == STATUS_OK)
        status = parse_keys(root, array, err);
    if (status == STATUS_OK)
        status = check_names(root, array, err);
    if (status == STATUS_OK)
        status = refuse_transformers(root, err);
    if (status == STATUS_OK)
        status = refuse_unknown_members(root, err);
    if (status != STATUS_OK)
        return status;
    if (!json_object_object_get_ex(root, "fill_value", &fill))
        return error_set(err, STATUS_CORRUPT, "'fill_value' is missing");
    if (array->stored_type[0] == 'r')
        return metadata_v3_raw_fill(fill, array, err);
    return item_parse_fill(fill, array, err);
}
