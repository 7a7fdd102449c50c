/* Batches by budget on random lengths, checked against what docs/inside/order.md promises: each
 * sample once, steps within the budget and within a window, and no epoch that needs more steps than
 * there are. */
#include "base/size.h"
#include "made_up_lengths.h"
#include "plan/order/plan.h"
#include "plan/order/tables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 400, EPOCHS = 3 };

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

/* The steps that samples of these bounds take, one after another. Sorts the bounds. */
static uint64_t greedy_steps(const struct plan_cuts *cuts, uint64_t batch, uint64_t *bounds,
                             uint64_t count)
{
    uint64_t steps = 0, size = 0;
    qsort(bounds, count, sizeof *bounds, compare);
    for (uint64_t i = 0; i < count; i++) {
        if (size > 0 && (size == batch || (size + 1) * bounds[i] > cuts->items)) {
            steps++;
            size = 0;
        }
        size++;
    }
    return steps + (size > 0);
}

/* An epoch
 * ---------------------------------------------------------------------------------------------- */

static void check_step(const struct plan_epoch *epoch, uint64_t step, bool *seen)
{
    const struct plan *plan = &epoch->plan;
    uint64_t first = plan_step_first(plan, step), end = plan_step_first(plan, step + 1), last = 0;
    assert_true(first < end);
    assert_true(end - first <= plan->global_batch);
    assert_int_equal(plan_window_of(epoch, first), plan_window_of(epoch, end - 1));
    for (uint64_t p = first; p < end; p++) {
        uint64_t frame = plan_sample_at(epoch, p), bound = bound_in(&plan->cuts, frame);
        assert_int_equal(plan_step_of(plan, p), step);
        assert_false(seen[frame]);
        seen[frame] = true;
        assert_true(bound >= last); /* by length */
        last = bound;
    }
    assert_true((end - first) * last <= plan->cuts.items);
    assert_int_equal(plan_step_bound(epoch, step), last);
}

/* Positions lead to samples, and samples back. Returns the steps that the window needs. */
static uint64_t check_window(const struct plan_epoch *epoch, uint64_t index)
{
    static uint64_t bounds[MOST_SAMPLES];
    struct plan_window window;
    plan_window_at(&window, epoch, index);
    for (uint64_t i = 0; i < window.sample_count; i++) {
        uint64_t position = window.first_position + i;
        struct plan_location location = plan_location_at(&window, position);
        assert_int_equal(plan_position_of(&window, location), position);
        bounds[i] = bound_in(&epoch->plan.cuts, plan_sample_at(epoch, position));
    }
    return greedy_steps(&epoch->plan.cuts, epoch->plan.global_batch, bounds, window.sample_count);
}

static void check_epoch(const struct plan_epoch *epoch)
{
    const struct plan *plan = &epoch->plan;
    bool seen[MOST_SAMPLES] = {false};
    uint64_t needed = 0;
    assert_int_equal(plan_step_first(plan, 0), 0);
    assert_int_equal(plan_step_first(plan, plan->steps_per_epoch), plan->sample_count);
    for (uint64_t s = 0; s < plan->steps_per_epoch; s++)
        check_step(epoch, s, seen);
    for (uint64_t w = 0; w < plan->window_count; w++)
        needed += check_window(epoch, w);
    assert_true(needed <= plan->steps_per_epoch);
    if (plan->window_count == 1)
        assert_int_equal(needed, plan->steps_per_epoch);
}

static void check_same(const struct plan *plan, uint64_t e, const uint64_t *frames)
{
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, plan, e);
    for (uint64_t p = 0; p < plan->sample_count; p++)
        assert_int_equal(plan_sample_at(&epoch, p), frames[p]);
    for (uint64_t s = plan->steps_per_epoch; s-- > 0;) {
        uint64_t last = frames[plan_step_first(&epoch.plan, s + 1) - 1];
        assert_int_equal(plan_step_bound(&epoch, s), bound_in(&plan->cuts, last));
    }
}

/* Windows that are in use together stay as they are. */
static void check_windows(const struct plan *plan, uint64_t e, uint64_t room,
                          const uint64_t *frames)
{
    struct plan_epoch epoch;
    struct plan_window windows[EPOCHS];
    plan_epoch_init(&epoch, plan, e);
    for (uint64_t w = 0; w < plan->window_count; w++) {
        plan_window_at(&windows[w % room], &epoch, w);
        for (uint64_t v = w - min_u64(w, room - 1); v <= w; v++) {
            const struct plan_window *window = &windows[v % room];
            uint64_t last = window->first_position + window->sample_count - 1;
            struct plan_location at = plan_location_at(window, last);
            uint64_t row = plan_row_at(&epoch, window->first_row_position + at.window_row);
            assert_int_equal(plan_frame_at(plan, row, at.offset), frames[last]);
            assert_int_equal(plan_position_of(window, at), last);
        }
    }
}

