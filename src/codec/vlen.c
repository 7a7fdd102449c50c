/* See vlen.h: values of variable length in a decoded chunk. */
#include "codec/vlen.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

static uint32_t length_at(const unsigned char *bytes)
{
    uint32_t length;
    memcpy(&length, bytes, sizeof length);
    return le32toh(length);
}

/* Going through a chunk. */
struct chunk_walk {
    const unsigned char *bytes;
    size_t size, at, item_bytes;
    uint64_t value, count;
};

static enum status begin(struct chunk_walk *walk, struct error *err)
{
    if (walk->size < VLEN_LENGTH_BYTES)
        return error_set(err, STATUS_CORRUPT, "%zu bytes are too few for values of variable length",
                         walk->size);
    if (length_at(walk->bytes) != walk->count)
        return error_set(err, STATUS_CORRUPT,
                         "the chunk has %" PRIu32 " values of variable length, the array's chunks "
                         "have %" PRIu64,
                         length_at(walk->bytes), walk->count);
    walk->at = VLEN_LENGTH_BYTES;
    return STATUS_OK;
}

/* Takes the next value. *ret_items: how many it has. */
static enum status step(struct chunk_walk *walk, uint32_t *ret_items, struct error *err)
{
    if (walk->size - walk->at < VLEN_LENGTH_BYTES)
        return error_set(err, STATUS_CORRUPT, "the chunk ends before value %" PRIu64 " of %" PRIu64,
                         walk->value, walk->count);
    uint32_t length = length_at(walk->bytes + walk->at);
    walk->at += VLEN_LENGTH_BYTES;
    if (length > walk->size - walk->at)
        return error_set(err, STATUS_CORRUPT,
                         "value %" PRIu64 " has %" PRIu32 " bytes, and %zu bytes are left of "
                         "the chunk",
                         walk->value, length, walk->size - walk->at);
    if (length % walk->item_bytes != 0)
        return error_set(err, STATUS_CORRUPT,
                         "value %" PRIu64 " has %" PRIu32 " bytes, no multiple of its items' "
                         "%zu",
                         walk->value, length, walk->item_bytes);
    walk->at += length;
    walk->value++;
    *ret_items = length / (uint32_t)walk->item_bytes;
    return STATUS_OK;
}

static enum status end(const struct chunk_walk *walk, struct error *err)
{
    if (walk->at < walk->size)
        return error_set(err, STATUS_CORRUPT, "%zu bytes follow the last value",
                         walk->size - walk->at);
    return STATUS_OK;
}

enum status vlen_measure(const void *chunk, size_t size, uint64_t count, size_t item_bytes,
                         uint32_t *ret_counts, struct error *err)
{
    struct chunk_walk walk = {
        .bytes = chunk, .size = size, .item_bytes = item_bytes, .count = count};
    enum status status = begin(&walk, err);
    uint32_t items;
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++) {
        status = step(&walk, &items, err);
        if (status == STATUS_OK && ret_counts)
            ret_counts[i] = items;
    }
    return status == STATUS_OK ? end(&walk, err) : status;
}

enum status vlen_check(const void *chunk, size_t size, uint64_t count, size_t item_bytes,
                       const uint64_t *offsets, uint64_t known, struct error *err)
{
    struct chunk_walk walk = {
        .bytes = chunk, .size = size, .item_bytes = item_bytes, .count = count};
    enum status status = begin(&walk, err);
    for (uint64_t i = 0; i < count && status == STATUS_OK; i++) {
        uint32_t items = 0;
        status = step(&walk, &items, err);
        if (status == STATUS_OK && i < known && items != offsets[i + 1] - offsets[i])
            status = error_set(err, STATUS_CORRUPT,
                               "value %" PRIu64 " has %" PRIu32 " items, and %" PRIu64
                               " by the array's offsets, or when the dataset was opened",
                               i, items, offsets[i + 1] - offsets[i]);
    }
    return status == STATUS_OK ? end(&walk, err) : status;
}

unsigned char *vlen_copy(const void *chunk, uint64_t count, unsigned char *out)
{
    const unsigned char *bytes = (const unsigned char *)chunk + VLEN_LENGTH_BYTES;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t length = length_at(bytes);
        memcpy(out, bytes + VLEN_LENGTH_BYTES, length);
        bytes += VLEN_LENGTH_BYTES + length;
        out += length;
    }
    return out;
}
