/* Assignment of rows: even, capped, by pace, where the sample is needed; and exactly the rows kept
 * whose next use is nearest. */
#include "assign_bench.h"

#include "plan/order/mix.h"
#include "plan/rounds/locality.h"

static void even_without_cache(void **state)
{
    (void)state;
    for (uint32_t readers = 1; readers <= MOST_READERS; readers++) {
        struct bench bench;
        bench_init(&bench, 997, long_rows, readers, 0, (50 + readers - 1) / readers);
        for (uint64_t e = 0; e < 2; e++)
            for (uint64_t j = 0; j < bench.plan.window_count; j++)
                assert_in_range(take_window(&bench, e, j), 0, 1);
        assigner_free(bench.assigner);
    }
}

/* Also when the run starts in the middle of an epoch. */
static void everything_fits(void **state)
{
    (void)state;
    for (uint32_t readers = 1; readers <= MOST_READERS; readers++) {
        struct bench bench;
        bench_init(&bench, 997, long_rows, readers, (997 + readers - 1) / readers + 1, 50);
        for (uint64_t j = 13; j < bench.plan.window_count; j++)
            (void)take_window(&bench, 0, j);
        take_epochs(&bench, 1, 2);
        for (uint32_t r = 0; r < readers; r++)
            assert_in_range(bench.kept[r], 997 / readers, 997 / readers + 1);
        uint64_t hits = bench.hits;
        take_epochs(&bench, 2, 4);
        assert_int_equal(bench.hits - hits, 2 * 997);
        assigner_free(bench.assigner);
    }
}

/* A run that goes on at an earlier window, some rows having a home and others none yet: homes stay
 * (take_window() sees to it). */
static void homes_outlive_a_break(void **state)
{
    (void)state;
    enum { READERS = 3 };
    struct bench bench;
    bench_init(&bench, 997, long_rows, READERS, 997 / READERS + 1, 50);
    for (uint64_t j = 0; j < 9; j++)
        (void)take_window(&bench, 0, j);
    for (uint32_t t = 0; t < READERS; t++)
        bench.reader_of_trainer[t] = READERS - 1 - t;
    assigner_go_on(bench.assigner, bench.reader_of_trainer);
    uint64_t hits = bench.hits;
    for (uint64_t j = 4; j < bench.plan.window_count; j++)
        assert_in_range(take_window(&bench, 0, j), 0, j < 9 ? 0 : 1);
    assert_int_equal(bench.hits - hits, 5 * 50);
    take_epochs(&bench, 1, 2);
    assert_int_equal(bench.hits - hits, 5 * 50 + 997);
    assigner_free(bench.assigner);
}

/* How many uses of rows, of a run of `epochs`, find the row in a memory of `capacity` rows from
 * which always the row goes whose next use is farthest: done the plain way. */
static uint64_t hits_by_farthest_next_use(const struct plan *plan, uint64_t capacity,
                                          uint64_t epochs)
{
    static uint64_t next[MOST_ROWS]; /* use of each held row, 0 for the others */
    static uint64_t row_positions[2][MOST_ROWS];
    uint64_t hits = 0, held = 0;
    memset(next, 0, sizeof next);
    for (uint64_t e = 0; e < epochs; e++) {
        for (uint64_t ahead = 0; ahead < 2; ahead++) {
            struct plan_epoch epoch;
            plan_epoch_init(&epoch, plan, e + ahead);
            for (uint64_t i = 0; i < plan->row_count; i++)
                row_positions[ahead][ahead ? plan_row_at(&epoch, i) : i] =
                    ahead ? (e + 1) * plan->row_count + i : plan_row_at(&epoch, i);
        }
        for (uint64_t i = 0; i < plan->row_count; i++) {
            uint64_t row = row_positions[0][i], farthest = 0;
            hits += next[row] != 0;
            held += next[row] == 0;
            next[row] = row_positions[1][row];
            for (uint64_t other = 1; other < plan->row_count; other++)
                farthest = next[other] > next[farthest] ? other : farthest;
            if (held > capacity) {
                next[farthest] = 0;
                held--;
            }
        }
    }
    return hits;
}

