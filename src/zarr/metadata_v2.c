/* Zarr v2 `.zarray` documents. Unknown members are ignored, as the v2 specification wants. Pure.
 *
 * dtypes are NumPy's texts. What has no dtype here comes as what it is made of: dates and durations
 * as int64, strings and raw bytes as uint8, unicode strings as uint32 code points. A structured
 * dtype makes an array of each member.
 */
#include "zarr/document.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MEMBERS = 256 }; /* of a structured dtype */

/* What an item is, as the text of a dtype says. */
struct item {
    enum dtype dtype;
    uint64_t extent; /* as in struct zarr_array */
    size_t bytes;
    bool little_endian;
    char kind;                  /* NumPy's: 'f', 'S', 'M' */
    char text[ZARR_TYPE_BYTES]; /* "" where `dtype` says it all */
};

/* dtypes
 * ------------------------------------------------------------------------------------------- */

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
    return strncmp(kind_and_bytes, "M8", 2) == 0 || strncmp(kind_and_bytes, "m8", 2) == 0
               ? DTYPE_INT64
               : DTYPE_NONE;
}

/* The values of which strings and raw bytes consist. */
static enum dtype unit_of(char kind)
{
    return kind == 'U' ? DTYPE_UINT32 : kind == 'S' || kind == 'V' ? DTYPE_UINT8 : DTYPE_NONE;
}

static enum status too_long(const char *text, struct error *err)
{
    return error_set(err, STATUS_UNSUPPORTED,
                     "dtype '%.40s': an item takes more than %d bytes, which is the limit", text,
                     ZARR_MAX_ITEM_BYTES);
}

/* "S10", "U4", "V8" behind the byte order. */
static enum status parse_string(const char *text, struct item *item, struct error *err)
{
    const char *digits = text + 2;

    if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s'", text);
    item->dtype = unit_of(item->kind);
    item->extent = strtoull(digits, NULL, 10);
    if (item->extent == 0)
        return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s' (items without bytes)", text);
    if (item->extent > ZARR_MAX_ITEM_BYTES / dtype_bytes(item->dtype))
        return too_long(text, err);
    item->bytes = item->extent * dtype_bytes(item->dtype);
    return STATUS_OK;
}

/* Any dtype but a structured one. */
static enum status parse_type(const char *text, struct item *ret_item, struct error *err)
{
    struct item item = {.little_endian = text[0] != '>'};
    bool has_order = text[0] != '\0' && strchr("<>|", text[0]);

    if (!has_order || text[1] == '\0')
        return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s'", text);
    item.kind = text[1];
    if (item.kind == 'O')
        return error_set(err, STATUS_UNSUPPORTED,
                         "dtype '%.40s' (Python objects): rewrite the array with a dtype of fixed "
                         "size",
                         text);
    if (unit_of(item.kind) != DTYPE_NONE) {
        enum status status = parse_string(text, &item, err);
        if (status != STATUS_OK)
            return status;
    } else {
        item.dtype = type_by_text(text + 1);
        item.bytes = dtype_bytes(item.dtype);
        if (item.dtype == DTYPE_NONE)
            return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s'", text);
    }
    if (text[0] == '|' && dtype_swap_bytes(item.dtype) > 1)
        return error_set(err, STATUS_CORRUPT, "dtype '%.40s' does not say its byte order", text);
    if (unit_of(item.kind) != DTYPE_NONE || strchr("mM", item.kind)) {
        size_t length = strlen(text);
        if (length >= sizeof item.text)
            return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s'", text);
        memcpy(item.text, text, length + 1);
    }
    *ret_item = item;
    return STATUS_OK;
}

/* Makes an item of the array's items: of records of `record_bytes`, what lies at `offset`. */
static enum status set_item(struct zarr_array *array, const struct item *item, size_t record_bytes,
                            size_t offset, struct error *err)
{
    enum status status = document_set_dtype(array, item->dtype, item->little_endian, err);

    if (status != STATUS_OK)
        return status;
    if (item->extent > 0 &&
        (!size_multiply(array->total_bytes, item->extent, &array->total_bytes) ||
         array->total_bytes > INT64_MAX)) {
        array->total_bytes = 0;
        return error_set(err, STATUS_CORRUPT,
                         "'shape' overflows: the array's size does not fit 63 bits");
    }
    array->item_extent = item->extent;
    array->item_bytes = item->bytes;
    array->stored_item_bytes = record_bytes;
    array->item_offset = offset;
    memcpy(array->stored_type, item->text, sizeof item->text);
    return STATUS_OK;
}

/* Structured dtypes: [["x", "<f4"], ["pos", "<f8", [3]], ...], without gaps but for members
 * without a name
 * ------------------------------------------------------------------------------------------- */

/* The shape of a sub-array, of which only the number of values counts here. */
static enum status parse_sub_array(struct json_object *shape, const char *name, struct item *item,
                                   struct error *err)
{
    size_t rank = json_object_is_type(shape, json_type_array) ? json_object_array_length(shape) : 0;
    uint64_t count = 1;

