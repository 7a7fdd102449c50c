/* Known stored bytes, most of them made by other programs: the formats are those of the others, not
 * just our own. */
#include "codec_chains.h"
#include "codec_vectors.h"

static void check_decodes(const char *list, const void *stored, size_t stored_size,
                          const void *expected, size_t size)
{
    struct codec_chain chain = chain_of(list);
    struct codec_context *context = context_of(&chain, size);
    struct error err;
    uint8_t decoded[256];
    assert_true(size <= sizeof decoded);
    if (codec_decode(&chain, context, stored, stored_size, codec_output_of(decoded, size), &err) !=
        STATUS_OK)
        fail_msg("%s: %s", list, err.message);
    assert_memory_equal(decoded, expected, size);
    codec_context_free(context);
}

/* The check value of CRC-32C is 0xe3069283 (RFC 3720, and catalogues of CRCs). */
static void test_crc32c_is_castagnoli_in_little_endian(void **state)
{
    (void)state;
    static const uint8_t expected[] = {'1', '2', '3',  '4',  '5',  '6', '7',
                                       '8', '9', 0x83, 0x92, 0x06, 0xe3};
    struct codec_chain chain = chain_of("[{'name': 'crc32c'}]");
    size_t size = 0;
    uint8_t *stored = encode(&chain, expected, 9, &size);
    assert_int_equal(size, sizeof expected);
    assert_memory_equal(stored, expected, sizeof expected);
    free(stored);
    check_decodes("[{'name': 'crc32c'}]", expected, sizeof expected, "123456789", 9);
}

static const char abab[] = "abababababababababababababababab reads Zarr";

/* numcodecs.LZ4().encode() */
static void test_lz4_of_numcodecs(void **state)
{
    (void)state;
    static const uint8_t stored[] = {0x2b, 0x00, 0x00, 0x00, 0x2f, 0x61, 0x62, 0x02,
                                     0x00, 0x0b, 0xb0, 0x20, 0x72, 0x65, 0x61, 0x64,
                                     0x73, 0x20, 0x5a, 0x61, 0x72, 0x72};
    check_decodes("[{'name': 'numcodecs.lz4'}]", stored, sizeof stored, abab, strlen(abab));
}

/* From the zstd program reading a pipe: no content size in the frame, a checksum behind it. */
static const uint8_t zstd_frame[] = {
    0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x9d, 0x00, 0x00, 0x68, 0x61, 0x62, 0x20, 0x72, 0x65, 0x61,
    0x64, 0x73, 0x20, 0x5a, 0x61, 0x72, 0x72, 0x01, 0x00, 0x89, 0x0e, 0x0b, 0x3f, 0x44, 0xaa, 0xb2};

static void test_zstd_without_content_size(void **state)
{
    (void)state;
    check_decodes("[{'name': 'zstd'}]", zstd_frame, sizeof zstd_frame, abab, strlen(abab));
}

