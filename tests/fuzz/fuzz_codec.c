/* Fuzz target for chunk decoding: any bytes through any codec give exactly the expected size or an
 * error.
 *
 *     byte 0      which chain (modulo their number)
 *     bytes 1, 2  decoded size, little-endian
 *     the rest    the stored chunk
 *
 * The chunk and the decoded bytes lie in memory of just their size, for AddressSanitizer; behind
 * the latter is a guard for what runs without it. */
#include "fuzz_codec.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64, GUARD = 0xa5 };

static void decode(const struct codec_chain *chain, struct codec_context *context,
                   const uint8_t *stored, size_t stored_size, uint8_t *decoded, size_t size)
{
    struct error err;
    memset(decoded + size, GUARD, GUARD_BYTES);
    enum status status =
        codec_decode(chain, context, stored, stored_size, codec_output_of(decoded, size), &err);
    if (status != STATUS_OK)
        CHECK(err.status == (int)status && err.message[0]);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        CHECK(decoded[size + i] == GUARD);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < FUZZ_CODEC_HEADER_BYTES)
        return 0;
    struct codec_chain chain = fuzz_codec_chain(data[0] % FUZZ_CODEC_CHAINS);
    const struct codec_chain *chains[] = {&chain};
    size_t decoded_size = data[1] | (size_t)data[2] << 8;
    size_t stored_size = size - FUZZ_CODEC_HEADER_BYTES;
    struct codec_context *context = NULL;
    uint8_t *stored = malloc(stored_size ? stored_size : 1);
    uint8_t *decoded = malloc(decoded_size + GUARD_BYTES);
    CHECK(stored && decoded);
    CHECK(codec_context_new(chains, 1, decoded_size, &context, NULL) == STATUS_OK);
    memcpy(stored, data + FUZZ_CODEC_HEADER_BYTES, stored_size);
    decode(&chain, context, stored, stored_size, decoded, decoded_size);
    codec_context_free(context);
    free(decoded);
    free(stored);
    return 0;
}
