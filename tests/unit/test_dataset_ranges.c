/* Ranges of frames, as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dataset/ranges.h"

#include <string.h>

static void expect_piece(struct range_piece piece, const char *text)
{
    assert_int_equal(piece.length, strlen(text));
    assert_memory_equal(piece.text, text, piece.length);
}

static void ranges(void **state)
{
    static const struct {
        const char *text, *array, *low, *high;
    } good[] = {
        {"2015-01:2016", "", "2015-01", "2016"},
        {"2015:2016-01-31", "", "2015", "2016-01-31"},
        {"2015-01:", "", "2015-01", ""},
        {":2015-01-01 18", "", "", "2015-01-01 18"},
        {"2015-01", "", "2015-01", "2015-01"},
        {"2015-01-01T18:00", "", "2015-01-01T18:00", "2015-01-01T18:00"},
        {"2015-01-01T18:00:", "", "2015-01-01T18:00", ""},
        {":2015-01-01T18:00:30", "", "", "2015-01-01T18:00:30"},
        {"2015-01-01T18:2016", "", "2015-01-01T18", "2016"},
        {"2015-01-01T18:00:2016", "", "2015-01-01T18:00", "2016"},
        {"2015-01-01T18:00:30:2016-02-01T06:30", "", "2015-01-01T18:00:30", "2016-02-01T06:30"},
        {"time=2015:2016", "time", "2015", "2016"},
        {"time=2015", "time", "2015", "2015"},
        {"a/b=:2015-01", "a/b", "", "2015-01"},
        {"x=-1.5:2e3", "x", "-1.5", "2e3"},
        {"x=7:", "x", "7", ""},
        {"x=7", "x", "7", "7"}};
    static const char *const bad[] = {
        "",        ":",         "5:10",       "1979:2015",       "2015",     ":2015",
        "2015-1",  "2015-01:5", "time=",      "time=:",          "=5",       "time=2015-01:18",
        "x=5:6:7", "x=nan:",    "2015-01:01", "2015-01-01T18:0", "a.b/mask", "2015-01::"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct range range;
        if (!range_parse(good[i].text, &range) || !range_is_meant(good[i].text))
            fail_msg("'%s' is a range", good[i].text);
        assert_ptr_equal(range.text, good[i].text);
        expect_piece(range.array, good[i].array);
        expect_piece(range.low, good[i].low);
        expect_piece(range.high, good[i].high);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct range range = {.text = "untouched"};
        if (range_parse(bad[i], &range))
            fail_msg("'%s' is no range", bad[i]);
        assert_string_equal(range.text, "untouched");
    }
}

/* What is a mistake in a range, and what is the name of an array. */
static void meant(void **state)
{
    static const char *const mistakes[] = {"2015-1",       "2015-13",      ":2015-1",
                                           "2015:2016-13", "time=2015-13", "x=1:2:3"};
    static const char *const names[] = {"",     "mask",        "2015", "/2015-01", "20150101",
                                        "5:10", "year=2015/m", "a=b",  "1979:2015"};
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++)
        if (!range_is_meant(mistakes[i]))
            fail_msg("'%s' is meant as a range", mistakes[i]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (range_is_meant(names[i]))
            fail_msg("'%s' is no range", names[i]);
}

static void lists(void **state)
{
    struct range_list list;
    struct error err;
    (void)state;
    assert_int_equal(range_list_read("2015-01, x\\,y=2:3,2016-01:", &list, &err), STATUS_OK);
    assert_int_equal(list.count, 3);
    assert_string_equal(list.texts[1], "x,y=2:3");
    expect_piece(list.ranges[1].array, "x,y");
    expect_piece(list.ranges[2].low, "2016-01");
    range_list_done(&list);
    for (const char *name = "a,2015-01"; name; name = *name ? "" : NULL) {
        assert_int_equal(range_list_read(name, &list, &err), STATUS_OK);
        assert_int_equal(list.count, 0);
    }
    assert_int_equal(range_list_read(NULL, &list, &err), STATUS_OK);
    assert_int_equal(list.count, 0);
    assert_int_equal(range_list_read("2015-01,mask", &list, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "'mask' is neither a date nor a range of dates"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(meant),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
