/* What is encoded decodes to the same bytes: every codec, settings, sizes and chains; and metadata
 * both ways. */
#include "base/convert.h"
#include "codec_chains.h"

static const char *const chains[] = {
    "[]",
    "[{'name': 'crc32c'}]",
    "[{'name': 'crc32c'}, {'name': 'crc32c'}]",
    "[{'name': 'zstd'}]",
    "[{'name': 'zstd', 'configuration': {'level': -5, 'checksum': true}}]",
    "[{'name': 'zstd', 'configuration': {'level': 9}}, {'name': 'crc32c'}]",
    "[{'name': 'crc32c'}, {'name': 'zstd', 'configuration': {'level': 1}}]",
    "[{'name': 'numcodecs.zstd', 'configuration': {'level': 3}}]",
    "[{'name': 'gzip', 'configuration': {'level': 0}}]",
    "[{'name': 'gzip', 'configuration': {'level': 9}}, {'name': 'crc32c'}]",
    "[{'name': 'numcodecs.zlib', 'configuration': {'level': -1}}]",
    "[{'name': 'numcodecs.lz4', 'configuration': {'acceleration': 20}}]",
    "[{'name': 'numcodecs.lz4'}, {'name': 'zstd'}, {'name': 'gzip'}, {'name': 'crc32c'}]",
    "[{'name': 'gzip'}, {'name': 'blosc'}, {'name': 'crc32c'}, {'name': 'numcodecs.zlib'}]",
    "[{'name': 'numcodecs.blosc', 'configuration': {'cname': 'lz4', 'shuffle': -1}}]",
    "[{'name': 'numcodecs.bz2', 'configuration': {'level': 9}}]",
    "[{'name': 'numcodecs.bz2'}, {'name': 'numcodecs.crc32'}, {'name': 'numcodecs.adler32'}]",
    "[{'name': 'numcodecs.fletcher32'}, {'name': 'zstd'}]",
    "[{'name': 'numcodecs.crc32', 'configuration': {'location': 'end'}}]",
    "[{'name': 'numcodecs.crc32c', 'configuration': {'location': 'start'}}]",
    "[{'name': 'numcodecs.delta', 'configuration': {'dtype': '|u1'}}, {'name': 'zstd'}]",
    "[{'name': 'numcodecs.delta', 'configuration': {'dtype': '|i1', 'astype': '<i8'}}]",
    ("[{'name': 'numcodecs.delta', 'configuration': {'dtype': '|u1'}}, {'name': "
     "'numcodecs.delta', 'configuration': {'dtype': '|u1', 'astype': '>f4'}}, {'name': 'gzip'}]"),
};

static const size_t sizes[] = {0, 1, 2, 3, 15, 16, 17, 127, 128, 1000, 4097, 65536, 99991, 1 << 20};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void check_roundtrip(const struct codec_chain *chain, struct codec_context *context,
                            size_t size, unsigned noise_bits)
{
    struct error err;
    size_t stored_size = 0;
    uint8_t *data = make_data(size, noise_bits, size);
    uint8_t *stored = encode(chain, data, size, &stored_size);
    uint8_t *decoded = malloc(size ? size : 1);
    assert_non_null(decoded);
    memset(decoded, 0x5a, size);
    if (codec_decode(chain, context, stored, stored_size, codec_output_of(decoded, size), &err) !=
        STATUS_OK)
        fail_msg("decode %zu bytes, noise of %u bits: %s", size, noise_bits, err.message);
    assert_memory_equal(decoded, data, size);
    free(decoded);
    free(stored);
    free(data);
}

/* Quotes are single here to be readable in C; JSON-C takes them unless it is strict. */
static void check_chain(const char *list)
{
    struct codec_chain chain = chain_of(list);
    struct codec_context *context = context_of(&chain, sizes[COUNT(sizes) - 1]);
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (unsigned noise_bits = 0; noise_bits <= 8; noise_bits += 4)
            check_roundtrip(&chain, context, sizes[i], noise_bits);
    codec_context_free(context);
}

static void test_every_chain_and_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(chains); i++)
        check_chain(chains[i]);
}

