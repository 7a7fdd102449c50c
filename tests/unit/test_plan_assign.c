/* Assignment of rows: even, capped, by pace, where the sample is needed; and exactly the rows kept
 * whose next use is nearest. */
#include "plan/assign.h"
#include "plan/round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_READERS = 16, MOST_ROWS = 1000, NOBODY = 0xffff };

/* The assigner under test and what we know of it from its answers alone. */
struct bench {
    struct plan plan;
    struct assigner *assigner;
    uint32_t readers;
    uint64_t keep_rows, most_rows;
    uint32_t reader_of_trainer[MOST_READERS];
    uint16_t homes[MOST_ROWS]; /* where a row is kept, NOBODY */
    uint64_t kept[MOST_READERS];
    uint64_t given[MOST_READERS]; /* rows it had not kept, of all windows */
    uint64_t hits;                /* rows of all windows that were kept */
    uint16_t owners[MOST_ROWS];   /* of the last window */
};

/* rows, window_rows and row_length in `options`; a trainer for each reader. */
static void bench_init(struct bench *bench, uint64_t rows, struct plan_options options,
                       uint32_t readers, uint64_t keep_rows, uint64_t most_rows)
{
    options.sample_count = rows * options.row_length - (options.row_length > 1);
    options.seed = 5;
    options.shuffle = true;
    options.global_batch = readers;
    options.trainer_count = readers;
    *bench = (struct bench){.readers = readers, .keep_rows = keep_rows, .most_rows = most_rows};
    memset(bench->homes, 0xff, sizeof bench->homes);
    for (uint32_t r = 0; r < readers; r++)
        bench->reader_of_trainer[r] = r;
    assert_int_equal(plan_init(&bench->plan, &options, NULL), STATUS_OK);
    struct assigner_options assigner = {.plan = &bench->plan,
                                        .reader_count = readers,
                                        .keep_rows = keep_rows,
                                        .most_rows = most_rows,
                                        .reader_of_trainer = bench->reader_of_trainer};
    assert_int_equal(assigner_new(&assigner, &bench->assigner, NULL), STATUS_OK);
}

/* Asks for a window and checks what holds for every one. Returns the spread of given rows. */
static uint64_t take_window(struct bench *bench, uint64_t e, uint64_t j)
{
    struct plan_epoch epoch;
    struct plan_window window;
    uint64_t given[MOST_READERS] = {0};
    plan_epoch_init(&epoch, &bench->plan, e);
    plan_window_at(&window, &epoch, j);
    assigner_window(bench->assigner, &epoch, &window, bench->owners);
    for (uint64_t window_row = 0; window_row < window.row_count; window_row++) {
        uint64_t row = plan_row_at(&epoch, window.first_row_position + window_row);
        uint16_t owner = bench->owners[window_row] & ASSIGN_READER_MASK;
        bool keep = bench->owners[window_row] & ASSIGN_KEEP;
        assert_true(owner < bench->readers);
        if (bench->homes[row] != NOBODY) {
            assert_int_equal(owner, bench->homes[row]);
            assert_true(keep);
            bench->hits++;
        } else {
            given[owner]++;
            bench->given[owner]++;
        }
        bench->kept[owner] += (uint64_t)keep - (bench->homes[row] != NOBODY);
        bench->homes[row] = keep ? owner : NOBODY;
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t r = 0; r < bench->readers; r++) {
        assert_true(bench->kept[r] <= bench->keep_rows);
        assert_true(given[r] <= bench->most_rows);
        least = given[r] < least ? given[r] : least;
        most = given[r] > most ? given[r] : most;
    }
    return most - least;
}

/* The same for an assigner whose rows take any way. */
static void take_each_window(struct bench *bench, uint64_t e, uint64_t j)
{
    struct plan_epoch epoch;
    struct plan_window window;
    plan_epoch_init(&epoch, &bench->plan, e);
    plan_window_at(&window, &epoch, j);
    assigner_window(bench->assigner, &epoch, &window, bench->owners);
    for (uint64_t window_row = 0; window_row < window.row_count; window_row++) {
        uint64_t row = plan_row_at(&epoch, window.first_row_position + window_row);
        uint16_t owner = bench->owners[window_row];
        if (!(owner & ASSIGN_KEEP))
            continue;
        assert_true(bench->homes[row] == NOBODY ||
                    bench->homes[row] == (owner & ASSIGN_READER_MASK));
        bench->homes[row] = owner & ASSIGN_READER_MASK;
    }
}

