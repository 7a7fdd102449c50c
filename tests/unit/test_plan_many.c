/* Many at a time says what one at a time says: random numbers, the permutation in both directions,
 * division, and locations of an epoch. */
#include "base/divide.h"
#include "base/random.h"
#include "base/size.h"
#include "plan/order/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 1021 }; /* no multiple of anything that fits a register */

static void random_numbers(void **state)
{
    (void)state;
    static uint64_t lows[COUNT], values[COUNT];
    const uint64_t highs[] = {0, 7, UINT64_C(0x123456789abcdef0)};
    for (size_t h = 0; h < sizeof highs / sizeof highs[0]; h++) {
        uint64_t key = random_u64(1, 2, h);
        for (size_t i = 0; i < COUNT; i++)
            lows[i] = i % 2 ? i : random_u64(5, h, i);
        random_u64_many(key, highs[h], lows, COUNT, values);
        for (size_t i = 0; i < COUNT; i++)
            assert_int_equal(values[i], random_u64(key, highs[h], lows[i]));
    }
}

static void check_permutation(uint64_t n, uint64_t key)
{
    static uint64_t points[COUNT], images[COUNT];
    struct permutation p;
    permutation_init(&p, n, key);
    for (size_t i = 0; i < COUNT; i++)
        points[i] = i < n && i < COUNT / 2 ? i : n - 1 - random_below(random_u64(n, key, i), n);
    memcpy(images, points, sizeof images);
    permutation_apply_many(&p, images, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(images[i], permutation_apply(&p, points[i]));
    permutation_inverse_many(&p, images, COUNT);
    assert_memory_equal(images, points, sizeof images);
}

static void permutations(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 1200; n++)
        check_permutation(n, n);
    for (unsigned bit = 11; bit <= 62; bit++)
        for (int64_t near = -3; near <= 3; near++)
            if (bit < 62 || near <= 0)
                check_permutation((UINT64_C(1) << bit) + (uint64_t)near, bit);
    for (uint64_t root = 1000; root < 40000000; root = root * 3 / 2 + 1) /* halves of equal size */
        check_permutation(root * root, root);
}

static void division(void **state)
{
    (void)state;
    const uint64_t edges[] = {
        1, 2, 3, 7, 64, 641, 65535, 65536, 4294967295u, 4294967296u, UINT64_C(1) << 60, UINT64_MAX};
    enum { EDGES = sizeof edges / sizeof edges[0] };
    for (size_t d = 0; d < EDGES; d++) {
        struct divider divider = divider_of(edges[d]);
        for (size_t e = 0; e < EDGES; e++)
            for (uint64_t times = 0; times < 3; times++)
                for (uint64_t near = 0; near < 3; near++) {
                    uint64_t x = edges[e] * times + near - 1;
                    assert_int_equal(divide(divider, x), x / edges[d]);
                }
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t x = random_u64(d, 0, i) >> 32;
            assert_int_equal(divide(divider, x), x / edges[d]);
        }
    }
}

/* In two stores. */
static void check_epoch(uint64_t samples, uint64_t row_length, uint64_t window_rows, bool shuffle)
{
    static struct plan_location locations[COUNT], also[COUNT];
    static uint64_t positions[COUNT], backwards[COUNT], rows[COUNT], keys[COUNT];
    const uint64_t store_samples[] = {0, samples / 3, samples};
    const uint64_t store_rows[] = {0, size_divide_up(samples / 3, row_length),
                                   size_divide_up(samples / 3, row_length) +
                                       size_divide_up(samples - samples / 3, row_length)};
    struct plan plan;
    struct plan_epoch epoch;
    struct plan_options options = {.sample_count = samples,
                                   .row_length = row_length,
                                   .store_frames = store_samples,
                                   .store_rows = store_rows,
                                   .store_count = 2,
                                   .window_rows = window_rows,
                                   .seed = 9,
                                   .shuffle = shuffle,
                                   .global_batch = 1,
                                   .trainer_count = 1};
    assert_int_equal(plan_init(&plan, &options, NULL), STATUS_OK);
    plan_epoch_init(&epoch, &plan, 4);
    for (uint64_t w = 0; w < plan.window_count; w++) {
        struct plan_window window;
        plan_window_at(&window, &epoch, w);
        size_t count = window.sample_count < COUNT ? window.sample_count : COUNT;
        uint64_t first = window.first_position + window.sample_count - count;
        plan_locations_at(&window, first, count, locations);
        plan_positions_of(&window, locations, count, positions);
        for (size_t i = 0; i < count; i++)
            backwards[i] = first + count - 1 - i;
        plan_locations_of(&window, backwards, count, also);
        for (size_t i = 0; i < count; i++) {
            struct plan_location location = plan_location_at(&window, first + i);
            assert_int_equal(also[count - 1 - i].window_row, location.window_row);
            assert_int_equal(also[count - 1 - i].offset, location.offset);
            assert_int_equal(locations[i].window_row, location.window_row);
            assert_int_equal(locations[i].offset, location.offset);
            assert_int_equal(positions[i], first + i);
            rows[i] = window.first_row_position + location.window_row;
        }
        plan_rows_at(&epoch, rows, count);
        plan_sample_keys(9, 4, rows, count, keys);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(
                rows[i], plan_row_at(&epoch, window.first_row_position + locations[i].window_row));
            assert_int_equal(keys[i], plan_sample_key(9, 4, rows[i]));
        }
    }
}

static void epochs(void **state)
{
    (void)state;
    const uint64_t shapes[][3] = {{1, 1, 1},       {5000, 1, 64},  {5000, 1, 5000}, {4999, 8, 64},
                                  {100001, 7, 99}, {3000, 512, 2}, {1025, 1024, 2}, {64, 64, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_epoch(shapes[i][0], shapes[i][1], shapes[i][2], true);
        check_epoch(shapes[i][0], shapes[i][1], shapes[i][2], false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(permutations),
        cmocka_unit_test(division),
        cmocka_unit_test(epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
