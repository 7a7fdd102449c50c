/* Data types of Zarr v3, by the specification's names and those of zarr-python. Pure. */
#include "zarr/metadata/document.h"
#include "zarr/metadata/item.h"

#include "base/size.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of other writers for types that we have: complex_float32 is complex64. */
static enum dtype dtype_by_alias(const char *name)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } aliases[] = {
        {"complex_float32", DTYPE_COMPLEX64},
        {"complex_float64", DTYPE_COMPLEX128},
    };
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(name, aliases[i].name) == 0)
            return aliases[i].dtype;
    return dtype_by_name(name);
}

/* Bytes of an item of raw type "r24": 3; 0 for other names. */
static size_t raw_bytes(const char *name)
{
    size_t digits = strspn(name + (name[0] == 'r'), "0123456789");
    unsigned long bits = strtoul(name + (name[0] == 'r'), NULL, 10);
    if (name[0] != 'r' || digits == 0 || digits > 5 || name[1 + digits] != '\0' || bits % 8 != 0 ||
        bits / 8 > ZARR_MAX_ITEM_BYTES)
        return 0;
    return bits / 8;
}

/* Items of so many bytes that mean nothing to us: bytes along one more axis. */
static enum status set_raw(struct zarr_array *array, size_t item_bytes, struct error *err)
{
    enum status status = document_set_dtype(array, DTYPE_UINT8, true, err);
    if (status != STATUS_OK)
        return status;
    if (!size_multiply(array->total_bytes, item_bytes, &array->total_bytes) ||
        array->total_bytes > INT64_MAX) {
        array->total_bytes = 0;
        return error_set(err, STATUS_CORRUPT,
                         "'shape' overflows: the array's size does not fit 63 bits");
    }
    array->item_length = array->item_bytes = array->stored_item_bytes = item_bytes;
    snprintf(array->stored_type, sizeof array->stored_type, "r%zu", 8 * item_bytes);
    return STATUS_OK;
}

enum status metadata_v3_raw_fill(struct json_object *value, struct zarr_array *array,
                                 struct error *err)
{
    if (!json_object_is_type(value, json_type_array) ||
        json_object_array_length(value) != array->item_bytes)
        return error_set(err, STATUS_CORRUPT, "'fill_value' is not a list of %zu bytes",
                         array->item_bytes);
    for (size_t i = 0; i < array->item_bytes; i++) {
        unsigned char item[DTYPE_MAX_BYTES];
        enum status status =
            fill_parse(ZARR_V3, DTYPE_UINT8, json_object_array_get_idx(value, i), item, err);
        if (status != STATUS_OK)
            return status;
        array->fill[i] = item[0];
    }
    return STATUS_OK;
}

/* "|S4": null_terminated_bytes with length_bytes 4. */
static enum status length_text(struct json_object *configuration, const char *letter,
                               int unit_bytes, char ret_text[ZARR_TYPE_BYTES], struct error *err)
{
    struct json_object *length;
    enum status status =
        document_member(configuration, "length_bytes", json_type_int, &length, err);
    if (status != STATUS_OK)
        return status;
    int64_t bytes = json_object_get_int64(length);
    if (bytes < 0 || bytes % unit_bytes != 0)
        return error_set(err, STATUS_CORRUPT, "'length_bytes' is %" PRId64, bytes);
    snprintf(ret_text, ZARR_TYPE_BYTES, "%s%" PRId64, letter, bytes / unit_bytes);
    return STATUS_OK;
}

/* "<M8[25s]": numpy.datetime64 with unit s and scale_factor 25. */
static enum status time_text(struct json_object *configuration, const char *letter,
                             char ret_text[ZARR_TYPE_BYTES], struct error *err)
{
    struct json_object *unit, *factor = NULL;
    enum status status = document_member(configuration, "unit", json_type_string, &unit, err);
    if (status != STATUS_OK)
        return status;
    const char *name = json_object_get_string(unit);
    bool scaled = json_object_object_get_ex(configuration, "scale_factor", &factor) &&
                  json_object_get_int64(factor) != 1;
    if (strcmp(name, "generic") == 0) {
        snprintf(ret_text, ZARR_TYPE_BYTES, "%s", letter);
        return STATUS_OK;
    }
    if (name[0] == '\0' || strlen(name) > 2 ||
        strspn(name, "YMWDhmsunpfa") != strlen(name)) /* NumPy's letters */
        return error_set(err, STATUS_CORRUPT, "'unit' is none of NumPy's");
    snprintf(ret_text, ZARR_TYPE_BYTES, "%s[", letter);
    size_t end = strlen(ret_text);
    if (scaled)
        end += (size_t)snprintf(ret_text + end, ZARR_TYPE_BYTES - end, "%" PRId64,
                                json_object_get_int64(factor));
    snprintf(ret_text + end, ZARR_TYPE_BYTES - end, "%s]", name);
    return STATUS_OK;
}

/* NumPy's text for types that zarr-python registers under names of its own; "" for others. */
static enum status numpy_text(const char *name, struct json_object *configuration,
                              char ret_text[ZARR_TYPE_BYTES], struct error *err)
{
    static const struct {
        const char *name, *letter;
        int unit_bytes; /* of which there are many; 0: of time */
    } types[] = {
        {"null_terminated_bytes", "|S", 1}, {"fixed_length_utf32", "<U", 4}, {"raw_bytes", "|V", 1},
        {"numpy.datetime64", "<M8", 0},     {"numpy.timedelta64", "<m8", 0},
    };
    enum status status = STATUS_OK;
    ret_text[0] = '\0';
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(name, types[i].name) != 0)
            continue;
        int unit_bytes = types[i].unit_bytes;
        status = unit_bytes > 0
                     ? length_text(configuration, types[i].letter, unit_bytes, ret_text, err)
                     : time_text(configuration, types[i].letter, ret_text, err);
    }
    return status == STATUS_OK ? status : error_prefix(err, status, "data type '%s': ", name);
}

