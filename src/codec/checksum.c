/* Checksums: the data, with 4 bytes in front or behind, little-endian.
 *
 *     crc32c      behind  CRC-32C (Castagnoli, RFC 3720 B.4)
 *     crc32       front   CRC-32 (ISO-HDLC, as in gzip)
 *     adler32     front   Adler-32 (RFC 1950)
 *     fletcher32  behind  HDF5's: Fletcher-32 of 16-bit big-endian words, a last odd byte filled up
 *                         with zero
 *
 * numcodecs can put any but the last at the other end ("location"). Decoding checks and gives a
 * part of its input: nothing is copied.
 */
#include "codec/codec_internal.h"

#include "base/number.h"

#include <endian.h>
#include <isa-l/crc.h>
#include <libdeflate.h>
#include <string.h>

enum { LOCATION };
enum location { AT_START, AT_END };
enum { CHECKSUM_BYTES = 4 };

/* libisal neither sets the start value nor inverts the result, and takes the length as an int. */
static uint32_t crc32c(struct bytes bytes)
{
    const size_t most = 1u << 30;
    uint32_t crc = UINT32_MAX;
    while (bytes.size > 0) {
        size_t size = min_u64(bytes.size, most);
        crc = crc32_iscsi((unsigned char *)bytes.data, (int)size, crc);
        bytes = (struct bytes){bytes.data + size, bytes.size - size};
    }
    return ~crc;
}

static uint32_t crc32(struct bytes bytes)
{
    return libdeflate_crc32(0, bytes.data, bytes.size);
}

static uint32_t adler32(struct bytes bytes)
{
    return libdeflate_adler32(1, bytes.data, bytes.size);
}

/* Sums modulo 65535, which is taken only now and then: 64 bits hold the sums of that many words. A
 * sum of 0 that is not one of zeros alone is written as 65535. */
static uint32_t fletcher32(struct bytes bytes)
{
    const size_t most = 1u << 20;
    uint64_t sum = 0, sum_of_sums = 0;
    while (bytes.size > 0) {
        size_t size = min_u64(bytes.size, most);
        for (size_t i = 0; i + 1 < size; i += 2) {
            sum += (uint64_t)bytes.data[i] << 8 | bytes.data[i + 1];
            sum_of_sums += sum;
        }
        if (size % 2) {
            sum += (uint64_t)bytes.data[size - 1] << 8;
            sum_of_sums += sum;
        }
        sum = sum > 0 ? (sum - 1) % 65535 + 1 : 0;
        sum_of_sums = sum_of_sums > 0 ? (sum_of_sums - 1) % 65535 + 1 : 0;
        bytes = (struct bytes){bytes.data + size, bytes.size - size};
    }
    return (uint32_t)(sum_of_sums << 16 | sum);
}

/* Earlier versions of numcodecs took words as little-endian, which swaps the bytes of both sums,
 * and wrote 0 where it is 65535 now. */
static uint32_t fletcher32_of_old(uint32_t checksum)
{
    uint32_t sum = checksum & 0xffff, sum_of_sums = checksum >> 16;
    sum = sum == 0xffff ? 0 : __builtin_bswap16((uint16_t)sum);
    sum_of_sums = sum_of_sums == 0xffff ? 0 : __builtin_bswap16((uint16_t)sum_of_sums);
    return sum_of_sums << 16 | sum;
}

static enum status parse(struct json_object *configuration, enum location location,
                         struct codec_step *step, struct error *err)
{
    const char *text = NULL;
    enum status status = codec_setting_text(configuration, "location",
                                            location == AT_START ? "start" : "end", &text, err);
    if (status != STATUS_OK)
        return status;
    step->parameters[LOCATION] = strcmp(text, "start") == 0 ? AT_START : AT_END;
    if (step->parameters[LOCATION] == AT_END && strcmp(text, "end") != 0)
        return error_set(err, STATUS_CORRUPT, "location '%.40s' is neither 'start' nor 'end'",
                         text);
    return STATUS_OK;
}

static enum status parse_in_front(struct json_object *configuration, size_t item_bytes,
                                  struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    return parse(configuration, AT_START, step, err);
}

static enum status parse_behind(struct json_object *configuration, size_t item_bytes,
                                struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    return parse(configuration, AT_END, step, err);
}

static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes + CHECKSUM_BYTES;
}

typedef uint32_t checksum(struct bytes bytes);

static enum status check(const struct codec_step *step, checksum *function, struct bytes stored,
                         struct bytes *ret_decoded, struct error *err)
{
    if (stored.size < CHECKSUM_BYTES)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes have no room for a checksum",
                         stored.size);
    bool in_front = step->parameters[LOCATION] == AT_START;
    struct bytes data = {stored.data + (in_front ? CHECKSUM_BYTES : 0),
                         stored.size - CHECKSUM_BYTES};
    uint32_t expected;
    memcpy(&expected, in_front ? stored.data : data.data + data.size, sizeof expected);
    expected = le32toh(expected);
    uint32_t actual = function(data);
    bool is_old = function == fletcher32 && fletcher32_of_old(actual) == expected;
    if (actual != expected && !is_old)
        return error_set(err, STATUS_CORRUPT, "checksum of %zu bytes is %08x, stored is %08x",
                         data.size, actual, expected);
    *ret_decoded = data;
    return STATUS_OK;
}

static enum status put(const struct codec_step *step, checksum *function, struct bytes decoded,
                       struct codec_output room, size_t *ret_size)
{
    bool in_front = step->parameters[LOCATION] == AT_START;
    uint32_t value = htole32(function(decoded));
    if (decoded.size > 0)
        memcpy(room.data + (in_front ? CHECKSUM_BYTES : 0), decoded.data, decoded.size);
    memcpy(room.data + (in_front ? 0 : decoded.size), &value, sizeof value);
    *ret_size = decoded.size + CHECKSUM_BYTES;
    return STATUS_OK;
}

static void write_json(const struct codec_step *step, enum codec_format format, struct text *out)
{
    (void)format;
    text_append(out, "\"location\": \"%s\"",
                step->parameters[LOCATION] == AT_START ? "start" : "end");
}

#define DEFINE_CHECKSUM(function, parse_function, write_function, is_core)                    \
    static enum status decode_##function(const struct codec_step *step, void *state,          \
                                         struct bytes stored, struct codec_output room,       \
                                         struct bytes *ret_decoded, struct error *err)        \
    {                                                                                         \
        (void)state, (void)room;                                                              \
        return check(step, function, stored, ret_decoded, err);                               \
    }                                                                                         \
                                                                                              \
    static enum status encode_##function(const struct codec_step *step, struct bytes decoded, \
                                         struct codec_output room, size_t *ret_size,          \
                                         struct error *err)                                   \
    {                                                                                         \
        (void)err;                                                                            \
        return put(step, function, decoded, room, ret_size);                                  \
    }                                                                                         \
                                                                                              \
    const struct codec codec_##function = {                                                   \
        .name = #function,                                                                    \
        .is_zarr_v3_core = is_core,                                                           \
        .trims = true,                                                                        \
        .parse = parse_function,                                                              \
        .stored_bound = stored_bound,                                                         \
        .decode = decode_##function,                                                          \
        .encode = encode_##function,                                                          \
        .write_json = write_function,                                                         \
    };

DEFINE_CHECKSUM(crc32c, parse_behind, NULL, true)
DEFINE_CHECKSUM(crc32, parse_in_front, write_json, false)
DEFINE_CHECKSUM(adler32, parse_in_front, write_json, false)
DEFINE_CHECKSUM(fletcher32, parse_behind, NULL, false)
