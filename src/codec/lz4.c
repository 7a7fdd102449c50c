/* lz4 as numcodecs stores it: the decoded size as uint32, little-endian, then one raw LZ4 block. */
#include "codec/codec_internal.h"

#include <endian.h>
#include <limits.h>
#include <lz4.h>
#include <string.h>

enum { ACCELERATION };
enum { HEADER_BYTES = 4 };

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    return codec_setting(configuration, "acceleration", 1, INT_MIN, INT_MAX,
                         &step->parameters[ACCELERATION], err);
}

/* LZ4_compressBound() without its limit on sizes. */
static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return HEADER_BYTES + decoded_bytes + decoded_bytes / 255 + 16;
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)step, (void)state;
    if (stored.size < HEADER_BYTES || stored.size > INT_MAX)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes cannot be an LZ4 chunk",
                         stored.size);
    uint32_t header;
    memcpy(&header, stored.data, sizeof header);
    uint32_t size = le32toh(header);
    if (size > room.capacity || size > INT_MAX)
        return error_set(err, STATUS_CORRUPT, "header says %u bytes, chunk holds %zu", size,
                         room.capacity);
    int got = LZ4_decompress_safe((const char *)stored.data + HEADER_BYTES, (char *)room.data,
                                  (int)stored.size - HEADER_BYTES, (int)size);
    if (got < 0)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes are damaged or cut short",
                         stored.size);
    if ((uint32_t)got != size)
        return error_set(err, STATUS_CORRUPT, "header says %u bytes, the block has %d", size, got);
    *ret_decoded = (struct bytes){room.data, size};
    return STATUS_OK;
}

static enum status encode(const struct codec_step *step, struct bytes decoded,
                          struct codec_output room, size_t *ret_size, struct error *err)
{
    if (decoded.size > LZ4_MAX_INPUT_SIZE)
        return error_set(err, STATUS_INVALID, "%zu bytes are more than one LZ4 block can hold",
                         decoded.size);
    uint32_t header = htole32((uint32_t)decoded.size);
    memcpy(room.data, &header, sizeof header);
    int space = room.capacity > INT_MAX ? INT_MAX : (int)room.capacity;
    int size =
        LZ4_compress_fast((const char *)decoded.data, (char *)room.data + HEADER_BYTES,
                          (int)decoded.size, space - HEADER_BYTES, step->parameters[ACCELERATION]);
    if (size <= 0)
        return error_set(err, STATUS_INVALID, "%zu bytes do not fit into %zu", decoded.size,
                         room.capacity);
    *ret_size = HEADER_BYTES + (size_t)size;
    return STATUS_OK;
}

static void describe(const struct codec_step *step, struct text *out)
{
    text_append(out, "(acceleration %d)", step->parameters[ACCELERATION]);
}

static void write_json(const struct codec_step *step, enum codec_format format, struct text *out)
{
    (void)format;
    text_append(out, "\"acceleration\": %d", step->parameters[ACCELERATION]);
}

const struct codec codec_lz4 = {
    .name = "lz4",
    .parse = parse,
    .stored_bound = stored_bound,
    .decode = decode,
    .encode = encode,
    .describe = describe,
    .write_json = write_json,
};
