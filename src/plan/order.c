/* See plan.h: the order of an epoch. rows -> windows -> positions, and back, each in O(1).
 *
 * Only the dataset's last row can be short, and it may stand anywhere in an epoch's order; all
 * positions after it come forward by what it lacks. `short_row_position` is all that is needed to
 * account for it.
 */
#include "plan/plan.h"

#include "base/random.h"
#include "plan/keys.h"

#include <assert.h>

static uint64_t last_row_length(const struct plan *plan)
{
    return plan->sample_count - (plan->row_count - 1) * plan->row_length;
}

void plan_epoch_init(struct plan_epoch *ret_epoch, const struct plan *plan, uint64_t epoch)
{
    uint64_t last_row = plan->row_count - 1;
    struct plan_epoch e = {
        .plan = *plan,
        .epoch = epoch,
        .window_key = random_u64(plan->seed, KEY_WINDOWS, epoch),
    };
    permutation_init(&e.rows, plan->row_count, random_u64(plan->seed, KEY_ROWS, epoch));
    e.short_row_position = plan->shuffle ? permutation_inverse(&e.rows, last_row) : last_row;
    *ret_epoch = e;
}

uint64_t plan_row_at(const struct plan_epoch *epoch, uint64_t i)
{
    assert(i < epoch->plan.row_count);
    return epoch->plan.shuffle ? permutation_apply(&epoch->rows, i) : i;
}

void plan_window_at(struct plan_window *ret_window, const struct plan_epoch *epoch, uint64_t index)
{
    const struct plan *plan = &epoch->plan;
    assert(index < plan->window_count);
    uint64_t first_row = index * plan->window_rows;
    uint64_t rows_left = plan->row_count - first_row;
    uint64_t rows = rows_left < plan->window_rows ? rows_left : plan->window_rows;
    uint64_t short_length = last_row_length(plan);
    uint64_t lack = plan->row_length - short_length;
    bool after = epoch->short_row_position < first_row;
    bool within = !after && epoch->short_row_position < first_row + rows;
    struct plan_window window = {
        .index = index,
        .first_row_position = first_row,
        .row_count = rows,
        .first_position = first_row * plan->row_length - (after ? lack : 0),
        .sample_count = rows * plan->row_length - (within ? lack : 0),
        .row_length = plan->row_length,
        .short_slot = within ? epoch->short_row_position - first_row : rows,
        .short_length = short_length,
        .shuffle = plan->shuffle,
    };
    permutation_init(&window.samples, window.sample_count, random_u64(epoch->window_key, 0, index));
    *ret_window = window;
}

uint64_t plan_window_of(const struct plan_epoch *epoch, uint64_t position)
{
    const struct plan *plan = &epoch->plan;
    assert(position < plan->sample_count);
    uint64_t window_samples = plan->window_rows * plan->row_length;
    uint64_t lack = plan->row_length - last_row_length(plan);
    uint64_t short_window = epoch->short_row_position / plan->window_rows;
    bool after = position >= (short_window + 1) * window_samples - lack;
    return (position + (after ? lack : 0)) / window_samples;
}

struct plan_place plan_place_at(const struct plan_window *window, uint64_t position)
{
    assert(position - window->first_position < window->sample_count);
    uint64_t i = position - window->first_position;
    if (window->shuffle)
        i = permutation_apply(&window->samples, i);
    uint64_t short_end = window->short_slot * window->row_length + window->short_length;
    if (window->short_slot < window->row_count && i >= short_end)
        i += window->row_length - window->short_length;
    return (struct plan_place){i / window->row_length, i % window->row_length};
}

uint64_t plan_position_of(const struct plan_window *window, struct plan_place place)
{
    uint64_t i = place.slot * window->row_length + place.offset;
    if (place.slot > window->short_slot)
        i -= window->row_length - window->short_length;
    if (window->shuffle)
        i = permutation_inverse(&window->samples, i);
    return window->first_position + i;
}

uint64_t plan_unpad(const struct plan_epoch *epoch, uint64_t position)
{
    const struct plan *plan = &epoch->plan;
    assert(position < plan->position_count);
    if (position < plan->sample_count)
        return position;
    struct plan_window last;
    plan_window_at(&last, epoch, plan->window_count - 1);
    return last.first_position + (position - last.first_position) % last.sample_count;
}

uint64_t plan_sample_at(const struct plan_epoch *epoch, uint64_t position)
{
    uint64_t source = plan_unpad(epoch, position);
    struct plan_window window;
    plan_window_at(&window, epoch, plan_window_of(epoch, source));
    struct plan_place place = plan_place_at(&window, source);
    uint64_t row = plan_row_at(epoch, window.first_row_position + place.slot);
    return row * epoch->plan.row_length + place.offset;
}