/* No choice of what to keep reads less than homes do. */
static void homes_are_best(void **state)
{
    (void)state;
    static const uint64_t keep_rows[] = {1, 10, 24, 49};
    for (size_t i = 0; i < sizeof keep_rows / sizeof *keep_rows; i++) {
        struct bench bench;
        bench_init(&bench, 150, (struct plan_options){.row_length = 4, .window_rows = 8}, 3,
                   keep_rows[i], 8);
        take_epochs(&bench, 0, 5);
        assert_int_equal(bench.hits, 4 * 3 * keep_rows[i]);
        assert_int_equal(bench.hits, hits_by_farthest_next_use(&bench.plan, 3 * keep_rows[i], 5));
        struct assigner_stats stats;
        assigner_stats(bench.assigner, &stats);
        assert_int_equal(stats.kept_rows, bench.hits);
        assert_int_equal(stats.rows, 5 * 150);
        assigner_free(bench.assigner);
    }
}

/* Later epochs find just what there is room for, spread evenly over their windows. */
static void uncached_share(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 1000, long_rows, 4, 150, 50);
    take_epochs(&bench, 0, 2);
    assert_int_equal(bench.hits, 600);
    for (uint64_t j = 0; j < bench.plan.window_count; j++) {
        uint64_t before = bench.hits;
        (void)take_window(&bench, 2, j);
        assert_in_range(bench.hits - before, 15, 45); /* 30 of 50, but for chance */
    }
    assigner_free(bench.assigner);
}

/* A reader four times as slow gets a quarter of what the others get. */
static void pace_counts(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 1000, long_rows, 4, 0, 25);
    for (uint64_t e = 0; e < 8; e++) {
        for (uint64_t j = 0; j < bench.plan.window_count; j++) {
            (void)take_window(&bench, e, j);
            for (uint32_t r = 0; r < 4; r++)
                assigner_note_pace(bench.assigner, r, r == 2 ? 4000 : 1000, false);
        }
    }
    for (uint32_t r = 0; r < 4; r++)
        assert_in_range(bench.given[r], r == 2 ? 560 : 2400, r == 2 ? 680 : 2500);
    assigner_free(bench.assigner);
}

/* Rows of one sample are read where the sample is needed: nothing crosses the network. */
static void single_samples_stay_local(void **state)
{
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        struct bench bench;
        struct assigner_stats stats;
        bench_init(&bench, 960, single_rows, 4, keep ? 241 : 0, 48);
        take_epochs(&bench, 0, 1);
        assigner_stats(bench.assigner, &stats);
        assert_true(stats.samples == 960);
        assert_true(stats.exchanged_samples == 0);
        for (uint32_t r = 0; r < 4; r++)
            assert_int_equal(bench.given[r], 240);
        take_epochs(&bench, 1, 2);
        assigner_stats(bench.assigner, &stats);
        assert_true(stats.exchanged_samples >= (keep ? 600 : 0) &&
                    stats.exchanged_samples <= (keep ? 840 : 0)); /* three of four, where kept */
        assigner_free(bench.assigner);
    }
}

/* ... but not by a reader that is slower by far and waited for. */
static void pace_goes_before_locality(void **state)
{
    (void)state;
    for (int waited_for = 0; waited_for < 2; waited_for++) {
        struct bench bench;
        bench_init(&bench, 960, single_rows, 2, 0, 48);
        (void)take_window(&bench, 0, 0);
        for (uint64_t j = 1; j < bench.plan.window_count; j++) {
            assigner_note_pace(bench.assigner, 0, 1000, true);
            assigner_note_pace(bench.assigner, 1, 4000, waited_for);
            (void)take_window(&bench, 0, j);
        }
        uint64_t its_trainer_gets = 480;
        if (waited_for)
            assert_in_range(bench.given[1], 250, 270); /* half of 5 windows, a fifth of 15 */
        else
            assert_int_equal(bench.given[1], its_trainer_gets);
        assigner_free(bench.assigner);
    }
}

