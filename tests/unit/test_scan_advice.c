/* What inspect and rechunk recommend, and for which arrays they say nothing. */
#include "codec_chains.h"
#include "scan/advice.h"

static const char plain[] = "[]", zstd[] = "[{'name': 'zstd'}]",
                  bitshuffle[] = "[{'name': 'blosc', 'configuration': {'cname': 'zstd', "
                                 "'shuffle': 'bitshuffle', 'typesize': 2}}]",
                  lz4[] = "[{'name': 'blosc', 'configuration': {'cname': 'lz4', "
                          "'shuffle': 'noshuffle'}}]";

static void check_codecs(const char *codecs, enum dtype dtype, double stored_share,
                         const char *options)
{
    struct zarr_array array = {.path = "latents", .dtype = dtype, .codecs = chain_of(codecs)};
    struct text hint = {0};
    struct advice advice = advice_on_codecs(&array, stored_share);
    if (options)
        assert_string_equal(advice.options ? advice.options : "none", options);
    else
        assert_null(advice.options);
    advice_describe(&array, stored_share, "penstock rechunk a b", &hint);
    assert_int_equal(hint.length > 0, options != NULL);
    assert_true(!options || strstr(hint.data, options));
    text_done(&hint);
}

static void useless_compression_is_named(void **state)
{
    (void)state;
    check_codecs(zstd, DTYPE_FLOAT16, 0.96, "--codec none");
    check_codecs(bitshuffle, DTYPE_BFLOAT16, 0.96, "--codec none");
    check_codecs(plain, DTYPE_FLOAT16, 1, NULL);
}

static void noisy_halves_are_to_be_bitshuffled(void **state)
{
    (void)state;
    check_codecs(zstd, DTYPE_FLOAT16, 0.94, "--codec blosc-zstd --shuffle bitshuffle");
    check_codecs(bitshuffle, DTYPE_FLOAT16, 0.94, NULL);
    check_codecs(lz4, DTYPE_FLOAT16, 0.94, NULL);
    check_codecs(zstd, DTYPE_FLOAT16, 0.84, NULL);
}

static void other_dtypes_were_not_measured(void **state)
{
    (void)state;
    check_codecs(zstd, DTYPE_FLOAT32, 1, NULL);
    check_codecs(zstd, DTYPE_UINT8, 0.9, NULL);
}

static void check_chunks(uint64_t samples, uint64_t chunk, uint64_t sample_bytes, uint64_t length)
{
    const struct zarr_array array = {.path = "latents",
                                     .rank = 2,
                                     .item_bytes = 1,
                                     .shape = {samples, sample_bytes},
                                     .chunk_shape = {chunk, sample_bytes},
                                     .total_bytes = samples * sample_bytes};
    struct text hint = {0};
    assert_int_equal(advice_on_chunks(&array), length);
    advice_describe_chunks(&array, "penstock rechunk a b", &hint);
    assert_int_equal(hint.length > 0, length > 0);
    text_done(&hint);
}

static void large_chunks_are_to_be_divided(void **state)
{
    (void)state;
    check_chunks(1000, 64, 160 << 10, 6);
    check_chunks(1000, 16, 1 << 20, 1);
    check_chunks(1000, 4, 1 << 20, 0);  /* 4 MiB are not too much */
    check_chunks(1000, 1, 64 << 20, 0); /* a sample is not divided */
    check_chunks(3, 64, 1 << 20, 0);    /* no more samples than those */
    check_chunks(100000, 1024, 16 << 10, 64);
    check_chunks(100000, 4096, (16 << 10) - 1, 0); /* the table has no small samples */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(useless_compression_is_named),
        cmocka_unit_test(noisy_halves_are_to_be_bitshuffled),
        cmocka_unit_test(other_dtypes_were_not_measured),
        cmocka_unit_test(large_chunks_are_to_be_divided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
