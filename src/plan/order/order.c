/* See plan.h: the order of an epoch. rows -> windows -> positions, and back.
 *
 * The last row of each store can be short, and stands anywhere in an epoch's order; all positions
 * after it come forward by what it lacks. An epoch has a table of the short rows by row position,
 * with what those before them lack; a window has its part of the table. With anchors any row can be
 * short: an epoch has a table of where windows begin, and a window one of where its rows do.
 */
#include "plan/order/plan.h"

#include "base/number.h"
#include "base/random.h"
#include "plan/order/keys.h"
#include "plan/order/mix.h"
#include "plan/order/order_internal.h"
#include "plan/order/weights.h"

#include <assert.h>
#include <stdlib.h>

/* Puts the short rows where they stand in the permuted order; what each lacks in `lack_before`. */
static void find_shorts(struct plan_epoch *epoch)
{
    const struct plan *plan = &epoch->plan;
    const uint64_t whole_samples[] = {0, plan->sample_count}, whole_rows[] = {0, plan->row_count};
    bool whole = plan->store_count == 0;
    const uint64_t *samples = whole ? whole_samples : plan->store_frames;
    const uint64_t *store_rows = whole ? whole_rows : plan->store_rows;
    uint64_t rows[PLAN_MAX_STORES];
    size_t count = 0;
    for (size_t i = 0; i < (whole ? 1 : plan->store_count); i++) {
        uint64_t rest = (samples[i + 1] - samples[i]) % plan->row_length;
        if (rest == 0)
            continue;
        epoch->shorts[count].lack_before = plan->row_length - rest;
        rows[count++] = store_rows[i + 1] - 1;
    }
    if (plan->shuffle)
        permutation_inverse_many(&epoch->rows, rows, count);
    for (size_t k = 0; k < count; k++)
        epoch->shorts[k].row_position = rows[k];
    epoch->short_count = count;
}

static int compare_positions(const void *a, const void *b)
{
    const struct plan_short *x = a, *y = b;
    return (x->row_position > y->row_position) - (x->row_position < y->row_position);
}

static void list_shorts(struct plan_epoch *epoch)
{
    uint64_t sum = 0;
    if (!epoch->plan.anchors)
        find_shorts(epoch);
    qsort(epoch->shorts, epoch->short_count, sizeof epoch->shorts[0], compare_positions);
    for (size_t k = 0; k < epoch->short_count; k++) {
        uint64_t lack = epoch->shorts[k].lack_before;
        epoch->shorts[k].lack_before = sum;
        sum += lack;
    }
    epoch->shorts[epoch->short_count] = (struct plan_short){UINT64_MAX, sum};
}