/* Epochs are the same with room for one epoch and window and with room for more, and once more. */
static void check_epochs(const struct plan *plan)
{
    static uint64_t frames[EPOCHS][MOST_SAMPLES];
    struct plan one = *plan, more = *plan;
    struct error error;
    assert_int_equal(plan_tables_new(&one, 1, 1, &error), STATUS_OK);
    assert_int_equal(plan_tables_new(&more, 2, EPOCHS, &error), STATUS_OK);
    for (uint64_t e = 0; e < EPOCHS; e++) {
        struct plan_epoch epoch;
        plan_epoch_init(&epoch, &one, e);
        check_epoch(&epoch);
        for (uint64_t p = 0; p < plan->sample_count; p++)
            frames[e][p] = plan_sample_at(&epoch, p);
    }
    for (uint64_t e = EPOCHS; e-- > 0;) {
        check_same(&more, e, frames[e]);
        check_same(&one, e, frames[e]);
        check_windows(&more, e, EPOCHS, frames[e]);
        check_windows(&one, e, 1, frames[e]);
    }
    struct plan_epoch other;
    plan_epoch_init(&other, &more, 2); /* takes the place of epoch 0, whose windows stay */
    check_same(&more, 0, frames[0]);
    plan_tables_free(one.tables);
    plan_tables_free(more.tables);
}

static void random_epochs(void **state)
{
    (void)state;
    static struct lengths lengths;
    uint64_t seed = 0, steps = 0, windows = 0;
    for (int i = 0; i < CASES; i++) {
        draw_lengths(&seed, &lengths);
        uint32_t trainers = (uint32_t)draw(&seed, 1, 4);
        struct plan_options options = {.sample_count = lengths.count,
                                       .row_length = draw(&seed, 1, 40),
                                       .row_bytes = 1000,
                                       .window_rows = draw(&seed, 0, 12),
                                       .seed = seed,
                                       .shuffle = draw(&seed, 0, 3) > 0,
                                       .global_batch = draw(&seed, 1, 30) * trainers,
                                       .last = PLAN_PARTIAL,
                                       .trainer_count = trainers,
                                       .cuts = cuts_of(&seed, &lengths)};
        struct plan plan;
        struct error error;
        assert_int_equal(plan_init(&plan, &options, &error), STATUS_OK);
        check_epochs(&plan);
        steps += plan.steps_per_epoch;
        windows += plan.window_count;
    }
    assert_true(windows > 5 * CASES && steps > 2 * windows); /* the cases are worth something */
}

static void too_long(void **state)
{
    (void)state;
    static struct lengths lengths = {
        .count = 2, .of = {3, 9}, .longest = 9, .bucket_count = 2, .bounds = {4, 10}};
    struct plan_options options = {.sample_count = 2,
                                   .row_length = 1,
                                   .row_bytes = 1,
                                   .global_batch = 2,
                                   .last = PLAN_PARTIAL,
                                   .trainer_count = 1,
                                   .cuts = {.items = 8,
                                            .bucket_count = 2,
                                            .of = &lengths,
                                            .field = 5,
                                            .bucket = bucket_of,
                                            .bound = bound_of,
                                            .samples = samples_of,
                                            .longest = 9}};
    struct plan plan;
    struct error error;
    assert_int_equal(plan_init(&plan, &options, &error), STATUS_INVALID);
    assert_non_null(strstr(error.message, "the longest sample, which has 9 items"));
    options.cuts.items = 9; /* a bound may be beyond */
    assert_int_equal(plan_init(&plan, &options, &error), STATUS_OK);
    assert_int_equal(plan.steps_per_epoch, 2);
}

/* The bound of steps
 * ---------------------------------------------------------------------------------------------- */

/* Windows of any samples, not only of those that a shuffle puts there: each takes a random number
 * of the samples of each bucket, and many as few as make steps that are not full. */
static uint64_t steps_of_windows(const struct plan_cuts *cuts, uint64_t batch, uint64_t windows,
                                 uint64_t *seed)
{
    static uint64_t bounds[MOST_SAMPLES], left[BUCKETS];
    uint64_t steps = 0;
    for (uint32_t k = 0; k < cuts->bucket_count; k++)
        left[k] = samples_of(cuts->of, cuts->field, k);
    for (uint64_t w = 0; w < windows; w++) {
        uint64_t count = 0;
        for (uint32_t k = 0; k < cuts->bucket_count; k++) {
            uint64_t most = plan_cuts_most(cuts, batch, k), taken = draw(seed, 0, left[k]);
            if (draw(seed, 0, 1))
                taken = min_u64(left[k], draw(seed, 0, 1) ? 1 : most - 1);
            if (w + 1 == windows)
                taken = left[k];
            left[k] -= taken;
            for (uint64_t bound = max_u64(min_u64(bound_of(cuts->of, 5, k), cuts->items), 1);
                 taken > 0; taken--)
                bounds[count++] = bound;
        }
        steps += greedy_steps(cuts, batch, bounds, count);
    }
    return steps;
}

static void no_windows_need_more_steps(void **state)
{
    (void)state;
    static struct lengths lengths;
    uint64_t seed = 1 << 24, close = 0;
    for (int i = 0; i < CASES; i++) {
        draw_lengths(&seed, &lengths);
        struct plan_cuts cuts = cuts_of(&seed, &lengths);
        uint64_t batch = draw(&seed, 1, 60), windows = draw(&seed, 2, 30);
        uint64_t steps = plan_cuts_steps(&cuts, batch, windows), most = 0;
        assert_true(steps <= lengths.count);
        for (int j = 0; j < 10; j++)
            most = max_u64(most, steps_of_windows(&cuts, batch, windows, &seed));
        assert_true(most <= steps);
        close += most * 10 >= steps * 8;
    }
    assert_true(close > CASES / 10); /* not far too many */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_epochs),
        cmocka_unit_test(too_long),
        cmocka_unit_test(no_windows_need_more_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
