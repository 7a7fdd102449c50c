/* See advice.h. */
#include "scan/advice.h"

#include "base/number.h"
#include "base/size.h"
#include "codec/codec.h"

#include <inttypes.h>
#include <string.h>

/* Between what was measured: the table has made latents alone, of two degrees of noise. */
static const double useless_share = 0.95, noisy_share = 0.85;

/* Of a chunk's samples; the table has samples of 160 KiB, and says nothing about small ones. */
static const uint64_t good_bytes = 1 << 20, large_bytes = 4 << 20, small_sample_bytes = 16 << 10;

static bool is_compressed(const char *codecs)
{
    static const char *const compressors[] = {"blosc", "zstd", "gzip", "zlib",
                                              "lz4",   "bz2",  "lzma"};
    for (size_t i = 0; i < sizeof compressors / sizeof compressors[0]; i++)
        if (strstr(codecs, compressors[i]))
            return true;
    return false;
}

struct advice advice_on_codecs(const struct zarr_array *array, double stored_share)
{
    struct advice advice = {0};
    struct text codecs = {0};
    codec_chain_describe(&array->codecs, &codecs);
    bool is_half = array->dtype == DTYPE_FLOAT16 || array->dtype == DTYPE_BFLOAT16;
    if (is_half && is_compressed(codecs.data)) {
        if (stored_share > useless_share)
            advice = (struct advice){"--codec none",
                                     "compression saves next to nothing, and reading without "
                                     "decoding is faster"};
        else if (stored_share > noisy_share && !strstr(codecs.data, "bitshuffle") &&
                 !strstr(codecs.data, "lz4"))
            advice = (struct advice){"--codec blosc-zstd --shuffle bitshuffle",
                                     "noisy 16-bit floats decode faster with bitshuffle, "
                                     "and take no more room"};
    }
    text_done(&codecs);
    return advice;
}

void advice_describe(const struct zarr_array *array, double stored_share, const char *rechunk,
                     struct text *out)
{
    struct advice advice = advice_on_codecs(array, stored_share);
    if (advice.options)
        text_append(out, "hint: '%s' is stored in %.0f%% of its bytes; %s: %s %s\n",
                    text_shown(array->path).text, 100 * stored_share, advice.reason, rechunk,
                    advice.options);
}

/* Samples of a chunk, of those that there are. */
static uint64_t chunk_length(const struct zarr_array *array)
{
    return array->rank > 0 ? min_u64(array->chunk_shape[0], array->shape[0]) : 0;
}

uint64_t advice_on_chunks(const struct zarr_array *array)
{
    uint64_t length = chunk_length(array);
    uint64_t sample_bytes = length > 0 ? zarr_array_sample_bytes(array) : 0;
    if (length < 2 || sample_bytes < small_sample_bytes ||
        mul_sat(length, sample_bytes) <= large_bytes)
        return 0;
    return max_u64(good_bytes / sample_bytes, 1);
}

void advice_describe_chunks(const struct zarr_array *array, const char *rechunk, struct text *out)
{
    uint64_t length = advice_on_chunks(array);
    if (length == 0)
        return;
    uint64_t now = chunk_length(array);
    text_append(out,
                "hint: '%s': a chunk of %" PRIu64 " samples takes %s; chunks of about 1 MiB are "
                "read as fast, and take less memory: %s --chunk %" PRIu64 "\n",
                text_shown(array->path).text, now,
                size_format(mul_sat(now, zarr_array_sample_bytes(array))).text, rechunk, length);
}
