/* Data types and fill values of what is written: Zarr v3's, and for strings, raw bytes and dates
 * the names that zarr-python registers for them. See rechunk_internal.h. Pure. */
#include "workshop/making/rechunk_internal.h"

#include "zarr/metadata/document.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* NumPy's letter for a type that `dtype` does not say: S, U, V, M, m; 'r' for v3's raw types, f, i
 * and u for float8_e4m3fn, int4, uint4 and the like; '\0' for numbers. */
static char kind_of(const struct zarr_array *source)
{
    char first = source->stored_type[0];
    return first && strchr("rfiu", first) ? first : first ? source->stored_type[1] : '\0';
}

static struct json_object *configured(const char *name, const char *key, struct json_object *value)
{
    struct json_object *object = json_object_new_object();
    struct json_object *configuration = json_object_new_object();
    json_object_object_add(configuration, key, value);
    json_object_object_add(object, "name", json_object_new_string(name));
    json_object_object_add(object, "configuration", configuration);
    return object;
}

/* "<M8[25s]" is numpy.datetime64 with unit s and scale_factor 25; "<M8" has no unit. */
static struct json_object *time_type(const struct zarr_array *source)
{
    const char *name = kind_of(source) == 'M' ? "numpy.datetime64" : "numpy.timedelta64";
    const char *bracket = strchr(source->stored_type, '[');
    unsigned long factor = 1;
    char unit[8] = "generic";
    if (bracket && sscanf(bracket, "[%lu%7[a-zA-Z]", &factor, unit) != 2) {
        factor = 1;
        (void)!sscanf(bracket, "[%7[a-zA-Z]", unit);
    }
    struct json_object *object = configured(name, "unit", json_object_new_string(unit)), *inner;
    json_object_object_get_ex(object, "configuration", &inner);
    json_object_object_add(inner, "scale_factor", json_object_new_uint64(factor));
    return object;
}

struct json_object *target_type(const struct zarr_array *source)
{
    struct json_object *length = json_object_new_uint64(source->item_bytes);
    switch (kind_of(source)) {
    case 'S':
        return configured("null_terminated_bytes", "length_bytes", length);
    case 'U':
        return configured("fixed_length_utf32", "length_bytes", length);
    case 'V':
        return configured("raw_bytes", "length_bytes", length);
    default:
        json_object_put(length);
    }
    if (kind_of(source) == 'M' || kind_of(source) == 'm')
        return time_type(source);
    bool is_named = kind_of(source) && strchr("rfiu", kind_of(source));
    return json_object_new_string(is_named ? source->stored_type : dtype_name(source->dtype));
}

/* Fill values
 * ------------------------------------------------------------------------------------------- */

struct json_object *target_base64(const unsigned char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct text out = {0};
    for (size_t i = 0; i < count; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < count ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < count ? bytes[i + 2] : 0;
        text_append(&out, "%c%c%c%c", digits[three >> 18], digits[three >> 12 & 63],
                    i + 1 < count ? digits[three >> 6 & 63] : '=',
                    i + 2 < count ? digits[three & 63] : '=');
    }
    struct json_object *object = json_object_new_string(out.data ? out.data : "");
    text_done(&out);
    return object;
}

/* Code points as UTF-8, without the zeros behind them. */
static struct json_object *unicode(const unsigned char *bytes, size_t count)
{
    struct text out = {0};
    for (size_t i = 0; i < count; i++) {
        uint32_t point;
        memcpy(&point, bytes + 4 * i, sizeof point);
        if (point == 0)
            break;
        char utf8[4];
        size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        for (size_t k = length; k-- > 1; point >>= 6)
            utf8[k] = (char)(0x80 | (point & 0x3f));
        utf8[0] = (char)(length == 1 ? point : (0xf00u >> length & 0xff) | point);
        text_append_bytes(&out, utf8, length);
    }
    struct json_object *object =
        json_object_new_string_len(out.data ? out.data : "", (int)out.length);
    text_done(&out);
    return object;
}

static struct json_object *byte_list(const unsigned char *bytes, size_t count)
{
    struct json_object *list = json_object_new_array();
    for (size_t i = 0; i < count; i++)
        json_object_array_add(list, json_object_new_int(bytes[i]));
    return list;
}

static uint64_t bits_of(const unsigned char *item, size_t bytes)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    if (bytes == 1)
        return item[0];
    if (bytes == sizeof two)
        return memcpy(&two, item, bytes), two;
    if (bytes == sizeof four)
        return memcpy(&four, item, bytes), four;
    return memcpy(&eight, item, sizeof eight), eight;
}

