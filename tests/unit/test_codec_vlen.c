/* Values of variable length, and decoding without a known size. */
#include "codec/codec.h"
#include "codec/vlen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char good[] = {3, 0, 0, 0, 2, 0, 0, 0,   'h', 'i', 0,
                                     0, 0, 0, 4, 0, 0, 0, 'w', 'o', 'r', 'd'};

static void test_values(void **state)
{
    uint32_t counts[3];
    unsigned char items[6];
    struct error err;
    (void)state;
    assert_int_equal(vlen_measure(good, sizeof good, 3, 1, counts, &err), STATUS_OK);
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[1], 0);
    assert_int_equal(counts[2], 4);
    assert_ptr_equal(vlen_copy(good, 3, items), items + 6);
    assert_memory_equal(items, "hiword", 6);
    assert_ptr_equal(vlen_copy(good, 2, items), items + 2);
    assert_int_equal(vlen_measure(good, sizeof good, 3, 2, counts, &err), STATUS_OK);
    assert_int_equal(counts[2], 2);
}

/* Lengths that are known, of all values or the first ones. */
static void test_known_lengths(void **state)
{
    const uint64_t offsets[] = {7, 9, 9, 13}, other[] = {0, 2, 2, 5};
    struct error err;
    (void)state;
    assert_int_equal(vlen_begin(3, 6), sizeof good);
    assert_int_equal(vlen_check(good, sizeof good, 3, 1, offsets, 3, &err), STATUS_OK);
    assert_int_equal(vlen_check(good, sizeof good, 3, 1, other, 2, &err), STATUS_OK);
    assert_int_equal(vlen_check(good, sizeof good, 3, 1, other, 3, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "value 2 has 4 items, and 3 by the array's offsets"));
    assert_int_equal(vlen_check(good, sizeof good - 1, 3, 1, offsets, 3, &err), STATUS_CORRUPT);
}

static void test_damage(void **state)
{
    uint32_t counts[4];
    struct error err;
    (void)state;
    for (size_t size = 0; size < sizeof good; size++)
        assert_int_equal(vlen_measure(good, size, 3, 1, counts, &err), STATUS_CORRUPT);
    assert_int_equal(vlen_measure(good, sizeof good, 4, 1, counts, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "has 3 values"));
    assert_int_equal(vlen_measure(good, sizeof good, 3, 4, counts, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "no multiple"));
    unsigned char more[sizeof good + 1] = {0};
    memcpy(more, good, sizeof good);
    assert_int_equal(vlen_measure(more, sizeof more, 3, 1, counts, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "1 bytes follow"));
    memset(more + 14, 0xff, 4);
    assert_int_equal(vlen_measure(more, sizeof more, 3, 1, counts, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "value 2 has 4294967295 bytes"));
}

/* Counts what is taken. */
struct counted {
    struct codec_memory memory;
    size_t taken, most;
};

static enum status take(struct codec_memory *memory, size_t bytes, struct error *err)
{
    struct counted *counted = (struct counted *)memory;
    if (bytes > memory->limit - counted->taken)
        return error_set(err, STATUS_NO_MEMORY, "no room");
    counted->taken += bytes;
    if (counted->most < counted->taken)
        counted->most = counted->taken;
    return STATUS_OK;
}

static void give(struct codec_memory *memory, size_t bytes)
{
    ((struct counted *)memory)->taken -= bytes;
}

/* Nothing but the result stays taken, and never more than the limit was. */
static enum status decode_within(const struct codec_chain *chain, const void *stored,
                                 size_t stored_size, size_t limit, struct counted *ret_counted,
                                 void **ret_decoded, size_t *ret_size, struct error *err)
{
    *ret_counted = (struct counted){.memory = {.take = take, .give = give, .limit = limit}};
    enum status status = codec_decode_unsized(chain, stored, stored_size, &ret_counted->memory,
                                              ret_decoded, ret_size, err);

    assert_int_equal(ret_counted->taken, status == STATUS_OK ? *ret_size : 0);
    assert_true(ret_counted->most <= limit);
    return status;
}

/* Compresses much, so that the first try is too small where nothing tells the size. */
static void check_unsized(const char *const *names, size_t count)
{
    const size_t size = 3000000;
    struct codec_chain chain = {0};
    unsigned char *bytes = calloc(size, 1);
    size_t capacity, stored_size, decoded_size;
    struct counted counted;
    struct error err;
    void *decoded;
    for (size_t i = 0; i < count; i++) {
        struct json_object *configuration = json_tokener_parse("{\"level\": 1}");
        assert_int_equal(codec_chain_add(&chain, CODEC_ZARR_V2, names[i], configuration, 1, &err),
                         STATUS_OK);
        json_object_put(configuration);
    }
    for (size_t i = 0; i < size; i += 1000)
        bytes[i] = (unsigned char)i;
    capacity = codec_chain_stored_bound(&chain, size);
    unsigned char *stored = malloc(capacity);
    assert_int_equal(codec_encode(&chain, bytes, size, stored, capacity, &stored_size, &err),
                     STATUS_OK);
    for (size_t limit = 2 * size; limit >= size; limit -= size) {
        assert_int_equal(decode_within(&chain, stored, stored_size, limit, &counted, &decoded,
                                       &decoded_size, &err),
                         STATUS_OK);
        assert_false(counted.memory.is_short);
        assert_int_equal(decoded_size, size);
        assert_memory_equal(decoded, bytes, size);
        free(decoded);
    }
    assert_int_equal(decode_within(&chain, stored, stored_size, size - 1, &counted, &decoded,
                                   &decoded_size, &err),
                     STATUS_CORRUPT);
    assert_true(counted.memory.is_short);
    if (count > 0)
        assert_int_equal(decode_within(&chain, stored, stored_size / 2, 2 * size, &counted,
                                       &decoded, &decoded_size, &err),
                         STATUS_CORRUPT);
    free(stored);
    free(bytes);
}

static void test_unsized(void **state)
{
    (void)state;
    check_unsized(NULL, 0);
    for (size_t i = 0; i < 6; i++) {
        const char *const one[] = {"zstd", "zlib", "gzip", "lz4", "blosc", "bz2"};
        const char *const two[] = {one[i], "crc32c"};
        check_unsized(&one[i], 1);
        check_unsized(two, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_known_lengths),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_unsized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
