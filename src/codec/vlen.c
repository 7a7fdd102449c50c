/* See vlen.h: values of variable length in a decoded chunk. */
#include "codec/vlen.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

enum { LENGTH_BYTES = 4 };

static uint32_t length_at(const unsigned char *bytes)
{
    uint32_t length;
    memcpy(&length, bytes, sizeof length);
    return le32toh(length);
}

enum status vlen_measure(const void *chunk, size_t size, uint64_t count, size_t item_bytes,
                         uint32_t *ret_counts, struct error *err)
{
    const unsigned char *bytes = chunk;
    size_t at = LENGTH_BYTES;
    if (size < LENGTH_BYTES)
        return error_set(err, STATUS_CORRUPT, "%zu bytes are too few for values of variable length",
                         size);
    if (length_at(bytes) != count)
        return error_set(err, STATUS_CORRUPT,
                         "the chunk has %" PRIu32 " values of variable length, the array's chunks "
                         "have %" PRIu64,
                         length_at(bytes), count);
    for (uint64_t i = 0; i < count; i++) {
        if (size - at < LENGTH_BYTES)
            return error_set(err, STATUS_CORRUPT,
                             "the chunk ends before value %" PRIu64 " of %" PRIu64, i, count);
        uint32_t length = length_at(bytes + at);
        at += LENGTH_BYTES;
        if (length > size - at)
            return error_set(err, STATUS_CORRUPT,
                             "value %" PRIu64 " has %" PRIu32 " bytes, and %zu bytes are left of "
                             "the chunk",
                             i, length, size - at);
        if (length % item_bytes != 0)
            return error_set(err, STATUS_CORRUPT,
                             "value %" PRIu64 " has %" PRIu32 " bytes, no multiple of its items' "
                             "%zu",
                             i, length, item_bytes);
        if (ret_counts)
            ret_counts[i] = length / (uint32_t)item_bytes;
        at += length;
    }
    if (at < size)
        return error_set(err, STATUS_CORRUPT, "%zu bytes follow the last value", size - at);
    return STATUS_OK;
}

unsigned char *vlen_copy(const void *chunk, uint64_t count, unsigned char *out)
{
    const unsigned char *bytes = (const unsigned char *)chunk + LENGTH_BYTES;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t length = length_at(bytes);
        memcpy(out, bytes + LENGTH_BYTES, length);
        bytes += LENGTH_BYTES + length;
        out += length;
    }
    return out;
}
