/* gzip and zlib: DEFLATE (RFC 1951) in the wrappers of RFC 1952 and RFC 1950, through libdeflate.
 *
 * A gzip chunk may have several members, whose contents follow one another, and zeros as padding
 * behind them. A zlib chunk is one stream.
 */
#include "codec/codec_internal.h"

#include <libdeflate.h>

enum { LEVEL };

typedef enum libdeflate_result decompress(struct libdeflate_decompressor *state, const void *in,
                                          size_t in_size, void *out, size_t out_capacity,
                                          size_t *ret_in_size, size_t *ret_out_size);
typedef size_t compress(struct libdeflate_compressor *state, const void *in, size_t in_size,
                        void *out, size_t out_capacity);

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    return codec_setting(configuration, "level", 1, -1, 9, &step->parameters[LEVEL], err);
}

/* zlib with little memory needs an eighth and more on data that does not compress. */
static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes + decoded_bytes / 6 + 1024;
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    (void)decoded_bytes;
    struct libdeflate_decompressor *state = libdeflate_alloc_decompressor();
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "gzip: no memory for a decompressor");
    *ret_state = state;
    return STATUS_OK;
}

static void state_free(void *state)
{
    libdeflate_free_decompressor(state);
}

/* A chunk on its way: what is still to be decoded, and what has been. */
struct inflation {
    struct bytes left;
    struct codec_output room;
    size_t done;
};

static enum status explain(enum libdeflate_result result, size_t offset, size_t capacity,
                           struct error *err)
{
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE)
        return error_set(err, STATUS_CORRUPT, "decodes to more than the %zu bytes of a chunk",
                         capacity);
    return error_set(err, STATUS_CORRUPT,
                     "stream at byte %zu is damaged or cut short, or its checksum is wrong",
                     offset);
}

static enum status decode_stream(decompress *function, void *state, struct bytes stored,
                                 struct inflation *inflation, struct error *err)
{
    size_t in_size = 0, out_size = 0;
    enum libdeflate_result result = function(
        state, inflation->left.data, inflation->left.size, inflation->room.data + inflation->done,
        inflation->room.capacity - inflation->done, &in_size, &out_size);
    if (result != LIBDEFLATE_SUCCESS)
        return explain(result, stored.size - inflation->left.size, inflation->room.capacity, err);
    inflation->left.data += in_size;
    inflation->left.size -= in_size;
    inflation->done += out_size;
    return STATUS_OK;
}

static void skip_zeros(struct bytes *bytes)
{
    for (; bytes->size > 0 && bytes->data[0] == 0; bytes->data++)
        bytes->size--;
}

static enum status decode_gzip(const struct codec_step *step, void *state, struct bytes stored,
                               struct codec_output room, struct bytes *ret_decoded,
                               struct error *err)
{
    (void)step;
    struct inflation inflation = {.left = stored, .room = room};
    do {
        enum status status =
            decode_stream(libdeflate_gzip_decompress_ex, state, stored, &inflation, err);
        if (status != STATUS_OK)
            return status;
        skip_zeros(&inflation.left);
    } while (inflation.left.size > 0);
    *ret_decoded = (struct bytes){room.data, inflation.done};
    return STATUS_OK;
}

static enum status decode_zlib(const struct codec_step *step, void *state, struct bytes stored,
                               struct codec_output room, struct bytes *ret_decoded,
                               struct error *err)
{
    (void)step;
    struct inflation inflation = {.left = stored, .room = room};
    enum status status =
        decode_stream(libdeflate_zlib_decompress_ex, state, stored, &inflation, err);
    if (status != STATUS_OK)
        return status;
    if (inflation.left.size > 0)
        return error_set(err, STATUS_CORRUPT, "stream ends at byte %zu of %zu",
                         stored.size - inflation.left.size, stored.size);
    *ret_decoded = (struct bytes){room.data, inflation.done};
    return STATUS_OK;
}

/* Method and flags are looked at, too: any bytes may begin with two that are right. */
static bool begins_gzip(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    return size >= 4 && at[0] == 0x1f && at[1] == 0x8b && at[2] == 8 && at[3] < 0x20;
}

static bool begins_zlib(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    return size >= 2 && (at[0] & 0x8f) == 8 && (at[1] & 0x20) == 0 &&
           (at[0] << 8 | at[1]) % 31 == 0;
}

static enum status encode(compress *function, int level, struct bytes decoded,
                          struct codec_output room, size_t *ret_size, struct error *err)
{
    struct libdeflate_compressor *state = libdeflate_alloc_compressor(level < 0 ? 6 : level);
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a compressor");
    size_t size = function(state, decoded.data, decoded.size, room.data, room.capacity);
    libdeflate_free_compressor(state);
    if (size == 0)
        return error_set(err, STATUS_INVALID, "%zu bytes do not fit into %zu", decoded.size,
                         room.capacity);
    *ret_size = size;
    return STATUS_OK;
}

static enum status encode_gzip(const struct codec_step *step, struct bytes decoded,
                               struct codec_output room, size_t *ret_size, struct error *err)
{
    return encode(libdeflate_gzip_compress, step->parameters[LEVEL], decoded, room, ret_size, err);
}

static enum status encode_zlib(const struct codec_step *step, struct bytes decoded,
                               struct codec_output room, size_t *ret_size, struct error *err)
{
    return encode(libdeflate_zlib_compress, step->parameters[LEVEL], decoded, room, ret_size, err);
}

const struct codec codec_gzip = {
    .name = "gzip",
    .is_zarr_v3_core = true,
    .parse = parse,
    .stored_bound = stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = 16 * 1024,
    .decode = decode_gzip,
    .begins = begins_gzip,
    .encode = encode_gzip,
    .describe = codec_level_describe,
    .write_json = codec_level_write_json,
};

const struct codec codec_zlib = {
    .name = "zlib",
    .parse = parse,
    .stored_bound = stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = 16 * 1024,
    .decode = decode_zlib,
    .begins = begins_zlib,
    .encode = encode_zlib,
    .describe = codec_level_describe,
    .write_json = codec_level_write_json,
};
