/* png: PNG images of 8 or 16 bits: grey or RGB, with or without alpha. The rows are decoded to
 * where they belong. What comes besides the pixels (profiles, text, a transparent colour) is not
 * read. */
#include "codec/image/image.h"

#include <endian.h>
#include <png.h>
#include <setjmp.h>
#include <string.h>

/* Why libpng stopped. */
struct trouble {
    char message[128];
};

struct input {
    struct bytes left;
};

static void on_error(png_structp png, png_const_charp message)
{
    struct trouble *trouble = png_get_error_ptr(png);
    snprintf(trouble->message, sizeof trouble->message, "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static void on_read(png_structp png, png_bytep data, size_t size)
{
    struct input *input = png_get_io_ptr(png);
    if (size > input->left.size)
        png_error(png, "cut short");
    memcpy(data, input->left.data, size);
    input->left.data += size;
    input->left.size -= size;
}

/* A row, the one before, and zlib's window. */
static size_t state_room(size_t decoded_bytes)
{
    return 2 * decoded_bytes + ((size_t)1 << 20);
}

static enum status check(const struct codec_step *step, png_structp png, png_infop info,
                         struct error *err)
{
    const struct image image = {.frames = 1,
                                .height = png_get_image_height(png, info),
                                .width = png_get_image_width(png, info),
                                .samples = png_get_channels(png, info),
                                .sample_bits = png_get_bit_depth(png, info)};
    if (png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE)
        return error_set(err, STATUS_UNSUPPORTED,
                         "colours of a palette: only grey and RGB are read");
    return image_check(step, &image, NULL, err);
}

/* libpng comes back here by longjmp(), so nothing changes in this frame. */
static enum status read_rows(const struct codec_step *step, png_structp png, png_infop info,
                             const struct trouble *trouble, struct codec_output room,
                             struct bytes *ret_decoded, struct error *err)
{
    if (setjmp(png_jmpbuf(png)))
        return error_set(err, STATUS_CORRUPT, "%s", trouble->message);
    png_read_info(png, info);
    enum status status = check(step, png, info, err);
    if (status != STATUS_OK)
        return status;
    if (png_get_bit_depth(png, info) == 16 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        png_set_swap(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    size_t row_bytes = png_get_rowbytes(png, info), height = png_get_image_height(png, info);
    if (row_bytes > room.capacity / height)
        return error_set(err, STATUS_CORRUPT, "decodes to %zu rows of %zu bytes, chunk holds %zu",
                         height, row_bytes, room.capacity);
    for (int pass = 0; pass < passes; pass++)
        for (size_t row = 0; row < height; row++)
            png_read_row(png, room.data + row * row_bytes, NULL);
    *ret_decoded = (struct bytes){room.data, row_bytes * height};
    return STATUS_OK;
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    struct trouble trouble = {""};
    struct input input = {stored};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &trouble, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    enum status status = STATUS_OK;
    if (!info) {
        status = error_set(err, STATUS_NO_MEMORY, "no memory for a decompressor");
    } else {
        png_set_read_fn(png, &input, on_read);
        png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
        png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* check() is stricter */
        status = read_rows(step, png, info, &trouble, room, ret_decoded, err);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return status;
}

const struct codec codec_png = {
    .name = "png",
    .is_zarr_v3_core = true,
    .is_image = true,
    .parse = image_parse,
    .settle = image_settle,
    .stored_bound = image_stored_bound,
    .state_room = state_room,
    .decode = decode,
};
