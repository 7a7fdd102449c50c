/* See codec.h: decoding chunks of unknown size. Where a header tells the size, one try is enough;
 * else the room doubles from try to try. */
#include "codec/codec_internal.h"

#include "base/number.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static bool number_at(struct bytes bytes, size_t offset, size_t *ret_number)
{
    uint32_t number;
    if (bytes.size < offset + sizeof number)
        return false;
    memcpy(&number, bytes.data + offset, sizeof number);
    *ret_number = le32toh(number);
    return true;
}

/* The decoded size, where the bytes tell it. */
static bool told_size(const struct codec *codec, struct bytes stored, size_t *ret_size)
{
    if (codec == &codec_blosc)
        return number_at(stored, 4, ret_size);
    if (codec == &codec_lz4)
        return number_at(stored, 0, ret_size);
    if (codec != &codec_zstd || stored.size == 0)
        return false;
    unsigned long long size = ZSTD_getFrameContentSize(stored.data, stored.size);
    size_t frame = ZSTD_findFrameCompressedSize(stored.data, stored.size);
    *ret_size = size;
    return size != ZSTD_CONTENTSIZE_UNKNOWN && size != ZSTD_CONTENTSIZE_ERROR &&
           !ZSTD_isError(frame) && frame == stored.size;
}

/* Decodes into `capacity` bytes of new memory. */
static enum status decode_into(const struct codec_step *step, struct bytes stored, size_t capacity,
                               void **ret_memory, struct bytes *ret_decoded, struct error *err)
{
    const struct codec *codec = step->codec;
    void *state = NULL;
    struct room room = {.data = malloc(max_u64(capacity, 1)), .capacity = capacity};
    if (!room.data)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu decoded bytes", capacity);
    enum status status = codec->state_new ? codec->state_new(capacity, &state, err) : STATUS_OK;
    if (status == STATUS_OK)
        status = codec->decode(step, state, stored, room, ret_decoded, err);
    if (state)
        codec->state_free(state);
    if (status == STATUS_OK)
        *ret_memory = room.data;
    else
        free(room.data);
    return status;
}

static enum status decode_step(const struct codec_step *step, struct bytes stored, size_t limit,
                               void **ret_memory, struct bytes *ret_decoded, struct error *err)
{
    const size_t least = 65536;
    size_t capacity;
    bool is_told = told_size(step->codec, stored, &capacity);
    if (is_told && capacity > limit)
        return error_set(err, STATUS_CORRUPT, "header says %zu bytes, more than %zu", capacity,
                         limit);
    if (!is_told)
        capacity = min_u64(limit, max_u64(least, 4 * stored.size));
    for (;;) {
        enum status status = decode_into(step, stored, capacity, ret_memory, ret_decoded, err);
        if (status != STATUS_CORRUPT || is_told || capacity == limit)
            return status;
        capacity = min_u64(limit, 2 * capacity);
    }
}

enum status codec_decode_unsized(const struct codec_chain *chain, const void *stored,
                                 size_t stored_size, size_t limit, void **ret_decoded,
                                 size_t *ret_size, struct error *err)
{
    struct bytes data = {stored, stored_size};
    void *memory = NULL; /* that has `data`, or NULL: `stored` has */
    for (size_t i = chain->step_count; i-- > 0;) {
        const struct codec_step *step = &chain->steps[i];
        const struct codec *codec = step->codec;
        void *next = NULL;
        enum status status =
            codec->is_filter ? error_set(err, STATUS_UNSUPPORTED,
                                         "a filter of values of unknown "
                                         "number")
            : codec->trims
                ? codec->decode(step, NULL, data, (struct room){.capacity = data.size}, &data, err)
                : decode_step(step, data, limit, &next, &data, err);
        if (next || status != STATUS_OK) {
            free(memory);
            memory = next;
        }
        if (status != STATUS_OK)
            return error_prefix(err, status, "%s: ", codec->name);
    }
    void *decoded = malloc(max_u64(data.size, 1));
    if (decoded && data.size > 0)
        memcpy(decoded, data.data, data.size);
    free(memory);
    if (!decoded)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu decoded bytes", data.size);
    *ret_decoded = decoded;
    *ret_size = data.size;
    return STATUS_OK;
}
