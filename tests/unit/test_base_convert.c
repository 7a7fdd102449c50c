/* Conversions of items against arithmetic in double, in every variant that this machine has: all
 * float16, float32 in steps through all of its range, float64 just beside what is halfway. */
#include "base/convert.h"
#include "base/random.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ITEMS = 1 << 16 };

struct format {
    int precision, least_exponent; /* bits of a mantissa; of the last bit of denormal numbers */
    double largest;
};

static struct format format_of(enum dtype dtype)
{
    switch (dtype) {
    case DTYPE_FLOAT16:
        return (struct format){11, -24, 65504.0};
    case DTYPE_BFLOAT16:
        return (struct format){8, -133, 0x1.fep127};
    case DTYPE_FLOAT32:
        return (struct format){24, -149, FLT_MAX};
    default:
        return (struct format){53, -1074, DBL_MAX};
    }
}

/* The number of the format nearest to x, ties to even. */
static double round_to(double x, enum dtype dtype)
{
    struct format format = format_of(dtype);
    int exponent;
    if (isnan(x) || isinf(x) || x == 0 || dtype == DTYPE_FLOAT64)
        return x;
    frexp(x, &exponent);
    int last = exponent - format.precision;
    last = last < format.least_exponent ? format.least_exponent : last;
    double rounded = ldexp(nearbyint(ldexp(x, -last)), last);
    if (rounded == 0)
        rounded = copysign(0.0, x);
    return fabs(rounded) > format.largest ? copysign(INFINITY, x) : rounded;
}

/* The item at `i`, of any dtype that is converted, as a double (64-bit integers rounded). */
static double value_at(enum dtype dtype, const void *items, size_t i)
{
#define VALUE(name, type)                                         \
    case DTYPE_##name: {                                          \
        type x;                                                   \
        memcpy(&x, (const char *)items + i * sizeof x, sizeof x); \
        return (double)x;                                         \
    }
    switch (dtype) {
        VALUE(INT8, int8_t)
        VALUE(INT16, int16_t)
        VALUE(INT32, int32_t)
        VALUE(INT64, int64_t)
        VALUE(UINT8, uint8_t)
        VALUE(UINT16, uint16_t)
        VALUE(UINT32, uint32_t)
        VALUE(UINT64, uint64_t)
        VALUE(FLOAT32, float)
        VALUE(FLOAT64, double)
    case DTYPE_BOOL:
        return ((const uint8_t *)items)[i] != 0;
    case DTYPE_BFLOAT16: {
        uint32_t bits = 0;
        float x;
        memcpy((char *)&bits + 2, (const char *)items + 2 * i, 2);
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    case DTYPE_FLOAT16: {
        uint16_t half;
        memcpy(&half, (const char *)items + 2 * i, 2);
        int exponent = half >> 10 & 31, mantissa = half & 1023;
        double x = exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                   : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                  : ldexp(mantissa, -24);
        return half & 0x8000 ? -x : x;
    }
    default:
        fail();
        return 0;
    }
}

static bool is_wide(enum dtype dtype)
{
    return dtype == DTYPE_INT32 || dtype == DTYPE_INT64 || dtype == DTYPE_UINT32 ||
           dtype == DTYPE_UINT64 || dtype == DTYPE_FLOAT64;
}

static double expected(const struct convert *convert, double x)
{
    if (convert->scale != 1.0 || convert->offset != 0.0) {
        volatile float narrow = (float)x, scale = (float)convert->scale;
        volatile float offset = (float)convert->offset;
        volatile double wide = x * convert->scale;
        if (is_wide(convert->from)) {
            wide = wide + convert->offset;
            x = wide;
        } else {
            narrow = narrow * scale;
            narrow = narrow + offset;
            x = (double)narrow;
        }
    }
    return round_to(x, convert->to);
}