/* A reader that is a little slower, or slower for a moment, keeps its rows, even if all wait for
 * it. */
static void small_differences_move_nothing(void **state)
{
    (void)state;
    static const uint64_t row_ns[][3] = {
        {1000, 900, 1050}, {1300, 1000, 900}, {1000, 1100, 1000}, {900, 1000, 1100}};
    for (int moment = 0; moment < 4; moment++) {
        struct bench bench;
        struct assigner_stats stats;
        bench_init(&bench, 960, single_rows, 3, 0, 48);
        for (uint64_t j = 0; j < bench.plan.window_count; j++) {
            for (uint32_t r = 0; r < 3 && j > 2; r++)
                assigner_note_pace(bench.assigner, r, row_ns[(j + (uint64_t)moment) % 4][r], true);
            (void)take_window(&bench, 0, j);
        }
        assigner_stats(bench.assigner, &stats);
        assert_true(stats.exchanged_samples == 0);
        assigner_free(bench.assigner);
    }
}

/* A reader without trainers reads for one that has twice its share, and tells no pace before. Its
 * rows are spread over the window. */
static void idle_readers_help(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 960, single_rows, 3, 0, 48);
    bench.reader_of_trainer[2] = 0;
    assigner_go_on(bench.assigner, bench.reader_of_trainer);
    for (uint64_t j = 0; j < bench.plan.window_count; j++) {
        (void)take_window(&bench, 0, j);
        for (uint32_t r = 0; r < 3; r++)
            assigner_note_pace(bench.assigner, r, bench.given[r] ? 1000 : 0, true);
    }
    assert_in_range(bench.given[0], 6 * 32 + 14 * 16, 6 * 32 + 14 * 17);
    assert_int_equal(bench.given[1], 20 * 16);
    uint64_t early = 0;
    for (uint64_t window_row = 0; window_row < 24; window_row++)
        early += (bench.owners[window_row] & ASSIGN_READER_MASK) == 2;
    assert_in_range(early, 4, 12);
    assigner_free(bench.assigner);
}

/* Rows that are kept as stored cost their homes time. A row whose home has no buffers for it is
 * read elsewhere this once. */
static void homes_without_buffers(void **state)
{
    enum { ROWS = 200, WINDOW = 20, READERS = 2 };
    (void)state;
    struct plan plan;
    struct plan_options of_plan = {.sample_count = 4 * ROWS,
                                   .row_length = 4,
                                   .window_rows = WINDOW,
                                   .seed = 5,
                                   .shuffle = true,
                                   .global_batch = READERS,
                                   .trainer_count = READERS};
    static const uint32_t reader_of_trainer[READERS] = {0, 1};
    assert_int_equal(plan_init(&plan, &of_plan, NULL), STATUS_OK);
    struct assigner_options options = {.plan = &plan,
                                       .reader_count = READERS,
                                       .keep_rows = ROWS,
                                       .most_rows = WINDOW / READERS,
                                       .kept_are_read = true,
                                       .reader_of_trainer = reader_of_trainer,
                                       .copies = 1};
    struct assigner *assigner;
    assert_int_equal(assigner_new(&options, &assigner, NULL), STATUS_OK);
    uint16_t homes[ROWS], owners[WINDOW];
    uint64_t elsewhere = 0;
    for (uint64_t e = 0; e < 3; e++)
        for (uint64_t j = 0; j < plan.window_count; j++) {
            struct plan_epoch epoch;
            struct plan_window window;
            uint64_t given[READERS] = {0};
            plan_epoch_init(&epoch, &plan, e);
            plan_window_at(&window, &epoch, j);
            assigner_window(assigner, &epoch, &window, owners);
            for (uint64_t i = 0; i < window.row_count; i++) {
                uint64_t row = plan_row_at(&epoch, window.first_row_position + i);
                if (e == 0)
                    homes[row] = owners[i];
                assert_true(assign_keeps(owners[i]) == (owners[i] == homes[row]));
                elsewhere += owners[i] != homes[row];
                assert_in_range(++given[assign_reader(owners[i])], 1, options.most_rows);
            }
        }
    assert_in_range(elsewhere, 10, ROWS);
    assigner_free(assigner);
}

