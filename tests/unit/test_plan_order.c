/* The order of an epoch: complete, reversible, different every epoch, the same for ever. */
#include "base/random.h"
#include "plan/order/mix.h"
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

static struct plan make_plan(uint64_t n, uint64_t c, uint64_t w, uint64_t b, enum plan_last last,
                             bool shuffle)
{
    struct plan_options options = {.sample_count = n,
                                   .row_length = c,
                                   .window_rows = w,
                                   .seed = 17,
                                   .shuffle = shuffle,
                                   .global_batch = b,
                                   .last = last,
                                   .trainer_count = 1};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    return plan;
}

/* Windows tile positions and rows; every position has a location that leads back to the position.
 */
static void check_windows(const struct plan_epoch *epoch)
{
    const struct plan *plan = &epoch->plan;
    uint64_t position = 0, row_position = 0;
    for (uint64_t j = 0; j < plan->window_count; j++) {
        struct plan_window window;
        plan_window_at(&window, epoch, j);
        assert_int_equal(window.index, j);
        assert_int_equal(window.first_position, position);
        assert_int_equal(window.first_row_position, row_position);
        for (uint64_t p = 0; p < window.sample_count; p++) {
            assert_int_equal(plan_window_of(epoch, position + p), j);
            struct plan_location location = plan_location_at(&window, position + p);
            assert_true(location.window_row < window.row_count);
            assert_true(location.offset < plan_window_row_samples(&window, location.window_row));
            assert_int_equal(plan_position_of(&window, location), position + p);
        }
        position += window.sample_count;
        row_position += window.row_count;
    }
    assert_int_equal(position, plan->sample_count);
    assert_int_equal(row_position, plan->row_count);
}

/* Every sample exactly once among positions below N; those beyond repeat the last window from its
 * start. */
static void check_samples(const struct plan_epoch *epoch)
{
    const struct plan *plan = &epoch->plan;
    uint8_t *seen = calloc(plan->sample_count, 1);
    assert_non_null(seen);
    uint64_t delivered =
        plan->position_count < plan->sample_count ? plan->position_count : plan->sample_count;
    for (uint64_t p = 0; p < delivered; p++) {
        uint64_t sample = plan_sample_at(epoch, p);
        assert_true(sample < plan->sample_count);
        assert_int_equal(seen[sample]++, 0);
        if (!plan->shuffle)
            assert_int_equal(sample, p);
    }
    struct plan_window last;
    plan_window_at(&last, epoch, plan->window_count - 1);
    for (uint64_t p = delivered; p < plan->position_count; p++) {
        uint64_t source = last.first_position + (p - plan->sample_count) % last.sample_count;
        assert_int_equal(plan_unpad(epoch, p), source);
        assert_int_equal(plan_sample_at(epoch, p), plan_sample_at(epoch, source));
    }
    free(seen);
}

static void check_tail(const struct plan *plan)
{
    uint64_t n = plan->sample_count, b = plan->global_batch, total = 0;
    uint64_t expected = plan->last == PLAN_DROP  ? n / b * b
                        : plan->last == PLAN_PAD ? (n + b - 1) / b * b
                                                 : n;
    for (uint64_t step = 0; step < plan->steps_per_epoch; step++)
        total += plan_step_samples(plan, step);
    assert_int_equal(plan->position_count, expected);
    assert_int_equal(total, expected);
}

static void every_sample_once(void **state)
{
    (void)state;
    const uint64_t counts[] = {1, 2, 7, 64, 100, 997}, lengths[] = {1, 3, 8, 100, 2000};
    const uint64_t windows[] = {1, 2, 5, 1000}, batches[] = {1, 6, 50, 1500};
    for (size_t i = 0; i < 6 * 5 * 4 * 4 * 3 * 2; i++) {
        uint64_t n = counts[i % 6], c = lengths[i / 6 % 5], w = windows[i / 30 % 4];
        uint64_t b = batches[i / 120 % 4];
        enum plan_last last = (enum plan_last)(i / 480 % 3);
        if (last == PLAN_DROP && b > n)
            continue;
        struct plan plan = make_plan(n, c, w, b, last, i / 1440 == 0);
        check_tail(&plan);
        for (uint64_t e = 0; e < 2; e++) {
            struct plan_epoch epoch;
            plan_epoch_init(&epoch, &plan, e);
            assert_int_equal(epoch.short_count, n % c != 0);
            if (n % c != 0)
                assert_int_equal(plan_row_at(&epoch, epoch.shorts[0].row_position),
                                 plan.row_count - 1);
            check_windows(&epoch);
            check_samples(&epoch);
        }
    }
}

