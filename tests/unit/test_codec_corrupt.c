/* Damaged chunks: cut short, with flipped bits, with headers that lie. Decoding them must fail or
 * give the bytes that were stored, never fewer, more, or a crash; run with sanitizers to see the
 * latter. */
#include "codec_chains.h"

#include <endian.h>

static const char *const chains[] = {
    "[{'name': 'crc32c'}]",
    "[{'name': 'zstd', 'configuration': {'level': 3, 'checksum': true}}]",
    "[{'name': 'zstd', 'configuration': {'level': 3}}]",
    "[{'name': 'gzip', 'configuration': {'level': 6}}]",
    "[{'name': 'numcodecs.zlib', 'configuration': {'level': 6}}]",
    "[{'name': 'numcodecs.lz4'}]",
    "[{'name': 'blosc', 'configuration': {'cname': 'blosclz', 'shuffle': 'shuffle'}}]",
    "[{'name': 'blosc', 'configuration': {'cname': 'lz4', 'shuffle': 'shuffle'}}]",
    "[{'name': 'blosc', 'configuration': {'cname': 'zlib', 'shuffle': 'noshuffle'}}]",
    "[{'name': 'blosc', 'configuration': {'cname': 'zstd', 'shuffle': 'bitshuffle'}}]",
    "[{'name': 'blosc', 'configuration': {'clevel': 0}}]",
    "[{'name': 'zstd'}, {'name': 'blosc'}, {'name': 'gzip'}]",
    "[{'name': 'numcodecs.bz2'}]",
    "[{'name': 'numcodecs.crc32'}]",
    "[{'name': 'numcodecs.adler32'}]",
    "[{'name': 'numcodecs.fletcher32'}]",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { DATA_BYTES = 3000, GUARD_BYTES = 64, GUARD = 0xa5, FLIPS = 3000 };

struct subject {
    struct codec_chain chain;
    struct codec_context *context;
    uint8_t *data, *stored;
    size_t stored_size;
};

static struct subject make_subject(const char *list)
{
    struct subject subject = {.chain = chain_of(list)};
    subject.context = context_of(&subject.chain, DATA_BYTES);
    subject.data = make_data(DATA_BYTES, 2, 5);
    subject.stored = encode(&subject.chain, subject.data, DATA_BYTES, &subject.stored_size);
    return subject;
}

static void drop_subject(struct subject *subject)
{
    codec_context_free(subject->context);
    free(subject->data);
    free(subject->stored);
}

/* Decodes a copy of just `stored_size` bytes into just `decoded_size` bytes and a guard. */
static enum status decode(const struct subject *subject, size_t stored_size, size_t decoded_size,
                          uint8_t **ret_decoded, struct error *err)
{
    uint8_t *stored = malloc(stored_size ? stored_size : 1);
    uint8_t *decoded = malloc(decoded_size + GUARD_BYTES);
    assert_non_null(stored);
    assert_non_null(decoded);
    memcpy(stored, subject->stored, stored_size);
    memset(decoded, GUARD, decoded_size + GUARD_BYTES);
    enum status status = codec_decode(&subject->chain, subject->context, stored, stored_size,
                                      codec_output_of(decoded, decoded_size), err);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        assert_int_equal(decoded[decoded_size + i], GUARD);
    free(stored);
    *ret_decoded = decoded;
    return status;
}

static void check_error(enum status status, const struct error *err)
{
    if (status != STATUS_CORRUPT && status != STATUS_UNSUPPORTED)
        fail_msg("status %d: %s", status, err->message);
    assert_int_equal(err->status, status);
    assert_true(strlen(err->message) > 10);
    assert_null(strchr(err->message, '\n'));
}

static void test_every_truncation_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(chains); i++) {
        struct subject subject = make_subject(chains[i]);
        for (size_t size = 0; size < subject.stored_size; size++) {
            struct error err;
            uint8_t *decoded = NULL;
            enum status status = decode(&subject, size, DATA_BYTES, &decoded, &err);
            if (status == STATUS_OK)
                fail_msg("%s: %zu of %zu bytes decode", chains[i], size, subject.stored_size);
            check_error(status, &err);
            free(decoded);
        }
        drop_subject(&subject);
    }
}