static void test_every_blosc_compressor_and_shuffle(void **state)
{
    (void)state;
    static const char *const compressors[] = {"blosclz", "lz4", "lz4hc", "zlib", "zstd"};
    static const char *const shuffles[] = {"noshuffle", "shuffle", "bitshuffle"};
    static const int type_sizes[] = {1, 2, 4, 8, 24, 1000};
    for (size_t i = 0; i < COUNT(compressors) * COUNT(shuffles) * COUNT(type_sizes); i++) {
        char list[256];
        snprintf(list, sizeof list,
                 "[{'name': 'blosc', 'configuration': {'cname': '%s', 'shuffle': '%s', "
                 "'typesize': %d, 'clevel': %zu, 'blocksize': %d}}]",
                 compressors[i % COUNT(compressors)],
                 shuffles[i / COUNT(compressors) % COUNT(shuffles)],
                 type_sizes[i / COUNT(compressors) / COUNT(shuffles)], i % 7, i % 2 ? 4096 : 0);
        struct codec_chain chain = chain_of(list);
        struct codec_context *context = context_of(&chain, 300000);
        check_roundtrip(&chain, context, 7, 2);
        check_roundtrip(&chain, context, 300000, 2);
        codec_context_free(context);
    }
}

/* Chains share a context; each uses its own part of it. */
static void test_one_context_serves_several_chains(void **state)
{
    (void)state;
    struct codec_chain a = chain_of("[{'name': 'zstd'}, {'name': 'gzip'}]");
    struct codec_chain b = chain_of("[{'name': 'crc32c'}]");
    struct codec_chain c = chain_of("[{'name': 'gzip'}, {'name': 'zstd'}, {'name': 'zstd'}]");
    const struct codec_chain *all[] = {&a, &b, &c};
    struct codec_context *context = NULL;
    assert_int_equal(codec_context_new(all, 3, 5000, &context, NULL), STATUS_OK);
    assert_true(codec_context_bytes(all, 3, 5000) > 2 * 5000);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < 3; i++)
            check_roundtrip(all[i], context, 5000, 4);
    codec_context_free(context);
}

static void test_a_context_for_less_refuses(void **state)
{
    (void)state;
    struct codec_chain small = chain_of("[{'name': 'crc32c'}, {'name': 'numcodecs.lz4'}]");
    struct codec_chain other = chain_of("[{'name': 'zstd'}]");
    struct codec_context *context = context_of(&small, 100);
    uint8_t data[5000] = {0};
    size_t size = 0;
    uint8_t *stored = encode(&small, data, sizeof data, &size);
    assert_int_equal(
        codec_decode(&small, context, stored, size, codec_output_of(data, sizeof data), NULL),
        STATUS_INVALID);
    assert_int_equal(
        codec_decode(&other, context, stored, size, codec_output_of(data, sizeof data), NULL),
        STATUS_INVALID);
    free(stored);
    codec_context_free(context);
}

static void test_too_little_room_to_encode_is_refused(void **state)
{
    (void)state;
    struct codec_chain chain = chain_of("[{'name': 'zstd'}]");
    uint8_t data[100] = {0}, stored[110];
    size_t size = 99;
    assert_int_equal(codec_encode(&chain, data, sizeof data, stored, sizeof stored, &size, NULL),
                     STATUS_INVALID);
    assert_int_equal(size, 99);
}

static struct codec_chain chain_v2(const char *compressor, size_t item_bytes)
{
    struct codec_chain chain = {0};
    struct json_object *json = json_tokener_parse(compressor), *id = NULL;
    json_object_object_get_ex(json, "id", &id);
    struct error err;
    if (codec_chain_add(&chain, CODEC_ZARR_V2, json_object_get_string(id), json, item_bytes,
                        &err) != STATUS_OK)
        fail_msg("%s: %s", compressor, err.message);
    json_object_put(json);
    return chain;
}

static void check_text(const struct codec_chain *chain, enum codec_format format,
                       const char *expected)
{
    struct text text = {0};
    codec_chain_write_json(chain, format, &text);
    assert_string_equal(text.data, expected);
    text_done(&text);
}

static void test_metadata_is_written_as_it_was_read(void **state)
{
    (void)state;
    static const char *const v2[] = {
        ("{\"id\": \"blosc\", \"cname\": \"lz4hc\", \"clevel\": 9, \"blocksize\": 8192, "
         "\"shuffle\": 2}"),
        "{\"id\": \"zstd\", \"level\": 3}",
        "{\"id\": \"zstd\", \"level\": -7, \"checksum\": true}",
        "{\"id\": \"zlib\", \"level\": 9}",
        "{\"id\": \"gzip\", \"level\": 1}",
        "{\"id\": \"lz4\", \"acceleration\": 1}",
        "{\"id\": \"crc32c\"}",
        "{\"id\": \"bz2\", \"level\": 9}",
        "{\"id\": \"crc32\", \"location\": \"end\"}",
        "{\"id\": \"delta\", \"dtype\": \"<i4\", \"astype\": \"|i1\"}",
    };
    for (size_t i = 0; i < COUNT(v2); i++) {
        struct codec_chain chain = chain_v2(v2[i], 2);
        check_text(&chain, CODEC_ZARR_V2, v2[i]);
    }
    static const char list[] =
        "[{\"name\": \"blosc\", \"configuration\": {\"cname\": \"zstd\", \"clevel\": 5, "
        "\"blocksize\": 0, \"typesize\": 4, \"shuffle\": \"bitshuffle\"}}, "
        "{\"name\": \"zstd\", \"configuration\": {\"level\": 3, \"checksum\": false}}, "
        "{\"name\": \"numcodecs.zlib\", \"configuration\": {\"level\": 2}}, "
        "{\"name\": \"crc32c\"}]";
    struct codec_chain chain = chain_of(list);
    struct text expected = {0};
    text_append(&expected, ", %.*s", (int)strlen(list) - 2, list + 1);
    check_text(&chain, CODEC_ZARR_V3, expected.data);
    text_done(&expected);
    struct codec_chain none = {0};
    check_text(&none, CODEC_ZARR_V2, "null");
}

