/* Zarr v2 `.zarray` documents. Unknown members are ignored, as the v2 specification wants. Pure. */
#include "zarr/metadata/document.h"
#include "zarr/metadata/item.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* Structured dtypes: [["x", "<f4"], ["pos", "<f8", [3]], ...], without gaps but for members
 * without a name
 * ------------------------------------------------------------------------------------------- */

/* The shape of a sub-array, of which only the number of values counts here. */
static enum status parse_sub_array(struct json_object *shape, const char *name, struct item *item,
                                   struct error *err)
{
    size_t rank = json_object_is_type(shape, json_type_array) ? json_object_array_length(shape) : 0;
    uint64_t count = 1;
    if (item->length > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "structured dtype: member '%.40s' is a sub-array of strings", name);
    if (rank == 0)
        return error_set(err, STATUS_CORRUPT,
                         "structured dtype: the shape of member '%.40s' is not a list", name);
    for (size_t i = 0; i < rank; i++) {
        struct json_object *length = json_object_array_get_idx(shape, i);
        int64_t value =
            json_object_is_type(length, json_type_int) ? json_object_get_int64(length) : 0;
        if (value <= 0)
            return error_set(err, STATUS_CORRUPT,
                             "structured dtype: member '%.40s': axis %zu of its shape is not "
                             "a positive number",
                             name, i);
        if (!size_multiply(count, (uint64_t)value, &count) ||
            count > ZARR_MAX_ITEM_BYTES / item->bytes)
            return item_too_long(name, err);
    }
    item->length = count;
    item->bytes *= count;
    return STATUS_OK;
}

static enum status parse_member(struct json_object *json, const char **ret_name,
                                struct item *ret_item, struct error *err)
{
    size_t length = json_object_is_type(json, json_type_array) ? json_object_array_length(json) : 0;
    struct json_object *name = length > 0 ? json_object_array_get_idx(json, 0) : NULL;
    struct json_object *type = length > 1 ? json_object_array_get_idx(json, 1) : NULL;
    if (length < 2 || length > 3 || !json_object_is_type(name, json_type_string))
        return error_set(err, STATUS_CORRUPT,
                         "structured dtype: a member is not a list of name and type");
    enum status status = structure_member_name(name, ret_name, err);
    if (status != STATUS_OK)
        return status;
    if (json_object_is_type(type, json_type_array))
        return error_set(err, STATUS_UNSUPPORTED, "structured dtype within another: member '%.40s'",
                         *ret_name);
    if (!json_object_is_type(type, json_type_string))
        return error_set(err, STATUS_CORRUPT, "structured dtype: member '%.40s' has no type",
                         *ret_name);
    status = item_by_text(json_object_get_string(type), ret_item, err);
    if (status == STATUS_OK && length == 3)
        return parse_sub_array(json_object_array_get_idx(json, 2), *ret_name, ret_item, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "structured dtype: member '%.40s': ", *ret_name);
    return STATUS_OK;
}

static enum status parse_structure(struct json_object *members, struct zarr_array *array,
                                   struct error *err)
{
    struct structure structure = {0};
    for (size_t i = 0; i < json_object_array_length(members); i++) {
        struct item item;
        const char *name;
        enum status status = parse_member(json_object_array_get_idx(members, i), &name, &item, err);
        if (status == STATUS_OK)
            status = structure_add(&structure, array, name, &item, err);
        if (status != STATUS_OK)
            return status;
    }
    return structure_settle(&structure, array, err);
}

/* Objects need a codec of their own, which is what to name. */
static enum status refuse_objects(struct json_object *root, enum status status, struct error *err)
{
    struct json_object *filters, *id;
    json_object_object_get_ex(root, "filters", &filters);
    if (!json_object_is_type(filters, json_type_array) || json_object_array_length(filters) == 0)
        return status;
    struct json_object *filter = json_object_array_get_idx(filters, 0);
    if (!json_object_is_type(filter, json_type_object) ||
        !json_object_object_get_ex(filter, "id", &id))
        return status;
    struct codec_chain chain = {0};
    enum status refused =
        codec_chain_add(&chain, CODEC_ZARR_V2, json_object_get_string(id), filter, 1, err);
    if (refused == STATUS_OK)
        return error_set(err, status, "dtype '|O' (Python objects)");
    return error_prefix(err, refused, "dtype '|O' (Python objects): ");
}

