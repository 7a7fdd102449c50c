/* Makes the seed corpus of fuzz_codec: make_codec_corpus DIRECTORY. For every chain a chunk that
 * decodes and one that is damaged in its middle. Run by hand when fuzz_codec.h changes; the files
 * are kept in the repository. */
#include "fuzz_codec.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { DECODED_BYTES = 600, STORED_BYTES = 1 << 14 };

static struct codec_chain chain_of(const char *const *names)
{
    struct codec_chain chain = {0};
    for (; *names; names++)
        if (codec_chain_add(&chain, CODEC_ZARR_V2, *names, NULL, 2, NULL))
            abort();
    return chain;
}

static int write_input(const char *folder, size_t chain, const char *kind, const uint8_t *data,
                       size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%zu-%s-%s", folder, chain, fuzz_codec_chains[chain][0], kind);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

static int write_pair(const char *folder, size_t index)
{
    struct codec_chain chain = chain_of(fuzz_codec_chains[index]);
    uint8_t decoded[DECODED_BYTES], input[FUZZ_CODEC_HEADER_BYTES + STORED_BYTES];
    for (size_t i = 0; i < sizeof decoded; i++)
        decoded[i] = (uint8_t)(i % 2 ? i / 64 : i * i / 7);
    input[0] = (uint8_t)index;
    input[1] = DECODED_BYTES & 0xff;
    input[2] = DECODED_BYTES >> 8;
    size_t size = 0;
    struct error err;
    if (codec_encode(&chain, decoded, sizeof decoded, input + FUZZ_CODEC_HEADER_BYTES, STORED_BYTES,
                     &size, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    size += FUZZ_CODEC_HEADER_BYTES;
    int failures = write_input(folder, index, "whole", input, size);
    input[size / 2] ^= 0x55;
    return failures + write_input(folder, index, "damaged", input, size);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
        return EXIT_FAILURE;
    }
    int failures = 0;
    for (size_t i = 0; i < FUZZ_CODEC_CHAINS; i++)
        failures += write_pair(argv[1], i);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