static void test_zstd_of_several_frames(void **state)
{
    (void)state;
    static const uint8_t skippable[] = {0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    uint8_t stored[2 * sizeof zstd_frame + sizeof skippable];
    memcpy(stored, zstd_frame, sizeof zstd_frame);
    memcpy(stored + sizeof zstd_frame, skippable, sizeof skippable);
    memcpy(stored + sizeof zstd_frame + sizeof skippable, zstd_frame, sizeof zstd_frame);
    char expected[2 * sizeof abab];
    int length = snprintf(expected, sizeof expected, "%s%s", abab, abab);
    check_decodes("[{'name': 'zstd'}]", stored, sizeof stored, expected, (size_t)length);
}

/* Two calls of Python's gzip.compress(), then padding. */
static void test_gzip_of_several_members(void **state)
{
    (void)state;
    static const uint8_t stored[] = {
        0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x4b, 0xcb, 0x2c, 0x2a,
        0x2e, 0x51, 0xc8, 0x4d, 0xcd, 0x4d, 0x4a, 0x2d, 0xd2, 0x51, 0x00, 0x00, 0xde, 0xff,
        0x0a, 0x62, 0x0e, 0x00, 0x00, 0x00, 0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x02, 0x03, 0x2b, 0x4e, 0x4d, 0xce, 0xcf, 0x4b, 0x51, 0xc8, 0x4d, 0xcd, 0x4d, 0x4a,
        0x2d, 0x02, 0x00, 0x24, 0x74, 0xfa, 0x9f, 0x0d, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    static const char expected[] = "first member, second member";
    check_decodes("[{'name': 'gzip'}]", stored, sizeof stored - 3, expected, strlen(expected));
    check_decodes("[{'name': 'gzip'}]", stored, sizeof stored, expected, strlen(expected));
}

/* Python's zlib.compress() */
static void test_zlib_of_python(void **state)
{
    (void)state;
    static const uint8_t stored[] = {0x78, 0xda, 0xab, 0xca, 0xc9, 0x4c, 0x52, 0x28, 0x2e, 0x29,
                                     0x4a, 0x4d, 0xcc, 0x05, 0x00, 0x1a, 0x3e, 0x04, 0x5e};
    check_decodes("[{'name': 'numcodecs.zlib'}]", stored, sizeof stored, "zlib stream", 11);
}

/* numcodecs.Blosc(cname='lz4', shuffle=1).encode(np.arange(64, dtype='<u2')): the configuration
 * says otherwise. */
static void test_blosc_goes_by_the_header_alone(void **state)
{
    (void)state;
    static const uint8_t head[] = {0x02, 0x01, 0x31, 0x02, 0x80, 0x00, 0x00, 0x00, 0x80,
                                   0x00, 0x00, 0x00, 0x68, 0x00, 0x00, 0x00, 0x14, 0x00,
                                   0x00, 0x00, 0x50, 0x00, 0x00, 0x00, 0xff, 0x36};
    static const uint8_t tail[] = {0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x00,
                                   0x23, 0x50, 0x00, 0x00, 0x00, 0x00, 0x00};
    uint8_t stored[104], expected[128] = {0};
    assert_int_equal(sizeof head + 64 + sizeof tail, sizeof stored);
    memcpy(stored, head, sizeof head);
    for (uint8_t i = 0; i < 64; i++)
        stored[sizeof head + i] = expected[2 * i] = i;
    memcpy(stored + sizeof head + 64, tail, sizeof tail);
    check_decodes("[{'name': 'blosc', 'configuration': {'cname': 'zlib', 'typesize': 8, "
                  "'shuffle': 'bitshuffle'}}]",
                  stored, sizeof stored, expected, sizeof expected);
}

/* A chunk in a format that only snappy decodes, which a libblosc may lack. */
static void test_blosc_names_a_compressor_that_is_missing(void **state)
{
    (void)state;
    uint8_t stored[32] = {0x02, 0x01, 0x40, 0x01, 0x40, 0, 0, 0, 0x40, 0, 0, 0, 0x20, 0, 0, 0};
    struct codec_chain chain = chain_of("[{'name': 'blosc'}]");
    struct codec_context *context = context_of(&chain, 64);
    struct error err;
    uint8_t decoded[64];
    enum status status =
        codec_decode(&chain, context, stored, sizeof stored, codec_output_of(decoded, 64), &err);
    if (status == STATUS_UNSUPPORTED)
        assert_string_equal(err.message, "blosc: chunk needs snappy, which this libblosc lacks");
    else
        assert_int_equal(status, STATUS_CORRUPT);
    codec_context_free(context);
}

static struct codec_chain chain_v2(const char *text)
{
    struct codec_chain chain = {0};
    struct json_object *list = json_tokener_parse(text), *id = NULL;
    struct error err;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *codec = json_object_array_get_idx(list, i);
        json_object_object_get_ex(codec, "id", &id);
        if (codec_chain_add(&chain, CODEC_ZARR_V2, json_object_get_string(id), codec, 1, &err) !=
            STATUS_OK)
            fail_msg("%s: %s", text, err.message);
    }
    json_object_put(list);
    return chain;
}

/* Returns the number of bytes that the digits stand for. */
static size_t from_hex(const char *digits, uint8_t *ret_bytes, size_t capacity)
{
    size_t count = strlen(digits) / 2;
    assert_true(count <= capacity);
    for (size_t i = 0; i < count; i++) {
        const char pair[] = {digits[2 * i], digits[2 * i + 1], '\0'};
        ret_bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return count;
}

/* Each at an odd address, too: nothing says that chunks are aligned. */
static void check_vector(size_t index, size_t shift)
{
    struct codec_chain chain = chain_v2(vectors[index].codecs);
    uint8_t stored[512], decoded[512], expected[512];
    size_t size = from_hex(vectors[index].decoded, expected, sizeof decoded - shift);
    size_t stored_size = from_hex(vectors[index].stored, stored + shift, sizeof stored - shift);
    struct codec_context *context = context_of(&chain, size);
    struct error err;
    assert_int_equal(codec_chain_settle(&chain, &(struct codec_chunk){.bytes = size}, &err),
                     STATUS_OK);
    if (codec_decode(&chain, context, stored + shift, stored_size,
                     codec_output_of(decoded + shift, size), &err) != STATUS_OK)
        fail_msg("%s: %s", vectors[index].codecs, err.message);
    if (memcmp(decoded + shift, expected, size) != 0)
        fail_msg("%s: other bytes", vectors[index].codecs);
    if (codec_decode(&chain, context, stored + shift, stored_size - 1,
                     codec_output_of(decoded, size), &err) == 0)
        fail_msg("%s: decodes without its last byte", vectors[index].codecs);
    codec_context_free(context);
}

static void test_vectors_of_numcodecs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        for (size_t shift = 0; shift < 8; shift++)
            check_vector(i, shift);
}

/* Earlier versions of numcodecs: words with the low byte first. */
static void check_encoded_vector(size_t index, size_t shift)
{
    struct codec_chain chain = chain_v2(encoded_vectors[index].codec);
    uint8_t items[512], stored[512], expected[512];
    size_t size = from_hex(encoded_vectors[index].items, items + shift, sizeof items - shift);
    size_t expected_size = from_hex(encoded_vectors[index].stored, expected, sizeof expected);
    size_t stored_size = 0;
    struct error err;
    assert_int_equal(codec_chain_stored_bound(&chain, size), expected_size);
    if (codec_encode(&chain, items + shift, size, stored + shift, expected_size, &stored_size,
                     &err) != STATUS_OK)
        fail_msg("%s: %s", encoded_vectors[index].codec, err.message);
    assert_int_equal(stored_size, expected_size);
    if (memcmp(stored + shift, expected, expected_size) != 0)
        fail_msg("%s: encodes to other bytes", encoded_vectors[index].codec);
}

static void test_encodes_as_numcodecs_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof encoded_vectors / sizeof encoded_vectors[0]; i++)
        for (size_t shift = 0; shift < 8; shift++)
            check_encoded_vector(i, shift);
}

