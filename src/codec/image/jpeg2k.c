/* jpeg2k: JPEG 2000 images by OpenJPEG, as a bare codestream or in a JP2 file: integers of 8, 16 or
 * 32 bits, of any number of components, all of one size.
 *
 * OpenJPEG takes memory for tiles and components while it reads a header, so the header is looked
 * at here first. It decodes to an int32 plane for each component, which are packed into pixels. */
#include "codec/image/image.h"

#include <endian.h>
#include <openjpeg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COMPONENTS = 1024, MOST_TILES = 4096, SIZ_BYTES = 42 }; /* with the two markers */

/* Its planes, and what the wavelets and blocks take: 32 bits each. */
static size_t state_room(size_t decoded_bytes)
{
    return 8 * decoded_bytes + ((size_t)24 << 20);
}

/* The header
 * --------------------------------------------------------------------------------------- */

static uint32_t number_at(const uint8_t *bytes)
{
    uint32_t number;
    memcpy(&number, bytes, sizeof number);
    return be32toh(number);
}

static uint64_t tiles_along(uint64_t end, uint64_t begin, uint64_t size)
{
    return size > 0 && end > begin ? (end - begin + size - 1) / size : 0;
}

/* Of a codestream: start marker, then marker SIZ with sizes, tiles and components. */
static enum status check_codestream(const struct codec_step *step, struct bytes stored,
                                    struct error *err)
{
    static const uint8_t markers[] = {0xff, 0x4f, 0xff, 0x51};
    const uint8_t *siz = stored.data + 8; /* behind markers, length and capabilities */
    if (stored.size < SIZ_BYTES + 3 || memcmp(stored.data, markers, sizeof markers) != 0)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes have no codestream of JPEG 2000",
                         stored.size);
    uint64_t x_end = number_at(siz), y_end = number_at(siz + 4);
    uint64_t x_begin = number_at(siz + 8), y_begin = number_at(siz + 12);
    uint32_t count = (uint32_t)siz[32] << 8 | siz[33];
    const uint8_t *components = siz + 34;
    if (x_begin >= x_end || y_begin >= y_end || count == 0 || count > MOST_COMPONENTS ||
        stored.size - SIZ_BYTES < (size_t)3 * count)
        return error_set(err, STATUS_CORRUPT, "header has no sizes, or %u components", count);
    const struct image image = {.frames = 1,
                                .height = y_end - y_begin,
                                .width = x_end - x_begin,
                                .samples = count,
                                .sample_bits = ((components[0] & 0x7fU) + 8) / 8 * 8,
                                .is_signed = components[0] & 0x80};
    for (uint32_t i = 0; i < count; i++)
        if (components[3 * i] != components[0] || components[3 * i + 1] != 1 ||
            components[3 * i + 2] != 1)
            return error_set(err, STATUS_UNSUPPORTED,
                             "component %u is of another size than the first", i);
    if (tiles_along(x_end, number_at(siz + 24), number_at(siz + 16)) *
            tiles_along(y_end, number_at(siz + 28), number_at(siz + 20)) >
        MOST_TILES)
        return error_set(err, STATUS_UNSUPPORTED, "more than %d tiles", MOST_TILES);
    return image_check(step, &image, NULL, err);
}

/* Finds the box of that type among those that `boxes` begins with. */
static bool find_box(struct bytes boxes, const char *type, struct bytes *ret_content)
{
    while (boxes.size >= 8) {
        uint64_t head = 8, length = number_at(boxes.data);
        if (length == 1 && boxes.size >= 16) {
            head = 16;
            length = (uint64_t)number_at(boxes.data + 8) << 32 | number_at(boxes.data + 12);
        } else if (length == 0) {
            length = boxes.size; /* the last one */
        }
        if (length < head || length > boxes.size)
            return false;
        if (memcmp(boxes.data + 4, type, 4) == 0) {
            *ret_content = (struct bytes){boxes.data + head, (size_t)(length - head)};
            return true;
        }
        boxes.data += length;
        boxes.size -= (size_t)length;
    }
    return false;
}

static enum status check_header(const struct codec_step *step, struct bytes stored,
                                OPJ_CODEC_FORMAT *ret_format, struct error *err)
{
    struct bytes header, palette, codestream = stored;
    bool is_file = stored.size >= 12 && memcmp(stored.data + 4, "jP  \r\n\x87\n", 8) == 0;
    *ret_format = is_file ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K;
    if (is_file && find_box(stored, "jp2h", &header) && find_box(header, "pclr", &palette))
        return error_set(err, STATUS_UNSUPPORTED, "colours of a palette");
    if (is_file && !find_box(stored, "jp2c", &codestream))
        return error_set(err, STATUS_CORRUPT, "a JP2 file without a codestream");
    return check_codestream(step, codestream, err);
}

/* OpenJPEG's stream over memory
 * ------------------------------------------------------------------------------------ */

struct input {
    struct bytes stored;
    size_t at;
};

