/* What the fuzz targets of codecs of images share, and that of zfpy: any bytes give an image that is
 * the chunk, or an error.
 *
 *     byte 0          dtype (modulo their number)
 *     bytes 1 to 4    the chunk's axes: frames, height, width, samples; 0: the axis is not there
 *     the rest        the stored chunk
 *
 * A target defines FUZZ_IMAGE, the codec's name in v3, and FUZZ_DTYPES unless they are those of
 * images. The decoded bytes lie in memory of just their
 * size, for AddressSanitizer; behind them is a guard for what runs without it. */
#include "codec/codec.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#ifndef FUZZ_DTYPES
#define FUZZ_DTYPES DTYPE_UINT8, DTYPE_UINT16, DTYPE_FLOAT32, DTYPE_INT16, DTYPE_FLOAT16
#endif

enum { HEADER_BYTES = 5, MOST_DECODED_BYTES = 1 << 20, GUARD_BYTES = 64, GUARD = 0xa5 };

static struct codec_chunk chunk_of(const uint8_t *data)
{
    static const enum dtype dtypes[] = {FUZZ_DTYPES};
    struct codec_chunk chunk = {.dtype = dtypes[data[0] % (sizeof dtypes / sizeof dtypes[0])]};
    chunk.bytes = dtype_bytes(chunk.dtype);
    for (int i = 0; i < HEADER_BYTES - 1; i++)
        if (data[1 + i] > 0) {
            chunk.lengths[chunk.rank++] = data[1 + i];
            chunk.bytes *= data[1 + i];
        }
    return chunk;
}

static void decode(const struct codec_chain *chain, const uint8_t *stored, size_t stored_size,
                   size_t size)
{
    struct codec_context *context = NULL;
    uint8_t *decoded = malloc(size + GUARD_BYTES);
    struct error err;
    CHECK(decoded);
    CHECK(codec_context_new(&chain, 1, size, &context, NULL) == STATUS_OK);
    memset(decoded + size, GUARD, GUARD_BYTES);
    enum status status =
        codec_decode(chain, context, stored, stored_size, codec_output_of(decoded, size), &err);
    if (status != STATUS_OK)
        CHECK(err.status == (int)status && err.message[0]);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        CHECK(decoded[size + i] == GUARD);
    codec_context_free(context);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct codec_chain chain = {0};
    if (size < HEADER_BYTES)
        return 0;
    struct codec_chunk chunk = chunk_of(data);
    if (chunk.bytes > MOST_DECODED_BYTES)
        return 0;
    size_t stored_size = size - HEADER_BYTES;
    uint8_t *stored = malloc(stored_size ? stored_size : 1);
    CHECK(stored);
    memcpy(stored, data + HEADER_BYTES, stored_size);
    CHECK(codec_chain_add(&chain, CODEC_ZARR_V3, FUZZ_IMAGE, NULL, 1, NULL) == STATUS_OK);
    CHECK(codec_chain_settle(&chain, &chunk, NULL) == STATUS_OK);
    decode(&chain, stored, stored_size, chunk.bytes);
    free(stored);
    return 0;
}