static void test_descriptions(void **state)
{
    (void)state;
    struct text text = {0};
    struct codec_chain chain = chain_v2("{'id': 'blosc', 'cname': 'zstd', 'shuffle': -1}", 1);
    codec_chain_describe(&chain, &text);
    assert_string_equal(text.data, "blosc(zstd level 5, bitshuffle)");
    text_done(&text);
    chain = chain_of("[{'name': 'zstd', 'configuration': {'level': 3}}, {'name': 'crc32c'}]");
    codec_chain_describe(&chain, &text);
    assert_string_equal(text.data, "zstd(level 3) crc32c");
    text_done(&text);
    codec_chain_identify(&chain, &text);
    assert_string_equal(text.data, "zstd+crc32c");
    text_done(&text);
    assert_false(codec_chain_is_raw(&chain));
}

static void check_refused(enum codec_format format, const char *name, const char *configuration,
                          enum status expected, const char *message)
{
    struct codec_chain chain = {0};
    struct json_object *json = json_tokener_parse(configuration);
    struct error err;
    assert_int_equal(codec_chain_add(&chain, format, name, json, 2, &err), expected);
    if (!strstr(err.message, message))
        fail_msg("'%s' lacks '%s'", err.message, message);
    assert_int_equal(chain.step_count, 0);
    json_object_put(json);
}

static void test_unknown_codecs_and_settings_are_refused(void **state)
{
    (void)state;
    check_refused(CODEC_ZARR_V2, "lzo", "{}", STATUS_UNSUPPORTED, "codec 'lzo' is not supported");
    check_refused(CODEC_ZARR_V2, "vlen-utf8", "{}", STATUS_UNSUPPORTED,
                  "codec 'vlen-utf8' (strings of variable length) is not supported: rewrite");
    check_refused(CODEC_ZARR_V3, "zfp", "{}", STATUS_UNSUPPORTED, "with bitround");
    check_refused(CODEC_ZARR_V2, "numcodecs.zstd", "{}", STATUS_UNSUPPORTED, "numcodecs.zstd");
    check_refused(CODEC_ZARR_V3, "lz4", "{}", STATUS_UNSUPPORTED, "codec 'lz4'");
    check_refused(CODEC_ZARR_V3, "gzip", "{'level': 99}", STATUS_CORRUPT, "level is 99");
    check_refused(CODEC_ZARR_V3, "zstd", "{'level': 'x'}", STATUS_CORRUPT, "level is \"x\"");
    check_refused(CODEC_ZARR_V3, "zstd", "{'checksum': 1}", STATUS_CORRUPT, "true or false");
    check_refused(CODEC_ZARR_V3, "zstd", "[]", STATUS_CORRUPT, "not an object");
    check_refused(CODEC_ZARR_V3, "blosc", "{'cname': 'lzo'}", STATUS_CORRUPT, "cname 'lzo'");
    check_refused(CODEC_ZARR_V3, "blosc", "{'shuffle': 'x'}", STATUS_CORRUPT, "shuffle 'x'");
    check_refused(CODEC_ZARR_V2, "blosc", "{'shuffle': 3}", STATUS_CORRUPT, "shuffle is 3");
    check_refused(CODEC_ZARR_V2, "crc32c", "{'location': 'top'}", STATUS_CORRUPT, "'top'");
    check_refused(CODEC_ZARR_V2, "delta", "{}", STATUS_CORRUPT, "dtype is missing");
    check_refused(CODEC_ZARR_V2, "delta", "{'dtype': '<c8'}", STATUS_UNSUPPORTED, "'<c8'");
    check_refused(CODEC_ZARR_V2, "delta", "{'dtype': '|b1'}", STATUS_UNSUPPORTED, "bool");
    check_refused(CODEC_ZARR_V3, "numcodecs.delta", "{'dtype': 'bfloat16'}", STATUS_UNSUPPORTED,
                  "codec 'numcodecs.delta': dtype 'bfloat16'");
    check_refused(CODEC_ZARR_V3, "numcodecs.delta", "{'dtype': '<i2', 'astype': 7}", STATUS_CORRUPT,
                  "astype");
    check_refused(CODEC_ZARR_V2, "delta", "{'dtype': ''}", STATUS_UNSUPPORTED, "dtype ''");
    check_refused(CODEC_ZARR_V2, "astype", "{'decode_dtype': 4}", STATUS_CORRUPT, "not a string");
    check_refused(CODEC_ZARR_V2, "fixedscaleoffset", "{'dtype': '<f8', 'offset': 0}",
                  STATUS_CORRUPT, "scale is missing");
    check_refused(CODEC_ZARR_V2, "lzma", "{'format': 3}", STATUS_CORRUPT, "needs 1 to 4 filters");
    check_refused(CODEC_ZARR_V2, "lzma", "{'format': 3, 'filters': [{'id': 4}]}",
                  STATUS_UNSUPPORTED, "number 4");
}

