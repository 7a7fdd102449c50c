/* Zarr v2 `.zarray` documents. Unknown members are ignored, as the v2 specification wants. Pure. */
#include "zarr/document.h"

#include <ctype.h>
#include <string.h>

/* "<f2", "|u1", ">c16": byte order, kind, bytes of an item. */
struct type_text {
    const char *kind_and_bytes;
    enum dtype dtype;
};

static const struct type_text type_texts[] = {
    {"b1", DTYPE_BOOL},      {"i1", DTYPE_INT8},        {"i2", DTYPE_INT16},
    {"i4", DTYPE_INT32},     {"i8", DTYPE_INT64},       {"u1", DTYPE_UINT8},
    {"u2", DTYPE_UINT16},    {"u4", DTYPE_UINT32},      {"u8", DTYPE_UINT64},
    {"f2", DTYPE_FLOAT16},   {"f4", DTYPE_FLOAT32},     {"f8", DTYPE_FLOAT64},
    {"c8", DTYPE_COMPLEX64}, {"c16", DTYPE_COMPLEX128},
};

static enum dtype type_by_text(const char *kind_and_bytes)
{
    for (size_t i = 0; i < sizeof type_texts / sizeof type_texts[0]; i++)
        if (strcmp(kind_and_bytes, type_texts[i].kind_and_bytes) == 0)
            return type_texts[i].dtype;
    return DTYPE_NONE;
}

static enum status refuse_dtype(const char *text, struct error *err)
{
    static const struct {
        char kind;
        const char *name;
    } kinds[] = {{'m', "timedelta"},      {'M', "datetime"},          {'S', "bytes string"},
                 {'U', "unicode string"}, {'V', "raw or structured"}, {'O', "object"}};

    for (size_t i = 0; text[0] != '\0' && i < sizeof kinds / sizeof kinds[0]; i++)
        if (text[1] == kinds[i].kind)
            return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s' (%s)", text, kinds[i].name);
    return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s'", text);
}

static enum status parse_dtype(struct json_object *root, struct zarr_array *array,
                               struct error *err)
{
    struct json_object *value;

    if (!json_object_object_get_ex(root, "dtype", &value))
        return error_set(err, STATUS_CORRUPT, "'dtype' is missing");
    if (json_object_is_type(value, json_type_array))
        return error_set(err, STATUS_UNSUPPORTED, "structured dtype");
    if (!json_object_is_type(value, json_type_string))
        return error_set(err, STATUS_CORRUPT, "'dtype' is not a string");

    const char *text = json_object_get_string(value);
    if (strcmp(text, "bfloat16") == 0) /* as TensorStore writes it */
        return document_set_dtype(array, DTYPE_BFLOAT16, true, err);
    bool has_order = text[0] != '\0' && strchr("<>|", text[0]) != NULL;
    enum dtype dtype = has_order ? type_by_text(text + 1) : DTYPE_NONE;
    if (dtype == DTYPE_NONE)
        return refuse_dtype(text, err);
    if (text[0] == '|' && dtype_swap_bytes(dtype) > 1)
        return error_set(err, STATUS_CORRUPT, "dtype '%s' does not say its byte order", text);
    return document_set_dtype(array, dtype, text[0] != '>', err);
}

static enum status refuse_filters(struct json_object *root, struct error *err)
{
    struct json_object *filters, *first, *id;

    if (!json_object_object_get_ex(root, "filters", &filters) || !filters)
        return STATUS_OK;
    if (!json_object_is_type(filters, json_type_array))
        return error_set(err, STATUS_CORRUPT, "'filters' is neither null nor a list");
    if (json_object_array_length(filters) == 0)
        return STATUS_OK;
    first = json_object_array_get_idx(filters, 0);
    if (json_object_is_type(first, json_type_object) &&
        json_object_object_get_ex(first, "id", &id) && json_object_is_type(id, json_type_string))
        return error_set(err, STATUS_UNSUPPORTED, "filter '%.40s'", json_object_get_string(id));
    return error_set(err, STATUS_CORRUPT, "'filters' holds something that is not a filter");
}

/* Column-major order is the same as row-major for one dimension, and written so by some. */
static enum status check_order(struct json_object *root, const struct zarr_array *array,
                               struct error *err)
{
    struct json_object *value;
    enum status status = document_member(root, "order", json_type_string, &value, err);

    if (status != STATUS_OK)
        return status;
    const char *order = json_object_get_string(value);
    if (strcmp(order, "C") == 0 || (strcmp(order, "F") == 0 && array->rank == 1))
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "order '%.40s' (only C)", order);
}

static enum status parse_compressor(struct json_object *root, struct zarr_array *array,
                                    struct error *err)
{
    struct json_object *compressor, *id;
    enum status status;

    if (!json_object_object_get_ex(root, "compressor", &compressor))
        return error_set(err, STATUS_CORRUPT, "'compressor' is missing");
    if (!compressor)
        return STATUS_OK;
    if (!json_object_is_type(compressor, json_type_object))
        return error_set(err, STATUS_CORRUPT, "'compressor' is neither null nor an object");
    status = document_member(compressor, "id", json_type_string, &id, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'compressor': ");
    return codec_chain_add(&array->codecs, CODEC_ZARR_V2, json_object_get_string(id), compressor,
                           array->item_bytes, err);
}

static enum status parse_keys(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *separator;

    array->key_prefixed = false;
    array->key_separator = '.';
    if (!json_object_object_get_ex(root, "dimension_separator", &separator) || !separator)
        return STATUS_OK;
    return document_separator(separator, &array->key_separator, err);
}

enum status metadata_v2_parse(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *chunks, *fill = NULL;
    enum status status = document_expect(root, "zarr_format", ZARR_V2, err);

    if (status == STATUS_OK)
        status = document_shape(root, array, err);
    if (status == STATUS_OK)
        status = parse_dtype(root, array, err);
    if (status == STATUS_OK)
        status = document_member(root, "chunks", json_type_array, &chunks, err);
    if (status == STATUS_OK)
        status = document_chunk_shape(chunks, array, err);
    if (status == STATUS_OK)
        status = check_order(root, array, err);
    if (status == STATUS_OK)
        status = refuse_filters(root, err);
    if (status == STATUS_OK)
        status = parse_compressor(root, array, err);
    if (status == STATUS_OK)
        status = parse_keys(root, array, err);
    if (status != STATUS_OK)
        return status;
    json_object_object_get_ex(root, "fill_value", &fill);
    return fill_parse(ZARR_V2, array->dtype, fill, array->fill, err);
}