/* Every variant does what arithmetic says, and all the same to the bit, NaNs too. */
static void check(const struct convert *convert, const void *items, size_t count)
{
    size_t bytes = count * dtype_bytes(convert->to);
    unsigned char *first = malloc(bytes + 1), *out = malloc(bytes + 1);
    for (int v = 0; v < CONVERT_VARIANTS; v++) {
        const struct convert_loops *loops = convert_variant((enum convert_variant)v);
        if (!loops)
            continue;
        memset(out, 0xa5, bytes + 1);
        convert_items_by(loops, convert, items, count, out);
        assert_int_equal(out[bytes], 0xa5);
        if (v == 0)
            memcpy(first, out, bytes);
        for (size_t i = 0; v == 0 && i < count; i++) {
            double x = value_at(convert->from, items, i), got = value_at(convert->to, out, i);
            double want = expected(convert, x);
            if (isnan(want) ? !isnan(got) : got != want || !signbit(got) != !signbit(want))
                fail_msg("%s to %s: %a became %a, not %a", dtype_name(convert->from),
                         dtype_name(convert->to), x, got, want);
        }
        for (size_t i = 0; i < bytes; i++)
            if (out[i] != first[i])
                fail_msg("%s to %s: item %zu (%a) differs in variant %s", dtype_name(convert->from),
                         dtype_name(convert->to), i / dtype_bytes(convert->to),
                         value_at(convert->from, items, i / dtype_bytes(convert->to)),
                         convert_variant_name((enum convert_variant)v));
    }
    free(out);
    free(first);
}

static const enum dtype floats[] = {DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32, DTYPE_FLOAT64};

static void check_all_targets(enum dtype from, const void *items, size_t count)
{
    for (size_t t = 0; t < 4; t++) {
        check(&(struct convert){from, floats[t], 1.0, 0.0}, items, count);
        check(&(struct convert){from, floats[t], 0.1, -5.0}, items, count);
    }
}

static void test_all_of_16_bits(void **state)
{
    uint16_t *items = malloc(ITEMS * sizeof *items);
    (void)state;
    for (int i = 0; i < ITEMS; i++)
        items[i] = (uint16_t)i;
    check_all_targets(DTYPE_FLOAT16, items, ITEMS);
    check_all_targets(DTYPE_BFLOAT16, items, ITEMS);
    check_all_targets(DTYPE_INT16, items, ITEMS);
    check_all_targets(DTYPE_UINT16, items, ITEMS);
    check_all_targets(DTYPE_INT8, items, ITEMS);
    check_all_targets(DTYPE_UINT8, items, ITEMS);
    free(items);
}

/* What is exact in both directions comes back. */
static void test_there_and_back(void **state)
{
    uint16_t items[1024], again[1024];
    float between[1024];
    (void)state;
    for (uint32_t first = 0; first < ITEMS; first += 1024)
        for (size_t t = 0; t < 2; t++) {
            for (uint32_t i = 0; i < 1024; i++)
                items[i] = (uint16_t)(first + i);
            convert_items(&(struct convert){floats[t], DTYPE_FLOAT32, 1, 0}, items, 1024, between);
            convert_items(&(struct convert){DTYPE_FLOAT32, floats[t], 1, 0}, between, 1024, again);
            for (size_t i = 0; i < 1024; i++) {
                uint16_t quiet = floats[t] == DTYPE_FLOAT16 ? 0x200 : 0x40;
                if (!isnan(between[i]))
                    assert_int_equal(again[i], items[i]);
                else
                    assert_int_equal(again[i], items[i] | quiet);
            }
        }
}

/* Low halves of float32 at which float16 and bfloat16 round up, down or to even. */
static const uint16_t low_bits[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff,
                                    0x3000, 0x7fff, 0x8000, 0x8001, 0xffff};

static void test_float32(void **state)
{
    uint32_t *items = malloc(ITEMS * sizeof *items);
    (void)state;
    for (size_t k = 0; k < sizeof low_bits / sizeof low_bits[0]; k++) {
        for (uint32_t i = 0; i < ITEMS; i++)
            items[i] = i << 16 | low_bits[k];
        check_all_targets(DTYPE_FLOAT32, items, ITEMS);
    }
    free(items);
}

/* The numbers above as float64, and their neighbours, which float32 does not tell apart. */
static void test_float64(void **state)
{
    double *items = malloc(ITEMS * sizeof *items);
    (void)state;
    for (size_t k = 0; k < sizeof low_bits / sizeof low_bits[0]; k++)
        for (int side = -1; side <= 1; side++) {
            for (uint32_t i = 0; i < ITEMS; i++) {
                uint32_t bits = i << 16 | low_bits[k];
                float x;
                memcpy(&x, &bits, sizeof x);
                items[i] = side == 0 ? (double)x : nextafter((double)x, side * DBL_MAX);
            }
            check_all_targets(DTYPE_FLOAT64, items, ITEMS);
        }
    free(items);
}