static OPJ_SIZE_T on_read(void *buffer, OPJ_SIZE_T size, void *context)
{
    struct input *input = context;
    size_t left = input->stored.size - input->at, part = size < left ? size : left;
    if (part == 0)
        return (OPJ_SIZE_T)-1;
    memcpy(buffer, input->stored.data + input->at, part);
    input->at += part;
    return part;
}

static OPJ_BOOL on_seek(OPJ_OFF_T offset, void *context)
{
    struct input *input = context;
    if (offset < 0 || (uint64_t)offset > input->stored.size)
        return OPJ_FALSE;
    input->at = (size_t)offset;
    return OPJ_TRUE;
}

static OPJ_OFF_T on_skip(OPJ_OFF_T count, void *context)
{
    struct input *input = context;
    return on_seek((OPJ_OFF_T)input->at + count, context) ? count : -1;
}

static void on_error(const char *message, void *context)
{
    char *text = context;
    if (!text[0]) /* the first one is the cause */
        snprintf(text, ERROR_MESSAGE_BYTES, "%s", message);
    text[strcspn(text, "\n")] = '\0';
}

/* The image
 * ---------------------------------------------------------------------------------------- */

#define PACK(type)                                               \
    for (size_t i = 0; i < count; i++)                           \
        for (size_t c = 0; c < samples; c++)                     \
            ((type *)out)[i * samples + c] = (type)planes[c][i]; \
    break

static void pack(const OPJ_INT32 *const *planes, size_t samples, size_t count, size_t bytes,
                 void *out)
{
    switch (bytes) {
    case 1:
        PACK(uint8_t);
    case 2:
        PACK(uint16_t);
    default:
        PACK(uint32_t);
    }
}

static enum status take_planes(const struct codec_step *step, const opj_image_t *decoded,
                               struct codec_output room, struct bytes *ret_decoded,
                               struct error *err)
{
    const OPJ_INT32 *planes[MOST_COMPONENTS];
    const opj_image_comp_t *first = decoded->comps;
    if (decoded->numcomps == 0 || decoded->numcomps > MOST_COMPONENTS)
        return error_set(err, STATUS_CORRUPT, "%u components", decoded->numcomps);
    const struct image image = {.frames = 1,
                                .height = first->h,
                                .width = first->w,
                                .samples = decoded->numcomps,
                                .sample_bits = (first->prec + 7) / 8 * 8,
                                .is_signed = first->sgnd};
    for (uint32_t i = 0; i < decoded->numcomps; i++) {
        planes[i] = decoded->comps[i].data;
        if (!planes[i] || decoded->comps[i].w != first->w || decoded->comps[i].h != first->h)
            return error_set(err, STATUS_CORRUPT, "component %u was not decoded", i);
    }
    enum status status = image_check(step, &image, NULL, err);
    if (status != STATUS_OK)
        return status;
    size_t count = (size_t)(image.height * image.width), bytes = image.sample_bits / 8;
    size_t size = count * image.samples * bytes;
    if (size > room.capacity)
        return error_set(err, STATUS_CORRUPT, "decodes to %zu bytes, chunk holds %zu", size,
                         room.capacity);
    pack(planes, image.samples, count, bytes, room.data);
    *ret_decoded = (struct bytes){room.data, size};
    return STATUS_OK;
}

static bool run(opj_codec_t *codec, opj_stream_t *stream, opj_image_t **ret_image)
{
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    return opj_setup_decoder(codec, &parameters) && opj_read_header(stream, codec, ret_image) &&
           opj_decode(codec, stream, *ret_image) && opj_end_decompress(codec, stream);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    struct input input = {.stored = stored};
    char message[ERROR_MESSAGE_BYTES] = "";
    opj_image_t *image = NULL;
    OPJ_CODEC_FORMAT format;
    enum status status = check_header(step, stored, &format, err);
    if (status != STATUS_OK)
        return status;
    opj_codec_t *codec = opj_create_decompress(format);
    opj_stream_t *stream = opj_stream_create(stored.size, OPJ_TRUE);
    if (!codec || !stream) {
        status = error_set(err, STATUS_NO_MEMORY, "no memory for a decompressor");
    } else {
        opj_set_error_handler(codec, on_error, message);
        opj_stream_set_user_data(stream, &input, NULL);
        opj_stream_set_user_data_length(stream, stored.size);
        opj_stream_set_read_function(stream, on_read);
        opj_stream_set_skip_function(stream, on_skip);
        opj_stream_set_seek_function(stream, on_seek);
        status = run(codec, stream, &image)
                     ? take_planes(step, image, room, ret_decoded, err)
                     : error_set(err, STATUS_CORRUPT, "%zu stored bytes: %s", stored.size,
                                 message[0] ? message : "damaged or cut short");
    }
    opj_image_destroy(image);
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    return status;
}

const struct codec codec_jpeg2k = {
    .name = "jpeg2k",
    .is_zarr_v3_core = true,
    .is_image = true,
    .parse = image_parse,
    .settle = image_settle,
    .stored_bound = image_stored_bound,
    .state_room = state_room,
    .decode = decode,
};
