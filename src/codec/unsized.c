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

/* Memory of one step, or of the result; bytes 0: none. */
struct part {
    unsigned char *data;
    size_t bytes;
};

static enum status take(struct codec_memory *memory, size_t bytes, struct part *ret_part,
                        struct error *err)
{
    size_t least = max_u64(bytes, 1);
    enum status status = memory->take(memory, least, err);
    if (status != STATUS_OK)
        return status;
    unsigned char *data = malloc(least);
    if (!data) {
        memory->give(memory, least);
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu decoded bytes", bytes);
    }
    ret_part->data = data;
    ret_part->bytes = least;
    return STATUS_OK;
}

static void give(struct codec_memory *memory, struct part *part)
{
    free(part->data);
    if (part->bytes > 0)
        memory->give(memory, part->bytes);
    *part = (struct part){0};
}

/* Decodes into `capacity` bytes of new memory. */
static enum status decode_into(const struct codec_step *step, struct bytes stored, size_t capacity,
                               struct codec_memory *memory, struct part *ret_part,
                               struct bytes *ret_decoded, struct error *err)
{
    const struct codec *codec = step->codec;
    void *state = NULL;
    struct part part;
    enum status status = take(memory, capacity, &part, err);
    if (status != STATUS_OK)
        return status;
    if (codec->state_new)
        status = codec->state_new(capacity, &state, err);
    if (status == STATUS_OK)
        status = codec->decode(step, state, stored, codec_output_of(part.data, capacity),
                               ret_decoded, err);
    if (state)
        codec->state_free(state);
    if (status == STATUS_OK)
        *ret_part = part;
    else
        give(memory, &part);
    return status;
}

static enum status decode_step(const struct codec_step *step, struct bytes stored, size_t limit,
                               struct codec_memory *memory, struct part *ret_part,
                               struct bytes *ret_decoded, struct error *err)
{
    const size_t least = 65536;
    size_t capacity;
    bool is_told = told_size(step->codec, stored, &capacity);
    if (is_told && capacity > limit) {
        memory->is_short = true;
        return error_set(err, STATUS_CORRUPT, "header says %zu bytes, more than %zu", capacity,
                         limit);
    }
    if (!is_told)
        capacity = min_u64(limit, max_u64(least, 4 * stored.size));
    for (;;) {
        enum status status =
            decode_into(step, stored, capacity, memory, ret_part, ret_decoded, err);
        if (status != STATUS_CORRUPT || is_told)
            return status;
        if (capacity == limit) {
            memory->is_short = true;
            return status;
        }
        capacity = min_u64(limit, 2 * capacity);
    }
}

/* Leaves the decoded bytes alone, at the start of memory of their own. */
static enum status settle(struct codec_memory *memory, struct bytes data, struct part *part,
                          struct error *err)
{
    if (part->bytes == 0) { /* the codecs took a part of the stored bytes, or there is none */
        if (data.size > memory->limit) {
            memory->is_short = true;
            return error_set(err, STATUS_CORRUPT, "%zu bytes, more than %zu", data.size,
                             memory->limit);
        }
        enum status status = take(memory, data.size, part, err);
        if (status == STATUS_OK && data.size > 0)
            memcpy(part->data, data.data, data.size);
        return status;
    }
    if (data.size > 0)
        memmove(part->data, data.data, data.size);
    size_t least = max_u64(data.size, 1);
    unsigned char *smaller = realloc(part->data, least);
    if (smaller) {
        memory->give(memory, part->bytes - least);
        part->data = smaller;
        part->bytes = least;
    }
    return STATUS_OK;
}

enum status codec_decode_unsized(const struct codec_chain *chain, const void *stored,
                                 size_t stored_size, struct codec_memory *memory,
                                 void **ret_decoded, size_t *ret_size, struct error *err)
{
    struct bytes data = {stored, stored_size};
    struct part part = {0}; /* that has `data`; none: `stored` has */
    enum status status = STATUS_OK;
    memory->is_short = false;
    for (size_t i = chain->step_count; i-- > 0 && status == STATUS_OK;) {
        const struct codec_step *step = &chain->steps[i];
        const struct codec *codec = step->codec;
        struct part next = {0};
        if (codec->is_filter || codec->is_image)
            status = error_set(err, STATUS_UNSUPPORTED, "made of values of unknown number");
        else if (codec->trims)
            status = codec->decode(step, NULL, data, (struct codec_output){.capacity = data.size},
                                   &data, err);
        else
            status = decode_step(step, data, memory->limit - part.bytes, memory, &next, &data, err);
        if (next.bytes > 0) {
            give(memory, &part);
            part = next;
        }
        if (status != STATUS_OK)
            error_prefix(err, status, "%s: ", codec->name);
    }
    if (status == STATUS_OK)
        status = settle(memory, data, &part, err);
    if (status != STATUS_OK) {
        give(memory, &part);
        return status;
    }
    *ret_decoded = part.data;
    *ret_size = data.size;
    return STATUS_OK;
}
