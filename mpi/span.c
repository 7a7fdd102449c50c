/* See span.h. */
#include "span.h"

struct span span_windows(const struct run_setup *setup)
{
    const struct ring_service *service = &setup->service;
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &setup->plan, service->start_epoch);
    uint64_t first = plan_unpad(&epoch, service->start_step * setup->plan.global_batch);
    return span_of(setup->plan.window_count, plan_window_of(&epoch, first), service->start_epoch,
                   service->epochs);
}

struct span span_rounds(const struct run_setup *setup)
{
    uint64_t first =
        setup->service.start_step / setup->shape.steps_per_round * setup->shape.stripes_per_step;
    return span_of(rounds_per_epoch(&setup->plan, setup->shape), first, setup->service.start_epoch,
                   setup->service.epochs);
}

struct span span_steps(const struct run_setup *setup)
{
    return span_of(setup->plan.steps_per_epoch, setup->service.start_step,
                   setup->service.start_epoch, setup->service.epochs);
}

void round_reach_at(struct round_reach *ret_reach, const struct run_setup *setup,
                    const struct span *windows, uint64_t serial)
{
    const struct plan *plan = &setup->plan;
    const struct ring_service *service = &setup->service;
    struct span rounds = span_rounds(setup), steps = span_steps(setup);
    struct span_index at = span_at(&rounds, serial);
    struct round_reach reach = {.round = round_at(plan, setup->shape, at.index),
                                .absolute_round =
                                    round_absolute(plan, setup->shape, at.epoch, at.index),
                                .epoch_begin = round_absolute_position(plan, at.epoch, 0)};
    plan_epoch_init(&reach.epoch, plan, at.epoch);
    if (at.epoch == service->start_epoch && reach.round.first_step < service->start_step)
        reach.round.first_step = service->start_step;
    reach.first_sequence = span_serial(&steps, at.epoch, reach.round.first_step);
    uint64_t first = reach.round.first_step * plan->global_batch;
    uint64_t end = reach.round.end_step * plan->global_batch;
    if (end > plan->position_count)
        end = plan->position_count;
    uint64_t last = end > plan->sample_count ? plan->sample_count - 1 : end - 1;
    reach.first_window = span_serial(windows, at.epoch,
                                     plan_window_of(&reach.epoch, plan_unpad(&reach.epoch, first)));
    reach.last_window = span_serial(windows, at.epoch, plan_window_of(&reach.epoch, last));
    *ret_reach = reach;
}
