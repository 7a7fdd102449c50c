/* delta: the first number, then differences. Decoding sums up in the decoded type, as NumPy's
 * cumsum() does: integers wrap around, floats are rounded at each step. */
#include "codec/values.h"

#include "base/float16.h"

#include <string.h>

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    enum status status = values_parse_types(configuration, step, err);
    /* NumPy's sum of bools is "or", by which numcodecs does not get back what it stored. */
    if (!status && values_dtype(step->parameters[VALUES_DECODED]) == DTYPE_BOOL)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "dtype bool: numcodecs itself does not decode it to what was stored");
    return status;
}

struct sum {
    enum dtype stored, decoded;
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32;
        double f64;
        uint16_t f16;
    } last;
};

#define SUM_UP(type, member)                             \
    do {                                                 \
        type *values = decoded, last = sum->last.member; \
        for (size_t i = 0; i < count; i++)               \
            values[i] = last = (type)(last + values[i]); \
        sum->last.member = last;                         \
    } while (0)

static void sum_up_halves(struct sum *sum, uint16_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float total = float16_to_float(sum->last.f16) + float16_to_float(values[i]);
        values[i] = sum->last.f16 = float16_from_float(total);
    }
}

static void add_block(void *argument, const void *stored, void *decoded, size_t count)
{
    struct sum *sum = argument;
    values_convert(sum->stored, sum->decoded, stored, decoded, count);
    if (sum->decoded == DTYPE_FLOAT64)
        SUM_UP(double, f64);
    else if (sum->decoded == DTYPE_FLOAT32)
        SUM_UP(float, f32);
    else if (sum->decoded == DTYPE_FLOAT16)
        sum_up_halves(sum, decoded, count);
    else if (dtype_bytes(sum->decoded) == 8)
        SUM_UP(uint64_t, u64);
    else if (dtype_bytes(sum->decoded) == 4)
        SUM_UP(uint32_t, u32);
    else if (dtype_bytes(sum->decoded) == 2)
        SUM_UP(uint16_t, u16);
    else
        SUM_UP(uint8_t, u8);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct room room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    const int *types = step->parameters;
    struct sum sum = {.stored = values_dtype(types[VALUES_STORED]),
                      .decoded = values_dtype(step->parameters[VALUES_DECODED])};
    return values_decode(stored, types[VALUES_STORED], room, types[VALUES_DECODED], add_block, &sum,
                         ret_decoded, err);
}

const struct codec codec_delta = {
    .name = "delta",
    .is_filter = true,
    .parse = parse,
    .stored_bound = values_stored_bound,
    .decoded_unit = values_decoded_unit,
    .decode = decode,
    .describe = values_describe,
};