/* Samples in several stores: rows begin anew with each. */
struct stores {
    uint64_t samples[8], rows[8];
    size_t count;
};

static struct stores stores_of(const uint64_t *counts, size_t count, uint64_t row_length)
{
    struct stores stores = {.count = count};
    for (size_t i = 0; i < count; i++) {
        stores.samples[i + 1] = stores.samples[i] + counts[i];
        stores.rows[i + 1] = stores.rows[i] + (counts[i] + row_length - 1) / row_length;
    }
    return stores;
}

/* `stores` must last as long as the plan. */
static struct plan plan_of_stores(const struct stores *stores, uint64_t c, uint64_t w, uint64_t b,
                                  bool shuffle)
{
    struct plan_options options = {.sample_count = stores->samples[stores->count],
                                   .row_length = c,
                                   .store_frames = stores->samples,
                                   .store_rows = stores->rows,
                                   .store_count = stores->count,
                                   .window_rows = w,
                                   .seed = 17,
                                   .shuffle = shuffle,
                                   .global_batch = b,
                                   .last = PLAN_PAD,
                                   .trainer_count = 1};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    return plan;
}

/* Each row is of one store, all of it but for its last one as long as any. */
static void check_rows(const struct plan_epoch *epoch, const struct stores *stores)
{
    const struct plan *plan = &epoch->plan;
    for (uint64_t j = 0; j < plan->window_count; j++) {
        struct plan_window window;
        plan_window_at(&window, epoch, j);
        for (uint64_t window_row = 0; window_row < window.row_count; window_row++) {
            uint64_t row = plan_row_at(epoch, window.first_row_position + window_row);
            uint64_t first = plan_row_first(plan, row),
                     length = plan_window_row_samples(&window, window_row);
            size_t store = 0;
            while (stores->samples[store + 1] <= first)
                store++;
            uint64_t left = stores->samples[store + 1] - first;
            assert_int_equal((first - stores->samples[store]) % plan->row_length, 0);
            assert_int_equal(length, left < plan->row_length ? left : plan->row_length);
        }
    }
}

static void rows_end_with_stores(void **state)
{
    (void)state;
    const uint64_t cases[][5] = {{7, 0, 0, 0, 0},    {1, 1, 1, 1, 1},      {0, 0, 9, 0, 1},
                                 {16, 8, 24, 8, 80}, {37, 200, 3, 96, 61}, {997, 1, 2, 3, 4},
                                 {5, 6, 7, 1000, 1}, {100, 0, 0, 0, 100}};
    const uint64_t lengths[] = {1, 3, 8, 100}, windows[] = {1, 2, 5, 1000};
    for (size_t i = 0; i < 8 * 4 * 4 * 2; i++) {
        uint64_t c = lengths[i / 8 % 4], w = windows[i / 32 % 4];
        struct stores stores = stores_of(cases[i % 8], 5, c);
        struct plan plan = plan_of_stores(&stores, c, w, 6, i < 128);
        assert_int_equal(plan.row_count, stores.rows[5]);
        for (uint64_t e = 0; e < 2; e++) {
            struct plan_epoch epoch;
            plan_epoch_init(&epoch, &plan, e);
            check_windows(&epoch);
            check_samples(&epoch);
            check_rows(&epoch, &stores);
        }
    }
}

/* The share of positions that hold the same sample in both orders; about 1/N in unrelated ones. */
static double likeness(const struct plan *a, uint64_t epoch_a, const struct plan *b,
                       uint64_t epoch_b)
{
    struct plan_epoch first, second;
    plan_epoch_init(&first, a, epoch_a);
    plan_epoch_init(&second, b, epoch_b);
    uint64_t same = 0;
    for (uint64_t p = 0; p < a->sample_count; p++)
        same += plan_sample_at(&first, p) == plan_sample_at(&second, p);
    return (double)same / (double)a->sample_count;
}

