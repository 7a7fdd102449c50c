/* The chains that fuzz_codec.c decodes through and make_codec_corpus.c encodes with. Append only:
 * the first byte of a corpus file is an index into this table. */
#ifndef PENSTOCK_TESTS_FUZZ_FUZZ_CODEC_H
#define PENSTOCK_TESTS_FUZZ_FUZZ_CODEC_H

#include "codec/codec.h"

#include <json-c/json.h>
#include <stdlib.h>

enum { FUZZ_CODEC_HEADER_BYTES = 3, FUZZ_CODEC_CHAINS = 28 };

/* v2's codecs, in the order of encoding. */
static const char *const fuzz_codec_chains[FUZZ_CODEC_CHAINS] = {
    "[{'id': 'blosc'}]",
    "[{'id': 'zstd'}]",
    "[{'id': 'gzip'}]",
    "[{'id': 'zlib'}]",
    "[{'id': 'lz4'}]",
    "[{'id': 'crc32c'}]",
    "[{'id': 'gzip'}, {'id': 'blosc'}]",
    "[{'id': 'zstd'}, {'id': 'crc32c'}]",
    "[{'id': 'lz4'}, {'id': 'zstd'}, {'id': 'zlib'}]",
    "[{'id': 'bz2'}]",
    "[{'id': 'lzma'}]",
    "[{'id': 'lzma', 'format': 2}]",
    "[{'id': 'lzma', 'format': 3, 'filters': [{'id': 33, 'preset': 0}]}]",
    "[{'id': 'crc32'}]",
    "[{'id': 'adler32'}]",
    "[{'id': 'fletcher32'}]",
    "[{'id': 'shuffle', 'elementsize': 4}]",
    "[{'id': 'shuffle', 'elementsize': 12}]",
    "[{'id': 'delta', 'dtype': '>i4', 'astype': '<i2'}]",
    "[{'id': 'delta', 'dtype': '<f2'}]",
    "[{'id': 'fixedscaleoffset', 'dtype': '<f8', 'astype': '|u1', 'scale': 10, 'offset': 1}]",
    "[{'id': 'fixedscaleoffset', 'dtype': '<i2', 'astype': '<f4', 'scale': 1e-9, 'offset': 0}]",
    "[{'id': 'quantize', 'digits': 1, 'dtype': '<f8', 'astype': '>f2'}]",
    "[{'id': 'astype', 'decode_dtype': '|b1', 'encode_dtype': '<u8'}]",
    "[{'id': 'astype', 'decode_dtype': '<u8', 'encode_dtype': '<f8'}]",
    "[{'id': 'packbits'}]",
    "[{'id': 'bitround', 'keepbits': 3}, {'id': 'adler32'}]",
    ("[{'id': 'delta', 'dtype': '<i4', 'astype': '>i8'}, {'id': 'crc32'}, {'id': 'shuffle', "
     "'elementsize': 2}, {'id': 'bz2'}, {'id': 'fletcher32'}]"),
};

/* The chain, made anew. Aborts if it cannot be made. */
static inline struct codec_chain fuzz_codec_chain(size_t index)
{
    struct codec_chain chain = {0};
    struct json_object *list = json_tokener_parse(fuzz_codec_chains[index]);
    struct json_object *id = NULL;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *codec = json_object_array_get_idx(list, i);
        json_object_object_get_ex(codec, "id", &id);
        if (codec_chain_add(&chain, CODEC_ZARR_V2, json_object_get_string(id), codec, 2, NULL) !=
            STATUS_OK)
            abort();
    }
    json_object_put(list);
    return chain;
}

#endif