    if (item->extent > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "structured dtype: member '%.40s' is a sub-array of strings", name);
    if (rank == 0)
        return error_set(err, STATUS_CORRUPT,
                         "structured dtype: member '%.40s' has a shape that is no list", name);
    for (size_t i = 0; i < rank; i++) {
        struct json_object *extent = json_object_array_get_idx(shape, i);
        int64_t value =
            json_object_is_type(extent, json_type_int) ? json_object_get_int64(extent) : 0;

        if (value <= 0)
            return error_set(err, STATUS_CORRUPT,
                             "structured dtype: member '%.40s': axis %zu of its shape is no "
                             "positive number",
                             name, i);
        if (!size_multiply(count, (uint64_t)value, &count) ||
            count > ZARR_MAX_ITEM_BYTES / item->bytes)
            return too_long(name, err);
    }
    item->extent = count;
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
    *ret_name = json_object_get_string(name);
    if (json_object_is_type(type, json_type_array))
        return error_set(err, STATUS_UNSUPPORTED, "structured dtype within another: member '%.40s'",
                         *ret_name);
    if (!json_object_is_type(type, json_type_string))
        return error_set(err, STATUS_CORRUPT, "structured dtype: member '%.40s' has no type",
                         *ret_name);
    enum status status = parse_type(json_object_get_string(type), ret_item, err);
    if (status == STATUS_OK && length == 3)
        return parse_sub_array(json_object_array_get_idx(json, 2), *ret_name, ret_item, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "structured dtype: member '%.40s': ", *ret_name);
    return STATUS_OK;
}

/* "points" becomes "points.x"; the root becomes "x". */
static enum status append_member(struct zarr_array *array, const char *name, struct error *err)
{
    size_t end = array->key_path_bytes, length = strlen(name);

    if (end + 1 + length >= sizeof array->path)
        return error_set(err, STATUS_UNSUPPORTED,
                         "structured dtype: the path with member '%.40s' has more than %zu bytes",
                         name, sizeof array->path - 1);
    if (end > 0)
        array->path[end++] = '.';
    memcpy(array->path + end, name, length + 1);
    return STATUS_OK;
}

static enum status parse_structure(struct json_object *members, struct zarr_array *array,
                                   struct error *err)
{
    size_t record_bytes = 0, offset = 0, count = 0;
    const char *wanted_name = NULL;
    struct item wanted = {0};

    if (json_object_array_length(members) > MAX_MEMBERS)
        return error_set(err, STATUS_UNSUPPORTED,
                         "structured dtype of %zu members; the limit is %d",
                         json_object_array_length(members), MAX_MEMBERS);
    for (size_t i = 0; i < json_object_array_length(members); i++) {
        struct item item;
        const char *name;
        enum status status = parse_member(json_object_array_get_idx(members, i), &name, &item, err);

        if (status != STATUS_OK)
            return status;
        if (name[0] != '\0' && count++ == array->member_index) {
            wanted = item;
            wanted_name = name;
            offset = record_bytes;
        }
        record_bytes += item.bytes;
    }
    if (!wanted_name)
        return error_set(err, STATUS_CORRUPT, "structured dtype without member %zu",
                         array->member_index);
    enum status status = append_member(array, wanted_name, err);
    if (status == STATUS_OK)
        status = set_item(array, &wanted, record_bytes, offset, err);
    if (status == STATUS_OK)
        array->member_count = count;
    return status;
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
    if (strcmp(text, "bfloat16") == 0) /* as TensorStore writes it */
        return document_set_dtype(array, DTYPE_BFLOAT16, true, err);
    enum status status = parse_type(text, &item, err);
    if (status != STATUS_OK)
        return text[0] && text[1] == 'O' ? refuse_objects(root, status, err) : status;
    return set_item(array, &item, item.bytes, 0, err);
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
        status = codec_chain_check(&array->codecs, array->chunk_bytes, err);
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

/* The fill value
 * ----------------------------------------------------------------------------------- */

/* zarr-python writes the number; NaT's is the lowest, and its name stands for it. */
static enum status parse_date(struct json_object *value, struct zarr_array *array,
                              struct error *err)
{
    int64_t not_a_time = INT64_MIN;

    if (!json_object_is_type(value, json_type_string) ||
        strcmp(json_object_get_string(value), "NaT") != 0)
        return fill_parse(ZARR_V2, array->dtype, value, array->fill, err);
    memcpy(array->fill, &not_a_time, sizeof not_a_time);
    return STATUS_OK;
}

static enum status parse_fill(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *value = NULL;
    char kind = array->stored_type[0] ? array->stored_type[1] : '\0';
    bool is_record = array->member_count > 0 || kind == 'S' || kind == 'V';

    json_object_object_get_ex(root, "fill_value", &value);
    if (is_record) {
        enum status status = fill_parse_record(value, array->stored_item_bytes, array->item_offset,
                                               array->item_bytes, array->fill, err);
        if (status == STATUS_OK && array->byte_swapped)
            bytes_swap(array->fill, array->item_bytes, dtype_swap_bytes(array->dtype));
        return status;
    }
    if (kind == 'U')
        return fill_parse_unicode(value, array->item_extent, array->fill, err);
    if (kind == 'M' || kind == 'm')
        return parse_date(value, array, err);
    return fill_parse(ZARR_V2, array->dtype, value, array->fill, err);
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
