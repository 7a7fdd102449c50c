/* Arrays of values of variable length: each item of the array is a string, a byte string or an
 * array of its own. Such an array is no array of items of one size, and readers of chunks refuse
 * it; see zarr_array.vlen. The rest of its document is that of an array of the values' items, and
 * is parsed as such. */
#include "zarr/metadata/document.h"

#include <json-c/json.h>
#include <string.h>

static const char *text_of(struct json_object *value)
{
    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
}

static bool is_vlen_codec(const char *name)
{
    return strcmp(name, "vlen-utf8") == 0 || strcmp(name, "vlen-bytes") == 0 ||
           strcmp(name, "vlen-array") == 0;
}

/* Of a missing chunk. */
static bool is_empty_fill(struct json_object *fill)
{
    return !fill ||
           (json_object_is_type(fill, json_type_int) && json_object_get_int64(fill) == 0) ||
           (json_object_is_type(fill, json_type_string) && json_object_get_string_len(fill) == 0) ||
           (json_object_is_type(fill, json_type_array) && json_object_array_length(fill) == 0);
}

/* dtype "|O", and one filter. */
static bool become_items_v2(struct json_object *root, char ret_codec[ZARR_TYPE_BYTES])
{
    struct json_object *value, *filters, *id, *items = NULL;
    if (!json_object_object_get_ex(root, "dtype", &value) || strcmp(text_of(value), "|O") != 0 ||
        !json_object_object_get_ex(root, "filters", &filters) ||
        !json_object_is_type(filters, json_type_array) || json_object_array_length(filters) != 1)
        return false;
    struct json_object *filter = json_object_array_get_idx(filters, 0);
    if (!json_object_is_type(filter, json_type_object) ||
        !json_object_object_get_ex(filter, "id", &id) || !is_vlen_codec(text_of(id)))
        return false;
    strcpy(ret_codec, text_of(id));
    if (strcmp(ret_codec, "vlen-array") == 0 &&
        (!json_object_object_get_ex(filter, "dtype", &items) || !text_of(items)[0]))
        return false;
    json_object_object_add(root, "dtype", json_object_new_string(items ? text_of(items) : "|u1"));
    json_object_object_add(root, "filters", NULL);
    return true;
}

/* The codecs that decode to values: the list itself, or those of its shards' inner chunks. NULL:
 * no list of codecs. */
static struct json_object *innermost_codecs(struct json_object *list)
{
    struct json_object *configuration;
    const char *name;
    for (int level = 0; level <= ZARR_MAX_SHARD_LEVELS; level++) {
        if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) == 0 ||
            document_named(json_object_array_get_idx(list, 0), "codecs", &name, &configuration,
                           NULL) != STATUS_OK)
            return NULL;
        if (strcmp(name, "sharding_indexed") != 0)
            return list;
        if (!json_object_object_get_ex(configuration, "codecs", &list))
            return NULL;
    }
    return NULL;
}

/* data_type "string" or "bytes" (as zarr-python names it, or named it), and its codec first, of
 * inner chunks where there are shards. */
static bool become_items_v3(struct json_object *root, char ret_codec[ZARR_TYPE_BYTES])
{
    struct json_object *type, *codecs, *configuration, *bytes;
    const char *type_name, *name;
    if (!json_object_object_get_ex(root, "data_type", &type) ||
        document_named(type, "data_type", &type_name, &configuration, NULL) != STATUS_OK ||
        !json_object_object_get_ex(root, "codecs", &codecs) ||
        !(codecs = innermost_codecs(codecs)) ||
        document_named(json_object_array_get_idx(codecs, 0), "codecs", &name, &configuration,
                       NULL) != STATUS_OK)
        return false;
    bool is_string = strcmp(type_name, "string") == 0 && strcmp(name, "vlen-utf8") == 0;
    bool is_bytes =
        (strcmp(type_name, "bytes") == 0 || strcmp(type_name, "variable_length_bytes") == 0) &&
        strcmp(name, "vlen-bytes") == 0;
    if (!is_string && !is_bytes)
        return false;
    strcpy(ret_codec, name);
    bytes = json_object_new_object();
    json_object_object_add(bytes, "name", json_object_new_string("bytes"));
    json_object_array_put_idx(codecs, 0, bytes);
    json_object_object_add(root, "data_type", json_object_new_string("uint8"));
    return true;
}

static enum status check(const struct zarr_array *array, struct error *err)
{
    if (array->rank != 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%d dimensions of values of variable length: only one is read",
                         array->rank);
    if (array->last_lengths[0] > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "chunk grid 'rectilinear' whose last chunk is shorter, of values of "
                         "variable length: write the array with a regular grid");
    if (array->item_length > 0 || array->member_count > 0 || array->byte_swapped)
        return error_set(err, STATUS_UNSUPPORTED,
                         "arrays of variable length are read where their items are numbers in the "
                         "byte order of this machine");
    return STATUS_OK;
}

enum status metadata_vlen_parse(struct json_object *root, bool *ret_is_vlen,
                                struct zarr_array *array, struct error *err)
{
    struct json_object *fill = NULL;
    char codec[ZARR_TYPE_BYTES];
    *ret_is_vlen =
        array->format == ZARR_V2 ? become_items_v2(root, codec) : become_items_v3(root, codec);
    if (!*ret_is_vlen)
        return STATUS_OK;
    json_object_object_get_ex(root, "fill_value", &fill);
    array->vlen_has_fill = !is_empty_fill(fill);
    json_object_object_add(root, "fill_value", json_object_new_int(0));
    enum status status = array->format == ZARR_V2 ? metadata_v2_parse(root, array, err)
                                                  : metadata_v3_parse(root, array, err);
    if (status == STATUS_OK)
        status = check(array, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "codec '%s': ", codec);
    strcpy(array->stored_type, codec);
    array->is_vlen = true;
    if (array->is_empty)
        return error_prefix(err, document_refuse_empty(array, err), "codec '%s': ", codec);
    if (array->is_scalar)
        return error_set(err, STATUS_UNSUPPORTED,
                         "zero-dimensional, with codec '%s': no run reads such a value", codec);
    return error_set(
        err, STATUS_UNSUPPORTED,
        "codec '%s' has values of variable length, which are read only as a field that "
        "dataset.fields names",
        codec);
}
