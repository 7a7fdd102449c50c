/* zstd: one or several Zstandard frames (RFC 8878), with or without their content size in front. */
#include "codec/codec_internal.h"

#include <limits.h>
#include <zstd.h>

enum { LEVEL, CHECKSUM };

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    enum status status =
        codec_setting(configuration, "level", 0, INT_MIN, INT_MAX, &step->parameters[LEVEL], err);
    if (status == STATUS_OK)
        status = codec_setting_bool(configuration, "checksum", &step->parameters[CHECKSUM], err);
    return status;
}

/* Room for many small frames and for encoders that stream. */
static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return ZSTD_compressBound(decoded_bytes) + decoded_bytes / 128 + 1024;
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    (void)decoded_bytes;
    ZSTD_DCtx *state = ZSTD_createDCtx();
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "zstd: no memory for a decompressor");
    *ret_state = state;
    return STATUS_OK;
}

static void state_free(void *state)
{
    ZSTD_freeDCtx(state);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)step;
    unsigned long long promised = ZSTD_getFrameContentSize(stored.data, stored.size);
    if (promised == ZSTD_CONTENTSIZE_ERROR)
        return error_set(err, STATUS_CORRUPT, "the %zu bytes do not start with a frame",
                         stored.size);
    if (promised != ZSTD_CONTENTSIZE_UNKNOWN && promised > room.capacity)
        return error_set(err, STATUS_CORRUPT, "header says %llu bytes, chunk holds %zu", promised,
                         room.capacity);
    size_t size = ZSTD_decompressDCtx(state, room.data, room.capacity, stored.data, stored.size);
    if (ZSTD_isError(size))
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes, chunk holds %zu: %s", stored.size,
                         room.capacity, ZSTD_getErrorName(size));
    *ret_decoded = (struct bytes){room.data, size};
    return STATUS_OK;
}

static enum status encode(const struct codec_step *step, struct bytes decoded,
                          struct codec_output room, size_t *ret_size, struct error *err)
{
    ZSTD_CCtx *state = ZSTD_createCCtx();
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a compressor");
    ZSTD_CCtx_setParameter(state, ZSTD_c_compressionLevel, step->parameters[LEVEL]);
    ZSTD_CCtx_setParameter(state, ZSTD_c_checksumFlag, step->parameters[CHECKSUM]);
    size_t size = ZSTD_compress2(state, room.data, room.capacity, decoded.data, decoded.size);
    ZSTD_freeCCtx(state);
    if (ZSTD_isError(size))
        return error_set(err, STATUS_NO_MEMORY, "compress: %s", ZSTD_getErrorName(size));
    *ret_size = size;
    return STATUS_OK;
}

/* numcodecs takes "checksum" in newer versions only; v3 requires it. */
static void write_json(const struct codec_step *step, enum codec_format format, struct text *out)
{
    codec_level_write_json(step, format, out);
    if (format == CODEC_ZARR_V3 || step->parameters[CHECKSUM])
        text_append(out, ", \"checksum\": %s", step->parameters[CHECKSUM] ? "true" : "false");
}

/* With a frame, or one to skip. */
static bool begins(const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    uint32_t magic = size < 4 ? 0 : at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
    return magic == ZSTD_MAGICNUMBER ||
           (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
}

const struct codec codec_zstd = {
    .name = "zstd",
    .is_zarr_v3_core = true,
    .parse = parse,
    .stored_bound = stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = 160 * 1024,
    .decode = decode,
    .begins = begins,
    .encode = encode,
    .describe = codec_level_describe,
    .write_json = write_json,
};
