/* webp: WebP images of 8 bits, lossy or lossless, with or without alpha. Writers leave an alpha out
 * that is opaque everywhere. */
#include "codec/image/image.h"

#include <webp/decode.h>

/* Lossless images are decoded by way of 4 bytes a pixel. */
static size_t state_room(size_t decoded_bytes)
{
    return 2 * decoded_bytes + ((size_t)1 << 20);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(stored.data, stored.size, &features) != VP8_STATUS_OK)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes do not begin as a WebP image",
                         stored.size);
    if (features.has_animation)
        return error_set(err, STATUS_UNSUPPORTED, "an animation: only single images are read");
    bool alpha = features.has_alpha || image_samples(step) == 4;
    const struct image image = {.frames = 1,
                                .height = (uint64_t)features.height,
                                .width = (uint64_t)features.width,
                                .samples = alpha ? 4 : 3,
                                .sample_bits = 8};
    enum status status = image_check(step, &image, NULL, err);
    if (status != STATUS_OK)
        return status;
    int stride = features.width * (int)image.samples;
    size_t size = (size_t)stride * image.height;
    if (size > room.capacity)
        return error_set(err, STATUS_CORRUPT, "decodes to %zu bytes, chunk holds %zu", size,
                         room.capacity);
    const uint8_t *done =
        alpha ? WebPDecodeRGBAInto(stored.data, stored.size, room.data, size, stride)
              : WebPDecodeRGBInto(stored.data, stored.size, room.data, size, stride);
    if (!done)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes are damaged or cut short",
                         stored.size);
    *ret_decoded = (struct bytes){room.data, size};
    return STATUS_OK;
}

const struct codec codec_webp = {
    .name = "webp",
    .is_zarr_v3_core = true,
    .is_image = true,
    .parse = image_parse,
    .settle = image_settle,
    .stored_bound = image_stored_bound,
    .state_room = state_room,
    .decode = decode,
};
