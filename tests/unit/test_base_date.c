/* Dates and calendars. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/date.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    "standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"};

static int64_t days(enum date_calendar calendar, int year, int month, int day)
{
    int64_t found = INT64_MIN;
    return date_days(calendar, year, month, day, &found) ? found : INT64_MIN;
}

/* Each day of 9,999 years comes one day after the one before, and is written as it is read. */
static void each_day(void **state)
{
    (void)state;
    for (enum date_calendar c = CALENDAR_STANDARD; c <= CALENDAR_360_DAY; c++) {
        int64_t last = days(c, 1, 1, 1) - 1;
        for (int year = 1; year <= 9999; year++)
            for (int month = 1; month <= 12; month++)
                for (int day = 1; day <= 31; day++) {
                    int64_t now;
                    char text[DATE_BYTES], expected[DATE_BYTES];
                    if (!date_days(c, year, month, day, &now))
                        continue;
                    assert_int_equal(now, ++last);
                    if (year % 97 > 0 && year != 1582)
                        continue;
                    snprintf(expected, sizeof expected, "%04d-%02d-%02d", year, month, day);
                    assert_true(date_write(c, now * 86400, text));
                    assert_string_equal(text, expected);
                }
        assert_int_equal(days(c, 1970, 1, 1), 0);
    }
}

static void lengths(void **state)
{
    static const int64_t of_400_years[] = {146097, 146097, 146100, 146000, 146400, 144000};
    (void)state;
    for (enum date_calendar c = CALENDAR_STANDARD; c <= CALENDAR_360_DAY; c++) {
        enum date_calendar found;
        assert_true(date_calendar_find(names[c], &found) && found == c);
        assert_int_equal(days(c, 2000, 1, 1) - days(c, 1600, 1, 1), of_400_years[c]);
    }
    assert_int_equal(days(CALENDAR_STANDARD, 1, 1, 1), -719164);
    assert_int_equal(days(CALENDAR_GREGORIAN, 1, 1, 1), -719162);
    assert_int_equal(days(CALENDAR_GREGORIAN, 1582, 10, 10), -141432);
    assert_int_equal(days(CALENDAR_STANDARD, 1582, 10, 10), INT64_MIN);
    assert_int_equal(days(CALENDAR_STANDARD, 1582, 10, 4) + 1,
                     days(CALENDAR_STANDARD, 1582, 10, 15));
    assert_int_equal(days(CALENDAR_NOLEAP, 2020, 2, 29), INT64_MIN);
    assert_int_equal(days(CALENDAR_360_DAY, 2020, 2, 30), 50 * 360 + 59);
    enum date_calendar none;
    assert_false(date_calendar_find("none", &none));
    assert_true(date_calendars_agree(CALENDAR_STANDARD, CALENDAR_GREGORIAN));
    assert_false(date_calendars_agree(CALENDAR_STANDARD, CALENDAR_NOLEAP));
}

static void periods(void **state)
{
    static const struct {
        const char *text;
        int64_t begin, length;
    } good[] = {{"1970", 0, 365 * 86400},           {"1972", 730 * 86400, 366 * 86400},
                {"2000-02", 949363200, 29 * 86400}, {"2000-12", 975628800, 31 * 86400},
                {"2000-03-01", 951868800, 86400},   {"2000-03-01T18", 951933600, 3600},
                {"2000-03-01 18", 951933600, 3600}, {"2000-03-01T18:30", 951935400, 60},
                {"1969-12-31T23:59:59", -1, 1},     {"1970-01-01T00:00:00Z", 0, 1},
                {"1970-01-01T00:00+00:00", 0, 60},  {"1970-01-01T00:00:01.000", 1, 1}};
    static const char *const bad[] = {"",
                                      "197",
                                      "19700",
                                      "0000",
                                      "1970-1",
                                      "1970-00",
                                      "1970-13",
                                      "1970-01-",
                                      "1970-01-32",
                                      "1970-02-29",
                                      "1970-01-01T",
                                      "1970-01-01T24",
                                      "1970-01-01T00:60",
                                      "1970-01-01T00:00:60",
                                      "1970-01-01T00:00:00.",
                                      "1970-01-01T00:00:00.5",
                                      "1970-01-01T00:00.0",
                                      "1970-01-01Z",
                                      "1970-01-01T00:00+02:00",
                                      "1970-01-01x00",
                                      " 1970",
                                      "+197",
                                      "-970"};
    struct date_period period;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        const char *text = good[i].text;
        assert_true(date_parse(CALENDAR_STANDARD, text, strlen(text), &period));
        assert_int_equal(period.begin, good[i].begin);
        assert_int_equal(period.end - period.begin, good[i].length);
        assert_int_equal(period.is_year, strlen(text) == 4);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (date_parse(CALENDAR_STANDARD, bad[i], strlen(bad[i]), &period))
            fail_msg("'%s' is no date", bad[i]);
    assert_true(date_is_meant("1970-02-31", 10) && !date_is_meant("1970-02-32", 10));
    assert_true(date_parse(CALENDAR_STANDARD, "1970-01-02", 4, &period) && period.is_year);
    assert_true(date_parse(CALENDAR_360_DAY, "1970-02-30", 10, &period));
    assert_true(date_parse(CALENDAR_GREGORIAN, "9999", 4, &period));
}

static void times(void **state)
{
    char text[DATE_BYTES] = "untouched";
    (void)state;
    assert_false(date_write(CALENDAR_STANDARD, INT64_C(253402300800), text));
    assert_false(date_write(CALENDAR_STANDARD, INT64_MIN, text));
    assert_false(date_write(CALENDAR_STANDARD, INT64_MAX, text));
    assert_string_equal(text, "untouched");
    assert_true(date_write(CALENDAR_STANDARD, -1, text));
    assert_string_equal(text, "1969-12-31 23:59:59");
    assert_true(date_write(CALENDAR_STANDARD, 64800, text));
    assert_string_equal(text, "1970-01-01 18:00");
    assert_true(date_write(CALENDAR_STANDARD, 0, text));
    assert_string_equal(text, "1970-01-01");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_day),
        cmocka_unit_test(lengths),
        cmocka_unit_test(periods),
        cmocka_unit_test(times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
