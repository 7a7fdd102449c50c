/* Rows that each reader loads for itself: within its buffers, and read once where readers keep
 * them. */
#include "assign_bench.h"

#include "plan/round.h"

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
    uint64_t samples =
        round_window_items(&epoch, &window, (struct round_shape){1, 1, 2}, bench->owners, reader,
                           bench->reader_of_trainer, NULL, items);
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
    uint64_t samples =
        round_window_items(&epoch, &window, (struct round_shape){1, 1, 2}, bench->owners, reader,
                           bench->reader_of_trainer, NULL, items);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_within_its_buffers),
        cmocka_unit_test(replicas_are_read_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
