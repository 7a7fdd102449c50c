/* jpegxl: JPEG XL images by libjxl: integers of 8 or 16 bits, or floats, grey or RGB, with or
 * without alpha. An animation's frames lie one behind another: so imagecodecs stores chunks of
 * several images, and those of (C, H, W). */
#include "codec/image/image.h"

#include <json-c/json.h>
#include <jxl/decode.h>

enum { KEEPS_ORIENTATION = CODEC_PARAMETERS - 1 };

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    struct json_object *keeps = NULL;
    json_object_object_get_ex(configuration, "keeporientation", &keeps);
    step->parameters[KEEPS_ORIENTATION] = json_object_get_boolean(keeps);
    return image_refuse_setting(configuration, "index", err);
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    (void)decoded_bytes;
    JxlDecoder *state = JxlDecoderCreate(NULL);
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "jpegxl: no memory for a decompressor");
    *ret_state = state;
    return STATUS_OK;
}

static void state_free(void *state)
{
    JxlDecoderDestroy(state);
}

/* Decoding goes by way of floats, several of them for each sample. */
static size_t state_room(size_t decoded_bytes)
{
    return 8 * decoded_bytes + ((size_t)4 << 20);
}

/* An image that is being decoded. */
struct progress {
    JxlPixelFormat format;
    size_t frame_bytes, done_bytes;
    uint64_t frames, frame;
};

static enum status begin(const struct codec_step *step, const JxlDecoder *decoder,
                         struct codec_output room, struct progress *progress, struct error *err)
{
    JxlBasicInfo info;
    if (JxlDecoderGetBasicInfo(decoder, &info) != JXL_DEC_SUCCESS)
        return error_set(err, STATUS_CORRUPT, "no header");
    uint32_t alpha = info.alpha_bits > 0;
    if (info.num_extra_channels > alpha)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%u extra channels: only grey, RGB and alpha are read",
                         info.num_extra_channels);
    const struct image image = {.frames = info.have_animation ? 0 : 1,
                                .height = info.ysize,
                                .width = info.xsize,
                                .samples = info.num_color_channels + alpha,
                                .sample_bits = info.bits_per_sample,
                                .is_float = info.exponent_bits_per_sample > 0};
    enum status status = image_check(step, &image, &progress->frames, err);
    if (status != STATUS_OK)
        return status;
    JxlDataType type = image.is_float ? image.sample_bits == 16 ? JXL_TYPE_FLOAT16 : JXL_TYPE_FLOAT
                       : image.sample_bits == 16 ? JXL_TYPE_UINT16
                                                 : JXL_TYPE_UINT8;
    progress->format = (JxlPixelFormat){(uint32_t)image.samples, type, JXL_NATIVE_ENDIAN, 0};
    progress->frame_bytes = image.height * image.width * image.samples * (image.sample_bits / 8);
    if (progress->frame_bytes > room.capacity / progress->frames)
        return error_set(err, STATUS_CORRUPT, "decodes to more than the %zu bytes of a chunk",
                         room.capacity);
    return STATUS_OK;
}

static enum status take_frame(JxlDecoder *decoder, struct codec_output room,
                              struct progress *progress, struct error *err)
{
    size_t bytes;
    if (progress->frame == progress->frames)
        return error_set(err, STATUS_CORRUPT, "more than the %zu frames of a chunk",
                         (size_t)progress->frames);
    if (JxlDecoderImageOutBufferSize(decoder, &progress->format, &bytes) != JXL_DEC_SUCCESS ||
        bytes != progress->frame_bytes ||
        JxlDecoderSetImageOutBuffer(decoder, &progress->format, room.data + progress->done_bytes,
                                    bytes) != JXL_DEC_SUCCESS)
        return error_set(err, STATUS_CORRUPT, "frame %zu is of another size",
                         (size_t)progress->frame);
    return STATUS_OK;
}

static enum status run(const struct codec_step *step, JxlDecoder *decoder, struct codec_output room,
                       struct progress *progress, struct error *err)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        JxlDecoderStatus event = JxlDecoderProcessInput(decoder);
        if (event == JXL_DEC_SUCCESS)
            break;
        if (event == JXL_DEC_BASIC_INFO) {
            status = begin(step, decoder, room, progress, err);
        } else if (event == JXL_DEC_NEED_IMAGE_OUT_BUFFER) {
            status = take_frame(decoder, room, progress, err);
        } else if (event == JXL_DEC_FULL_IMAGE) {
            progress->frame++;
            progress->done_bytes += progress->frame_bytes;
        } else {
            status = error_set(err, STATUS_CORRUPT, "damaged or cut short");
        }
    }
    return status;
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    JxlDecoder *decoder = state;
    struct progress progress = {.frame = 0};
    JxlDecoderReset(decoder);
    if (JxlDecoderSubscribeEvents(decoder, JXL_DEC_BASIC_INFO | JXL_DEC_FULL_IMAGE) !=
            JXL_DEC_SUCCESS ||
        JxlDecoderSetKeepOrientation(decoder, step->parameters[KEEPS_ORIENTATION]) !=
            JXL_DEC_SUCCESS ||
        JxlDecoderSetInput(decoder, stored.data, stored.size) != JXL_DEC_SUCCESS)
        return error_set(err, STATUS_NO_MEMORY, "the decompressor cannot be set up");
    JxlDecoderCloseInput(decoder);
    enum status status = run(step, decoder, room, &progress, err);
    JxlDecoderReset(decoder); /* gives its memory back */
    *ret_decoded = (struct bytes){room.data, progress.done_bytes};
    return status == STATUS_OK ? status
                               : error_prefix(err, status, "%zu stored bytes: ", stored.size);
}

const struct codec codec_jpegxl = {
    .name = "jpegxl",
    .is_zarr_v3_core = true,
    .is_image = true,
    .parse = parse,
    .settle = image_settle,
    .stored_bound = image_stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = 64 << 10,
    .state_room = state_room,
    .decode = decode,
};
