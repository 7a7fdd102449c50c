/* See envelope.h. */
#include "store/icechunk/envelope.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { HEADER_BYTES = 39, VERSION_AT = 36, KIND_AT, COMPRESSION_AT, LAST_VERSION = 2 };
enum { PLAIN, ZSTD };
static const unsigned char magic[] = "ICE\xf0\x9f\xa7\x8a"
                                     "CHUNK";

static enum status check_header(const unsigned char *file, size_t size, enum envelope_kind kind,
                                struct error *err)
{
    if (size < HEADER_BYTES || memcmp(file, magic, sizeof magic - 1) != 0)
        return error_set(err, STATUS_CORRUPT,
                         "its %zu bytes do not begin as a file of Icechunk: it was cut short, or "
                         "is another file",
                         size);
    if (file[VERSION_AT] < 1 || file[VERSION_AT] > LAST_VERSION)
        return error_set(err, STATUS_UNSUPPORTED,
                         "it has version %d of Icechunk's format, and versions 1 and 2 are read",
                         file[VERSION_AT]);
    if (file[KIND_AT] != kind)
        return error_set(err, STATUS_CORRUPT, "it is a file of kind %d instead of %d",
                         file[KIND_AT], (int)kind);
    if (file[COMPRESSION_AT] > ZSTD)
        return error_set(err, STATUS_UNSUPPORTED, "it is compressed by an unknown method (%d)",
                         file[COMPRESSION_AT]);
    return STATUS_OK;
}

static enum status too_many(uint64_t most, struct error *err)
{
    return error_set(err, STATUS_CORRUPT, "it decompresses to more than %" PRIu64 " MiB",
                     most >> 20);
}

/* Decompresses into nowhere. */
static enum status count_bytes(const unsigned char *payload, size_t size, uint64_t most,
                               uint64_t *ret_bytes, struct error *err)
{
    size_t room = ZSTD_DStreamOutSize(), left = 1;
    ZSTD_DCtx *context = ZSTD_createDCtx();
    void *out = malloc(room);
    ZSTD_inBuffer in = {payload, size, 0};
    enum status status = context && out ? STATUS_OK
                                        : error_set(err, STATUS_NO_MEMORY,
                                                    "no memory to decompress its %zu bytes", size);
    uint64_t bytes = 0;
    bool full = false;
    while (status == STATUS_OK && (in.pos < in.size || full)) {
        ZSTD_outBuffer made = {out, room, 0};
        left = ZSTD_decompressStream(context, &made, &in);
        full = made.pos == room;
        bytes += made.pos;
        if (ZSTD_isError(left))
            status = error_set(err, STATUS_CORRUPT, "its zstd frame is damaged: %s",
                               ZSTD_getErrorName(left));
        else if (bytes > most)
            status = too_many(most, err);
    }
    if (status == STATUS_OK && left != 0)
        status = error_set(err, STATUS_CORRUPT, "its zstd frame is cut short");
    free(out);
    ZSTD_freeDCtx(context);
    *ret_bytes = bytes;
    return status;
}

enum status envelope_measure(const void *stored, size_t size, enum envelope_kind kind,
                             uint64_t most, uint64_t *ret_bytes, struct error *err)
{
    const unsigned char *file = stored;
    enum status status = check_header(file, size, kind, err);
    if (status != STATUS_OK)
        return status;
    uint64_t bytes = size - HEADER_BYTES;
    if (file[COMPRESSION_AT] == ZSTD)
        status = count_bytes(file + HEADER_BYTES, size - HEADER_BYTES, most, &bytes, err);
    else if (bytes > most)
        status = too_many(most, err);
    if (status == STATUS_OK)
        *ret_bytes = bytes;
    return status;
}

enum status envelope_decode(const void *stored, size_t size, void *out, uint64_t bytes,
                            struct error *err)
{
    const unsigned char *file = stored;
    size_t got = size - HEADER_BYTES;
    if (file[COMPRESSION_AT] == ZSTD)
        got = ZSTD_decompress(out, bytes, file + HEADER_BYTES, size - HEADER_BYTES);
    else if (got == bytes)
        memcpy(out, file + HEADER_BYTES, bytes);
    if (ZSTD_isError(got) || got != bytes)
        return error_set(err, STATUS_CORRUPT,
                         "it does not decompress to %" PRIu64 " bytes as it did before", bytes);
    return STATUS_OK;
}
