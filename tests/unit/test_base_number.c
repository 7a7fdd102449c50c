/* Numbers that saturate, and what is found among numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/number.h"

static void sums_and_products_stop_at_the_largest_number(void **state)
{
    (void)state;
    assert_int_equal(add_sat(2, 3), 5);
    assert_true(add_sat(UINT64_MAX - 1, 1) == UINT64_MAX);
    assert_true(add_sat(UINT64_MAX - 1, 5) == UINT64_MAX);
    assert_int_equal(mul_sat(7, 6), 42);
    assert_int_equal(mul_sat(UINT64_MAX, 0), 0);
    assert_true(mul_sat(UINT64_C(1) << 32, UINT64_C(1) << 32) == UINT64_MAX);
}

static void large_numbers_are_compared_as_unsigned_ones(void **state)
{
    (void)state;
    assert_int_equal(min_u64(UINT64_MAX, 1), 1);
    assert_true(max_u64(UINT64_MAX, 1) == UINT64_MAX);
    assert_int_equal(min_u32(UINT32_MAX, 1), 1);
    assert_true(max_u32(UINT32_MAX, 1) == UINT32_MAX);
}

static void the_last_number_that_is_not_above_is_found(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {0, 3, 3, 7, UINT64_MAX - 1};
    static const struct {
        uint64_t low, high, at, index;
    } cases[] = {
        {0, 5, 0, 0}, {0, 5, 2, 0}, {0, 5, 3, 2}, {0, 5, 6, 2},          {0, 5, 7, 3},
        {0, 3, 9, 2}, {1, 5, 0, 1}, {2, 2, 9, 2}, {0, 5, UINT64_MAX, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(find_last_u64(numbers, cases[i].low, cases[i].high, cases[i].at),
                         cases[i].index);
}

static void divisors_are_the_greatest_ones(void **state)
{
    (void)state;
    assert_int_equal(greatest_common_divisor(12, 18), 6);
    assert_int_equal(greatest_common_divisor(18, 12), 6);
    assert_int_equal(greatest_common_divisor(7, 13), 1);
    assert_int_equal(greatest_common_divisor(0, 5), 5);
    assert_int_equal(greatest_common_divisor(5, 0), 5);
}

static void texts_are_whole_numbers_within_their_range_or_none(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t low, high;
        bool fine;
    } cases[] = {
        {"0", 0, 5, true},
        {"5", 0, 5, true},
        {"6", 0, 5, false},
        {"0", 1, 5, false},
        {"", 0, 5, false},
        {"-1", 0, UINT64_MAX, false},
        {"+1", 0, 5, false},
        {" 1", 0, 5, false},
        {"1 ", 0, 5, false},
        {"0x1", 0, 5, false},
        {"1e0", 0, 5, false},
        {"18446744073709551615", 0, UINT64_MAX, true},
        {"18446744073709551616", 0, UINT64_MAX, false},
        {"18446744073709551617", 0, 5, false},
        {"184467440737095516160", 0, UINT64_MAX, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t number = 77;
        assert_int_equal(number_parse(cases[i].text, cases[i].low, cases[i].high, &number),
                         cases[i].fine);
        assert_true(cases[i].fine ? number <= cases[i].high : number == 77);
    }
    uint64_t number = 0;
    assert_true(number_parse_part("123x", 3, 0, 200, &number));
    assert_int_equal(number, 123);
}

static void texts_are_finite_numbers_within_their_range_or_none(void **state)
{
    (void)state;
    double number = 77;
    static const char *const wrong[] = {"", "x", "1x", "nan", "inf", "-inf", "1e999", "2", "-1e-9"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(number_parse_real(wrong[i], 0, 1, &number));
    assert_true(number > 76);
    assert_true(number_parse_real("0.5", 0, 1, &number));
    assert_true(number > 0.49 && number < 0.51);
}

static void numbers_that_are_not_above_are_counted(void **state)
{
    const uint64_t numbers[] = {0, 3, 3, 7, UINT64_MAX};
    (void)state;
    for (uint64_t count = 0; count <= 5; count++)
        for (uint64_t at = 0; at < 10; at++) {
            uint64_t expected = 0;
            while (expected < count && numbers[expected] <= at)
                expected++;
            assert_int_equal(count_up_to_u64(numbers, count, at), expected);
        }
    assert_int_equal(count_up_to_u64(numbers, 5, UINT64_MAX), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_whole_numbers_within_their_range_or_none),
        cmocka_unit_test(texts_are_finite_numbers_within_their_range_or_none),
        cmocka_unit_test(sums_and_products_stop_at_the_largest_number),
        cmocka_unit_test(large_numbers_are_compared_as_unsigned_ones),
        cmocka_unit_test(the_last_number_that_is_not_above_is_found),
        cmocka_unit_test(numbers_that_are_not_above_are_counted),
        cmocka_unit_test(divisors_are_the_greatest_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