/* Says what a type holds that we know of but do not read, and what would help. A name
 * that ends in '_' stands for all that begin so; writers' own prefixes do not count. */
static enum status refuse_type(const char *name, struct error *err)
{
    static const struct {
        const char *name, *content, *help;
    } refused[] = {
        {"string", "strings of variable length",
         "store strings of fixed length (fixed_length_utf32), or token numbers"},
        {"variable_length_bytes", "byte strings of variable length",
         "store byte strings of fixed length (null_terminated_bytes), or decode them into an "
         "array"},
        {"bytes", "byte strings of variable length",
         "store byte strings of fixed length (null_terminated_bytes), or decode them into an "
         "array"},
        {"optional", "values that may be absent",
         "store the values, and in another array which are there"},
        {"complex_", "complex numbers of small floats",
         "store real and imaginary parts along one more axis"},
    };
    const char *dot = strrchr(name, '.'), *bare = dot ? dot + 1 : name;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        size_t length = strlen(refused[i].name);
        if (strncmp(bare, refused[i].name, length) == 0 &&
            (bare[length] == '\0' || refused[i].name[length - 1] == '_'))
            return error_set(err, STATUS_UNSUPPORTED,
                             "data type '%.60s' (%s) is not supported: rewrite the array; %s", name,
                             refused[i].content, refused[i].help);
    }
    return error_set(err, STATUS_UNSUPPORTED, "data type '%.60s'", name);
}

/* Any type but raw and structured ones. */
static enum status parse_item(const char *name, struct json_object *configuration,
                              struct item *ret_item, struct error *err)
{
    char text[ZARR_TYPE_BYTES];
    enum status status = numpy_text(name, configuration, text, err);
    if (status != STATUS_OK)
        return status;
    if (text[0])
        return item_by_text(text, ret_item, err);
    bool plain = !configuration || json_object_object_length(configuration) == 0;
    if (plain && item_by_small_name(name, ret_item))
        return STATUS_OK;
    enum dtype dtype = plain ? dtype_by_alias(name) : DTYPE_NONE;
    if (dtype == DTYPE_NONE)
        return refuse_type(name, err);
    *ret_item = (struct item){.dtype = dtype, .bytes = dtype_bytes(dtype), .little_endian = true};
    return STATUS_OK;
}

/* zarr-python's name of before 3.2, and that of since. */
static bool is_structure(const char *name)
{
    return strcmp(name, "structured") == 0 || strcmp(name, "struct") == 0;
}

/* 'structured': ["x", "int32"]; 'struct': {"name": "x", "data_type": "int32"}. */
static enum status parse_field(struct json_object *field, const char **ret_name,
                               struct item *ret_item, struct error *err)
{
    struct json_object *name = NULL, *data_type = NULL, *configuration;
    const char *type;
    if (json_object_is_type(field, json_type_array) && json_object_array_length(field) == 2) {
        name = json_object_array_get_idx(field, 0);
        data_type = json_object_array_get_idx(field, 1);
    } else if (json_object_is_type(field, json_type_object)) {
        json_object_object_get_ex(field, "name", &name);
        json_object_object_get_ex(field, "data_type", &data_type);
    }
    if (!json_object_is_type(name, json_type_string))
        return error_set(err, STATUS_CORRUPT,
                         "data type 'structured': a field is not a list of name and type");
    enum status status = structure_member_name(name, ret_name, err);
    if (status != STATUS_OK)
        return status;
    status = document_named(data_type, "data_type", &type, &configuration, err);
    if (status == STATUS_OK && is_structure(type))
        status = error_set(err, STATUS_UNSUPPORTED, "structured dtype within another");
    else if (status == STATUS_OK)
        status = parse_item(type, configuration, ret_item, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "data type 'structured': field '%.40s': ", *ret_name);
    return STATUS_OK;
}

static enum status parse_structure(struct json_object *configuration, struct zarr_array *array,
                                   struct error *err)
{
    struct structure structure = {0};
    struct json_object *fields;
    enum status status = document_member(configuration, "fields", json_type_array, &fields, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "data type 'structured': ");
    for (size_t i = 0; i < json_object_array_length(fields); i++) {
        struct item item;
        const char *name;
        status = parse_field(json_object_array_get_idx(fields, i), &name, &item, err);
        if (status == STATUS_OK)
            status = structure_add(&structure, array, name, &item, err);
        if (status != STATUS_OK)
            return status;
    }
    return structure_settle(&structure, array, err);
}

enum status metadata_v3_dtype(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *value, *configuration;
    struct item item = {0};
    const char *name;
    if (!json_object_object_get_ex(root, "data_type", &value))
        return error_set(err, STATUS_CORRUPT, "'data_type' is missing");
    enum status status = document_named(value, "data_type", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    bool plain = !configuration || json_object_object_length(configuration) == 0;
    if (plain && raw_bytes(name) > 0)
        return set_raw(array, raw_bytes(name), err);
    if (is_structure(name))
        return parse_structure(configuration, array, err);
    status = parse_item(name, configuration, &item, err);
    return status == STATUS_OK ? item_set(array, &item, item.bytes, 0, err) : status;
}