/* A real number by its bits, as v3 takes them: exact for any of them. */
static struct json_object *bits_json(const unsigned char *item, size_t bytes)
{
    uint64_t bits = bits_of(item, bytes);
    char text[24];
    if (bits == 0)
        return json_object_new_double(0.0);
    snprintf(text, sizeof text, "0x%0*" PRIx64, (int)(2 * bytes), bits);
    return json_object_new_string(text);
}

/* One value of the array's dtype. */
struct json_object *target_value_json(enum dtype dtype, const unsigned char *item)
{
    size_t bytes = dtype_bytes(dtype);
    unsigned unused_bits = (unsigned)(64 - 8 * bytes);
    switch (dtype) {
    case DTYPE_BOOL:
        return json_object_new_boolean(item[0] != 0);
    case DTYPE_INT8:
    case DTYPE_INT16:
    case DTYPE_INT32:
    case DTYPE_INT64: /* the sign goes up to bit 63, and down again */
        return json_object_new_int64((int64_t)(bits_of(item, bytes) << unused_bits) >> unused_bits);
    case DTYPE_UINT8:
    case DTYPE_UINT16:
    case DTYPE_UINT32:
    case DTYPE_UINT64:
        return json_object_new_uint64(bits_of(item, bytes));
    case DTYPE_COMPLEX64:
    case DTYPE_COMPLEX128: {
        struct json_object *pair = json_object_new_array();
        json_object_array_add(pair, bits_json(item, bytes / 2));
        json_object_array_add(pair, bits_json(item + bytes / 2, bytes / 2));
        return pair;
    }
    default:
        return bits_json(item, bytes);
    }
}

/* The value in the source's document, written for v3. Numbers keep the digits of the document. */
static struct json_object *number_fill(const struct zarr_array *source,
                                       struct json_object *document)
{
    struct json_object *fill = NULL;
    json_object_object_get_ex(document, "fill_value", &fill);
    if (!fill || source->dtype == DTYPE_BOOL)
        return target_value_json(source->dtype, source->fill);
    if (json_object_is_type(fill, json_type_double)) {
        double value = json_object_get_double(fill);
        if (isnan(value))
            return json_object_new_string("NaN");
        if (isinf(value))
            return json_object_new_string(value > 0 ? "Infinity" : "-Infinity");
        if (dtype_is_integer(source->dtype))
            return json_object_new_int64(json_object_get_int64(fill));
    }
    return json_object_get(fill);
}

struct json_object *target_fill(const struct zarr_array *source, struct json_object *document)
{
    switch (kind_of(source)) {
    case 'S':
    case 'V':
        return target_base64(source->fill, source->item_bytes);
    case 'U':
        return unicode(source->fill, source->item_bytes / 4);
    case 'r':
        return byte_list(source->fill, source->item_bytes);
    case 'f':
        return bits_json(source->fill, 1);
    case 'M':
    case 'm':
        return target_value_json(DTYPE_INT64, source->fill);
    default:
        break;
    }
    return source->member_count > 0 ? target_value_json(source->dtype, source->fill)
                                    : number_fill(source, document);
}

/* Shapes
 * ------------------------------------------------------------------------------------------- */

enum status target_shape(const struct zarr_array *source, struct zarr_array *ret_shaped,
                         struct error *err)
{
    *ret_shaped = *source;
    if (source->item_length == 0 || kind_of(source) != '\0')
        return STATUS_OK;
    if (source->rank == ZARR_MAX_RANK)
        return error_set(err, STATUS_UNSUPPORTED,
                         "a member that is a sub-array would be an array of more than %d axes: "
                         "leave it out with --arrays",
                         ZARR_MAX_RANK);
    size_t value_bytes = dtype_bytes(source->dtype);
    for (size_t at = value_bytes; at < source->item_bytes; at += value_bytes)
        if (memcmp(source->fill, source->fill + at, value_bytes) != 0)
            return error_set(err, STATUS_UNSUPPORTED,
                             "the values of its sub-array have different fill values, which "
                             "cannot be written: leave it out with --arrays");
    ret_shaped->shape[source->rank] = source->item_length;
    ret_shaped->chunk_shape[source->rank] = source->item_length;
    ret_shaped->rank++;
    ret_shaped->item_length = 0;
    ret_shaped->item_bytes = value_bytes;
    return STATUS_OK;
}
