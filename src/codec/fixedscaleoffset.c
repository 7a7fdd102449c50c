/* fixedscaleoffset: numbers stored as whole ones; decoded, x / scale + offset.
 *
 * As NumPy computes it: in float64 for stored integers, else in the stored type, with scale and
 * offset rounded to that type first.
 */
#include "codec/values.h"

#include "base/float16.h"

enum { SCALE, OFFSET };

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    enum status status = values_parse_types(configuration, step, err);
    if (status == STATUS_OK)
        status = codec_setting_real(configuration, "scale", &step->reals[SCALE], err);
    if (status == STATUS_OK)
        status = codec_setting_real(configuration, "offset", &step->reals[OFFSET], err);
    return status;
}

static void scale_doubles(const struct codec_step *step, double *values, size_t count)
{
    double scale = step->reals[SCALE], offset = step->reals[OFFSET];
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] / scale + offset;
}

static void scale_floats(const struct codec_step *step, float *values, size_t count)
{
    float scale = (float)step->reals[SCALE], offset = (float)step->reals[OFFSET];
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] / scale + offset;
}

static void scale_halves(const struct codec_step *step, uint16_t *values, size_t count)
{
    float scale = float16_to_float(float16_from_double(step->reals[SCALE]));
    float offset = float16_to_float(float16_from_double(step->reals[OFFSET]));
    for (size_t i = 0; i < count; i++) {
        uint16_t quotient = float16_from_float(float16_to_float(values[i]) / scale);
        values[i] = float16_from_float(float16_to_float(quotient) + offset);
    }
}

static void scale_block(void *argument, const void *stored, void *decoded, size_t count)
{
    const struct codec_step *step = argument;
    enum dtype from = values_dtype(step->parameters[VALUES_STORED]);
    enum dtype to = values_dtype(step->parameters[VALUES_DECODED]);
    enum dtype between = from == DTYPE_FLOAT16 || from == DTYPE_FLOAT32 ? from : DTYPE_FLOAT64;
    uint64_t block[VALUES_BLOCK];
    void *values = between == to ? decoded : block;
    values_convert(from, between, stored, values, count);
    if (between == DTYPE_FLOAT64)
        scale_doubles(step, values, count);
    else if (between == DTYPE_FLOAT32)
        scale_floats(step, values, count);
    else
        scale_halves(step, values, count);
    if (between != to)
        values_convert(between, to, values, decoded, count);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    return values_map(stored, step->parameters[VALUES_STORED], room,
                      step->parameters[VALUES_DECODED], scale_block, (void *)step, ret_decoded,
                      err);
}

static void describe(const struct codec_step *step, struct text *out)
{
    values_describe(step, out);
    text_append(out, "(scale %.17g, offset %.17g)", step->reals[SCALE], step->reals[OFFSET]);
}

const struct codec codec_fixedscaleoffset = {
    .name = "fixedscaleoffset",
    .is_filter = true,
    .parse = parse,
    .stored_bound = values_stored_bound,
    .decoded_unit = values_decoded_unit,
    .decode = decode,
    .describe = describe,
};