static void take_epochs(struct bench *bench, uint64_t first, uint64_t end)
{
    for (uint64_t e = first; e < end; e++)
        for (uint64_t j = 0; j < bench->plan.window_count; j++)
            (void)take_window(bench, e, j);
}

static const struct plan_options long_rows = {.row_length = 4, .window_rows = 50};
static const struct plan_options single_rows = {.row_length = 1, .window_rows = 48};

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
 * (take_window() sees to it), and nobody is in debt for what it was given and never read. */
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

    bench_init(&bench, 997, long_rows, READERS, 0, 50);
    assigner_note_pace(bench.assigner, 0, 0, 1000, 0, false);
    (void)take_window(&bench, 0, 0);
    for (uint32_t r = 1; r < READERS; r++)
        assigner_note_pace(bench.assigner, r, bench.given[r], 1000, 0, false);
    assigner_note_pace(bench.assigner, 0, 0, 1000, 0, true);
    assigner_go_on(bench.assigner, bench.reader_of_trainer);
    assert_in_range(take_window(&bench, 0, 0), 0, 1);
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

/* A reader four times as slow gets a quarter of what the others get, all keeping up with what they
 * get.
 */
static void pace_counts(void **state)
{
    (void)state;
    struct bench bench;
    uint64_t read[MOST_READERS] = {0};
    bench_init(&bench, 1000, long_rows, 4, 0, 25);
    for (uint64_t e = 0; e < 8; e++) {
        for (uint64_t j = 0; j < bench.plan.window_count; j++) {
            (void)take_window(&bench, e, j);
            for (uint32_t r = 0; r < 4; r++) {
                read[r] = bench.given[r];
                assigner_note_pace(bench.assigner, r, read[r], r == 2 ? 4000 : 1000, 0, true);
            }
        }
    }
    for (uint32_t r = 0; r < 4; r++)
        assert_in_range(bench.given[r], r == 2 ? 560 : 2400, r == 2 ? 680 : 2500);
    assigner_free(bench.assigner);
}

/* Two readers that say that they are equally fast, of which one takes three times as long: it is
 * waited for, and so gets less and less, until neither is. */
static void waiting_counts(void **state)
{
    (void)state;
    struct bench bench;
    uint64_t before[2] = {0}, rows[2] = {0};
    bench_init(&bench, 1000, long_rows, 2, 0, 100);
    for (uint64_t e = 0; e < 8; e++) {
        for (uint64_t j = 0; j < bench.plan.window_count; j++) {
            (void)take_window(&bench, e, j);
            for (uint32_t r = 0; r < 2; r++) {
                rows[r] = bench.given[r] - before[r];
                before[r] = bench.given[r];
            }
            double took[] = {(double)rows[0], 3 * (double)rows[1]};
            double longest = took[0] > took[1] ? took[0] : took[1];
            double waited = (took[1] - took[0]) / longest / 2; /* for 1, less the average */
            assigner_note_pace(bench.assigner, 0, bench.given[0], 1000, -waited, true);
            assigner_note_pace(bench.assigner, 1, bench.given[1], 1000, waited, true);
        }
    }
    assert_in_range(rows[1] * 100 / (rows[0] + rows[1]), 22, 32);
    assigner_free(bench.assigner);
}

