/* Mixes: memory for the windows that steps touch, short last ones included. */
#include "base/number.h"
#include "made_up_mix.h"
#include "plan/budget/budget.h"
#include "plan/order/order_internal.h"

#include <stdbool.h>

/* The serial of the window that holds a draw. */
static uint64_t window_of(const struct plan *plan, struct plan_draw draw)
{
    const struct plan *source = plan_source(plan, draw.source);
    struct plan_pass at = plan_draw_pass(plan, draw);
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, source, at.number);
    return at.number * source->window_count + plan_window_of(&epoch, at.position);
}

static struct budget_demand demand_of(const struct plan *plan, uint32_t steps_per_round)
{
    return (struct budget_demand){.plan = plan,
                                  .shape = {steps_per_round, 1, 2},
                                  .reader_count = 1,
                                  .ring_count = 3,
                                  .copies = 1,
                                  .worker_count = 1,
                                  .row_bytes = 1 << 20,
                                  .last_epoch = true,
                                  .limit_bytes = UINT64_MAX / 4};
}

/* The row buffers without which the budget refuses a run. */
static uint64_t least_rows(const struct budget_demand *demand, const struct budget *budget)
{
    return (budget->least_bytes - (budget->total_bytes - budget->rows_bytes)) /
           (demand->row_bytes + BUDGET_BUFFER_TABLE_BYTES);
}

/* All rows of the windows that hold draws of a source from `first` on and before `end`; 0 where the
 * rows have one sample each, since these are given up one by one. */
static uint64_t rows_between(const struct plan *plan, uint32_t d, uint64_t first, uint64_t end)
{
    const struct plan *source = plan_source(plan, d);
    if (end == first || source->row_samples == 1)
        return 0;
    uint64_t rows = 0, from = window_of(plan, (struct plan_draw){d, first}),
             to = window_of(plan, (struct plan_draw){d, end - 1});
    for (uint64_t w = from; w <= to && w - from < source->window_count; w++)
        rows += w % source->window_count + 1 < source->window_count
                    ? source->window_rows
                    : source->row_count - (source->window_count - 1) * source->window_rows;
    return rows;
}

/* All rows of the windows that a step touches. */
static uint64_t rows_of_step(const struct plan *plan, uint64_t step)
{
    uint64_t first[MIX_MAX_SOURCES], end[MIX_MAX_SOURCES], rows = 0;
    plan_step_draws(plan, step, first);
    plan_step_draws(plan, step + 1, end);
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        assert_true(end[d] - first[d] <= plan_most_draws(plan, d, plan->global_batch));
        rows += rows_between(plan, d, first[d], end[d]);
    }
    return rows;
}

/* With cuts: the passes of the steps under way stay while a run looks where the next round ends. */
static void check_passes(const struct plan *plan, uint64_t step, uint64_t ahead, uint64_t next)
{
    uint64_t end[MIX_MAX_SOURCES];
    for (uint64_t s = step; s < step + ahead; s++)
        plan_mix_cut_fill(plan, s);
    plan_step_draws(plan, step + ahead + next, end);
    for (uint64_t s = step; s < step + ahead; s++) {
        struct plan_mix_cut at = plan_mix_cut_at(plan, s);
        assert_non_null(plan_pass_cut(plan_source(plan, at.source), at.pass));
    }
}

/* As many windows of each source are planned at once as the rounds under way touch, and one more;
 * row buffers are for the windows of each step. */
static void check_room(struct plan *plan, uint32_t steps_per_round)
{
    const struct budget_demand demand = demand_of(plan, steps_per_round);
    struct budget budget;
    assert_int_equal(budget_settle(&demand, &budget, NULL), STATUS_OK);
    assert_int_equal(plan_sources_tables_new(plan, budget.source_windows, NULL), STATUS_OK);
    uint64_t ahead = 3 * demand.shape.steps_per_round, sum = 0;
    for (uint64_t s = 0; s + ahead < step_count(plan, 3); s++) {
        uint64_t first[MIX_MAX_SOURCES], end[MIX_MAX_SOURCES];
        plan_step_draws(plan, s, first);
        plan_step_draws(plan, s + ahead, end);
        for (uint32_t d = 0; d < plan_source_count(plan); d++) {
            if (end[d] == first[d])
                continue;
            uint64_t from = window_of(plan, (struct plan_draw){d, first[d]});
            uint64_t to = window_of(plan, (struct plan_draw){d, end[d] - 1});
            assert_true(to - from + 1 < budget.source_windows[d]);
        }
        assert_true(rows_of_step(plan, s) <= least_rows(&demand, &budget));
        if (plan->cuts.items > 0)
            check_passes(plan, s, ahead, steps_per_round);
    }
    for (uint32_t d = 0; d < plan_source_count(plan); d++)
        sum += budget.source_windows[d];
    assert_int_equal(sum, budget.planned_windows);
    plan_sources_tables_free(plan);
}

static void budgets_have_room(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 24; i++) {
        struct made_up_mix made_up;
        make_up(&made_up, 1 + i % 12, 60, i % 2 ? 9 : 100000, 40 + i);
        if (i >= 12)
            make_up_schedule(&made_up, 5, i);
        struct plan plan = new_mix(&made_up.options);
        check_room(&plan, 1 + i % 3);
        plan_mix_free(plan.mix);
    }
}

