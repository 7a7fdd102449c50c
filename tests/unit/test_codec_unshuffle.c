/* Unshuffling in every variant that this machine has, against the definition: every size of
 * elements, numbers of elements around the vectors' sizes, and parts that begin and end anywhere.
 */
#include "base/random.h"
#include "codec/blosc/unshuffle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD_BYTES = 80, GUARD = 0xa5, PARTS = 12 };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Multiples of 8, for bits. */
static const size_t counts[] = {8,   16,  24,  32,  56,  64,  72,   120,  128, 136,
                                248, 256, 264, 504, 512, 520, 1000, 2048, 4104};

/* In memory of just that size, for sanitizers. */
static uint8_t *make_bytes(size_t size, uint64_t seed)
{
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)random_u64(seed, 1, i);
    return bytes;
}

static uint8_t *make_room(size_t size)
{
    uint8_t *room = malloc(size + GUARD_BYTES);
    assert_non_null(room);
    memset(room, GUARD, size + GUARD_BYTES);
    return room;
}

static void check(const uint8_t *out, const uint8_t *expected, size_t size, const char *variant,
                  size_t type_bytes, size_t count)
{
    if (memcmp(out, expected, size) != 0)
        fail_msg("%s: %zu elements of %zu bytes differ", variant, count, type_bytes);
    for (size_t i = 0; i < GUARD_BYTES; i++)
        if (out[size + i] != GUARD)
            fail_msg("%s: written behind %zu elements of %zu bytes", variant, count, type_bytes);
}

/* Past the caches: at a multiple of 64, and not. */
static void check_streamed(enum unshuffle_variant variant, const uint8_t *const *planes,
                           size_t type_bytes, size_t count, const uint8_t *expected)
{
    size_t size = count * type_bytes, capacity = (size + 64 + GUARD_BYTES + 63) / 64 * 64;
    for (size_t offset = 0; offset < 64; offset += 24) {
        uint8_t *room = aligned_alloc(64, capacity);
        assert_non_null(room);
        memset(room, GUARD, capacity);
        unshuffle_bytes(unshuffle_variant(variant), planes, type_bytes, count, true, room + offset);
        check(room + offset, expected, size, unshuffle_variant_name(variant), type_bytes, count);
        free(room);
    }
}

static void check_bytes(enum unshuffle_variant variant, size_t type_bytes, size_t count)
{
    const uint8_t *planes[UNSHUFFLE_MAX_TYPE_BYTES];
    uint8_t *stored[UNSHUFFLE_MAX_TYPE_BYTES];
    uint8_t *out = make_room(count * type_bytes), *expected = malloc(count * type_bytes + 1);
    assert_non_null(expected);
    for (size_t k = 0; k < type_bytes; k++)
        planes[k] = stored[k] = make_bytes(count, k);
    for (size_t i = 0; i < count * type_bytes; i++)
        expected[i] = planes[i % type_bytes][i / type_bytes];
    unshuffle_bytes(unshuffle_variant(variant), planes, type_bytes, count, false, out);
    check(out, expected, count * type_bytes, unshuffle_variant_name(variant), type_bytes, count);
    check_streamed(variant, planes, type_bytes, count, expected);
    for (size_t k = 0; k < type_bytes; k++)
        free(stored[k]);
    free(expected);
    free(out);
}

/* All of the elements, then parts. */
static void check_bits(enum unshuffle_variant variant, size_t type_bytes, size_t count)
{
    const uint8_t *planes[UNSHUFFLE_MAX_TYPE_BYTES];
    uint8_t *stored = make_bytes(count * type_bytes, type_bytes);
    uint8_t *expected = calloc(count, type_bytes);
    assert_non_null(expected);
    for (size_t k = 0; k < type_bytes; k++)
        planes[k] = stored + k * count;
    for (size_t i = 0; i < count; i++)
        for (size_t bit = 0; bit < 8 * type_bytes; bit++)
            expected[i * type_bytes + bit / 8] |=
                (uint8_t)((stored[bit * (count / 8) + i / 8] >> i % 8 & 1) << bit % 8);
    for (uint64_t part = 0; part < PARTS; part++) {
        size_t begin = part ? random_below(random_u64(count, type_bytes, part), count) : 0;
        size_t end = part ? begin + random_below(random_u64(count, 1, part), count - begin) : count;
        uint8_t *out = make_room((end - begin) * type_bytes);
        unshuffle_bits(unshuffle_variant(variant), planes, type_bytes, count, begin, end, out);
        check(out, expected + begin * type_bytes, (end - begin) * type_bytes,
              unshuffle_variant_name(variant), type_bytes, count);
        free(out);
    }
    free(expected);
    free(stored);
}

static void test_bytes(void **state)
{
    (void)state;
    for (int variant = 0; variant < UNSHUFFLE_VARIANTS; variant++) {
        if (!unshuffle_variant((enum unshuffle_variant)variant)) {
            print_message("%s: not on this CPU\n",
                          unshuffle_variant_name((enum unshuffle_variant)variant));
            continue;
        }
        for (size_t type_bytes = 1; type_bytes <= UNSHUFFLE_MAX_TYPE_BYTES;
             type_bytes += type_bytes < 20 ? 1 : 47)
            for (size_t i = 0; i<COUNT(counts); i += type_bytes> 20 ? 5 : 1)
                for (size_t less = 0; less < 3; less++)
                    check_bytes((enum unshuffle_variant)variant, type_bytes, counts[i] - less);
    }
}

static void test_bits(void **state)
{
    (void)state;
    for (int variant = 0; variant < UNSHUFFLE_VARIANTS; variant++)
        for (size_t type_bytes = 1; unshuffle_variant((enum unshuffle_variant)variant) &&
                                    type_bytes <= UNSHUFFLE_MAX_TYPE_BYTES;
             type_bytes += type_bytes < 20 ? 1 : 47)
            for (size_t i = 0; i<COUNT(counts); i += type_bytes> 20 ? 5 : 1)
                check_bits((enum unshuffle_variant)variant, type_bytes, counts[i]);
}

static void test_no_elements(void **state)
{
    (void)state;
    uint8_t in[8] = {0}, out[1] = {GUARD};
    const uint8_t *planes[] = {in, in};
    for (int variant = 0; variant < UNSHUFFLE_VARIANTS; variant++) {
        const struct unshuffle_loops *loops = unshuffle_variant((enum unshuffle_variant)variant);
        if (!loops)
            continue;
        unshuffle_bytes(loops, planes, 2, 0, true, out);
        unshuffle_bits(loops, planes, 2, 8, 3, 3, out);
        assert_int_equal(out[0], GUARD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_no_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
