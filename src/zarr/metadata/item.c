/* See item.h. */
#include "zarr/metadata/item.h"

#include "base/convert.h"
#include "base/size.h"
#include "base/text.h"
#include "zarr/metadata/document.h"
#include "zarr/metadata/small_item.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MEMBERS = 256 }; /* of a structured dtype */

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
    bool is_time = strncmp(kind_and_bytes, "M8", 2) == 0 || strncmp(kind_and_bytes, "m8", 2) == 0;
    return is_time && text_is_plain(kind_and_bytes) ? DTYPE_INT64 : DTYPE_NONE;
}

/* The values of which strings and raw bytes consist. */
static enum dtype unit_of(char kind)
{
    return kind == 'U' ? DTYPE_UINT32 : kind == 'S' || kind == 'V' ? DTYPE_UINT8 : DTYPE_NONE;
}

enum status item_too_long(const char *text, struct error *err)
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
    item->length = strtoull(digits, NULL, 10);
    if (item->length == 0)
        return error_set(err, STATUS_UNSUPPORTED, "dtype '%.40s' (items without bytes)", text);
    if (item->length > ZARR_MAX_ITEM_BYTES / dtype_bytes(item->dtype))
        return item_too_long(text, err);
    item->bytes = item->length * dtype_bytes(item->dtype);
    return STATUS_OK;
}

enum status item_by_text(const char *text, struct item *ret_item, struct error *err)
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

bool item_by_small_name(const char *name, struct item *ret_item)
{
    struct item item = {.dtype = DTYPE_UINT8, .bytes = 1, .little_endian = true};
    if (!small_item_is_named(name))
        return false;
    strcpy(item.text, name); /* one of the known names */
    *ret_item = item;
    return true;
}

enum status item_set(struct zarr_array *array, const struct item *item, size_t record_bytes,
                     size_t offset, struct error *err)
{
    enum status status = document_set_dtype(array, item->dtype, item->little_endian, err);
    if (status != STATUS_OK)
        return status;
    if (item->length > 0 &&
        (!size_multiply(array->total_bytes, item->length, &array->total_bytes) ||
         array->total_bytes > INT64_MAX)) {
        array->total_bytes = 0;
        return error_set(err, STATUS_CORRUPT,
                         "'shape' overflows: the array's size does not fit 63 bits");
    }
    array->item_length = item->length;
    array->item_bytes = item->bytes;
    array->stored_item_bytes = record_bytes;
    array->item_offset = offset;
    memcpy(array->stored_type, item->text, sizeof item->text);
    return STATUS_OK;
}

/* Structured dtypes
 * ------------------------------------------------------------------------------------------- */

enum status structure_member_name(struct json_object *json, const char **ret_name,
                                  struct error *err)
{
    const char *name = json_object_get_string(json);
    size_t length = (size_t)json_object_get_string_len(json);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f || name[i] == '/')
            return error_set(err, STATUS_CORRUPT,
                             "structured dtype: the name of a member holds a control character or "
                             "'/'");
    if (length > 0 && strspn(name, ".") == length)
        return error_set(err, STATUS_CORRUPT,
                         "structured dtype: '%.40s' is not a name for a member", name);
    *ret_name = name;
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

enum status structure_add(struct structure *structure, const struct zarr_array *array,
                          const char *name, const struct item *item, struct error *err)
{
    if (name[0] != '\0' && structure->member_count++ == array->member_index) {
        structure->wanted = *item;
        structure->wanted_name = name;
        structure->offset = structure->record_bytes;
    }
    structure->record_bytes += item->bytes;
    if (structure->member_count > MAX_MEMBERS)
        return error_set(err, STATUS_UNSUPPORTED,
                         "structured dtype of more than %d members, which is the limit",
                         MAX_MEMBERS);
    return STATUS_OK;
}

enum status structure_settle(const struct structure *structure, struct zarr_array *array,
                             struct error *err)
{
    if (!structure->wanted_name)
        return error_set(err, STATUS_CORRUPT, "structured dtype without member %zu",
                         array->member_index);
    enum status status = append_member(array, structure->wanted_name, err);
    if (status == STATUS_OK)
        status =
            item_set(array, &structure->wanted, structure->record_bytes, structure->offset, err);
    if (status == STATUS_OK)
        array->member_count = structure->member_count;
    return status;
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
        return fill_parse(array->format, array->dtype, value, array->fill, err);
    memcpy(array->fill, &not_a_time, sizeof not_a_time);
    return STATUS_OK;
}

static enum status parse_small_item(struct json_object *value, struct zarr_array *array,
                                    struct error *err)
{
    if (small_item_parse(array->stored_type, value, array->fill))
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT, "'fill_value' %.60s is not a value of type %s",
                     json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
                     array->stored_type);
}

/* A record in base64, or the item's part of it. */
static enum status parse_record(struct json_object *value, struct zarr_array *array,
                                size_t record_bytes, size_t offset, struct error *err)
{
    enum status status =
        fill_parse_record(value, record_bytes, offset, array->item_bytes, array->fill, err);
    if (status == STATUS_OK && array->byte_swapped)
        convert_swap(array->fill, array->item_bytes, dtype_swap_bytes(array->dtype));
    return status;
}

static enum status parse_alone(struct json_object *value, struct zarr_array *array,
                               struct error *err)
{
    char kind = array->stored_type[0] ? array->stored_type[1] : '\0';
    if (kind == 'S' || kind == 'V')
        return parse_record(value, array, array->item_bytes, 0, err);
    if (small_item_is_named(array->stored_type))
        return parse_small_item(value, array, err);
    if (kind == 'U')
        return fill_parse_unicode(value, array->item_length, array->fill, err);
    if (kind == 'M' || kind == 'm')
        return parse_date(value, array, err);
    return fill_parse(array->format, array->dtype, value, array->fill, err);
}

/* v3's 'struct': {"x": 0, "y": "NaN"}. */
static enum status parse_member_fill(struct json_object *map, struct zarr_array *array,
                                     struct error *err)
{
    const char *name = array->path + array->key_path_bytes + (array->key_path_bytes > 0);
    struct json_object *value;
    if (!json_object_object_get_ex(map, name, &value))
        return error_set(err, STATUS_CORRUPT, "'fill_value' has no '%.40s'", name);
    return parse_alone(value, array, err);
}

enum status item_parse_fill(struct json_object *value, struct zarr_array *array, struct error *err)
{
    if (array->member_count > 0 && json_object_is_type(value, json_type_object))
        return parse_member_fill(value, array, err);
    if (array->member_count == 0)
        return parse_alone(value, array, err);
    return parse_record(value, array, array->stored_item_bytes, array->item_offset, err);
}