static void cuts_have_room(void **state)
{
    (void)state;
    static struct made_up_cuts with;
    uint64_t seed = 9000;
    for (uint32_t i = 0; i < 40; i++) {
        make_up_cuts(&with, &seed);
        if (i % 2)
            make_up_schedule(&with.made_up, 20, i);
        struct plan plan = new_mix(&with.made_up.options);
        check_room(&plan, 1 + i % 3);
        plan_mix_free(plan.mix);
    }
}

/* A pass has 60 windows of 10 steps of one sample, and the next round ends 640 steps behind the
 * first one under way: up to three passes are in use. */
static void passes_stay(void **state)
{
    (void)state;
    static struct made_up_cuts with;
    uint64_t seed = 0;
    make_up_cuts(&with, &seed);
    with.made_up.options.source_count = 1;
    struct lengths *lengths = &with.lengths[0];
    *lengths = (struct lengths){.count = 60 * 10, .longest = 5, .bucket_count = 1, .bounds = {5}};
    for (uint64_t i = 0; i < lengths->count; i++)
        lengths->of[i] = 5;
    with.made_up.sources[0] = (struct plan_options){.sample_count = lengths->count,
                                                    .row_length = 10,
                                                    .window_rows = 1,
                                                    .shuffle = true,
                                                    .cuts = cuts_of(&seed, lengths)};
    with.made_up.sources[0].cuts.items = 5;
    struct plan plan = new_mix(&with.made_up.options);
    assert_int_equal(plan_source(&plan, 0)->window_count, 60);
    assert_int_equal(plan_source(&plan, 0)->steps_per_epoch, 600);
    check_room(&plan, 160);
    plan_mix_free(plan.mix);
}

/* Windows of 4 rows of 8 samples, the last of 3 rows; 31 samples a step. */
static struct plan new_short_windows(void)
{
    const struct plan_options source = {
        .sample_count = 15 * 8, .row_length = 8, .window_rows = 4, .shuffle = true};
    const struct plan_mix_options options = {.source_count = 1,
                                             .sources = &source,
                                             .weights = (uint64_t[]){1},
                                             .epochs = 40,
                                             .global_batch = 31,
                                             .trainer_count = 1};
    return new_mix(&options);
}

/* Some step touches the end of a window, all of the short one, and the next pass' first: as many
 * rows as there are buffers at least. */
static void short_windows_have_room(void **state)
{
    (void)state;
    struct plan plan = new_short_windows();
    const struct budget_demand demand = demand_of(&plan, 1);
    struct budget budget;
    uint64_t most = 0;
    assert_int_equal(budget_settle(&demand, &budget, NULL), STATUS_OK);
    for (uint64_t s = 0; s < step_count(&plan, 40); s++)
        most = max_u64(most, rows_of_step(&plan, s));
    assert_int_equal(most, 4 + 3 + 4);
    assert_int_equal(least_rows(&demand, &budget), most);
    plan_mix_free(plan.mix);
}

/* One reader of two is given more than half of a window only where buffers are left for its half of
 * the others, and for a short window. */
static void short_windows_are_kept_free(void **state)
{
    (void)state;
    struct plan plan = new_short_windows();
    struct budget_demand demand = demand_of(&plan, 1);
    struct budget budget;
    demand.reader_count = 2;
    assert_int_equal(budget_settle(&demand, &budget, NULL), STATUS_OK);
    uint64_t least = least_rows(&demand, &budget), uneven = 0;
    assert_int_equal(least, 2 + 2 + 2);
    for (uint64_t more = 0; more < 16; more++) {
        demand.limit_bytes =
            budget.least_bytes + more * (demand.row_bytes + BUDGET_BUFFER_TABLE_BYTES);
        struct budget with_more;
        assert_int_equal(budget_settle(&demand, &with_more, NULL), STATUS_OK);
        uint64_t most = with_more.source_most_rows[0];
        assert_in_range(most, 2, 4);
        assert_true(most == 2 || 2 * (2 + most) + 3 <= with_more.transient_rows);
        uneven += most > 2;
    }
    assert_true(uneven > 0);
    plan_mix_free(plan.mix);
}

/* A source of 4 samples that gives 600,000 to a step: its windows take the memory. */
static void too_many_passes_are_named(void **state)
{
    (void)state;
    const struct plan_options sources[] = {{.sample_count = 1000000, .row_length = 100},
                                           {.sample_count = 4, .row_length = 2}};
    const struct plan_mix_options options = {.source_count = 2,
                                             .sources = sources,
                                             .weights = (uint64_t[]){2, 3},
                                             .epochs = 2,
                                             .global_batch = 1000000,
                                             .trainer_count = 1};
    struct plan plan = new_mix(&options);
    const struct budget_demand demand = {.plan = &plan,
                                         .shape = {1, 1, 2},
                                         .reader_count = 1,
                                         .ring_count = 1,
                                         .copies = 1,
                                         .worker_count = 1,
                                         .row_bytes = 1000,
                                         .limit_bytes = 1 << 30};
    struct budget budget;
    struct error err;
    assert_int_equal(budget_settle(&demand, &budget, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "source 1 of the mix, which has 4 samples and gives "
                                        "600,000 to a step: lower its weight"));
    plan_mix_free(plan.mix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_have_room),
        cmocka_unit_test(cuts_have_room),
        cmocka_unit_test(passes_stay),
        cmocka_unit_test(short_windows_have_room),
        cmocka_unit_test(short_windows_are_kept_free),
        cmocka_unit_test(too_many_passes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
