/* Assignment of rows: even, capped, faithful to homes, and never more kept than there is room for.
 */
#include "plan/assign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_READERS = 16, MOST_ROWS = 1000 };

/* The assigner under test and what we know of it from its answers alone. */
struct bench {
    struct plan plan;
    struct assigner *assigner;
    uint32_t readers;
    uint64_t room[MOST_READERS];
    uint64_t kept[MOST_READERS];
    uint16_t homes[MOST_ROWS];
    uint64_t without_room; /* rows given to a reader that does not keep them */
};

static void bench_init(struct bench *bench, uint64_t rows, uint64_t window_rows, uint32_t readers,
                       const uint64_t *room)
{
    struct plan_options options = {.sample_count = rows * 4 - 1,
                                   .row_length = 4,
                                   .window_rows = window_rows,
                                   .seed = 5,
                                   .shuffle = true,
                                   .global_batch = 1,
                                   .trainer_count = 1};
    *bench = (struct bench){.readers = readers};
    memset(bench->homes, 0xff, sizeof bench->homes);
    memcpy(bench->room, room, readers * sizeof room[0]);
    assert_int_equal(plan_init(&bench->plan, &options, NULL), STATUS_OK);
    assert_int_equal(assigner_new(&bench->plan, readers, room, &bench->assigner, NULL), STATUS_OK);
}

/* Asks for a window and checks every promise. Returns the spread of rows without a home over
 * readers. */
static uint64_t take_window(struct bench *bench, uint64_t e, uint64_t j)
{
    struct plan_epoch epoch;
    struct plan_window window;
    uint16_t owners[MOST_ROWS];
    uint64_t given[MOST_READERS] = {0};
    plan_epoch_init(&epoch, &bench->plan, e);
    plan_window_at(&window, &epoch, j);
    assigner_window(bench->assigner, &epoch, &window, owners);
    for (uint64_t slot = 0; slot < window.row_count; slot++) {
        uint64_t row = plan_row_at(&epoch, window.first_row_position + slot);
        uint16_t owner = owners[slot] & ASSIGN_READER_MASK;
        bool keep = owners[slot] & ASSIGN_KEEP;
        assert_true(owner < bench->readers);
        if (bench->homes[row] != 0xffff) {
            assert_int_equal(owner, bench->homes[row]);
            assert_true(keep);
            continue;
        }
        given[owner]++;
        bench->without_room += !keep;
        if (keep) {
            bench->homes[row] = owner;
            assert_true(++bench->kept[owner] <= bench->room[owner]);
        }
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t r = 0; r < bench->readers; r++) {
        least = given[r] < least ? given[r] : least;
        most = given[r] > most ? given[r] : most;
    }
    assert_true(most <= (window.row_count + bench->readers - 1) / bench->readers);
    return most - least;
}

static void even_without_cache(void **state)
{
    (void)state;
    const uint64_t room[MOST_READERS] = {0};
    for (uint32_t readers = 1; readers <= MOST_READERS; readers++) {
        struct bench bench;
        bench_init(&bench, 997, 50, readers, room);
        for (uint64_t e = 0; e < 2; e++)
            for (uint64_t j = 0; j < bench.plan.window_count; j++)
                assert_in_range(take_window(&bench, e, j), 0, 1);
        assigner_free(bench.assigner);
    }
}

/* Also when the run starts in the middle of an epoch, so that later windows mix homes and new rows.
 */
static void everything_fits(void **state)
{
    (void)state;
    for (uint32_t readers = 1; readers <= MOST_READERS; readers++) {
        struct bench bench;
        uint64_t room[MOST_READERS];
        for (uint32_t r = 0; r < readers; r++)
            room[r] = (997 + readers - 1) / readers + 1;
        bench_init(&bench, 997, 50, readers, room);
        for (uint64_t e = 0; e < 3; e++)
            for (uint64_t j = e == 0 ? 13 : 0; j < bench.plan.window_count; j++)
                (void)take_window(&bench, e, j);
        assert_int_equal(bench.without_room, 0);
        uint64_t total = 0;
        for (uint32_t r = 0; r < readers; r++) {
            assert_in_range(bench.kept[r], 997 / readers, 997 / readers + 1);
            total += bench.kept[r];
        }
        assert_int_equal(total, 997);
        assigner_free(bench.assigner);
    }
}

static void some_fit(void **state)
{
    (void)state;
    const uint64_t room[] = {100, 0, 20, 57};
    struct bench bench;
    bench_init(&bench, 600, 40, 4, room);
    for (uint64_t e = 0; e < 3; e++)
        for (uint64_t j = 0; j < bench.plan.window_count; j++)
            (void)take_window(&bench, e, j);
    assert_memory_equal(bench.kept, room, sizeof room);
    assigner_free(bench.assigner);
}

/* Rows without a home go to the readers that have the fewest homes in the window. */
static void new_rows_balance_homes(void **state)
{
    (void)state;
    const uint64_t room[] = {200, 0};
    struct bench bench;
    uint64_t rows[2] = {0};
    bench_init(&bench, 400, 40, 2, room);
    for (uint64_t j = 0; j < bench.plan.window_count; j++)
        (void)take_window(&bench, 0, j);
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &bench.plan, 1);
    for (uint64_t j = 0; j < bench.plan.window_count; j++) {
        struct plan_window window;
        uint16_t owners[MOST_ROWS];
        plan_window_at(&window, &epoch, j);
        assigner_window(bench.assigner, &epoch, &window, owners);
        for (uint64_t slot = 0; slot < window.row_count; slot++)
            rows[owners[slot] & ASSIGN_READER_MASK]++;
    }
    assert_in_range(rows[0], 200, 225);
    assigner_free(bench.assigner);
}

/* A reader with room gets new rows before one without, as many as the cap lets it: soon all are
 * kept. */
static void room_comes_first(void **state)
{
    (void)state;
    const uint64_t room[] = {0, 400};
    struct bench bench;
    bench_init(&bench, 400, 40, 2, room);
    for (uint64_t e = 0; e < 4; e++)
        for (uint64_t j = 0; j < bench.plan.window_count; j++)
            (void)take_window(&bench, e, j);
    assert_int_equal(bench.kept[1], 400);
    assigner_free(bench.assigner);
}

static void bad_reader_counts(void **state)
{
    (void)state;
    struct plan plan = {.row_count = 10};
    struct assigner *assigner = NULL;
    struct error err;
    assert_int_equal(assigner_new(&plan, 0, NULL, &assigner, &err), STATUS_INVALID);
    assert_int_equal(assigner_new(&plan, 32768, NULL, &assigner, &err), STATUS_INVALID);
    assert_null(assigner);
    assigner_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_without_cache), cmocka_unit_test(everything_fits),
        cmocka_unit_test(some_fit),           cmocka_unit_test(new_rows_balance_homes),
        cmocka_unit_test(room_comes_first),   cmocka_unit_test(bad_reader_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
