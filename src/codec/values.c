/* See values.h. The loops are plain for compilers to make vector code of them (-O3). */
#include "codec/values.h"

#include "base/convert.h"
#include "base/float16.h"

#include <assert.h>
#include <json-c/json.h>
#include <math.h>
#include <string.h>

/* Types
 * -------------------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    enum dtype dtype;
} types[] = {
    {"b1", DTYPE_BOOL},   {"i1", DTYPE_INT8},    {"i2", DTYPE_INT16},   {"i4", DTYPE_INT32},
    {"i8", DTYPE_INT64},  {"u1", DTYPE_UINT8},   {"u2", DTYPE_UINT16},  {"u4", DTYPE_UINT32},
    {"u8", DTYPE_UINT64}, {"f2", DTYPE_FLOAT16}, {"f4", DTYPE_FLOAT32}, {"f8", DTYPE_FLOAT64},
};

static enum dtype type_by_text(const char *text)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].text, text) == 0 || strcmp(dtype_name(types[i].dtype), text) == 0)
            return types[i].dtype;
    return DTYPE_NONE;
}

enum status values_parse(struct json_object *configuration, const char *key, int fallback,
                         int *ret_type, struct error *err)
{
    const char *text = NULL;
    enum status status = codec_setting_text(configuration, key, NULL, &text, err);
    if (status != STATUS_OK)
        return status;
    if (!text && fallback) {
        *ret_type = fallback;
        return STATUS_OK;
    }
    if (!text)
        return error_set(err, STATUS_CORRUPT, "%s is missing", key);
    bool has_order = text[0] != '\0' && strchr("<>|=", text[0]);
    enum dtype dtype = type_by_text(text + has_order);
    if (dtype == DTYPE_NONE)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s '%.40s' is not supported here, only integers and floats are", key,
                         text);
    bool other = text[0] == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '>' : '<');
    *ret_type = (int)dtype | (other && dtype_bytes(dtype) > 1 ? VALUES_SWAPPED : 0);
    return STATUS_OK;
}

enum status values_parse_types(struct json_object *configuration, struct codec_step *step,
                               struct error *err)
{
    int *parameters = step->parameters;
    enum status status = values_parse(configuration, "dtype", 0, &parameters[VALUES_DECODED], err);
    if (status == STATUS_OK)
        status = values_parse(configuration, "astype", parameters[VALUES_DECODED],
                              &parameters[VALUES_STORED], err);
    return status;
}

static size_t bytes_of(int type)
{
    return dtype_bytes(values_dtype(type));
}

static void describe_type(int type, struct text *out)
{
    bool is_big = (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) != ((type & VALUES_SWAPPED) != 0);
    char order = bytes_of(type) == 1 ? '|' : is_big ? '>' : '<';
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == values_dtype(type))
            text_append(out, "%c%s", order, types[i].text);
}

void values_describe(const struct codec_step *step, struct text *out)
{
    text_append(out, "(");
    describe_type(step->parameters[VALUES_DECODED], out);
    text_append(out, " as ");
    describe_type(step->parameters[VALUES_STORED], out);
    text_append(out, ")");
}

void values_write_json(const struct codec_step *step, enum codec_format format, struct text *out)
{
    (void)format;
    text_append(out, "\"dtype\": \"");
    describe_type(step->parameters[VALUES_DECODED], out);
    text_append(out, "\", \"astype\": \"");
    describe_type(step->parameters[VALUES_STORED], out);
    text_append(out, "\"");
}

size_t values_stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    return decoded_bytes / bytes_of(step->parameters[VALUES_DECODED]) *
           bytes_of(step->parameters[VALUES_STORED]);
}

size_t values_decoded_unit(const struct codec_step *step)
{
    return bytes_of(step->parameters[VALUES_DECODED]);
}

/* Conversions
 * --------------------------------------------------------------------------------------- */

