/* See advice.h. */
#include "tools/advice.h"

#include "codec/codec.h"

#include <string.h>

/* Between what was measured: the table has made latents alone, of two degrees of noise. */
static const double useless_share = 0.95, noisy_share = 0.85;

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

void advice_describe(const struct zarr_array *array, double stored_share, struct text *out)
{
    struct advice advice = advice_on_codecs(array, stored_share);
    if (advice.options)
        text_append(
            out, "hint: '%s' is stored in %.0f%% of its bytes; %s: 'penstock rechunk' with %s\n",
            text_shown(array->path).text, 100 * stored_share, advice.reason, advice.options);
}
