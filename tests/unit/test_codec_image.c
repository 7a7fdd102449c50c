/* Codecs of images: what their libraries encode is decoded, and nothing is that is no image of the
 * chunk. A codec that was left out of the build is refused by name. */
#include "codec_chains.h"

#include <inttypes.h>
#ifdef PENSTOCK_HAS_JPEG
#include <turbojpeg.h>
#endif
#ifdef PENSTOCK_HAS_JPEGXL
#include <jxl/encode.h>
#endif
#ifdef PENSTOCK_HAS_JPEG2K
#include <openjpeg.h>
#endif
#ifdef PENSTOCK_HAS_PNG
#include <png.h>
#endif
#ifdef PENSTOCK_HAS_WEBP
#include <webp/encode.h>
#endif

enum { HEIGHT = 13, WIDTH = 9, SAMPLES = 3, PIXELS = HEIGHT * WIDTH * SAMPLES, SPACE = 1 << 18 };

/* An image of `height` x `width` RGB pixels. Returns its size. */
typedef size_t encode_image(const uint8_t *pixels, int height, int width, uint8_t *out);

#ifdef PENSTOCK_HAS_JPEG
static size_t encode_jpeg(const uint8_t *pixels, int height, int width, uint8_t *out)
{
    unsigned char *made = NULL;
    unsigned long size = 0;
    tjhandle handle = tjInitCompress();
    assert_int_equal(
        tjCompress2(handle, pixels, width, 0, height, TJPF_RGB, &made, &size, TJSAMP_444, 100, 0),
        0);
    assert_true(size <= SPACE);
    memcpy(out, made, size);
    tjFree(made);
    tjDestroy(handle);
    return size;
}
#endif

#ifdef PENSTOCK_HAS_JPEGXL
static size_t encode_jpegxl(const uint8_t *pixels, int height, int width, uint8_t *out)
{
    const JxlPixelFormat format = {SAMPLES, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    JxlEncoder *encoder = JxlEncoderCreate(NULL);
    JxlBasicInfo info;
    JxlColorEncoding colors;
    uint8_t *next = out;
    size_t left = SPACE;
    JxlEncoderInitBasicInfo(&info);
    info.xsize = (uint32_t)width;
    info.ysize = (uint32_t)height;
    info.bits_per_sample = 8;
    info.uses_original_profile = JXL_TRUE;
    assert_int_equal(JxlEncoderSetBasicInfo(encoder, &info), JXL_ENC_SUCCESS);
    JxlColorEncodingSetToSRGB(&colors, JXL_FALSE);
    assert_int_equal(JxlEncoderSetColorEncoding(encoder, &colors), JXL_ENC_SUCCESS);
    JxlEncoderFrameSettings *settings = JxlEncoderFrameSettingsCreate(encoder, NULL);
    JxlEncoderSetFrameLossless(settings, JXL_TRUE);
    assert_int_equal(JxlEncoderAddImageFrame(settings, &format, pixels,
                                             (size_t)height * (size_t)width * SAMPLES),
                     JXL_ENC_SUCCESS);
    JxlEncoderCloseInput(encoder);
    assert_int_equal(JxlEncoderProcessOutput(encoder, &next, &left), JXL_ENC_SUCCESS);
    JxlEncoderDestroy(encoder);
    return (size_t)(next - out);
}
#endif

#ifdef PENSTOCK_HAS_JPEG2K
struct sink {
    uint8_t *data;
    size_t at, size;
};

static OPJ_SIZE_T on_write(void *bytes, OPJ_SIZE_T size, void *context)
{
    struct sink *sink = context;
    assert_true(sink->at + size <= SPACE);
    memcpy(sink->data + sink->at, bytes, size);
    sink->at += size;
    sink->size = sink->at > sink->size ? sink->at : sink->size;
    return size;
}

static OPJ_BOOL on_seek(OPJ_OFF_T offset, void *context)
{
    ((struct sink *)context)->at = (size_t)offset;
    return OPJ_TRUE;
}

static OPJ_OFF_T on_skip(OPJ_OFF_T count, void *context)
{
    ((struct sink *)context)->at += (size_t)count;
    return count;
}

static size_t encode_jpeg2k(const uint8_t *pixels, int height, int width, uint8_t *out)
{
    struct sink sink = {out, 0, 0};
    opj_cparameters_t parameters;
    opj_image_cmptparm_t components[SAMPLES] = {{0}};
    for (int c = 0; c < SAMPLES; c++)
        components[c] = (opj_image_cmptparm_t){
            .dx = 1, .dy = 1, .w = (uint32_t)width, .h = (uint32_t)height, .prec = 8, .bpp = 8};
    opj_image_t *image = opj_image_create(SAMPLES, components, OPJ_CLRSPC_SRGB);
    image->x1 = (uint32_t)width;
    image->y1 = (uint32_t)height;
    for (int i = 0; i < height * width * SAMPLES; i++)
        image->comps[i % SAMPLES].data[i / SAMPLES] = pixels[i];
    opj_set_default_encoder_parameters(&parameters);
    parameters.numresolution = 2;
    opj_codec_t *codec = opj_create_compress(OPJ_CODEC_JP2);
    opj_stream_t *stream = opj_stream_create(SPACE, OPJ_FALSE);
    opj_stream_set_user_data(stream, &sink, NULL);
    opj_stream_set_write_function(stream, on_write);
    opj_stream_set_seek_function(stream, on_seek);
    opj_stream_set_skip_function(stream, on_skip);
    assert_true(opj_setup_encoder(codec, &parameters, image));
    assert_true(opj_start_compress(codec, image, stream) && opj_encode(codec, stream) &&
                opj_end_compress(codec, stream));
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    opj_image_destroy(image);
    return sink.size;
}
#endif

#ifdef PENSTOCK_HAS_PNG
static size_t encode_png(const uint8_t *pixels, int height, int width, uint8_t *out)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (uint32_t)width,
                       .height = (uint32_t)height,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = SPACE;
    assert_true(png_image_write_to_memory(&image, out, &size, 0, pixels, 0, NULL));
    return size;
}
#endif