/* Returns the first of `count` short rows that stands at `row_position` or after. */
static size_t shorts_before(const struct plan_short *shorts, size_t count, uint64_t row_position)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (shorts[middle].row_position < row_position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void plan_epoch_init(struct plan_epoch *ret_epoch, const struct plan *plan, uint64_t epoch)
{
    ret_epoch->plan = *plan;
    ret_epoch->epoch = epoch;
    if (plan->source == PLAN_ALL_SOURCES) {
        ret_epoch->plan.first_step = epoch * plan->steps_per_epoch;
        return;
    }
    ret_epoch->weight_key = random_u64(plan->seed, KEY_WEIGHED_SAMPLES, epoch);
    ret_epoch->window_key = random_u64(plan->seed, KEY_WINDOWS, epoch);
    ret_epoch->short_count = 0;
    permutation_init(&ret_epoch->rows, plan->row_count, random_u64(plan->seed, KEY_ROWS, epoch));
    list_shorts(ret_epoch);
    ret_epoch->plan.step_begins = NULL;
    ret_epoch->cut = NULL;
    ret_epoch->counts = plan_tables_epoch(ret_epoch);
    if (plan->cuts.items == 0)
        return;
    ret_epoch->cut = plan_tables_cut(ret_epoch);
    ret_epoch->plan.step_begins = ret_epoch->cut->step_begins;
}

uint64_t plan_row_first(const struct plan *plan, uint64_t row)
{
    row -= plan->row_base;
    assert(row < plan->all_rows);
    if (plan->store_count == 0)
        return row * plan->row_length;
    uint64_t store = find_last_u64(plan->store_rows, 0, plan->store_count, row);
    return plan->store_frames[store] + (row - plan->store_rows[store]) * plan->row_length;
}

uint64_t plan_frame_at(const struct plan *plan, uint64_t row, uint64_t offset)
{
    if (plan->weighted)
        offset %= plan->row_length;
    if (plan->anchors)
        return anchors_frame_at(plan->anchors, row - plan->row_base, (uint32_t)offset);
    return plan_row_first(plan, row) + offset;
}

uint64_t plan_key_index(const struct plan *plan, uint64_t offset, uint64_t frame)
{
    enum { COPY_SHIFT = 48 };
    return plan->weighted ? frame + (offset / plan->row_length << COPY_SHIFT) : frame;
}

uint64_t plan_row_at(const struct plan_epoch *epoch, uint64_t i)
{
    assert(i < epoch->plan.row_count);
    if (epoch->plan.weighted)
        return epoch->plan.row_base + epoch->counts->rows[i];
    uint64_t number = epoch->plan.shuffle ? permutation_apply(&epoch->rows, i) : i;
    if (plan_has_row_table(&epoch->plan))
        number = plan_tables_row(epoch->plan.tables, number);
    return epoch->plan.row_base + number;
}

/* The position at which the row order's row `row_position` <= M begins. */
static uint64_t row_begins(const struct plan_epoch *epoch, uint64_t row_position)
{
    size_t k = shorts_before(epoch->shorts, epoch->short_count, row_position);
    return row_position * epoch->plan.row_samples - epoch->shorts[k].lack_before;
}

/* The position at which window `index` <= window_count begins. */
static uint64_t window_begins(const struct plan_epoch *epoch, uint64_t index)
{
    const struct plan *plan = &epoch->plan;
    if (!epoch->counts)
        return row_begins(epoch, min_u64(index * plan->window_rows, plan->row_count));
    assert(epoch->counts->epoch == epoch->epoch); /* else the tables have no room */
    return epoch->counts->window_begins[index];
}

void plan_window_at(struct plan_window *ret_window, const struct plan_epoch *epoch, uint64_t index)
{
    const struct plan *plan = &epoch->plan;
    assert(index < plan->window_count);
    uint64_t first_row = index * plan->window_rows;
    uint64_t rows_left = plan->row_count - first_row;
    uint64_t rows = min_u64(rows_left, plan->window_rows);
    size_t first_short = shorts_before(epoch->shorts, epoch->short_count, first_row);
    size_t end_short = shorts_before(epoch->shorts, epoch->short_count, first_row + rows);
    uint64_t first_position = window_begins(epoch, index);
    struct plan_window window = {
        .index = index,
        .first_row_position = first_row,
        .row_count = rows,
        .first_position = first_position,
        .sample_count = window_begins(epoch, index + 1) - first_position,
        .row_samples = plan->row_samples,
        .row_begins = epoch->counts ? epoch->counts->row_begins + first_row : NULL,
        .shorts = &epoch->shorts[first_short],
        .short_count = end_short - first_short,
        .shuffle = plan->shuffle,
        .weighted = plan->weighted ? epoch : NULL,
    };
    permutation_init(&window.samples, window.sample_count, random_u64(epoch->window_key, 0, index));
    if (epoch->cut) {
        const struct plan_cut_window *cut = plan_tables_cut_window(epoch, &window);
        window.numbers = cut->numbers;
        window.positions = cut->positions;
    }
    *ret_window = window;
}

/* The last window that begins at `position` or before, of an epoch with counts. Windows have nearly
 * as many samples each, so that the search begins where equal ones would be, and ends close by. */
static uint64_t window_by_counts(const struct plan_epoch *epoch, uint64_t position)
{
    const uint64_t *begins = epoch->counts->window_begins;
    uint64_t count = epoch->plan.window_count;
    double share = (double)position / (double)epoch->plan.sample_count;
    uint64_t low = min_u64((uint64_t)(share * (double)count), count - 1), high = low + 1;
    assert(epoch->counts->epoch == epoch->epoch); /* else the tables have no room */
    for (uint64_t step = 1; begins[low] > position; step *= 2) {
        high = low;
        low -= min_u64(low, step);
    }
    for (uint64_t step = 1; begins[high] <= position; step *= 2) {
        low = high;
        high += min_u64(count - high, step);
    }
    return find_last_u64(begins, low, high, position);
}

uint64_t plan_window_of(const struct plan_epoch *epoch, uint64_t position)
{
    const struct plan *plan = &epoch->plan;
    assert(position < plan->sample_count);
    if (epoch->counts)
        return window_by_counts(epoch, position);
    uint64_t window_samples = plan->window_rows * plan->row_samples;
    uint64_t low = position / window_samples;
    uint64_t high = (position + epoch->shorts[epoch->short_count].lack_before) / window_samples;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (middle < plan->window_count && window_begins(epoch, middle) <= position)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

uint64_t plan_window_lack(const struct plan_window *window, uint64_t number)
{
    const struct plan_short *shorts = window->shorts;
    size_t low = 0, high = window->short_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t row_end =
            (shorts[middle].row_position - window->first_row_position + 1) * window->row_samples -
            (shorts[middle + 1].lack_before - shorts[0].lack_before);
        if (row_end <= number)
            low = middle + 1;
        else
            high = middle;
    }
    return shorts[low].lack_before - shorts[0].lack_before;
}

uint64_t plan_window_row_lack(const struct plan_window *window, uint64_t window_row)
{
    size_t k =
        shorts_before(window->shorts, window->short_count, window->first_row_position + window_row);
    return window->shorts[k].lack_before - window->shorts[0].lack_before;
}

/* The last row that begins at `number` or before. */
uint64_t plan_window_row_of(const struct plan_window *window, uint64_t number)
{
    const uint32_t *base = window->row_begins;
    for (uint64_t count = window->row_count; count > 1; count -= count / 2)
        base += base[count / 2] <= number ? count / 2 : 0;
    return (uint64_t)(base - window->row_begins);
}

uint64_t plan_window_row_samples(const struct plan_window *window, uint64_t window_row)
{
    if (window->row_begins) {
        bool last = window_row + 1 == window->row_count;
        return (last ? window->sample_count : window->row_begins[window_row + 1]) -
               window->row_begins[window_row];
    }
    return window->row_samples + plan_window_row_lack(window, window_row) -
           plan_window_row_lack(window, window_row + 1);
}

void plan_settle_offset(const struct plan_window *window, struct plan_location *location)
{
    const struct plan_epoch *epoch = window->weighted;
    uint32_t row = epoch->counts->rows[window->first_row_position + location->window_row];
    uint64_t count = plan_window_row_samples(window, location->window_row), copy;
    uint64_t anchor =
        weights_find(epoch->plan.anchors, row, count, location->offset, epoch->weight_key, &copy);
    location->offset = anchor + copy * epoch->plan.row_length;
}

/* Of a window that was not in use before, the table comes from memory while the permutation is
 * computed. */
static void fetch_row_begins(const struct plan_window *window)
{
    enum { LINE = 64 / sizeof(uint32_t), MOST_LINES = 16 };
    for (uint64_t i = 0; i < min_u64(window->row_count, LINE * MOST_LINES); i += LINE)
        __builtin_prefetch(window->row_begins + i);
}

struct plan_location plan_location_at(const struct plan_window *window, uint64_t position)
{
    assert(position - window->first_position < window->sample_count);
    uint64_t i = position - window->first_position;
    if (window->row_begins)
        fetch_row_begins(window);
    if (window->numbers)
        i = window->numbers[i];
    else if (window->shuffle)
        i = permutation_apply(&window->samples, i);
    if (window->row_begins) {
        uint64_t window_row = plan_window_row_of(window, i);
        struct plan_location location = {window_row, i - window->row_begins[window_row]};
        if (window->weighted)
            plan_settle_offset(window, &location);
        return location;
    }
    i += plan_window_lack(window, i);
    return (struct plan_location){i / window->row_samples, i % window->row_samples};
}

uint64_t plan_position_of(const struct plan_window *window, struct plan_location location)
{
    uint64_t i = location.offset;
    if (window->row_begins)
        i += window->row_begins[location.window_row];
    else
        i += location.window_row * window->row_samples -
             plan_window_row_lack(window, location.window_row);
    if (window->positions)
        i = window->positions[i];
    else if (window->shuffle)
        i = permutation_inverse(&window->samples, i);
    return window->first_position + i;
}

uint64_t plan_unpad(const struct plan_epoch *epoch, uint64_t position)
{
    const struct plan *plan = &epoch->plan;
    assert(position < plan->position_count);
    if (position < plan->sample_count)
        return position;
    uint64_t first = window_begins(epoch, plan->window_count - 1);
    return first + (position - first) % (plan->sample_count - first);
}

uint64_t plan_sample_at(const struct plan_epoch *epoch, uint64_t position)
{
    uint64_t source = plan_unpad(epoch, position);
    struct plan_window window;
    plan_window_at(&window, epoch, plan_window_of(epoch, source));
    struct plan_location location = plan_location_at(&window, source);
    uint64_t row = plan_row_at(epoch, window.first_row_position + location.window_row);
    return plan_frame_at(&epoch->plan, row, location.offset);
}

uint64_t plan_step_bound(const struct plan_epoch *epoch, uint64_t step)
{
    const struct plan_cuts *cuts = &epoch->plan.cuts;
    if (cuts->items == 0)
        return 0;
    if (epoch->plan.source == PLAN_ALL_SOURCES)
        return plan_mix_cut_bound(&epoch->plan, epoch->plan.first_step + step);
    if (epoch->cut->step_buckets[step] == PLAN_NO_BUCKET) {
        struct plan_window window;
        uint64_t first = plan_step_first(&epoch->plan, step);
        plan_window_at(&window, epoch, plan_window_of(epoch, first));
    }
    return plan_cuts_bound(cuts, epoch->cut->step_buckets[step]);
}
