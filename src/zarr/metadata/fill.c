/* See document.h: fill values, and the many ways in which metadata writes an item. Pure.
 *
 * Numbers stay exact. Integers are read as 64-bit integers, floats as double. A 16-bit float is
 * rounded to nearest even straight from the double.
 */
#include "zarr/metadata/document.h"

#include "base/float16.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint16_t bfloat16_nan = 0x7fc0, float16_nan = 0x7e00;

static enum status refuse(enum dtype dtype, struct json_object *value, struct error *err)
{
    return error_set(err, STATUS_CORRUPT, "'fill_value' %.60s is not a value of type %s",
                     json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
                     dtype_name(dtype));
}

/* One real number in the format of `dtype`, or of a complex one's parts. Returns its bytes. */
static size_t put_float(enum dtype dtype, double value, unsigned char *out)
{
    float narrow = (float)value;
    uint16_t bits;
    switch (dtype) {
    case DTYPE_FLOAT16:
        bits = isnan(value) ? float16_nan : float16_from_double(value);
        memcpy(out, &bits, sizeof bits);
        return sizeof bits;
    case DTYPE_BFLOAT16:
        bits = isnan(value) ? bfloat16_nan : bfloat16_from_double(value);
        memcpy(out, &bits, sizeof bits);
        return sizeof bits;
    case DTYPE_FLOAT32:
    case DTYPE_COMPLEX64:
        memcpy(out, &narrow, sizeof narrow);
        return sizeof narrow;
    default:
        memcpy(out, &value, sizeof value);
        return sizeof value;
    }
}

static bool parse_double(const char *text, double *ret_value)
{
    char *end;
    if (strcmp(text, "NaN") == 0)
        *ret_value = NAN;
    else if (strcmp(text, "Infinity") == 0)
        *ret_value = INFINITY;
    else if (strcmp(text, "-Infinity") == 0)
        *ret_value = -INFINITY;
    else {
        if (text[0] == '\0' || strspn(text, "+-.0123456789eE") != strlen(text))
            return false;
        *ret_value = strtod(text, &end);
        return *end == '\0';
    }
    return true;
}

/* "0x7fc00000": the bits, most significant first, all of them. Unaligned `bytes` of native order.
 */
static bool parse_hex(const char *text, size_t bytes, unsigned char *out)
{
    uint64_t bits = 0;
    if (strncmp(text, "0x", 2) != 0 || strlen(text + 2) != 2 * bytes ||
        strspn(text + 2, "0123456789abcdefABCDEF") != 2 * bytes)
        return false;
    bits = strtoull(text + 2, NULL, 16);
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        bits <<= 64 - 8 * bytes;
    memcpy(out, &bits, bytes);
    return true;
}

static bool parse_float(enum zarr_format format, enum dtype dtype, struct json_object *value,
                        unsigned char *out)
{
    double number;
    switch (json_object_get_type(value)) {
    case json_type_double:
        put_float(dtype, json_object_get_double(value), out);
        return true;
    case json_type_int: /* the bounds may stand for any number beyond them */
        if (json_object_get_uint64(value) == UINT64_MAX ||
            json_object_get_int64(value) == INT64_MIN)
            return false;
        put_float(dtype, json_object_get_double(value), out);
        return true;
    case json_type_string:
        if (format == ZARR_V3 &&
            parse_hex(json_object_get_string(value), dtype_swap_bytes(dtype), out))
            return true;
        if (!parse_double(json_object_get_string(value), &number))
            return false;
        put_float(dtype, number, out);
        return true;
    default:
        return false;
    }
}

/* [re, im]; v2 writers also leave it at one real number. */
static bool parse_complex(enum zarr_format format, enum dtype dtype, struct json_object *value,
                          unsigned char *out)
{
    size_t part_bytes = dtype_swap_bytes(dtype);
    if (!json_object_is_type(value, json_type_array))
        return format == ZARR_V2 && parse_float(format, dtype, value, out);
    return json_object_array_length(value) == 2 &&
           parse_float(format, dtype, json_object_array_get_idx(value, 0), out) &&
           parse_float(format, dtype, json_object_array_get_idx(value, 1), out + part_bytes);
}

/* Whether `text` is a decimal integer; its magnitude and sign. */
static bool parse_decimal(const char *text, bool *ret_negative, uint64_t *ret_magnitude)
{
    const char *digits = text + (text[0] == '-');
    if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    *ret_magnitude = strtoull(digits, NULL, 10);
    *ret_negative = text[0] == '-' && *ret_magnitude > 0;
    return errno == 0;
}

/* An integer as sign and magnitude. Floats pass if they are whole ("0.0" for an integer array). */
static bool parse_whole(enum zarr_format format, struct json_object *value, bool *ret_negative,
                        uint64_t *ret_magnitude)
{
    double number;
    int64_t integer;
    switch (json_object_get_type(value)) {
    case json_type_int:
        integer = json_object_get_int64(value);
        *ret_negative = integer < 0;
        *ret_magnitude = integer < 0 ? -(uint64_t)integer : json_object_get_uint64(value);
        return true;
    case json_type_double:
        number = json_object_get_double(value);
        if (!(fabs(number) <= 9007199254740992.0) || trunc(number) != number)
            return false;
        *ret_negative = number < 0;
        *ret_magnitude = (uint64_t)fabs(number);
        return true;
    case json_type_string:
        return format == ZARR_V2 &&
               parse_decimal(json_object_get_string(value), ret_negative, ret_magnitude);
    default:
        return false;
    }
}