#ifdef PENSTOCK_HAS_WEBP
static size_t encode_webp(const uint8_t *pixels, int height, int width, uint8_t *out)
{
    uint8_t *made = NULL;
    size_t size = WebPEncodeLosslessRGB(pixels, width, height, width * SAMPLES, &made);
    assert_true(size > 0 && size <= SPACE);
    memcpy(out, made, size);
    WebPFree(made);
    return size;
}
#endif

/* NULL: the codec was left out. */
static const struct {
    const char *name, *package;
    encode_image *encode;
    int tolerance;
} codecs[] = {
#ifdef PENSTOCK_HAS_JPEG
    {"jpeg", NULL, encode_jpeg, 3},
#else
    {"jpeg", "libturbojpeg0-dev", NULL, 0},
#endif
#ifdef PENSTOCK_HAS_JPEGXL
    {"jpegxl", NULL, encode_jpegxl, 0},
#else
    {"jpegxl", "libjxl-dev", NULL, 0},
#endif
#ifdef PENSTOCK_HAS_JPEG2K
    {"jpeg2k", NULL, encode_jpeg2k, 0},
#else
    {"jpeg2k", "libopenjp2-7-dev", NULL, 0},
#endif
#ifdef PENSTOCK_HAS_PNG
    {"png", NULL, encode_png, 0},
#else
    {"png", "libpng-dev", NULL, 0},
#endif
#ifdef PENSTOCK_HAS_WEBP
    {"webp", NULL, encode_webp, 0},
#else
    {"webp", "libwebp-dev", NULL, 0},
#endif
};
enum { CODECS = sizeof codecs / sizeof codecs[0] };

static struct codec_chain chain_for(const char *name, const struct codec_chunk *chunk)
{
    struct codec_chain chain = {0};
    struct error err;
    if (codec_chain_add(&chain, CODEC_ZARR_V3, name, NULL, 1, &err) != STATUS_OK ||
        codec_chain_settle(&chain, chunk, &err) != STATUS_OK)
        fail_msg("%s: %s", name, err.message);
    return chain;
}

static enum status decode(const char *name, const struct codec_chunk *chunk, const uint8_t *stored,
                          size_t stored_size, uint8_t *out, struct error *err)
{
    struct codec_chain chain = chain_for(name, chunk);
    struct codec_context *context = context_of(&chain, chunk->bytes);
    uint8_t *exact = malloc(stored_size ? stored_size : 1); /* for AddressSanitizer */
    assert_non_null(exact);
    memcpy(exact, stored, stored_size);
    enum status status =
        codec_decode(&chain, context, exact, stored_size, codec_output_of(out, chunk->bytes), err);
    free(exact);
    codec_context_free(context);
    return status;
}

static const struct codec_chunk whole = {
    .bytes = PIXELS, .dtype = DTYPE_UINT8, .rank = 5, .lengths = {1, HEIGHT, WIDTH, 1, SAMPLES}};

static void test_images_are_decoded(void **state)
{
    (void)state;
    static uint8_t stored[SPACE];
    uint8_t *pixels = make_data(PIXELS, 3, 1), out[PIXELS];
    struct error err;
    for (size_t i = 0; i < CODECS; i++) {
        if (!codecs[i].encode)
            continue;
        size_t size = codecs[i].encode(pixels, HEIGHT, WIDTH, stored);
        if (decode(codecs[i].name, &whole, stored, size, out, &err) != STATUS_OK)
            fail_msg("%s", err.message);
        for (size_t k = 0; k < PIXELS; k++)
            if (abs(out[k] - pixels[k]) > codecs[i].tolerance)
                fail_msg("%s: value %zu is %d, not %d", codecs[i].name, k, out[k], pixels[k]);
    }
    free(pixels);
}

