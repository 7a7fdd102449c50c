/* See small_item.h. There are 256 codes at most, so the code of a number is looked for. */
#include "zarr/metadata/small_item.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What codes stand for that are no finite numbers. */
enum specials {
    IEEE,     /* the highest exponent is infinity and NaN */
    FINITE,   /* all ones is NaN, with either sign; there is no infinity */
    ONE_ZERO, /* what would be -0 is NaN; there is no infinity */
    SIGNED,   /* no exponent: an integer, in two's complement */
    UNSIGNED,
    SCALE, /* no sign and no mantissa; all ones is NaN */
    NONE,
};

struct format {
    const char *name;
    int exponent_bits, mantissa_bits, bias;
    enum specials specials;
};

static const struct format formats[] = {
    {"float8_e3m4", 3, 4, 3, IEEE},
    {"float8_e4m3", 4, 3, 7, IEEE},
    {"float8_e4m3b11fnuz", 4, 3, 11, ONE_ZERO},
    {"float8_e4m3fn", 4, 3, 7, FINITE},
    {"float8_e4m3fnuz", 4, 3, 8, ONE_ZERO},
    {"float8_e5m2", 5, 2, 15, IEEE},
    {"float8_e5m2fnuz", 5, 2, 16, ONE_ZERO},
    {"float8_e8m0fnu", 8, 0, 127, SCALE},
    {"float6_e2m3fn", 2, 3, 1, NONE},
    {"float6_e3m2fn", 3, 2, 3, NONE},
    {"float4_e2m1fn", 2, 1, 1, NONE},
    {"int2", 0, 1, 0, SIGNED},
    {"int4", 0, 3, 0, SIGNED},
    {"uint2", 0, 2, 0, UNSIGNED},
    {"uint4", 0, 4, 0, UNSIGNED},
};

static const struct format *find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

bool small_item_is_named(const char *name)
{
    return find(name);
}

static bool is_integer(const struct format *format)
{
    return format->specials == SIGNED || format->specials == UNSIGNED;
}

static double value_of(const struct format *format, unsigned code)
{
    if (format->specials == SCALE)
        return code == 0xff ? NAN : ldexp(1.0, (int)code - format->bias);
    if (is_integer(format))
        return (int)code >> format->mantissa_bits ? (int)code - (2 << format->mantissa_bits)
                                                  : (int)code;
    int mantissa_ones = (1 << format->mantissa_bits) - 1;
    int exponent_ones = (1 << format->exponent_bits) - 1;
    int mantissa = (int)code & mantissa_ones;
    int exponent = (int)code >> format->mantissa_bits & exponent_ones;
    bool negative = code >> (format->mantissa_bits + format->exponent_bits) & 1;
    if (format->specials == ONE_ZERO && negative && exponent == 0 && mantissa == 0)
        return NAN;
    if (format->specials == IEEE && exponent == exponent_ones)
        return mantissa ? NAN : negative ? -INFINITY : INFINITY;
    if (format->specials == FINITE && exponent == exponent_ones && mantissa == mantissa_ones)
        return NAN;
    int lead = exponent > 0 ? 1 << format->mantissa_bits : 0;
    double value = ldexp(lead + mantissa,
                         (exponent > 0 ? exponent : 1) - format->bias - format->mantissa_bits);
    return negative ? -value : value;
}

/* The NaN that ml_dtypes takes: of several, the quiet one without more bits. */
static unsigned nan_of(const struct format *format)
{
    unsigned exponent = (1u << format->exponent_bits) - 1;
    switch (format->specials) {
    case IEEE:
        return exponent << format->mantissa_bits | 1u << (format->mantissa_bits - 1);
    case FINITE:
        return 0x7f;
    case ONE_ZERO:
        return 0x80;
    default:
        return 0xff;
    }
}

static bool find_code(const struct format *format, double value, unsigned char *ret_code)
{
    bool has_sign = format->specials != SCALE && format->specials != UNSIGNED;
    unsigned count = 1u << (format->exponent_bits + format->mantissa_bits + has_sign);
    if (isnan(value)) {
        *ret_code = (unsigned char)nan_of(format);
        return format->specials != NONE && !is_integer(format);
    }
    for (unsigned code = 0; code < count; code++)
        if (value_of(format, code) == value &&
            (value != 0 || !signbit(value) == !signbit(value_of(format, code)))) {
            *ret_code = (unsigned char)code;
            return true;
        }
    return false;
}

bool small_item_parse(const char *name, struct json_object *value, unsigned char *ret_code)
{
    const struct format *format = find(name);
    const char *text = json_object_get_string(value);
    *ret_code = 0;
    if (!format || !value)
        return format;
    if (json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double))
        return (json_object_get_double(value) == 0 && format->specials == SCALE) ||
               find_code(format, json_object_get_double(value), ret_code);
    if (!json_object_is_type(value, json_type_string))
        return false;
    if (strncmp(text, "0x", 2) == 0 && strlen(text) == 4 &&
        strspn(text + 2, "0123456789abcdefABCDEF") == 2) {
        *ret_code = (unsigned char)strtoul(text + 2, NULL, 16);
        return true;
    }
    bool negative = text[0] == '-';
    if (strcmp(text, "NaN") == 0)
        return find_code(format, NAN, ret_code);
    return strcmp(text + negative, "Infinity") == 0 &&
           find_code(format, negative ? -INFINITY : INFINITY, ret_code);
}
