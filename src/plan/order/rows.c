/* See rows_internal.h. */
#include "plan/order/rows_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/order/order_internal.h"
#include "plan/order/weights.h"

#include <string.h>

uint64_t plan_rows_frames(const struct plan_options *options)
{
    return options->anchors ? anchors_frames(options->anchors) : options->sample_count;
}

uint64_t plan_rows_all(const struct plan_options *options)
{
    return options->store_count > 0
               ? options->store_rows[options->store_count]
               : size_divide_up(plan_rows_frames(options), options->row_length);
}

uint64_t plan_rows_samples(const struct plan_options *options)
{
    return options->anchors ? anchors_draws(options->anchors) : options->sample_count;
}

/* Heavy rows have what they weigh, rounded up or down, and as many light ones as these weigh have
 * one sample. */
static void count_weighted(const struct plan_options *options, struct plan_rows *rows)
{
    const uint64_t one = UINT64_C(1) << 32;
    uint64_t light = 0, most = 0;
    for (uint64_t row = 0; row < rows->all; row++)
        most = max_u64(most, plan_row_weight(options->anchors, row));
    rows->rounds_up = true;
    rows->most_samples = (most + one - 1) / one;
    rows->size_step = rows->most_samples / PLAN_ROW_SIZES + 1;
    for (uint64_t row = 0; row < rows->all; row++) {
        uint64_t weight = plan_row_weight(options->anchors, row);
        rows->ever += weight > 0;
        light += weight < one ? weight : 0;
        rows->with_samples += weight >= one;
        rows->sizes[weight / one / rows->size_step] += weight >= one;
    }
    rows->with_samples += light / one;
    rows->sizes[1 / rows->size_step] += light / one;
    rows->mean_samples = plan_rows_samples(options) / rows->with_samples;
    rows->copies = weights_most_copies(options->anchors);
}

static void count_plain(const struct plan_options *options, struct plan_rows *rows)
{
    for (uint64_t row = 0; row < rows->all; row++) {
        uint64_t samples = anchors_row_samples(options->anchors, row);
        rows->with_samples += samples > 0;
        rows->most_samples = max_u64(rows->most_samples, samples);
    }
    rows->mean_samples = options->sample_count / rows->with_samples;
    rows->size_step = rows->most_samples / PLAN_ROW_SIZES + 1;
    for (uint64_t row = 0; row < rows->all; row++) {
        uint64_t samples = anchors_row_samples(options->anchors, row);
        rows->sizes[samples / rows->size_step] += samples > 0;
    }
}

void plan_rows_count(const struct plan_options *options, struct plan_rows *ret_rows)
{
    struct plan_rows *rows = ret_rows;
    memset(rows, 0, sizeof *rows);
    rows->all = plan_rows_all(options);
    rows->copies = 1;
    if (!options->anchors) {
        rows->with_samples = rows->ever = rows->all;
        rows->most_samples = rows->mean_samples = options->row_length;
        return;
    }
    if (anchors_are_weighted(options->anchors)) {
        count_weighted(options, rows);
        return;
    }
    count_plain(options, rows);
    rows->ever = rows->with_samples;
}

uint64_t plan_rows_least(const struct plan_rows *rows, uint64_t window_rows)
{
    uint64_t samples = 0, left = min_u64(window_rows, rows->with_samples);
    if (rows->size_step == 0)
        return mul_sat(window_rows, rows->most_samples);
    for (uint64_t size = 0; left > 0; size++) {
        uint64_t count = min_u64(left, rows->sizes[size]);
        samples += count * max_u64(1, size * rows->size_step);
        left -= count;
    }
    return samples;
}

uint64_t plan_rows_last_least(const struct plan_options *options, const struct plan_rows *rows,
                              uint64_t window_rows)
{
    const uint64_t whole[] = {0, options->sample_count};
    const uint64_t *stores = options->store_count > 0 ? options->store_frames : whole;
    size_t count = options->store_count > 0 ? options->store_count : 1;
    uint64_t short_rows = 0, shortest = options->row_length;
    if (options->anchors)
        return plan_rows_least(rows, window_rows);
    for (size_t i = 0; i < count; i++) {
        uint64_t rest = (stores[i + 1] - stores[i]) % options->row_length;
        short_rows += rest > 0;
        shortest = rest > 0 ? min_u64(shortest, rest) : shortest;
    }
    short_rows = min_u64(short_rows, window_rows);
    return mul_sat(window_rows - short_rows, options->row_length) + short_rows * shortest;
}

uint64_t plan_rows_most(const struct plan_rows *rows, uint64_t window_rows)
{
    uint64_t samples = 0, left = min_u64(window_rows, rows->with_samples);
    if (rows->size_step == 0)
        return mul_sat(window_rows, rows->most_samples);
    for (uint64_t size = PLAN_ROW_SIZES; left > 0 && size-- > 0;) {
        uint64_t count = min_u64(left, rows->sizes[size]);
        uint64_t most = (size + 1) * rows->size_step - 1 + rows->rounds_up;
        samples += count * min_u64(most, rows->most_samples);
        left -= count;
    }
    return samples;
}