static bool parse_integer(enum zarr_format format, enum dtype dtype, struct json_object *value,
                          unsigned char *out)
{
    size_t bytes = dtype_bytes(dtype);
    bool is_signed = dtype >= DTYPE_INT8 && dtype <= DTYPE_INT64;
    uint64_t highest = UINT64_MAX >> (64 - 8 * bytes + is_signed);
    uint64_t magnitude;
    bool negative;
    if (!parse_whole(format, value, &negative, &magnitude))
        return false;
    if (magnitude > highest + (negative && is_signed) || (negative && !is_signed))
        return false;
    uint64_t bits = negative ? -magnitude : magnitude;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
        bits <<= 64 - 8 * bytes;
    memcpy(out, &bits, bytes);
    return true;
}

static bool parse_bool(enum zarr_format format, struct json_object *value, unsigned char *out)
{
    uint64_t magnitude;
    bool negative;
    if (json_object_is_type(value, json_type_boolean)) {
        out[0] = json_object_get_boolean(value);
        return true;
    }
    if (format != ZARR_V2 || !parse_whole(format, value, &negative, &magnitude) || negative ||
        magnitude > 1)
        return false;
    out[0] = (unsigned char)magnitude;
    return true;
}

/* Texts
 * -------------------------------------------------------------------------------------------- */

static bool is_zero(struct json_object *value)
{
    return !value ||
           (json_object_is_type(value, json_type_int) && json_object_get_int64(value) == 0);
}

static enum status refuse_text(struct json_object *value, const char *what, struct error *err)
{
    return error_set(err, STATUS_CORRUPT, "'fill_value' %.60s is not %s",
                     json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN), what);
}

/* The six bits that a character of base64 stands for; -1 for any other. */
static int sextet(char character)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = character ? strchr(alphabet, character) : NULL;
    return found ? (int)(found - alphabet) : -1;
}

/* Whether the characters before the padding are base64, and as many as a length in bytes has. */
static bool is_base64(const char *text, size_t *ret_count)
{
    size_t length = strlen(text), count = length;
    while (count > 0 && length - count < 2 && text[count - 1] == '=')
        count--;
    for (size_t i = 0; i < count; i++)
        if (sextet(text[i]) < 0)
            return false;
    *ret_count = count;
    return length % 4 == 0;
}

enum status fill_parse_record(struct json_object *value, size_t record_bytes, size_t offset,
                              size_t item_bytes, unsigned char *ret_item, struct error *err)
{
    size_t count;
    assert(offset + item_bytes <= record_bytes);
    memset(ret_item, 0, item_bytes);
    if (is_zero(value))
        return STATUS_OK;
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "?";
    if (!is_base64(text, &count) || count * 6 / 8 > record_bytes)
        return refuse_text(value, "an item in base64", err);
    for (size_t i = 0; i < count * 6 / 8; i++) {
        const char *found = text + i / 3 * 4 + i % 3;
        unsigned pair = (unsigned)sextet(found[0]) << 6 | (unsigned)sextet(found[1]);
        if (i >= offset && i - offset < item_bytes)
            ret_item[i - offset] = (unsigned char)(pair >> (4 - 2 * (i % 3)));
    }
    return STATUS_OK;
}

enum status fill_parse_unicode(struct json_object *value, size_t characters,
                               unsigned char *ret_item, struct error *err)
{
    memset(ret_item, 0, 4 * characters);
    if (is_zero(value))
        return STATUS_OK;
    if (!json_object_is_type(value, json_type_string))
        return refuse_text(value, "a text", err);
    const unsigned char *text = (const unsigned char *)json_object_get_string(value);
    size_t length = (size_t)json_object_get_string_len(value), done = 0;
    for (size_t i = 0; i < length; done++) {
        unsigned lead = text[i++];
        unsigned more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
        uint32_t point = more == 0 ? lead : lead & (0x3fu >> more);
        for (; more > 0 && i < length; more--) /* valid UTF-8: documents are checked for that */
            point = point << 6 | (text[i++] & 0x3f);
        if (done == characters)
            return refuse_text(value, "as short as the dtype", err);
        memcpy(ret_item + 4 * done, &point, sizeof point);
    }
    return STATUS_OK;
}

enum status fill_parse(enum zarr_format format, enum dtype dtype, struct json_object *value,
                       unsigned char *ret_item, struct error *err)
{
    unsigned char item[DTYPE_MAX_BYTES] = {0};
    bool is_valid;
    if (!value)
        is_valid = format == ZARR_V2;
    else if (dtype == DTYPE_BOOL)
        is_valid = parse_bool(format, value, item);
    else if (dtype_is_integer(dtype))
        is_valid = parse_integer(format, dtype, value, item);
    else if (dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128)
        is_valid = parse_complex(format, dtype, value, item);
    else
        is_valid = parse_float(format, dtype, value, item);
    if (!is_valid)
        return refuse(dtype, value, err);
    memcpy(ret_item, item, sizeof item);
    return STATUS_OK;
}