static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    struct plan plan = make_plan(2000, 8, 50, 50, PLAN_DROP, true), other = plan;
    other.seed = 18;
    assert_true(likeness(&plan, 0, &plan, 0) == 1);
    assert_true(likeness(&plan, 0, &plan, 1) < 0.01);
    assert_true(likeness(&plan, 1, &plan, 2) < 0.01);
    assert_true(likeness(&plan, 0, &other, 0) < 0.01);
    assert_true(likeness(&plan, 1, &other, 0) < 0.01);
    assert_true(plan_sample_key(17, 0, 5) != plan_sample_key(17, 0, 6));
    assert_true(plan_sample_key(17, 0, 5) != plan_sample_key(17, 1, 5));
    assert_true(plan_sample_key(17, 0, 5) != plan_sample_key(18, 0, 5));
}

/* Windows of an epoch are shuffled each in its own way, and across rows. */
static void windows_mix_their_rows(void **state)
{
    (void)state;
    struct plan plan = make_plan(1000, 10, 10, 10, PLAN_DROP, true);
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &plan, 0);
    struct plan_window first, second;
    plan_window_at(&first, &epoch, 0);
    plan_window_at(&second, &epoch, 1);
    uint64_t same = 0, in_row = 0;
    for (uint64_t i = 0; i < 100; i++) {
        struct plan_location a = plan_location_at(&first, i);
        struct plan_location b = plan_location_at(&second, 100 + i);
        same += a.window_row == b.window_row && a.offset == b.offset;
        in_row += i > 0 && a.window_row == plan_location_at(&first, i - 1).window_row;
    }
    assert_in_range(same, 0, 10);
    assert_in_range(in_row, 0, 30);
}

/* A run that starts at (epoch, step) computes what the whole run has from there on: it asks the
 * same function at the same positions, through an epoch made anew. */
static void resumed_order_is_the_suffix(void **state)
{
    (void)state;
    struct plan plan = make_plan(1000, 8, 5, 48, PLAN_PAD, true);
    uint64_t whole[3][1008];
    assert_int_equal(plan.position_count, 1008);
    for (uint64_t e = 0; e < 3; e++) {
        struct plan_epoch epoch;
        plan_epoch_init(&epoch, &plan, e);
        for (uint64_t p = 0; p < plan.position_count; p++)
            whole[e][p] = plan_sample_at(&epoch, p);
    }
    for (uint64_t e = 3; e-- > 0;) {
        for (uint64_t step = plan.steps_per_epoch; step-- > 0;) {
            struct plan again = make_plan(1000, 8, 5, 48, PLAN_PAD, true);
            struct plan_epoch epoch;
            plan_epoch_init(&epoch, &again, e);
            struct plan_local_batch local = plan_local_batch_at(&again, step, 0);
            for (uint64_t p = local.first; p < local.first + local.count; p++)
                assert_int_equal(plan_sample_at(&epoch, p), whole[e][p]);
        }
    }
}

/* 10^10 samples cost no more than a few. */
static void locations_in_a_large_dataset(void **state)
{
    (void)state;
    struct plan plan = make_plan(UINT64_C(10000000007), 1000, 0, 4096, PLAN_PARTIAL, true);
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &plan, 9);
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t position = i < 10 ? plan.sample_count - 1 - i : i * UINT64_C(999999999) / 1000;
        uint64_t j = plan_window_of(&epoch, position);
        struct plan_window window;
        plan_window_at(&window, &epoch, j);
        assert_true(position - window.first_position < window.sample_count);
        assert_true(plan_position_of(&window, plan_location_at(&window, position)) == position);
        assert_true(plan_sample_at(&epoch, position) < plan.sample_count);
    }
}

/* The order is part of what a training run is reproduced by: these files must never have to change.
 */
static void check_golden(const struct plan *plan, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[256];
    uint64_t lines = 0;
    while (fgets(line, sizeof line, file)) {
        unsigned long long e, step, position, index;
        if (line[0] == '#')
            continue;
        assert_int_equal(sscanf(line, "%llu %llu %llu %llu", &e, &step, &position, &index), 4);
        struct plan_epoch epoch;
        plan_epoch_init(&epoch, plan, e);
        assert_int_equal(plan_sample_at(&epoch, step * 50 + position), index);
        lines++;
    }
    fclose(file);
    assert_int_equal(lines, 2 * plan->sample_count);
}