static void test_random_bits(void **state)
{
    static const enum dtype wide[] = {DTYPE_INT32,   DTYPE_INT64,   DTYPE_UINT32,  DTYPE_UINT64,
                                      DTYPE_FLOAT64, DTYPE_FLOAT32, DTYPE_FLOAT16, DTYPE_BOOL};
    uint64_t *items = malloc(ITEMS * sizeof *items);
    (void)state;
    for (uint64_t i = 0; i < ITEMS; i++)
        items[i] = random_u64(5, 0, i) >> random_u64(5, 1, i) % 64;
    items[0] = UINT64_MAX;
    items[1] = (uint64_t)INT64_MAX;
    items[2] = (uint64_t)1 << 63;
    for (size_t d = 0; d < sizeof wide / sizeof wide[0]; d++)
        check_all_targets(wide[d], items, ITEMS);
    free(items);
}

/* Ends of vectors, and items at any address. */
static void test_counts_and_addresses(void **state)
{
    unsigned char items[2048];
    (void)state;
    for (size_t i = 0; i < sizeof items; i++)
        items[i] = (unsigned char)random_u64(6, 0, i);
    for (enum dtype from = DTYPE_BOOL; from <= DTYPE_FLOAT64; from++)
        for (size_t count = 0; count < 70; count++)
            check(&(struct convert){from, DTYPE_FLOAT16, 1.0, 0.0}, items + count % 3, count);
}

static void test_what_is_possible(void **state)
{
    (void)state;
    assert_true(convert_is_possible(DTYPE_BOOL, DTYPE_FLOAT16));
    assert_true(convert_is_possible(DTYPE_UINT64, DTYPE_BFLOAT16));
    assert_false(convert_is_possible(DTYPE_FLOAT32, DTYPE_INT8));
    assert_false(convert_is_possible(DTYPE_COMPLEX64, DTYPE_FLOAT32));
    assert_false(convert_is_possible(DTYPE_NONE, DTYPE_FLOAT32));
    assert_false(convert_is_possible(DTYPE_FLOAT32, (enum dtype)77));
    assert_false(convert_is_needed(&(struct convert){DTYPE_INT8, DTYPE_NONE, 2, 0}));
    assert_false(convert_is_needed(&(struct convert){DTYPE_FLOAT32, DTYPE_FLOAT32, 1, 0}));
    assert_true(convert_is_needed(&(struct convert){DTYPE_FLOAT32, DTYPE_FLOAT32, 1, 2}));
    assert_true(convert_is_needed(&(struct convert){DTYPE_FLOAT16, DTYPE_FLOAT32, 1, 0}));
}

static void test_swap(void **state)
{
    unsigned char items[16 * 70], out[sizeof items + 1];
    (void)state;
    for (size_t i = 0; i < sizeof items; i++)
        items[i] = (unsigned char)random_u64(7, 0, i);
    for (int v = 0; v < CONVERT_VARIANTS; v++)
        for (size_t unit = 1; unit <= 16; unit *= 2)
            for (size_t count = 0; count < 70; count++) {
                const struct convert_loops *loops = convert_variant((enum convert_variant)v);
                if (!loops)
                    continue;
                memcpy(out, items, sizeof items);
                out[count * unit] = 0xa5;
                convert_swap_by(loops, out, count * unit, unit);
                assert_int_equal(out[count * unit], 0xa5);
                for (size_t i = 0; i < count * unit; i++)
                    assert_int_equal(out[i], items[i / unit * unit + unit - 1 - i % unit]);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_16_bits),   cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_float32),          cmocka_unit_test(test_float64),
        cmocka_unit_test(test_random_bits),      cmocka_unit_test(test_counts_and_addresses),
        cmocka_unit_test(test_what_is_possible), cmocka_unit_test(test_swap),
    };
    for (int v = 0; v < CONVERT_VARIANTS; v++)
        printf("variant %s: %s\n", convert_variant_name((enum convert_variant)v),
               convert_variant((enum convert_variant)v) ? "tested" : "not on this machine");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