/* Codecs without a checksum may decode to other bytes of the right number. */
static void test_flipped_bits_never_change_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(chains); i++) {
        struct subject subject = make_subject(chains[i]);
        size_t failures = 0;
        for (uint64_t flip = 0; flip < FLIPS; flip++) {
            struct error err;
            uint8_t *decoded = NULL;
            /* the first half of the flips hit the first bytes: headers */
            uint64_t reach = flip % 2 && subject.stored_size > 32 ? 32 : subject.stored_size;
            uint64_t bit = random_below(random_u64(1, i, flip), reach * 8);
            subject.stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
            enum status status = decode(&subject, subject.stored_size, DATA_BYTES, &decoded, &err);
            subject.stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (status != STATUS_OK)
                check_error(status, &err);
            failures += status != STATUS_OK;
            free(decoded);
        }
        assert_true(failures > FLIPS / 20);
        drop_subject(&subject);
    }
}

static void test_a_checksum_sees_every_flip(void **state)
{
    (void)state;
    struct subject subject = make_subject("[{'name': 'numcodecs.lz4'}, {'name': 'crc32c'}]");
    for (size_t bit = 0; bit < subject.stored_size * 8; bit++) {
        uint8_t *decoded = NULL;
        struct error err;
        subject.stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(decode(&subject, subject.stored_size, DATA_BYTES, &decoded, &err),
                         STATUS_CORRUPT);
        subject.stored[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_non_null(strstr(err.message, "crc32c: checksum of "));
        free(decoded);
    }
    drop_subject(&subject);
}

/* The array expects another number of bytes than the chunk has. */
static void test_other_sizes_than_stored_fail(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, DATA_BYTES / 2, DATA_BYTES - 1, DATA_BYTES + 1};
    for (size_t i = 0; i < COUNT(chains); i++) {
        struct subject subject = make_subject(chains[i]);
        codec_context_free(subject.context);
        subject.context = context_of(&subject.chain, 2 * DATA_BYTES);
        for (size_t k = 0; k < COUNT(sizes); k++) {
            struct error err;
            uint8_t *decoded = NULL;
            enum status status = decode(&subject, subject.stored_size, sizes[k], &decoded, &err);
            assert_int_equal(status, STATUS_CORRUPT);
            check_error(status, &err);
            free(decoded);
        }
        drop_subject(&subject);
    }
}

static void check_message(const struct subject *subject, size_t stored_size, size_t decoded_size,
                          const char *expected)
{
    struct error err;
    uint8_t *decoded = NULL;
    assert_int_equal(decode(subject, stored_size, decoded_size, &decoded, &err), STATUS_CORRUPT);
    assert_string_equal(err.message, expected);
    free(decoded);
}

static void test_messages_name_codec_and_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *list, *message;
    } cases[] = {
        {"[{'name': 'blosc'}]", "blosc: header says 163840 bytes, chunk holds 81920"},
        {"[{'name': 'zstd'}]", "zstd: header says 163840 bytes, chunk holds 81920"},
        {"[{'name': 'numcodecs.lz4'}]", "lz4: header says 163840 bytes, chunk holds 81920"},
        {"[{'name': 'gzip'}]", "gzip: decodes to more than the 81920 bytes of a chunk"},
        {"[{'name': 'crc32c'}]", "crc32c: decodes to 163840 bytes, chunk holds 81920"},
        {"[]", "uncompressed: decodes to 163840 bytes, chunk holds 81920"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct subject subject = {.chain = chain_of(cases[i].list)};
        subject.context = context_of(&subject.chain, 163840);
        subject.data = make_data(163840, 1, 3);
        subject.stored = encode(&subject.chain, subject.data, 163840, &subject.stored_size);
        check_message(&subject, subject.stored_size, 81920, cases[i].message);
        drop_subject(&subject);
    }
}

static void set_u32(uint8_t *number, uint32_t value)
{
    value = htole32(value);
    memcpy(number, &value, sizeof value);
}

/* The fields of a Blosc header, one by one, with values that would lead a trusting decoder astray.
 */
