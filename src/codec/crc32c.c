/* crc32c: the data, then its CRC-32C (Castagnoli, RFC 3720 B.4) as uint32, little-endian.
 *
 * Decoding checks and gives a part of its input: nothing is copied.
 */
#include "codec/codec_internal.h"

#include <endian.h>
#include <isa-l/crc.h>
#include <string.h>

enum { CHECKSUM_BYTES = 4 };

/* libisal neither sets the start value nor inverts the result, and takes the length as an int. */
static uint32_t checksum(struct bytes bytes)
{
    const size_t most = 1u << 30;
    uint32_t crc = UINT32_MAX;
    while (bytes.size > 0) {
        size_t size = bytes.size < most ? bytes.size : most;
        crc = crc32_iscsi((unsigned char *)bytes.data, (int)size, crc);
        bytes = (struct bytes){bytes.data + size, bytes.size - size};
    }
    return ~crc;
}

/* numcodecs can also put the checksum in front ("location": "start"). */
static enum status parse(struct json_object *configuration, size_t item_bytes, int *parameters,
                         struct error *err)
{
    (void)item_bytes, (void)parameters;
    const char *location = NULL;
    enum status status = codec_setting_text(configuration, "location", "end", &location, err);
    if (!status && strcmp(location, "end") != 0)
        status =
            error_set(err, STATUS_UNSUPPORTED, "location '%s': only 'end' is supported", location);
    return status;
}

static size_t stored_bound(size_t decoded_bytes)
{
    return decoded_bytes + CHECKSUM_BYTES;
}

static enum status decode(void *state, struct bytes stored, struct room room,
                          struct bytes *ret_decoded, struct error *err)
{
    (void)state, (void)room;
    if (stored.size < CHECKSUM_BYTES)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes have no room for a checksum",
                         stored.size);
    struct bytes data = {stored.data, stored.size - CHECKSUM_BYTES};
    uint32_t expected;
    memcpy(&expected, data.data + data.size, sizeof expected);
    expected = le32toh(expected);
    uint32_t actual = checksum(data);
    if (actual != expected)
        return error_set(err, STATUS_CORRUPT, "checksum of %zu bytes is %08x, stored is %08x",
                         data.size, actual, expected);
    *ret_decoded = data;
    return STATUS_OK;
}

static enum status encode(const int *parameters, struct bytes decoded, struct room room,
                          size_t *ret_size, struct error *err)
{
    (void)parameters, (void)err;
    uint32_t crc = htole32(checksum(decoded));
    if (decoded.size > 0)
        memcpy(room.data, decoded.data, decoded.size);
    memcpy(room.data + decoded.size, &crc, sizeof crc);
    *ret_size = decoded.size + CHECKSUM_BYTES;
    return STATUS_OK;
}

const struct codec codec_crc32c = {
    .name = "crc32c",
    .is_zarr_v3_core = true,
    .trims = true,
    .parse = parse,
    .stored_bound = stored_bound,
    .decode = decode,
    .encode = encode,
};
