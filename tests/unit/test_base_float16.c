/* 16-bit floats against their definition: every float16, and what rounding must get right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/float16.h"

/* All of them, against their definition; and back. */
static void every_float16_goes_there_and_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        int exponent = (int)(half >> 10 & 0x1f), mantissa = (int)(half & 0x3ff);
        double expected = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
        float value = float16_to_float((uint16_t)half);
        if (exponent == 0x1f)
            expected = mantissa ? NAN : INFINITY;
        expected = half & 0x8000 ? -expected : expected;
        assert_true(isnan(expected) ? isnan(value) : value == (float)expected);
        assert_int_equal(signbit(value) != 0, half >> 15);
        /* what is not a number may become quiet on its way */
        assert_int_equal(float16_from_float(value), isnan(expected) ? half | 0x0200 : half);
    }
}

static void doubles_are_rounded_once(void **state)
{
    (void)state;
    assert_int_equal(float16_from_double(65519.9), 0x7bff);
    assert_int_equal(float16_from_double(65520), 0x7c00);
    assert_int_equal(float16_from_double(1 + 0x1p-11), 0x3c00); /* a tie goes to even */
    assert_int_equal(float16_from_double(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(float16_from_double(0x1.8p-24), 2);
    assert_int_equal(float16_from_double(0x1p-25), 0);
    assert_int_equal(float16_from_double(-0x1p-300), 0x8000);
    assert_int_equal(float16_from_double(1e300), 0x7c00);
    assert_int_equal(float16_from_double(-INFINITY), 0xfc00);
    assert_int_equal(bfloat16_from_double(1 + 0x1p-8), 0x3f80); /* a tie goes to even */
    assert_int_equal(bfloat16_from_double(1 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(bfloat16_from_double(0x1p-134), 0); /* half of the least */
    assert_int_equal(bfloat16_from_double(0x1.8p-133), 2);
    assert_int_equal(bfloat16_from_double(-1e300), 0xff80);
    assert_int_equal(bfloat16_from_double(NAN) & 0x7fff, 0x7fc0);
}

static void every_bfloat16_goes_there_and_back(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        float value = bfloat16_to_float((uint16_t)half);
        assert_int_equal(bfloat16_from_float(value), isnan(value) ? half | 0x0040 : half);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_float16_goes_there_and_back),
        cmocka_unit_test(every_bfloat16_goes_there_and_back),
        cmocka_unit_test(doubles_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