static void test_lying_blosc_headers_fail(void **state)
{
    (void)state;
    static const uint32_t lies[] = {0,         1,        DATA_BYTES - 1,  DATA_BYTES + 1, 1u << 20,
                                    INT32_MAX, 1u << 31, UINT32_MAX - 15, UINT32_MAX};
    enum { DECODED = 4, BLOCK = 8, STORED = 12 };
    struct subject subject =
        make_subject("[{'name': 'blosc', 'configuration': {'cname': 'zstd'}}]");
    uint8_t header[16];
    memcpy(header, subject.stored, sizeof header);
    for (size_t field = DECODED; field <= STORED; field += 4) {
        for (size_t i = 0; i < COUNT(lies); i++) {
            struct error err;
            uint8_t *decoded = NULL;
            set_u32(subject.stored + field, lies[i]);
            enum status status = decode(&subject, subject.stored_size, DATA_BYTES, &decoded, &err);
            if (status == STATUS_OK)
                fail_msg("field at %zu: %u decodes", field, lies[i]);
            check_error(status, &err);
            memcpy(subject.stored, header, sizeof header);
            free(decoded);
        }
    }
    char expected[96];
    snprintf(expected, sizeof expected, "blosc: header says %zu stored bytes, there are 77",
             subject.stored_size);
    check_message(&subject, 77, DATA_BYTES, expected);
    drop_subject(&subject);
}

/* Some writers leave the room that they compressed into behind the frame. */
static void test_bytes_behind_a_blosc_frame_are_passed_over(void **state)
{
    (void)state;
    static const char *const frames[] = {
        "[{'name': 'blosc', 'configuration': {'cname': 'zstd', 'shuffle': 'shuffle'}}]",
        "[{'name': 'blosc', 'configuration': {'clevel': 0}}]", /* copied, not compressed */
    };
    static const size_t more[] = {1, 15, 16, 500};
    for (size_t i = 0; i < COUNT(frames) * COUNT(more); i++) {
        struct subject subject = make_subject(frames[i / COUNT(more)]);
        size_t size = subject.stored_size + more[i % COUNT(more)];
        uint8_t *decoded = NULL, range[DATA_BYTES / 4];
        struct error err;
        bool done;
        subject.stored = realloc(subject.stored, size);
        assert_non_null(subject.stored);
        memset(subject.stored + subject.stored_size, 0xaa, size - subject.stored_size);
        if (decode(&subject, size, DATA_BYTES, &decoded, &err) != STATUS_OK)
            fail_msg("%s", err.message);
        assert_memory_equal(decoded, subject.data, DATA_BYTES);
        assert_int_equal(codec_decode_partial(&subject.chain, subject.context, subject.stored, size,
                                              DATA_BYTES, DATA_BYTES / 2,
                                              codec_output_of(range, sizeof range), &done, &err),
                         STATUS_OK);
        assert_true(done);
        assert_memory_equal(range, subject.data + DATA_BYTES / 2, sizeof range);
        free(decoded);
        drop_subject(&subject);
    }
}

/* A frame that promises 2^62 bytes: no allocation follows from it. */
static void test_a_huge_promise_fails(void **state)
{
    (void)state;
    static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0,
                                    0,    0,    0,    0,    0x40, 1, 0, 0};
    struct codec_chain chain = chain_of("[{'name': 'zstd'}]");
    struct codec_context *context = context_of(&chain, 10);
    uint8_t decoded[10];
    struct error err;
    assert_int_equal(codec_decode(&chain, context, frame, sizeof frame,
                                  codec_output_of(decoded, sizeof decoded), &err),
                     STATUS_CORRUPT);
    assert_string_equal(err.message, "zstd: header says 4611686018427387904 bytes, chunk holds 10");
    codec_context_free(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_truncation_fails),
        cmocka_unit_test(test_flipped_bits_never_change_sizes),
        cmocka_unit_test(test_a_checksum_sees_every_flip),
        cmocka_unit_test(test_other_sizes_than_stored_fail),
        cmocka_unit_test(test_messages_name_codec_and_sizes),
        cmocka_unit_test(test_lying_blosc_headers_fail),
        cmocka_unit_test(test_bytes_behind_a_blosc_frame_are_passed_over),
        cmocka_unit_test(test_a_huge_promise_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