static void test_fletcher32_of_both_byte_orders(void **state)
{
    (void)state;
    static const uint8_t now[] = {0, 1, 2, 3, 4, 5, 0x09, 0x06, 0x0e, 0x08};
    static const uint8_t before[] = {0, 1, 2, 3, 4, 5, 0x06, 0x09, 0x08, 0x0e};
    static const uint8_t all_ones[] = {255, 255, 0, 0, 0, 0};
    check_decodes("[{'name': 'numcodecs.fletcher32'}]", now, sizeof now, now, 6);
    check_decodes("[{'name': 'numcodecs.fletcher32'}]", before, sizeof before, before, 6);
    check_decodes("[{'name': 'numcodecs.fletcher32'}]", all_ones, sizeof all_ones, all_ones, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_is_castagnoli_in_little_endian),
        cmocka_unit_test(test_lz4_of_numcodecs),
        cmocka_unit_test(test_zstd_without_content_size),
        cmocka_unit_test(test_zstd_of_several_frames),
        cmocka_unit_test(test_gzip_of_several_members),
        cmocka_unit_test(test_zlib_of_python),
        cmocka_unit_test(test_blosc_goes_by_the_header_alone),
        cmocka_unit_test(test_blosc_names_a_compressor_that_is_missing),
        cmocka_unit_test(test_vectors_of_numcodecs),
        cmocka_unit_test(test_encodes_as_numcodecs_does),
        cmocka_unit_test(test_fletcher32_of_both_byte_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
