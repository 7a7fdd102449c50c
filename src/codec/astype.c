/* astype, quantize, bitround: filters that lose precision when they encode. Decoding converts from
 * the stored type (astype, quantize) or does nothing (bitround). */
#include "codec/values.h"

static enum status parse_astype(struct json_object *configuration, size_t item_bytes,
                                struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    int *types = step->parameters;
    enum status status =
        values_parse(configuration, "decode_dtype", 0, &types[VALUES_DECODED], err);
    if (status == STATUS_OK)
        status = values_parse(configuration, "encode_dtype", 0, &types[VALUES_STORED], err);
    return status;
}

static enum status parse_quantize(struct json_object *configuration, size_t item_bytes,
                                  struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    return values_parse_types(configuration, step, err);
}

static void convert_block(void *argument, const void *stored, void *decoded, size_t count)
{
    const struct codec_step *step = argument;
    values_convert(values_dtype(step->parameters[VALUES_STORED]),
                   values_dtype(step->parameters[VALUES_DECODED]), stored, decoded, count);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    return values_map(stored, step->parameters[VALUES_STORED], room,
                      step->parameters[VALUES_DECODED], convert_block, (void *)step, ret_decoded,
                      err);
}

const struct codec codec_astype = {
    .name = "astype",
    .is_filter = true,
    .parse = parse_astype,
    .stored_bound = values_stored_bound,
    .decoded_unit = values_decoded_unit,
    .decode = decode,
    .describe = values_describe,
};

const struct codec codec_quantize = {
    .name = "quantize",
    .is_filter = true,
    .parse = parse_quantize,
    .stored_bound = values_stored_bound,
    .decoded_unit = values_decoded_unit,
    .decode = decode,
    .describe = values_describe,
};

static size_t same_size(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes;
}

static enum status pass_on(const struct codec_step *step, void *state, struct bytes stored,
                           struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)step, (void)state, (void)room, (void)err;
    *ret_decoded = stored;
    return STATUS_OK;
}

const struct codec codec_bitround = {
    .name = "bitround",
    .is_filter = true,
    .trims = true,
    .stored_bound = same_size,
    .decode = pass_on,
};