static enum status parse_dtype(struct json_object *root, struct zarr_array *array,
                               struct error *err)
{
    struct json_object *value;
    struct item item;
    if (!json_object_object_get_ex(root, "dtype", &value))
        return error_set(err, STATUS_CORRUPT, "'dtype' is missing");
    if (json_object_is_type(value, json_type_array))
        return parse_structure(value, array, err);
    if (!json_object_is_type(value, json_type_string))
        return error_set(err, STATUS_CORRUPT, "'dtype' is not a string");

    const char *text = json_object_get_string(value);
    if (strcmp(text, "bfloat16") == 0) /* as TensorStore writes it, and small floats */
        return document_set_dtype(array, DTYPE_BFLOAT16, true, err);
    if (item_by_small_name(text, &item))
        return item_set(array, &item, item.bytes, 0, err);
    enum status status = item_by_text(text, &item, err);
    if (status != STATUS_OK)
        return text[0] && text[1] == 'O' ? refuse_objects(root, status, err) : status;
    return item_set(array, &item, item.bytes, 0, err);
}

/* Order and codecs
 * --------------------------------------------------------------------------------- */

static enum status parse_order(struct json_object *root, struct zarr_array *array,
                               struct error *err)
{
    struct json_object *value;
    enum status status = document_member(root, "order", json_type_string, &value, err);
    if (status != STATUS_OK)
        return status;
    const char *order = json_object_get_string(value);
    if (strcmp(order, "F") == 0)
        for (int i = 0; i < array->rank; i++)
            array->storage_axes[i] = (uint8_t)(array->rank - 1 - i);
    else if (strcmp(order, "C") != 0)
        return error_set(err, STATUS_CORRUPT, "order '%.40s' is neither C nor F", order);
    return STATUS_OK;
}

/* {"id": name, ...} */
static enum status add_codec(struct json_object *codec, const char *what, struct zarr_array *array,
                             struct error *err)
{
    struct json_object *id;
    enum status status;
    if (!json_object_is_type(codec, json_type_object))
        return error_set(err, STATUS_CORRUPT, "'%s' holds something that is not a codec", what);
    status = document_member(codec, "id", json_type_string, &id, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'%s': ", what);
    return codec_chain_add(&array->codecs, CODEC_ZARR_V2, json_object_get_string(id), codec,
                           array->stored_item_bytes, err);
}

static enum status parse_filters(struct json_object *root, struct zarr_array *array,
                                 struct error *err)
{
    struct json_object *filters;
    enum status status = STATUS_OK;
    if (!json_object_object_get_ex(root, "filters", &filters) || !filters)
        return STATUS_OK;
    if (!json_object_is_type(filters, json_type_array))
        return error_set(err, STATUS_CORRUPT, "'filters' is neither null nor a list");
    for (size_t i = 0; status == STATUS_OK && i < json_object_array_length(filters); i++)
        status = add_codec(json_object_array_get_idx(filters, i), "filters", array, err);
    return status;
}

static enum status parse_codecs(struct json_object *root, struct zarr_array *array,
                                struct error *err)
{
    struct json_object *compressor;
    enum status status = parse_filters(root, array, err);
    if (status != STATUS_OK)
        return status;
    if (!json_object_object_get_ex(root, "compressor", &compressor))
        return error_set(err, STATUS_CORRUPT, "'compressor' is missing");
    if (compressor && !json_object_is_type(compressor, json_type_object))
        return error_set(err, STATUS_CORRUPT, "'compressor' is neither null nor an object");
    if (compressor)
        status = add_codec(compressor, "compressor", array, err);
    if (status == STATUS_OK)
        status = document_settle_codecs(array, err);
    return status;
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

static enum status parse_fill(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(root, "fill_value", &value);
    return item_parse_fill(value, array, err);
}

enum status metadata_v2_parse(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *chunks;
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
        status = parse_order(root, array, err);
    if (status == STATUS_OK)
        status = parse_codecs(root, array, err);
    if (status == STATUS_OK)
        status = parse_keys(root, array, err);
    if (status == STATUS_OK)
        status = parse_fill(root, array, err);
    return status;
}
