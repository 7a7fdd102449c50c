/* shuffle: first bytes of all elements, then second bytes, and so on. Bytes that are no element lie
 * behind as they are: HDF5 shuffles data with a checksum of 4 bytes behind (H5Zshuffle.c). */
#include "codec/blosc/unshuffle.h"
#include "codec/codec_internal.h"

#include <string.h>

enum { ELEMENT_BYTES };

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    return codec_setting(configuration, "elementsize", 4, 0, INT32_MAX,
                         &step->parameters[ELEMENT_BYTES], err);
}

static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes;
}

static void unshuffle(const uint8_t *restrict in, uint8_t *restrict out, size_t count,
                      size_t element_bytes)
{
    const uint8_t *planes[UNSHUFFLE_MAX_TYPE_BYTES];
    if (element_bytes <= UNSHUFFLE_MAX_TYPE_BYTES) {
        for (size_t k = 0; k < element_bytes; k++)
            planes[k] = in + k * count;
        unshuffle_bytes(unshuffle_best(), planes, element_bytes, count, false, out);
        return;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < element_bytes; k++)
            out[i * element_bytes + k] = in[k * count + i];
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)state;
    size_t element_bytes =
        step->parameters[ELEMENT_BYTES] > 1 ? (size_t)step->parameters[ELEMENT_BYTES] : 1;
    size_t rest = stored.size % element_bytes, shuffled = stored.size - rest;
    if (stored.size > room.capacity)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes, chunk holds %zu", stored.size,
                         room.capacity);
    if (element_bytes > 1)
        unshuffle(stored.data, room.data, shuffled / element_bytes, element_bytes);
    else if (shuffled > 0)
        memcpy(room.data, stored.data, shuffled);
    if (rest > 0)
        memcpy(room.data + shuffled, stored.data + shuffled, rest);
    *ret_decoded = (struct bytes){room.data, stored.size};
    return STATUS_OK;
}

static void describe(const struct codec_step *step, struct text *out)
{
    text_append(out, "(elements of %d bytes)", step->parameters[ELEMENT_BYTES]);
}

const struct codec codec_shuffle = {
    .name = "shuffle",
    .parse = parse,
    .stored_bound = stored_bound,
    .decode = decode,
    .describe = describe,
};