/* One that does not get on with what it was given gets nothing more. */
static void stragglers_get_nothing(void **state)
{
    (void)state;
    struct bench bench;
    bench_init(&bench, 1000, long_rows, 2, 0, 50);
    (void)take_window(&bench, 0, 0);
    for (uint64_t j = 1; j < bench.plan.window_count; j++) {
        assigner_note_pace(bench.assigner, 0, bench.given[0], 1000, 0, true);
        assigner_note_pace(bench.assigner, 1, 0, 1000, 0, true);
        (void)take_window(&bench, 0, j);
    }
    assert_in_range(bench.given[1], 25, 51);
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

/* ... but not by a reader that is far behind and waited for. */
static void pace_goes_before_locality(void **state)
{
    (void)state;
    for (int waited_for = 0; waited_for < 2; waited_for++) {
        struct bench bench;
        bench_init(&bench, 960, single_rows, 2, 0, 48);
        (void)take_window(&bench, 0, 0);
        for (uint64_t j = 1; j < bench.plan.window_count; j++) {
            assigner_note_pace(bench.assigner, 0, bench.given[0], 1000, 0, true);
            assigner_note_pace(bench.assigner, 1, bench.given[1], 4000, 0, waited_for);
            (void)take_window(&bench, 0, j);
        }
        uint64_t its_trainer_gets = 480;
        if (waited_for)
            assert_in_range(bench.given[1], 150, 370);
        else
            assert_int_equal(bench.given[1], its_trainer_gets);
        assigner_free(bench.assigner);
    }
}

/* Rows that `reader` loads of the window that take_window() had, and does not keep. */
static uint64_t count_loads(const struct bench *bench, uint64_t e, uint64_t j, uint32_t reader)
{
    static struct round_item items[MOST_ROWS];
    struct plan_epoch epoch;
    struct plan_window window;
    bool loads[MOST_ROWS] = {false};
    uint64_t count = 0;
    plan_epoch_init(&epoch, &bench->plan, e);
    plan_window_at(&window, &epoch, j);
    uint64_t samples = round_window_items(&epoch, &window, (struct round_shape){1, 1, 2},
                                          bench->owners, reader, bench->reader_of_trainer, items);
    for (uint64_t i = 0; i < samples; i++) {
        uint32_t window_row = items[i].window_row;
        count += !loads[window_row] && !assign_keeps(bench->owners[window_row], reader);
        loads[window_row] = true;
    }
    return count;
}

/* How many rows of the window that take_each_window() had a reader reads from the store, if it
 * `has` some, and keeps those that it is to. *ret_transient: rows that it loads into buffers which
 * they do not keep; rows that are kept as stored keep none. */
static uint64_t count_reads(const struct bench *bench, uint64_t e, uint64_t j, uint32_t reader,
                            uint64_t replica_rows, bool *has, bool stored, uint64_t *ret_transient)
{
    static struct round_item items[MOST_ROWS];
    struct plan_epoch epoch;
    struct plan_window window;
    bool loads[MOST_ROWS] = {false};
    uint64_t read = 0;
    plan_epoch_init(&epoch, &bench->plan, e);
    plan_window_at(&window, &epoch, j);
    uint64_t samples = round_window_items(&epoch, &window, (struct round_shape){1, 1, 2},
                                          bench->owners, reader, bench->reader_of_trainer, items);
    for (uint64_t i = 0; i < samples; i++)
        loads[items[i].window_row] = true;
    for (uint64_t window_row = 0; window_row < window.row_count; window_row++) {
        uint64_t row = plan_row_at(&epoch, window.first_row_position + window_row);
        bool keeps = assign_keeps(bench->owners[window_row], reader) || row < replica_rows;
        read += loads[window_row] && !has[row];
        *ret_transient += loads[window_row] && !assign_keeps(bench->owners[window_row], reader) &&
                          (stored || !keeps);
        has[row] |= loads[window_row] && keeps;
    }
    return read;
}

/* Rows that every reader loads for itself keep their homes, never take more buffers than there are,
 * and are counted. */
static void each_within_its_buffers(void **state)
{
    (void)state;
    static const struct plan_options *const rows[] = {&long_rows, &single_rows};
    for (uint64_t each_rows = 0; each_rows <= 12; each_rows += 4) {
        for (int kind = 0; kind < 2; kind++) {
            struct bench bench;
            bench_init(&bench, 200, *rows[kind], 4, 51, 50);
            assigner_free(bench.assigner);
            struct assigner_options options = {.plan = &bench.plan,
                                               .reader_count = 4,
                                               .keep_rows = 51,
                                               .most_rows = 50,
                                               .each_rows = each_rows,
                                               .way = WAYS_EACH,
                                               .reader_of_trainer = bench.reader_of_trainer};
            assert_int_equal(assigner_new(&options, &bench.assigner, NULL), STATUS_OK);
            uint64_t loads = 0, most = 0;
            struct assigner_stats before, after;
            for (uint64_t e = 0; e < 3; e++) {
                assigner_stats(bench.assigner, &before);
                loads = 0;
                for (uint64_t j = 0; j < bench.plan.window_count; j++) {
                    take_each_window(&bench, e, j);
                    for (uint32_t r = 0; r < 4; r++) {
                        uint64_t mine = count_loads(&bench, e, j, r);
                        assert_in_range(mine, 0, each_rows);
                        most = mine > most ? mine : most;
                        loads += mine;
                    }
                }
            }
            assigner_stats(bench.assigner, &after);
            assert_int_equal(after.read_rows - before.read_rows, loads); /* all rows have homes */
            assert_int_equal(after.kept_rows > before.kept_rows, true);
            assert_true(2 * most >= each_rows);
            assigner_free(bench.assigner);
        }
    }
}

/* Every reader keeps the rows below `replica_rows` that it loads: what the assigner counts as read
 * is what readers that do so read, no reader needs more buffers than there are, and nothing is read
 * or sent any more once each has had all that it wants. */
static void replicas_are_read_once(void **state)
{
    enum { EPOCHS = 64 }; /* a reader of four is wanted in each by a quarter of the single rows */
    (void)state;
    static const struct plan_options *const rows[] = {&long_rows, &single_rows};
    static bool has[4][MOST_ROWS];
    for (uint64_t replica_rows = 0; replica_rows <= 200; replica_rows += 100) {
        for (int kind = 0; kind < 4; kind++) {
            struct bench bench;
            bool stored = kind / 2;
            bench_init(&bench, 200, *rows[kind % 2], 4, 51, 50);
            assigner_free(bench.assigner);
            struct assigner_options options = {.plan = &bench.plan,
                                               .reader_count = 4,
                                               .keep_rows = 51,
                                               .most_rows = 50,
                                               .each_rows = stored ? 20 : 4,
                                               .replica_rows = replica_rows,
                                               .way = WAYS_EACH,
                                               .kept_are_read = stored,
                                               .reader_of_trainer = bench.reader_of_trainer};
            assert_int_equal(assigner_new(&options, &bench.assigner, NULL), STATUS_OK);
            struct assigner_stats before, after = {0};
            memset(has, 0, sizeof has);
            for (uint64_t e = 0; e < EPOCHS; e++) {
                uint64_t read = 0;
                before = after;
                for (uint64_t j = 0; j < bench.plan.window_count; j++) {
                    take_each_window(&bench, e, j);
                    for (uint32_t r = 0; r < 4; r++) {
                        uint64_t transient = 0;
                        read +=
                            count_reads(&bench, e, j, r, replica_rows, has[r], stored, &transient);
                        assert_in_range(transient, 0, options.each_rows);
                    }
                }
                assigner_stats(bench.assigner, &after);
                assert_int_equal(after.read_rows - before.read_rows, read);
                if (replica_rows == 200 && e == EPOCHS - 1) {
                    assert_int_equal(read, 0);
                    assert_true(stored || after.exchanged_samples <= before.exchanged_samples);
                }
            }
            for (uint32_t r = 0; r < 4; r++) {
                uint64_t kept = 0;
                for (uint64_t row = 0; row < 200; row++)
                    kept += has[r][row];
                assert_in_range(kept, 40, replica_rows == 200 ? 200 : 51 + replica_rows);
            }
            assigner_free(bench.assigner);
        }
    }
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
        cmocka_unit_test(waiting_counts),
        cmocka_unit_test(stragglers_get_nothing),
        cmocka_unit_test(single_samples_stay_local),
        cmocka_unit_test(pace_goes_before_locality),
        cmocka_unit_test(each_within_its_buffers),
        cmocka_unit_test(replicas_are_read_once),
        cmocka_unit_test(bad_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
