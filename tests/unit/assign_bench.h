/* For tests of assignment: an assigner, and what is known of it from its answers alone. */
#ifndef PENSTOCK_TESTS_UNIT_ASSIGN_BENCH_H
#define PENSTOCK_TESTS_UNIT_ASSIGN_BENCH_H

#include "plan/assign/assign.h"

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
static inline void bench_init(struct bench *bench, uint64_t rows, struct plan_options options,
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
                                        .reader_of_trainer = bench->reader_of_trainer,
                                        .copies = 1};
    assert_int_equal(assigner_new(&assigner, &bench->assigner, NULL), STATUS_OK);
}

/* Asks for a window and checks what holds for every one. Returns the spread of given rows. */
static inline uint64_t take_window(struct bench *bench, uint64_t e, uint64_t j)
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

static inline void take_epochs(struct bench *bench, uint64_t first, uint64_t end)
{
    for (uint64_t e = first; e < end; e++)
        for (uint64_t j = 0; j < bench->plan.window_count; j++)
            (void)take_window(bench, e, j);
}

static const struct plan_options long_rows = {.row_length = 4, .window_rows = 50};
static const struct plan_options single_rows = {.row_length = 1, .window_rows = 48};

#endif