/* C leaves open what numbers out of range become. */
static inline int64_t whole(double value)
{
    return value >= (double)INT64_MIN && value < -(double)INT64_MIN ? (int64_t)value : INT64_MIN;
}

static inline uint64_t whole_unsigned(double value)
{
    if (value >= 0x1p63 && value < 0x1p64)
        return (uint64_t)(value - 0x1p63) + ((uint64_t)1 << 63);
    return (uint64_t)whole(value);
}

#define CAST(from, to, expression)                                      \
    static void from##_to_##to(const void *in, void *out, size_t count) \
    {                                                                   \
        const from *restrict values = in;                               \
        to *restrict results = out;                                     \
        for (size_t i = 0; i < count; i++) {                            \
            from value = values[i];                                     \
            results[i] = expression;                                    \
        }                                                               \
    }

/* bool is held as uint8_t, so that any byte is one. */
#define CASTS(from, to_integer, to_uint64)     \
    CAST(from, bool, value != 0)               \
    CAST(from, int8_t, (int8_t)to_integer)     \
    CAST(from, int16_t, (int16_t)to_integer)   \
    CAST(from, int32_t, (int32_t)to_integer)   \
    CAST(from, int64_t, (int64_t)to_integer)   \
    CAST(from, uint8_t, (uint8_t)to_integer)   \
    CAST(from, uint16_t, (uint16_t)to_integer) \
    CAST(from, uint32_t, (uint32_t)to_integer) \
    CAST(from, uint64_t, (uint64_t)to_uint64)  \
    CAST(from, float, (float)value)            \
    CAST(from, double, (double)value)

CASTS(int8_t, value, value)
CASTS(int16_t, value, value)
CASTS(int32_t, value, value)
CASTS(int64_t, value, value)
CASTS(uint8_t, value, value)
CASTS(uint16_t, value, value)
CASTS(uint32_t, value, value)
CASTS(uint64_t, value, value)
CASTS(float, whole(value), whole_unsigned(value))
CASTS(double, whole(value), whole_unsigned(value))

typedef void cast(const void *in, void *out, size_t count);

#define CAST_ROW(from)                                                            \
    {                                                                             \
        [DTYPE_BOOL] = from##_to_bool, [DTYPE_INT8] = from##_to_int8_t,           \
        [DTYPE_INT16] = from##_to_int16_t, [DTYPE_INT32] = from##_to_int32_t,     \
        [DTYPE_INT64] = from##_to_int64_t, [DTYPE_UINT8] = from##_to_uint8_t,     \
        [DTYPE_UINT16] = from##_to_uint16_t, [DTYPE_UINT32] = from##_to_uint32_t, \
        [DTYPE_UINT64] = from##_to_uint64_t, [DTYPE_FLOAT32] = from##_to_float,   \
        [DTYPE_FLOAT64] = from##_to_double                                        \
    }

static cast *const casts[DTYPE_FLOAT64 + 1][DTYPE_FLOAT64 + 1] = {
    [DTYPE_BOOL] = CAST_ROW(uint8_t),    [DTYPE_INT8] = CAST_ROW(int8_t),
    [DTYPE_INT16] = CAST_ROW(int16_t),   [DTYPE_INT32] = CAST_ROW(int32_t),
    [DTYPE_INT64] = CAST_ROW(int64_t),   [DTYPE_UINT8] = CAST_ROW(uint8_t),
    [DTYPE_UINT16] = CAST_ROW(uint16_t), [DTYPE_UINT32] = CAST_ROW(uint32_t),
    [DTYPE_UINT64] = CAST_ROW(uint64_t), [DTYPE_FLOAT32] = CAST_ROW(float),
    [DTYPE_FLOAT64] = CAST_ROW(double),
};

/* A NaN keeps as many of its bits as fit, and one at least: NumPy does not make it quiet. */
static uint16_t half_of_nan(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t payload = (uint16_t)(bits >> 42 & 0x3ff);
    return (uint16_t)((bits >> 48 & 0x8000) | 0x7c00 | (payload ? payload : 1));
}