/* The frames that tests/golden/order_v1.py has for anchors. */
static struct anchors *golden_anchors(const struct stores *stores)
{
    static uint64_t wanted[18];
    struct anchors_counts counts_of;
    struct anchors *anchors;
    for (uint64_t t = 0; t < stores->samples[stores->count]; t++)
        if (random_u64(17, 99, t) % 4 == 0 && !(t >= 200 && t < 333))
            wanted[t / 64] |= UINT64_C(1) << t % 64;
    const struct anchors_options options = {.store_frames = stores->samples,
                                            .store_count = stores->count,
                                            .row_length = 8,
                                            .stride = 1,
                                            .wanted = wanted};
    assert_int_equal(anchors_build(&options, &anchors, &counts_of, NULL), STATUS_OK);
    return anchors;
}

static void golden_order_of_anchors(void **state)
{
    (void)state;
    const uint64_t counts[] = {37, 600, 3, 296, 161};
    struct stores stores = stores_of(counts, 5, 8);
    struct anchors *anchors = golden_anchors(&stores);
    const struct plan_options options = {.sample_count = anchors_count(anchors),
                                         .row_length = 8,
                                         .store_frames = stores.samples,
                                         .store_rows = stores.rows,
                                         .store_count = stores.count,
                                         .anchors = anchors,
                                         .window_rows = 5,
                                         .seed = 17,
                                         .shuffle = true,
                                         .global_batch = 50,
                                         .last = PLAN_PARTIAL,
                                         .trainer_count = 1};
    struct plan plan;
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    assert_int_equal(plan_tables_new(&plan, 1, 1, NULL), STATUS_OK);
    check_golden(&plan, GOLDEN_FOLDER "/order_v1_anchors.txt");
    plan_tables_free(plan.tables);
    anchors_free(anchors);
}

/* The sources that tests/golden/order_v1.py has for a mix. */
static void golden_order_of_a_mix(void **state)
{
    (void)state;
    const uint64_t one[] = {1000}, five[] = {37, 200, 3, 96, 61}, some[] = {37, 600, 3, 296, 161},
                   single[] = {1}, two[] = {9, 2}, weights[] = {5, 3, 2, 7, 1};
    struct stores stores[] = {stores_of(one, 1, 8), stores_of(five, 5, 8), stores_of(some, 5, 8),
                              stores_of(single, 1, 8), stores_of(two, 2, 8)};
    const uint64_t windows[MIX_MAX_SOURCES] = {0};
    struct anchors *anchors = golden_anchors(&stores[2]);
    struct plan_options sources[5];
    for (size_t d = 0; d < 5; d++)
        sources[d] = (struct plan_options){.sample_count = stores[d].samples[stores[d].count],
                                           .row_length = 8,
                                           .store_frames = stores[d].samples,
                                           .store_rows = stores[d].rows,
                                           .store_count = stores[d].count,
                                           .window_rows = 5,
                                           .shuffle = true};
    sources[2].anchors = anchors;
    sources[2].sample_count = anchors_count(anchors);
    const struct plan_mix_options options = {.source_count = 5,
                                             .sources = sources,
                                             .weights = weights,
                                             .sample_count = 330,
                                             .epochs = 2,
                                             .seed = 17,
                                             .global_batch = 50,
                                             .last = PLAN_PARTIAL,
                                             .trainer_count = 1};
    struct plan plan;
    assert_int_equal(plan_mix_new(&options, &plan, NULL), STATUS_OK);
    assert_int_equal(plan_sources_tables_new(&plan, windows, NULL), STATUS_OK);
    FILE *file = fopen(GOLDEN_FOLDER "/order_v1_mix.txt", "r");
    char line[160];
    uint64_t count = 0;
    unsigned long long epoch, step, offset, index, source;
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file)); /* the heading */
    while (fscanf(file, "%llu %llu %llu %llu %llu", &epoch, &step, &offset, &index, &source) == 5) {
        struct plan_found found;
        plan_find(&plan, epoch, step * 50 + offset, &found);
        assert_int_equal(found.source, source);
        assert_int_equal(found.frame, index);
        count++;
    }
    assert_int_equal(count, 2 * plan.position_count);
    fclose(file);
    plan_sources_tables_free(&plan);
    plan_mix_free(plan.mix);
    anchors_free(anchors);
}