/* The header is looked at first: what would be decoded is larger than memory that is there. */
static void test_other_images_are_refused(void **state)
{
    (void)state;
    enum { LARGE = 1500 };
    static const struct codec_chunk others[] = {
        {PIXELS, DTYPE_UINT8, false, 3, {SAMPLES, HEIGHT, WIDTH}},
        {PIXELS - WIDTH, DTYPE_UINT8, false, 3, {HEIGHT, WIDTH, SAMPLES - 1}},
        {PIXELS - WIDTH * SAMPLES, DTYPE_UINT8, false, 3, {HEIGHT - 1, WIDTH, SAMPLES}},
        {2 * PIXELS, DTYPE_UINT16, false, 3, {HEIGHT, WIDTH, SAMPLES}},
        {2 * PIXELS, DTYPE_UINT8, false, 4, {2, HEIGHT, WIDTH, SAMPLES}},
    };
    static uint8_t stored[SPACE], out[2 * PIXELS];
    uint8_t *pixels = make_data(PIXELS, 3, 1), *large = calloc(LARGE * LARGE, SAMPLES);
    struct error err;
    for (size_t i = 0; i < CODECS; i++) {
        if (!codecs[i].encode)
            continue;
        size_t size = codecs[i].encode(pixels, HEIGHT, WIDTH, stored);
        for (size_t k = 0; k < sizeof others / sizeof others[0]; k++)
            if (decode(codecs[i].name, &others[k], stored, size, out, &err) != STATUS_CORRUPT ||
                !strstr(err.message, "header says 13 x 9 pixels of 3 samples"))
                fail_msg("%s as other %zu: %s", codecs[i].name, k, err.message);
        size = codecs[i].encode(large, LARGE, LARGE, stored);
        assert_int_equal(decode(codecs[i].name, &whole, stored, size, out, &err), STATUS_CORRUPT);
        assert_non_null(strstr(err.message, "header says 1500 x 1500 pixels"));
    }
    free(large);
    free(pixels);
}

static void test_images_that_are_cut_short_are_refused(void **state)
{
    (void)state;
    static uint8_t stored[SPACE];
    uint8_t *pixels = make_data(PIXELS, 3, 1), out[PIXELS];
    struct error err;
    for (size_t i = 0; i < CODECS; i++) {
        if (!codecs[i].encode)
            continue;
        size_t size = codecs[i].encode(pixels, HEIGHT, WIDTH, stored);
        for (size_t cut = 0; cut < size / 2; cut += 7)
            if (decode(codecs[i].name, &whole, stored, cut, out, &err) != STATUS_CORRUPT)
                fail_msg("%s of %zu bytes: decoded %zu", codecs[i].name, size, cut);
    }
    free(pixels);
}

/* By each name that writers use. */
static void test_names(void **state)
{
    (void)state;
    char name[64];
    struct error err;
    for (size_t i = 0; i < CODECS; i++)
        for (int k = 0; k < 4; k++) {
            struct codec_chain chain = {0};
            snprintf(name, sizeof name, "%s%s", k % 2 ? "imagecodecs_" : "", codecs[i].name);
            enum codec_format format = k < 2 ? CODEC_ZARR_V2 : CODEC_ZARR_V3;
            assert_true(codec_is_image(format, name));
            enum status status = codec_chain_add(&chain, format, name, NULL, 1, &err);
            assert_int_equal(status, codecs[i].encode ? STATUS_OK : STATUS_UNSUPPORTED);
            if (!codecs[i].encode)
                assert_non_null(strstr(err.message, codecs[i].package));
            else
                assert_int_equal(codec_chain_add(&chain, format, name, NULL, 1, &err),
                                 STATUS_UNSUPPORTED); /* behind another one */
        }
    assert_false(codec_is_image(CODEC_ZARR_V2, "imagecodecs_zstd"));
}

static void test_chunks_that_images_cannot_hold(void **state)
{
    (void)state;
    const struct codec_chunk chunks[] = {{8, DTYPE_FLOAT64, false, 1, {1}},
                                         {4, DTYPE_NONE, false, 1, {1}},
                                         {2, DTYPE_UINT16, true, 1, {1}}};
    struct error err;
    for (size_t i = 0; i < CODECS; i++)
        for (size_t k = 0; codecs[i].encode && k < sizeof chunks / sizeof chunks[0]; k++) {
            struct codec_chain chain = {0};
            assert_int_equal(codec_chain_add(&chain, CODEC_ZARR_V2, codecs[i].name, NULL, 1, &err),
                             STATUS_OK);
            assert_int_equal(codec_chain_settle(&chain, &chunks[k], &err), STATUS_UNSUPPORTED);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_are_decoded),
        cmocka_unit_test(test_other_images_are_refused),
        cmocka_unit_test(test_images_that_are_cut_short_are_refused),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_chunks_that_images_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
