/* See plan.h: the order of an epoch, many positions at a time. */
#include "plan/order/plan.h"

#include "base/divide.h"
#include "base/number.h"
#include "base/random.h"
#include "plan/order/keys.h"
#include "plan/order/order_internal.h"

#include <assert.h>

enum { BLOCK = 128 };

void plan_rows_at(const struct plan_epoch *epoch, uint64_t *rows, size_t count)
{
    if (epoch->plan.weighted)
        for (size_t i = 0; i < count; i++)
            rows[i] = epoch->counts->rows[rows[i]];
    else if (epoch->plan.shuffle)
        permutation_apply_many(&epoch->rows, rows, count);
    if (plan_has_row_table(&epoch->plan))
        for (size_t i = 0; i < count; i++)
            rows[i] = plan_tables_row(epoch->plan.tables, rows[i]);
    if (epoch->plan.row_base > 0)
        for (size_t i = 0; i < count; i++)
            rows[i] += epoch->plan.row_base;
}

static void locate(const struct plan_window *window, struct divider row_samples,
                   const uint64_t *numbers, size_t count, struct plan_location *ret_locations)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number = numbers[i];
        if (window->short_count > 0)
            number += plan_window_lack(window, number);
        uint64_t window_row = divide(row_samples, number);
        ret_locations[i] =
            (struct plan_location){window_row, number - window_row * window->row_samples};
    }
}

void plan_offsets_settle(const struct plan_window *window, struct plan_location *locations,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        plan_settle_offset(window, &locations[i]);
}

static void locate_among_rows(const struct plan_window *window, const uint64_t *numbers,
                              size_t count, struct plan_location *ret_locations)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t window_row = plan_window_row_of(window, numbers[i]);
        ret_locations[i] =
            (struct plan_location){window_row, numbers[i] - window->row_begins[window_row]};
    }
    if (window->weighted)
        plan_offsets_settle(window, ret_locations, count);
}

static void look_up(const uint32_t *table, uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = table[values[i]];
}

/* Of positions, counted from the window's first; they are overwritten. BLOCK at most. */
static void locate_block(const struct plan_window *window, struct divider row_samples,
                         uint64_t *numbers, size_t count, struct plan_location *ret_locations)
{
    if (window->numbers)
        look_up(window->numbers, numbers, count);
    else if (window->shuffle)
        permutation_apply_many(&window->samples, numbers, count);
    if (window->row_begins)
        locate_among_rows(window, numbers, count, ret_locations);
    else
        locate(window, row_samples, numbers, count, ret_locations);
}

void plan_locations_at(const struct plan_window *window, uint64_t first_position, size_t count,
                       struct plan_location *ret_locations)
{
    assert(count == 0 || (first_position >= window->first_position &&
                          first_position + count <= window->first_position + window->sample_count));
    struct divider row_samples = divider_of(window->row_samples);
    uint64_t first = first_position - window->first_position;
    for (size_t done = 0; done < count;) {
        uint64_t numbers[BLOCK];
        size_t block = min_u64(BLOCK, count - done);
        for (size_t i = 0; i < block; i++)
            numbers[i] = first + done + i;
        locate_block(window, row_samples, numbers, block, ret_locations + done);
        done += block;
    }
}

void plan_locations_of(const struct plan_window *window, const uint64_t *positions, size_t count,
                       struct plan_location *ret_locations)
{
    struct divider row_samples = divider_of(window->row_samples);
    for (size_t done = 0; done < count;) {
        uint64_t numbers[BLOCK];
        size_t block = min_u64(BLOCK, count - done);
        for (size_t i = 0; i < block; i++) {
            assert(positions[done + i] - window->first_position < window->sample_count);
            numbers[i] = positions[done + i] - window->first_position;
        }
        locate_block(window, row_samples, numbers, block, ret_locations + done);
        done += block;
    }
}

void plan_positions_of(const struct plan_window *window, const struct plan_location *locations,
                       size_t count, uint64_t *ret_positions)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t window_row = locations[i].window_row;
        ret_positions[i] = locations[i].offset;
        if (window->row_begins)
            ret_positions[i] += window->row_begins[window_row];
        else
            ret_positions[i] += window_row * window->row_samples;
        if (window->short_count > 0)
            ret_positions[i] -= plan_window_row_lack(window, window_row);
    }
    if (window->positions)
        look_up(window->positions, ret_positions, count);
    else if (window->shuffle)
        permutation_inverse_many(&window->samples, ret_positions, count);
    for (size_t i = 0; i < count; i++)
        ret_positions[i] += window->first_position;
}

void plan_sample_keys(uint64_t seed, uint64_t epoch, const uint64_t *indices, size_t count,
                      uint64_t *ret_keys)
{
    random_u64_many(random_u64(seed, KEY_SAMPLES, epoch), 0, indices, count, ret_keys);
}
