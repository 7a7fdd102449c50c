/* A series keeps the first and the last point, and the same room, however long it gets. */
#include "metrics/series.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const uint64_t start_ns = 5000, period_ns = 100;

/* `count` points of a counter that grows by 3 each nanosecond. */
static struct series *fill(uint32_t count)
{
    struct series *series = calloc(1, sizeof *series);
    assert_non_null(series);
    for (uint32_t i = 0; i < count; i++) {
        struct metrics_values values = {.samples = 3 * i * period_ns, .blocked_planning_ns = i};
        series_add(series, start_ns + i * period_ns, &values);
    }
    return series;
}

static void test_empty(void **state)
{
    (void)state;
    struct series *series = fill(0);
    assert_int_equal(series_duration_ns(series), 0);
    assert_true(series_value(series, SERIES_SAMPLES, 100) == 0);
    free(series);
}

static void test_is_bounded_and_ends_with_the_newest(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 599, 600, 601, 602, 1199, 1200, 1201, 100000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        struct series *series = fill(counts[c]);
        uint64_t end_ns = (counts[c] - 1) * period_ns;
        assert_true(series->count <= SERIES_POINTS);
        assert_true(series->count >= SERIES_POINTS / 2 || series->count == counts[c]);
        assert_int_equal(series_duration_ns(series), end_ns);
        for (uint64_t at = 0; at <= end_ns; at += 1 + end_ns / 997)
            assert_true(llabs((long long)series_value(series, SERIES_SAMPLES, at) -
                              (long long)(3 * at)) <= 1);
        assert_true(series_value(series, SERIES_BLOCKED + CAUSE_PLANNING, end_ns + 1) ==
                    counts[c] - 1);
        for (uint32_t i = 1; i < series->count; i++) {
            uint64_t gap_ns = series->points[i].at_ns - series->points[i - 1].at_ns;
            assert_true(gap_ns > 0 && gap_ns <= period_ns + 4 * end_ns / series->count);
        }
        free(series);
    }
}

static void test_equal_times(void **state)
{
    (void)state;
    struct series *series = fill(1);
    for (uint64_t i = 1; i < 2000; i++) {
        struct metrics_values values = {.samples = i};
        series_add(series, start_ns, &values);
    }
    assert_true(series->count <= SERIES_POINTS);
    assert_int_equal(series_duration_ns(series), 0);
    free(series);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_is_bounded_and_ends_with_the_newest),
        cmocka_unit_test(test_equal_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
