/* jpeg: baseline and progressive JPEG with samples of 8 bits, by TurboJPEG: as imagecodecs stores
 * RGB, grey and CMYK, and as the proposal of codec `jpeg` for Zarr v3 has it. */
#include "codec/image/image.h"

#include <turbojpeg.h>

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes, (void)step;
    static const char *const refused[] = {"header", "tables", "colorspace_data", "colorspace_jpeg"};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0] && status == STATUS_OK; i++)
        status = image_refuse_setting(configuration, refused[i], err);
    return status;
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    (void)decoded_bytes;
    tjhandle state = tjInitDecompress();
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "jpeg: no memory for a decompressor");
    *ret_state = state;
    return STATUS_OK;
}

static void state_free(void *state)
{
    tjDestroy(state);
}

/* Of progressive images all coefficients, of 16 bits, are in memory. */
static size_t state_room(size_t decoded_bytes)
{
    return 2 * decoded_bytes + ((size_t)1 << 20);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    int width, height, subsampling, space;
    const int flags = TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompressHeader3(state, stored.data, stored.size, &width, &height, &subsampling,
                            &space) != 0)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes: %s", stored.size,
                         tjGetErrorStr2(state));
    int format = space == TJCS_GRAY                         ? TJPF_GRAY
                 : space == TJCS_CMYK || space == TJCS_YCCK ? TJPF_CMYK
                                                            : TJPF_RGB;
    const struct image image = {.frames = 1,
                                .height = (uint64_t)height,
                                .width = (uint64_t)width,
                                .samples = (uint64_t)tjPixelSize[format],
                                .sample_bits = 8,
                                .may_fold = true};
    enum status status = image_check(step, &image, NULL, err);
    if (status != STATUS_OK)
        return status;
    size_t size = (size_t)(image.height * image.width * image.samples);
    if (size > room.capacity)
        return error_set(err, STATUS_CORRUPT, "decodes to %zu bytes, chunk holds %zu", size,
                         room.capacity);
    if (tjDecompress2(state, stored.data, stored.size, room.data, width, 0, height, format,
                      flags) != 0)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes: %s", stored.size,
                         tjGetErrorStr2(state));
    *ret_decoded = (struct bytes){room.data, size};
    return STATUS_OK;
}

const struct codec codec_jpeg = {
    .name = "jpeg",
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
