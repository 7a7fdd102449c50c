/* See mix.h: the windows of all sources in one order. */
#include "plan/order/mix.h"

#include <assert.h>

static uint64_t due_of(const struct plan_merge *merge, uint32_t source, uint64_t first_draw)
{
    uint64_t step = plan_draw_step(merge->plan, (struct plan_draw){source, first_draw});
    return step < merge->end_step ? step : UINT64_MAX;
}

/* Without a mix, a window that is not delivered is of its epoch all the same. */
static uint64_t due_in_epoch(const struct plan_merge *merge, uint64_t serial)
{
    const struct plan *plan = merge->plan;
    uint64_t step = serial / plan->window_count * plan->steps_per_epoch;
    return step < merge->end_step ? step : UINT64_MAX;
}

/* The window of a source's plan that holds a position of the epoch; or, with UINT64_MAX, the first
 * position of `step`. */
static void start_at(struct plan_merge_source *ret_source, const struct plan *plan, uint64_t pass,
                     uint64_t position, uint64_t step)
{
    struct plan_epoch epoch;
    struct plan_window window;
    plan_epoch_init(&epoch, plan, pass);
    if (position == UINT64_MAX)
        position = plan_step_first(&epoch.plan, step);
    plan_window_at(&window, &epoch, plan_window_of(&epoch, plan_unpad(&epoch, position)));
    ret_source->serial = pass * plan->window_count + window.index;
    ret_source->first_draw = pass * plan->sample_count + window.first_position;
}

void plan_merge_start(struct plan_merge *ret_merge, const struct plan *plan, uint64_t first_step,
                      uint64_t end_step)
{
    struct plan_merge *merge = ret_merge;
    *merge = (struct plan_merge){.plan = plan, .end_step = end_step};
    if (!plan->mix) {
        start_at(&merge->sources[0], plan, first_step / plan->steps_per_epoch, UINT64_MAX,
                 first_step % plan->steps_per_epoch);
        merge->sources[0].due = due_in_epoch(merge, merge->sources[0].serial);
        return;
    }
    uint64_t first_draws[MIX_MAX_SOURCES];
    plan_step_draws(plan, first_step, first_draws);
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        struct plan_pass at = plan_draw_pass(plan, (struct plan_draw){d, first_draws[d]});
        start_at(&merge->sources[d], plan_source(plan, d), at.number, at.position, 0);
        merge->sources[d].due = due_of(merge, d, merge->sources[d].first_draw);
    }
}

bool plan_merge_next(const struct plan_merge *merge, uint32_t *ret_source)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t d = 0; d < plan_source_count(merge->plan); d++)
        if (merge->sources[d].due < least) {
            least = merge->sources[d].due;
            *ret_source = d;
        }
    return least < UINT64_MAX;
}

void plan_merge_take(struct plan_merge *merge, uint32_t source, uint64_t sample_count)
{
    struct plan_merge_source *taken = &merge->sources[source];
    assert(taken->due < UINT64_MAX);
    taken->serial++;
    taken->first_draw += sample_count;
    taken->due = merge->plan->mix ? due_of(merge, source, taken->first_draw)
                                  : due_in_epoch(merge, taken->serial);
}
