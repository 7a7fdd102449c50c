/* See budget_internal.h. */
#include "plan/budget/budget_internal.h"

#include "base/number.h"
#include "base/size.h"

enum { UNEVEN_SHARE = 2 }; /* at most so many times the even one */

/* The most uneven share of a window. */
static uint64_t most_share(const struct budget_source *s)
{
    return min_u64(mul_sat(s->even, UNEVEN_SHARE), s->window_rows);
}

/* Of rows with several samples. They are in use until their window ends, and where a step is
 * exchanged in stripes, until all windows end that the step spans. So it is in a mix, where a step
 * has the samples of several windows in any order. There the last window of a pass lies between
 * others, and may be short. With cuts no step has samples of two windows. */
static void count_windows(const struct budget_demand *d, uint32_t source, struct budget_source *s)
{
    const struct plan *plan = plan_source(d->plan, source);
    uint64_t draws = plan_most_draws(d->plan, source, d->plan->global_batch);
    uint64_t spans = size_divide_up(draws, plan->window_least) + 1;
    uint64_t last_rows = plan->row_count - (plan->window_count - 1) * plan->window_rows;
    if (d->plan->mix && plan->cuts.items == 0) {
        s->at_once = spans;
        s->short_rows = last_rows < plan->window_rows ? last_rows : 0;
        s->short_windows = s->short_rows > 0 ? draws / plan->sample_count + 1 : 0;
    } else if (d->shape.stripes_per_step > 1) {
        s->at_once += min_u64(spans, plan->window_count);
    }
    s->least = add_sat(mul_sat(s->even, s->at_once),
                       mul_sat(s->short_windows, min_u64(s->even, s->short_rows)));
    s->enough = add_sat(mul_sat(s->at_once, plan->window_rows + s->even),
                        mul_sat(s->short_windows, s->short_rows));
}

/* Rows of one sample are given up one by one, but for those of the last window that padding
 * repeats. */
static void add_singles(const struct budget_demand *d, struct budget_rows *rows)
{
    const struct plan *plan = d->plan;
    uint64_t round_share = size_divide_up(round_max_records(plan, d->shape), d->reader_count);
    uint64_t padding = plan->position_count - min_u64(plan->position_count, plan->sample_count);
    uint64_t repeated = min_u64(padding, most_share(&rows->sources[0]));
    uint64_t under_way = 2 * (uint64_t)d->worker_count + 2;
    rows->least = add_sat(rows->least, under_way + repeated);
    rows->preferred =
        add_sat(rows->preferred,
                d->shape.in_flight * max_u64(under_way, round_share) + d->fetch_rows + repeated);
}

/* Rows behind two windows of `least` rows: each worker reads one. With several readers they also
 * make room for uneven shares. */
static uint64_t read_behind(const struct budget_demand *d, uint64_t least)
{
    uint64_t uneven = d->reader_count > 1 ? mul_sat(least, UNEVEN_SHARE - 1) : 0;
    return max_u64(uneven, d->worker_count);
}

void budget_rows_count(const struct budget_demand *demand, struct budget_rows *ret_rows)
{
    const struct budget_demand *d = demand;
    const struct plan *plan = d->plan;
    struct budget_rows rows = {.source_count = plan_source_count(plan),
                               .single = plan->row_samples == 1,
                               .all = size_divide_up(plan->ever_rows, d->reader_count) + 1};
    bool any_single = false;
    for (uint32_t i = 0; i < rows.source_count; i++) {
        const struct plan *source = plan_source(plan, i);
        struct budget_source *s = &rows.sources[i];
        *s = (struct budget_source){.window_rows = source->window_rows,
                                    .single = source->row_samples == 1,
                                    .even = size_divide_up(source->window_rows, d->reader_count),
                                    .at_once = 1};
        any_single |= s->single;
        if (!s->single)
            count_windows(d, i, s);
        if (plan->mix)
            s->least = min_u64(s->least, source->ever_rows);
        rows.least = add_sat(rows.least, s->least);
        rows.enough = add_sat(rows.enough, s->enough);
    }
    if (rows.least > 0) /* while one window is in use, and the next one is there */
        rows.preferred = add_sat(mul_sat(rows.least, 2), read_behind(d, rows.least));
    if (any_single)
        add_singles(d, &rows);
    uint64_t epoch = d->reader_count == 1 ? rows.all : plan->ever_rows;
    rows.least = min_u64(rows.least, epoch);
    rows.preferred = min_u64(rows.preferred, epoch);
    *ret_rows = rows;
}

/* The part of `buffers` that a source has: its least, and of the rest as others do. */
static uint64_t part_of(const struct budget_rows *rows, const struct budget_source *s,
                        uint64_t buffers)
{
    if (rows->source_count == 1)
        return buffers;
    if (buffers <= rows->least || rows->enough <= rows->least)
        return s->least;
    double more = (double)(buffers - rows->least) / (double)(rows->enough - rows->least);
    return s->least +
           (uint64_t)((more < 1 ? more : 1) * (double)(s->enough - min_u64(s->least, s->enough)));
}

void budget_rows_share(const struct budget_rows *rows, uint64_t buffers, bool whole,
                       uint64_t *ret_most_rows)
{
    for (uint32_t i = 0; i < rows->source_count; i++) {
        const struct budget_source *s = &rows->sources[i];
        if (buffers == UINT64_MAX) {
            ret_most_rows[i] = s->window_rows;
            continue;
        }
        uint64_t reserved = mul_sat(s->short_windows, s->short_rows);
        uint64_t own = part_of(rows, s, buffers);
        uint64_t windows = own > reserved ? (own - reserved) / s->at_once : 0;
        uint64_t spare = windows > s->even ? windows - s->even : 0;
        uint64_t limit = whole ? s->window_rows : most_share(s);
        ret_most_rows[i] = s->single ? most_share(s) : min_u64(max_u64(spare, s->even), limit);
    }
}

uint64_t budget_buffer_bytes(const struct budget_demand *demand)
{
    uint64_t pages = demand->ragged.page_bytes > 0 ? BUDGET_BUFFER_PAGES_BYTES : 0;
    return add_sat(demand->row_bytes, BUDGET_BUFFER_TABLE_BYTES + pages);
}

uint64_t budget_pages(const struct budget_demand *demand, uint64_t buffers)
{
    const struct plan_ragged *ragged = &demand->ragged;
    return ragged->page_bytes > 0
               ? ragged->most_pages(ragged->dataset, min_u64(buffers, demand->plan->ever_rows))
               : 0;
}

uint64_t budget_pages_bytes(const struct budget_demand *demand, uint64_t pages)
{
    return mul_sat(pages, add_sat(demand->ragged.page_bytes, BUDGET_PAGE_TABLE_BYTES));
}

uint64_t budget_buffers_bytes(const struct budget_demand *demand, uint64_t buffers)
{
    return add_sat(mul_sat(buffers, budget_buffer_bytes(demand)),
                   budget_pages_bytes(demand, budget_pages(demand, buffers)));
}

uint64_t budget_buffers_in(const struct budget_demand *demand, uint64_t bytes)
{
    uint64_t low = 0, high = bytes / budget_buffer_bytes(demand);
    if (demand->ragged.page_bytes == 0 || budget_buffers_bytes(demand, high) <= bytes)
        return high;
    while (high - low > 1) { /* there is room for `low`, and none for `high` */
        uint64_t middle = low + (high - low) / 2;
        *(budget_buffers_bytes(demand, middle) <= bytes ? &low : &high) = middle;
    }
    return low;
}
