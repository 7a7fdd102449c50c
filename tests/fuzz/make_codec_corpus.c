/* Makes the seed corpus of fuzz_codec: make_codec_corpus DIRECTORY. For every chain a chunk that
 * decodes and one that is damaged in its middle. Filters that are only read get bytes as they come;
 * lzma's chunks are made by liblzma. Run by hand when fuzz_codec.h changes; the files
 * are kept in the repository. */
#include "fuzz_codec.h"

#include <lzma.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DECODED_BYTES = 600, STORED_BYTES = 1 << 14 };

static const char *name_of(size_t index)
{
    static char name[32];
    sscanf(fuzz_codec_chains[index], "[{'id': '%31[a-z0-9]", name);
    return name;
}

static int write_input(const char *folder, size_t chain, const char *kind, const uint8_t *data,
                       size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%zu-%s-%s", folder, chain, name_of(chain), kind);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

/* In the format that the chain at `index` says. Returns the size. */
static size_t put_lzma(size_t index, const uint8_t *data, size_t size, uint8_t *out)
{
    lzma_options_lzma options;
    lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
    lzma_stream stream = LZMA_STREAM_INIT;
    lzma_ret result;
    lzma_lzma_preset(&options, 0);
    if (strstr(fuzz_codec_chains[index], "'format': 3"))
        result = lzma_raw_encoder(&stream, filters);
    else if (strstr(fuzz_codec_chains[index], "'format': 2"))
        result = lzma_alone_encoder(&stream, &options);
    else
        result = lzma_easy_encoder(&stream, 0, LZMA_CHECK_NONE);
    stream.next_in = data;
    stream.avail_in = size;
    stream.next_out = out;
    stream.avail_out = STORED_BYTES;
    if (result != LZMA_OK || lzma_code(&stream, LZMA_FINISH) != LZMA_STREAM_END)
        abort();
    lzma_end(&stream);
    return stream.total_out;
}

/* A chunk that decodes. Returns its size. */
static size_t put_chunk(size_t index, const uint8_t *data, size_t size, uint8_t *out)
{
    struct codec_chain chain = fuzz_codec_chain(index);
    size_t stored = 0;
    if (strcmp(name_of(index), "lzma") == 0)
        return put_lzma(index, data, size, out);
    if (codec_encode(&chain, data, size, out, STORED_BYTES, &stored, NULL) == STATUS_OK)
        return stored;
    size_t bytes = codec_chain_stored_bound(&chain, size);
    for (size_t i = 0; i < bytes; i++)
        out[i] = data[i % size];
    return bytes;
}

static int write_pair(const char *folder, size_t index)
{
    uint8_t decoded[DECODED_BYTES], input[FUZZ_CODEC_HEADER_BYTES + STORED_BYTES];
    for (size_t i = 0; i < sizeof decoded; i++)
        decoded[i] = (uint8_t)(i % 2 ? i / 64 : i * i / 7);
    input[0] = (uint8_t)index;
    input[1] = DECODED_BYTES & 0xff;
    input[2] = DECODED_BYTES >> 8;
    size_t size = put_chunk(index, decoded, sizeof decoded, input + FUZZ_CODEC_HEADER_BYTES);
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
