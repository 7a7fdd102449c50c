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
        setup->service.start_step / setup->shape.steps_per_round * setup->shape.parts_per_step;
    return span_of(rounds_per_epoch(&setup->plan, setup->shape), first, setup->service.start_epoch,
                   setup->service.epochs);
}

struct span span_steps(const struct run_setup *setup)
{
    return span_of(setup->plan.steps_per_epoch, setup->service.start_step,
                   setup->service.start_epoch, setup->service.epochs);
}
