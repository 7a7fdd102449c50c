/* packbits: bools as bits, most significant first, behind a byte that says how many bits at the end
 * are padding. */
#include "codec/codec_internal.h"

#include <string.h>

enum { HEADER_BYTES = 1 };

static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return HEADER_BYTES + decoded_bytes / 8 + (decoded_bytes % 8 != 0);
}

/* Eight bits as eight bytes of 0 or 1, the most significant bit first in memory: the multiplication
 * puts copies of the byte beside one another, the mask takes another bit of each. */
static uint64_t spread(uint8_t bits)
{
    uint64_t bytes = (bits * UINT64_C(0x0101010101010101)) & UINT64_C(0x0102040810204080);
    bytes = ((bytes + UINT64_C(0x7f7f7f7f7f7f7f7f)) | bytes) >> 7 & UINT64_C(0x0101010101010101);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? bytes : __builtin_bswap64(bytes);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)step, (void)state;
    if (stored.size < HEADER_BYTES || stored.data[0] > 7 || (stored.size == 1 && stored.data[0]))
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes do not start with 0 to 7",
                         stored.size);
    size_t padding = stored.data[0];
    const uint8_t *bits = stored.data + HEADER_BYTES;
    size_t count = 8 * (stored.size - HEADER_BYTES) - padding;
    if (count > room.capacity)
        return error_set(err, STATUS_CORRUPT, "header says %zu values, chunk holds %zu", count,
                         room.capacity);
    for (size_t i = 0; i < count / 8; i++) {
        uint64_t bytes = spread(bits[i]);
        memcpy(room.data + 8 * i, &bytes, sizeof bytes);
    }
    if (count % 8 != 0) {
        uint64_t bytes = spread(bits[count / 8]);
        memcpy(room.data + count / 8 * 8, &bytes, count % 8);
    }
    *ret_decoded = (struct bytes){room.data, count};
    return STATUS_OK;
}

const struct codec codec_packbits = {
    .name = "packbits",
    .is_filter = true,
    .stored_bound = stored_bound,
    .decode = decode,
};
