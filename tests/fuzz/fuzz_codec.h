/* The chains that fuzz_codec.c decodes through and make_codec_corpus.c encodes with. Append only:
 * the first byte of a corpus file is an index into this table. */
#ifndef PENSTOCK_TESTS_FUZZ_FUZZ_CODEC_H
#define PENSTOCK_TESTS_FUZZ_FUZZ_CODEC_H

#include "codec/codec.h"

enum { FUZZ_CODEC_HEADER_BYTES = 3, FUZZ_CODEC_CHAINS = 9 };

static const char *const fuzz_codec_chains[FUZZ_CODEC_CHAINS][4] = {
    {"blosc"},
    {"zstd"},
    {"gzip"},
    {"zlib"},
    {"lz4"},
    {"crc32c"},
    {"gzip", "blosc"},
    {"zstd", "crc32c"},
    {"lz4", "zstd", "zlib"},
};

#endif