static void halves_of_doubles(const double *in, uint16_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = isnan(in[i]) ? half_of_nan(in[i]) : float16_from_double(in[i]);
}

static void floats_of_halves(const uint16_t *restrict in, float *restrict out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = float16_to_float(in[i]);
}

/* From integers by way of float, as NumPy does it. */
static void halves_of(enum dtype from, const void *in, uint16_t *out, size_t count)
{
    float floats[VALUES_BLOCK];
    casts[from][DTYPE_FLOAT32](in, floats, count);
    for (size_t i = 0; i < count; i++)
        out[i] = float16_from_float(floats[i]);
}

void values_convert(enum dtype from, enum dtype to, const void *in, void *out, size_t count)
{
    float floats[VALUES_BLOCK];
    assert(count <= VALUES_BLOCK && from <= DTYPE_FLOAT64 && to <= DTYPE_FLOAT64);
    if (from == to) {
        memcpy(out, in, count * dtype_bytes(from));
    } else if (from == DTYPE_FLOAT64 && to == DTYPE_FLOAT16) {
        halves_of_doubles(in, out, count);
    } else if (to == DTYPE_FLOAT16) {
        halves_of(from, in, out, count);
    } else if (from == DTYPE_FLOAT16) {
        float *target = to == DTYPE_FLOAT32 ? out : floats;
        floats_of_halves(in, target, count);
        if (to != DTYPE_FLOAT32)
            casts[DTYPE_FLOAT32][to](floats, out, count);
    } else {
        casts[from][to](in, out, count);
    }
}

/* The loop over blocks
 * ------------------------------------------------------------------------------ */

/* Whether numbers at `numbers` can be used where they are. */
static bool is_direct(const void *numbers, int type)
{
    return !(type & VALUES_SWAPPED) && (uintptr_t)numbers % bytes_of(type) == 0;
}

static const void *load(const uint8_t *numbers, int type, size_t count, void *block)
{
    size_t bytes = count * bytes_of(type);
    if (is_direct(numbers, type))
        return numbers;
    memcpy(block, numbers, bytes);
    if (type & VALUES_SWAPPED)
        convert_swap(block, bytes, bytes_of(type));
    return block;
}

static void store(void *block, int type, size_t count, uint8_t *numbers)
{
    size_t bytes = count * bytes_of(type);
    if (type & VALUES_SWAPPED)
        convert_swap(block, bytes, bytes_of(type));
    memcpy(numbers, block, bytes);
}

enum status values_map(struct bytes bytes, int from, struct codec_output room, int to,
                       values_kernel *kernel, void *argument, struct bytes *ret_made,
                       struct error *err)
{
    uint64_t in_block[VALUES_BLOCK], out_block[VALUES_BLOCK];
    size_t from_bytes = bytes_of(from), to_bytes = bytes_of(to);
    size_t count = bytes.size / from_bytes;
    if (bytes.size % from_bytes != 0)
        return error_set(err, STATUS_CORRUPT, "%zu bytes are no multiple of %zu", bytes.size,
                         from_bytes);
    if (count > room.capacity / to_bytes)
        return error_set(err, STATUS_CORRUPT, "%zu values of %zu bytes, chunk holds %zu bytes",
                         count, to_bytes, room.capacity);
    for (size_t i = 0; i < count; i += VALUES_BLOCK) {
        size_t some = count - i < VALUES_BLOCK ? count - i : VALUES_BLOCK;
        uint8_t *numbers = room.data + i * to_bytes;
        bool direct = is_direct(numbers, to);
        const void *in = load(bytes.data + i * from_bytes, from, some, in_block);
        kernel(argument, in, direct ? (void *)numbers : out_block, some);
        if (!direct)
            store(out_block, to, some, numbers);
    }
    *ret_made = (struct bytes){room.data, count * to_bytes};
    return STATUS_OK;
}