static void golden_order(void **state)
{
    (void)state;
    const uint64_t counts[] = {37, 200, 3, 96, 61};
    struct plan plan = make_plan(1000, 8, 5, 50, PLAN_DROP, true);
    check_golden(&plan, GOLDEN_FOLDER "/order_v1.txt");
    struct stores stores = stores_of(counts, 5, 8);
    plan = plan_of_stores(&stores, 8, 5, 50, true);
    check_golden(&plan, GOLDEN_FOLDER "/order_v1_stores.txt");
}

static void shares_and_recipients_agree(void **state)
{
    (void)state;
    for (uint32_t trainers = 1; trainers <= 8; trainers++) {
        for (uint64_t n = 1; n < 60; n += 3) {
            struct plan_options options = {.sample_count = n,
                                           .row_length = 4,
                                           .global_batch = trainers * 3 + n % trainers,
                                           .last = PLAN_PARTIAL,
                                           .trainer_count = trainers};
            struct plan plan;
            assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
            uint64_t position = 0;
            for (uint64_t step = 0; step < plan.steps_per_epoch; step++) {
                for (uint32_t trainer = 0; trainer < trainers; trainer++) {
                    struct plan_local_batch local = plan_local_batch_at(&plan, step, trainer);
                    assert_int_equal(local.first, position);
                    assert_true(local.count <= plan.batch);
                    for (uint32_t offset = 0; offset < local.count; offset++, position++) {
                        struct plan_recipient recipient = plan_recipient_of(&plan, position);
                        assert_int_equal(recipient.step, step);
                        assert_int_equal(recipient.trainer, trainer);
                        assert_int_equal(recipient.offset, offset);
                    }
                }
            }
            assert_int_equal(position, n);
        }
    }
}

static void expect_invalid(struct plan_options options, const char *words)
{
    struct plan plan = {.batch = 77};
    struct error err;
    assert_int_equal(plan_init(&plan, &options, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, words));
    assert_int_equal(plan.batch, 77);
}

static void bad_options(void **state)
{
    (void)state;
    const struct plan_options good = {
        .sample_count = 100, .row_length = 10, .global_batch = 20, .trainer_count = 4};
    struct plan_options bad = good;
    bad.sample_count = 0;
    expect_invalid(bad, "0 samples");
    bad.sample_count = (UINT64_C(1) << 48) + 1;
    expect_invalid(bad, "2^48");
    bad = good;
    bad.row_length = UINT64_C(1) << 32;
    expect_invalid(bad, "chunk rows");
    bad = good;
    bad.trainer_count = 21;
    expect_invalid(bad, "global batch 20 has no sample for each of 21 trainers");
    bad.trainer_count = 0;
    expect_invalid(bad, "0 trainers");
    bad = good;
    bad.global_batch = 120;
    expect_invalid(bad, "no step");
    bad.global_batch = UINT64_C(1) << 31;
    expect_invalid(bad, "2^31");
    const uint64_t samples[] = {0, 47, 100}, rows[] = {0, 5, 11}, straddling[] = {0, 5, 10};
    bad = good;
    bad.store_frames = samples;
    bad.store_rows = straddling;
    bad.store_count = 2;
    expect_invalid(bad, "in whole rows");
    bad.store_rows = rows;
    bad.sample_count = 101;
    expect_invalid(bad, "101 samples, in order");
    bad.store_count = PLAN_MAX_STORES + 1;
    expect_invalid(bad, "up to 1024");
}

static void default_window(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    assert_int_equal(plan_default_window_rows(10000, 100, mib, 1000), 80);
    assert_int_equal(plan_default_window_rows(10000, 100, mib, 10), 64);
    assert_int_equal(plan_default_window_rows(30, 100, mib, 10), 30);
    assert_int_equal(plan_default_window_rows(10000, 100, 1024 * mib, 10), 16);
    assert_int_equal(plan_default_window_rows(10000, 100, 32768 * mib, 10), 1);
    assert_int_equal(plan_default_window_rows(1, 100, 0, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_once),
        cmocka_unit_test(rows_end_with_stores),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(windows_mix_their_rows),
        cmocka_unit_test(resumed_order_is_the_suffix),
        cmocka_unit_test(locations_in_a_large_dataset),
        cmocka_unit_test(golden_order),
        cmocka_unit_test(golden_order_of_anchors),
        cmocka_unit_test(golden_order_of_a_mix),
        cmocka_unit_test(shares_and_recipients_agree),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(default_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