/* Of PLAN_DROP: a row whose one sample nobody gets is given to somebody, and not kept. */
static void rows_that_nobody_needs(void **state)
{
    (void)state;
    struct bench bench;
    struct plan_options options = single_rows;
    options.last = PLAN_DROP;
    bench_init(&bench, 961, options, 4, 961, 48);
    take_epochs(&bench, 0, 1);
    uint64_t kept = 0;
    for (uint32_t r = 0; r < 4; r++)
        kept += bench.kept[r];
    assert_int_equal(kept, 960);
    struct assigner_stats stats;
    assigner_stats(bench.assigner, &stats);
    assert_int_equal(stats.read_rows, 960);
    assigner_free(bench.assigner);
}

static void be_local(struct bench *bench, uint32_t readers)
{
    plan_set_locality(&bench->plan,
                      locality_number((struct locality){.nodes = 1, .readers = readers}));
    assigner_go_on(bench->assigner, bench->reader_of_trainer);
}

/* With order.placement local rows stay with their near readers, as far as these have room. */
static void near_readers_keep(void **state)
{
    (void)state;
    for (int full = 0; full < 2; full++) {
        struct bench bench;
        bench_init(&bench, 1000, long_rows, 4, full ? 100 : 1000, 50);
        be_local(&bench, 4);
        take_epochs(&bench, 0, 2);
        uint64_t near = 0;
        for (uint64_t row = 0; row < 1000; row++)
            near += bench.homes[row] == row % 4;
        assert_in_range(near, full ? 350 : 1000, full ? 400 : 1000);
        for (uint32_t r = 0; r < 4; r++)
            assert_int_equal(bench.kept[r], full ? 100 : 250);
        assigner_free(bench.assigner);
    }
}

/* With order.placement local they take their part of the rows from the start, and keep it. */
static void readers_without_trainers_read(void **state)
{
    (void)state;
    struct bench bench;
    struct assigner_stats stats;
    bench_init(&bench, 1000, long_rows, 4, 1000, 50);
    for (uint32_t t = 0; t < 4; t++)
        bench.reader_of_trainer[t] = t / 2;
    be_local(&bench, 2);
    take_epochs(&bench, 0, 2);
    for (uint32_t r = 0; r < 4; r++)
        assert_in_range(bench.kept[r], 240, 260);
    assigner_stats(bench.assigner, &stats);
    assert_true(stats.exchanged_samples > 0.49 * stats.samples &&
                stats.exchanged_samples < 0.51 * stats.samples);
    assigner_free(bench.assigner);
}

static void bad_arguments(void **state)
{
    (void)state;
    struct plan plan = {.row_count = 10, .window_rows = 1, .window_count = 10};
    struct assigner_options options = {.plan = &plan, .keep_rows = 1};
    struct assigner *assigner = NULL;
    struct error err;
    assert_int_equal(assigner_new(&options, &assigner, &err), STATUS_INVALID);
    options.reader_count = ASSIGN_MAX_READERS + 1;
    assert_int_equal(assigner_new(&options, &assigner, &err), STATUS_INVALID);
    assert_null(assigner);
    assigner_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_without_cache),
        cmocka_unit_test(everything_fits),
        cmocka_unit_test(homes_outlive_a_break),
        cmocka_unit_test(homes_are_best),
        cmocka_unit_test(uncached_share),
        cmocka_unit_test(pace_counts),
        cmocka_unit_test(single_samples_stay_local),
        cmocka_unit_test(pace_goes_before_locality),
        cmocka_unit_test(small_differences_move_nothing),
        cmocka_unit_test(idle_readers_help),
        cmocka_unit_test(homes_without_buffers),
        cmocka_unit_test(rows_that_nobody_needs),
        cmocka_unit_test(near_readers_keep),
        cmocka_unit_test(readers_without_trainers_read),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
