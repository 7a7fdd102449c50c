/* The pace of a run, and the time left that `penstock top` shows: steps may be slower than looks.
 */
#include "cli/top/top_screen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Looks each second at a run that publishes a step each 4 s, with 100 steps an epoch. */
enum { STEP_MS = 4000, STEPS = 100, BEGIN_MS = 5000 };

static struct metrics_snapshot look(uint64_t ms, uint64_t steps)
{
    struct metrics_snapshot snapshot = {.now_ms = BEGIN_MS + ms};
    snapshot.values.epochs = 1;
    snapshot.values.steps_per_epoch = STEPS;
    snapshot.values.step = steps;
    snapshot.values.steps_published = steps;
    return snapshot;
}

static void assert_shows(const struct metrics_snapshot *before, const struct metrics_snapshot *now,
                         double steps_per_s, const char *left)
{
    const struct metrics_pair pair = {before, now};
    const struct metrics_verdict verdict = {.text = "verdict"};
    const struct top_view view = {
        .pairs = &pair, .count = 1, .verdict = &verdict, .steps_per_s = steps_per_s};
    struct text line = {0};
    top_line(&view, &line);
    const char *found = strstr(line.data, " left of the epoch");
    if (left)
        assert_non_null(strstr(line.data, left));
    else
        assert_null(found);
    text_done(&line);
}

static void steps_slower_than_looks(void **state)
{
    (void)state;
    struct top_pace pace = {0};
    struct metrics_snapshot before = look(0, 0);
    top_pace_take(&pace, &before);
    for (uint64_t ms = 1000; ms <= 200000; ms += 1000) {
        struct metrics_snapshot now = look(ms, ms / STEP_MS);
        top_pace_take(&pace, &now);
        if (ms / STEP_MS < 5)
            assert_shows(&before, &now, pace.steps_per_s, NULL);
        else
            assert_true(pace.steps_per_s > 0.2 && pace.steps_per_s < 0.28);
        if (ms == 20000)
            assert_shows(&before, &now, pace.steps_per_s, ", 6 min 20 s left of the epoch");
        before = now;
    }
}

static void what_was_long_ago_does_not_count(void **state)
{
    (void)state;
    struct top_pace pace = {0};
    for (uint64_t s = 0; s <= 1000; s++) {
        struct metrics_snapshot now = look(s * 1000, s < 900 ? s : 900 + 10 * (s - 900));
        top_pace_take(&pace, &now);
    }
    assert_true(pace.steps_per_s > 9.9 && pace.steps_per_s < 10.1);
}

static void a_reader_that_is_new_begins_anew(void **state)
{
    (void)state;
    struct top_pace pace = {0};
    struct metrics_snapshot first = look(0, 500), second = look(1000, 510), new = look(2000, 3);
    top_pace_take(&pace, &first);
    top_pace_take(&pace, &second);
    assert_true(pace.steps_per_s > 9.9 && pace.steps_per_s < 10.1);
    top_pace_take(&pace, &new);
    assert_true(pace.steps_per_s == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_slower_than_looks),
        cmocka_unit_test(what_was_long_ago_does_not_count),
        cmocka_unit_test(a_reader_that_is_new_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
