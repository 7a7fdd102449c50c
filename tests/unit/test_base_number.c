/* Numbers that saturate. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_stop_at_the_largest_number),
        cmocka_unit_test(large_numbers_are_compared_as_unsigned_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
