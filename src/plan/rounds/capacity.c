/* See capacity.h. */
#include "plan/rounds/capacity.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/order/mix.h"

#include <math.h>

static const double MARGIN = 5; /* standard deviations */
static const double UNEVEN = 2; /* times the share of a window's rows that a reader may be given */

/* How much more a reader's part of so many steps varies than that of as many samples that are drawn
 * by themselves: of rows of C samples in windows of s steps, those in a window vary as samples do,
 * but for the rows that a reader has of the window. */
static double spread_of_source(const struct plan *all, uint32_t index, double steps)
{
    const struct plan *plan = plan_source(all, index);
    double row_samples = (double)plan->epoch_samples / (double)max_u64(plan->row_count, 1);
    double in_step = (double)plan_most_draws(all, index, all->global_batch);
    double window = fmax(row_samples * (double)plan->window_rows / fmax(in_step, 1), 1);
    if (!plan->shuffle)
        return fmax(row_samples, 1);
    return 1 - 1 / window + fmax(row_samples, 1) * fmin(steps / window, 1);
}

static double spread_of(const struct plan *plan, double steps)
{
    double most = 1;
    for (uint32_t s = 0; s < plan_source_count(plan); s++)
        most = fmax(most, spread_of_source(plan, s, steps));
    return most;
}

/* Not more than there are, and at least one. */
static uint64_t count(double mean, double margin, const struct round_peers *peers, uint64_t records)
{
    double wanted = peers->times_mean > 0 ? mean * peers->times_mean : mean + margin;
    return max_u64(wanted < (double)records ? (uint64_t)ceil(wanted) : records, 1);
}

static double share_of(const struct plan *plan, const struct round_peers *peers)
{
    double even = 1.0 / peers->readers, rings = peers->rings;
    return fmin(fmax(even, rings / plan->trainer_count), 1);
}

uint64_t round_window_capacity(const struct plan *plan)
{
    uint64_t padding = plan->last == PLAN_PAD ? plan->position_count - plan->sample_count : 0;
    return plan->window_most + padding;
}

uint64_t round_window_expected(const struct plan *plan, uint32_t index,
                               const struct round_peers *peers)
{
    const struct plan *source = plan_source(plan, index);
    uint64_t copies = plan->mix ? source->copies : plan_most_copies(source, UINT64_MAX);
    uint64_t most = round_window_capacity(source), row = mul_sat(source->row_samples, copies);
    double all = (double)most, share = share_of(plan, peers);
    double in_row = fmax(all / (double)source->window_rows, 1);
    double times = peers->times_mean > 0 ? peers->times_mean : UNEVEN;
    double margin = peers->times_mean > 0 ? 0 : MARGIN * sqrt(all * share * (1 - share) * in_row);
    double wanted = ceil(times * share * all + margin);
    return wanted < all ? min_u64(max_u64((uint64_t)wanted, row), most) : most;
}

struct round_capacity round_capacity_expected(const struct plan *plan,
                                              const struct round_peers *peers, double steps,
                                              uint64_t records)
{
    double share = share_of(plan, peers), all = (double)records;
    double margin = MARGIN * sqrt(all * share * (1 - share) * spread_of(plan, steps));
    double moved = all * share * (1 - share); /* samples that another reader's trainer gets */
    if (plan->locality) { /* half of what a step's share is off, step for step */
        double step = all * share * (1 - share) / fmax(steps, 1);
        moved = fmin(moved, fmax(steps, 1) * sqrt(step * spread_of(plan, 1) / (2 * M_PI)));
    }
    struct round_capacity capacity = {
        .listed = count(all * share, margin, peers, records),
        .sent = count(moved, margin, peers, records),
        .received = plan->locality ? count(moved, margin, peers, records) : records};
    bool is_all = capacity.listed == records && capacity.sent == records;
    return is_all ? (struct round_capacity){0} : capacity;
}
