/* delta: the first number, then differences. Both ways the arithmetic is that of the decoded type,
 * as in NumPy's diff() and cumsum(): integers wrap around, floats are rounded at each step. So
 * integers come back as they were; floats need not: store differences of their bits. */
#include "codec/values.h"

#include "base/float16.h"

#include <string.h>

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    enum status status = values_parse_types(configuration, step, err);
    /* NumPy's sum of bools is "or", by which numcodecs does not get back what it stored. */
    if (status == STATUS_OK && values_dtype(step->parameters[VALUES_DECODED]) == DTYPE_BOOL)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "dtype bool: numcodecs itself does not decode it to what was stored");
    return status;
}

/* What goes from one block to the next. */
struct run {
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

/* LOOP(type, member of run->last) for the decoded type; but not for float16. */
#define FOR_TYPE(LOOP)                           \
    do {                                         \
        if (run->decoded == DTYPE_FLOAT64)       \
            LOOP(double, f64);                   \
        else if (run->decoded == DTYPE_FLOAT32)  \
            LOOP(float, f32);                    \
        else if (dtype_bytes(run->decoded) == 8) \
            LOOP(uint64_t, u64);                 \
        else if (dtype_bytes(run->decoded) == 4) \
            LOOP(uint32_t, u32);                 \
        else if (dtype_bytes(run->decoded) == 2) \
            LOOP(uint16_t, u16);                 \
        else                                     \
            LOOP(uint8_t, u8);                   \
    } while (0)

/* Decoding
 * ----------------------------------------------------------------------------------------- */

#define SUM_UP(type, member)                             \
    do {                                                 \
        type *values = decoded, last = run->last.member; \
        for (size_t i = 0; i < count; i++)               \
            values[i] = last = (type)(last + values[i]); \
        run->last.member = last;                         \
    } while (0)

static void sum_up_halves(struct run *run, uint16_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float total = float16_to_float(run->last.f16) + float16_to_float(values[i]);
        values[i] = run->last.f16 = float16_from_float(total);
    }
}

static void add_block(void *argument, const void *stored, void *decoded, size_t count)
{
    struct run *run = argument;
    values_convert(run->stored, run->decoded, stored, decoded, count);
    if (run->decoded == DTYPE_FLOAT16)
        sum_up_halves(run, decoded, count);
    else
        FOR_TYPE(SUM_UP);
}

/* A sum that leaves the first number as it is begins with -0.0, as 0.0 + -0.0 is 0.0. */
static void begin_sum(struct run *run)
{
    if (run->decoded == DTYPE_FLOAT64)
        run->last.f64 = -0.0;
    else if (run->decoded == DTYPE_FLOAT32)
        run->last.f32 = -0.0F;
    else if (run->decoded == DTYPE_FLOAT16)
        run->last.f16 = 0x8000;
}

static struct run run_of(const struct codec_step *step)
{
    return (struct run){.stored = values_dtype(step->parameters[VALUES_STORED]),
                        .decoded = values_dtype(step->parameters[VALUES_DECODED])};
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    struct run run = run_of(step);
    begin_sum(&run);
    return values_map(stored, step->parameters[VALUES_STORED], room,
                      step->parameters[VALUES_DECODED], add_block, &run, ret_decoded, err);
}

/* Encoding
 * ----------------------------------------------------------------------------------------- */

#define TAKE_DIFFERENCES(type, member)                 \
    do {                                               \
        const type *restrict values = decoded;         \
        type *restrict to = differences;               \
        to[0] = (type)(values[0] - run->last.member);  \
        for (size_t i = 1; i < count; i++)             \
            to[i] = (type)(values[i] - values[i - 1]); \
        run->last.member = values[count - 1];          \
    } while (0)

static void take_differences_of_halves(struct run *run, const uint16_t *values, uint16_t *to,
                                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float difference = float16_to_float(values[i]) - float16_to_float(run->last.f16);
        to[i] = float16_from_float(difference);
        run->last.f16 = values[i];
    }
}

static void subtract_block(void *argument, const void *decoded, void *stored, size_t count)
{
    uint64_t block[VALUES_BLOCK];
    struct run *run = argument;
    void *differences = block;
    if (run->decoded == DTYPE_FLOAT16)
        take_differences_of_halves(run, decoded, differences, count);
    else
        FOR_TYPE(TAKE_DIFFERENCES);
    values_convert(run->decoded, run->stored, differences, stored, count);
}

static enum status encode(const struct codec_step *step, struct bytes decoded,
                          struct codec_output room, size_t *ret_size, struct error *err)
{
    struct run run = run_of(step);
    struct bytes stored = {0};
    enum status status =
        values_map(decoded, step->parameters[VALUES_DECODED], room, step->parameters[VALUES_STORED],
                   subtract_block, &run, &stored, err);
    *ret_size = stored.size;
    return status;
}

const struct codec codec_delta = {
    .name = "delta",
    .is_filter = true,
    .parse = parse,
    .stored_bound = values_stored_bound,
    .decoded_unit = values_decoded_unit,
    .decode = decode,
    .encode = encode,
    .describe = values_describe,
    .write_json = values_write_json,
};