/* Filters have exact sizes, which chunks must fit; and most are only read. */
static void test_filters_know_their_sizes(void **state)
{
    (void)state;
    struct error err;
    uint8_t data[24] = {0}, stored[24];
    size_t size = 0;
    struct codec_chain chain = chain_v2("{'id': 'delta', 'dtype': '<f8', 'astype': '<f4'}", 8);
    assert_int_equal(codec_chain_stored_bound(&chain, sizeof data), 12);
    const struct codec_chunk whole = {.bytes = sizeof data}, odd = {.bytes = sizeof data - 4};
    assert_int_equal(codec_chain_settle(&chain, &whole, &err), STATUS_OK);
    assert_int_equal(codec_chain_settle(&chain, &odd, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "codec 'delta': its values have 8 bytes"));
    assert_int_equal(codec_encode(&chain, data, sizeof data, stored, 12, &size, &err), STATUS_OK);
    assert_int_equal(size, 12);
    struct codec_chain read = chain_v2("{'id': 'packbits'}", 1);
    assert_int_equal(codec_encode(&read, data, sizeof data, stored, sizeof stored, &size, &err),
                     STATUS_UNSUPPORTED);
    assert_string_equal(err.message, "codec 'packbits' is only read, not written");
    struct text text = {0};
    codec_chain_identify(&chain, &text);
    assert_string_equal(text.data, "delta(<f8 as <f4)");
    text_done(&text);
    assert_true(codec_is_filter("numcodecs.delta") && !codec_is_filter("numcodecs.zlib"));
    assert_false(codec_chain_swapped(&chain, true));
    chain = chain_v2("{'id': 'delta', 'dtype': '>f8'}", 8);
    assert_true(codec_chain_swapped(&chain, false));
}

static void test_a_chain_has_a_limit(void **state)
{
    (void)state;
    struct codec_chain chain = {0};
    for (int i = 0; i < CODEC_MAX_STEPS; i++)
        assert_int_equal(codec_chain_add(&chain, CODEC_ZARR_V3, "crc32c", NULL, 1, NULL),
                         STATUS_OK);
    assert_int_equal(codec_chain_add(&chain, CODEC_ZARR_V3, "crc32c", NULL, 1, NULL),
                     STATUS_UNSUPPORTED);
}

static void test_swapping_twice_is_nothing(void **state)
{
    (void)state;
    for (size_t unit = 1; unit <= 16; unit *= 2) {
        uint8_t *data = make_data(16 * 33 + 1, 8, unit), *copy = make_data(16 * 33 + 1, 8, unit);
        convert_swap(data + 1, 16 * 33, unit); /* not aligned */
        for (size_t i = 0; i < 16 * 33; i++)
            assert_int_equal(data[1 + i], copy[1 + i / unit * unit + (unit - 1 - i % unit)]);
        convert_swap(data + 1, 16 * 33, unit);
        assert_memory_equal(data, copy, 16 * 33 + 1);
        free(data);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chain_and_size),
        cmocka_unit_test(test_every_blosc_compressor_and_shuffle),
        cmocka_unit_test(test_one_context_serves_several_chains),
        cmocka_unit_test(test_a_context_for_less_refuses),
        cmocka_unit_test(test_too_little_room_to_encode_is_refused),
        cmocka_unit_test(test_metadata_is_written_as_it_was_read),
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_unknown_codecs_and_settings_are_refused),
        cmocka_unit_test(test_filters_know_their_sizes),
        cmocka_unit_test(test_a_chain_has_a_limit),
        cmocka_unit_test(test_swapping_twice_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
