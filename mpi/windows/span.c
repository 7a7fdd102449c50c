/* See span.h. */
#include "windows/span.h"

#include "base/number.h"

struct span span_rounds(const struct session *session)
{
    const struct run_setup *setup = &session->job->setup;
    uint64_t first =
        session->start_step / setup->shape.steps_per_round * setup->shape.stripes_per_step;
    return span_of(rounds_per_epoch(&setup->plan, setup->shape), first, session->start_epoch,
                   setup->service.epochs);
}

static struct span span_steps(const struct session *session)
{
    const struct run_setup *setup = &session->job->setup;
    return span_of(setup->plan.steps_per_epoch, session->start_step, session->start_epoch,
                   setup->service.epochs);
}

/* Padding repeats samples of the last window, which is there with the last sample. */
static void reach_epoch(struct round_reach *reach, const struct plan *plan, uint64_t first,
                        uint64_t end)
{
    uint64_t before = reach->epoch.epoch * plan->sample_count;
    reach->sources[0].first_draw = before + plan_unpad(&reach->epoch, first);
    reach->sources[0].end_draw = before + min_u64(end, plan->sample_count);
}

static void reach_mix(struct round_reach *reach, const struct plan *plan)
{
    uint64_t before = reach->epoch.epoch * plan->steps_per_epoch;
    uint64_t first[MIX_MAX_SOURCES], end[MIX_MAX_SOURCES];
    plan_step_draws(plan, before + reach->round.first_step, first);
    plan_step_draws(plan, before + reach->round.end_step, end);
    for (uint32_t s = 0; s < reach->source_count; s++)
        reach->sources[s] = (struct reach_source){.first_draw = first[s], .end_draw = end[s]};
}

void round_reach_at(struct round_reach *ret_reach, const struct session *session, uint64_t serial)
{
    const struct run_setup *setup = &session->job->setup;
    const struct plan *plan = &setup->plan;
    struct span rounds = span_rounds(session), steps = span_steps(session);
    struct span_index at = span_at(&rounds, serial);
    struct round_reach *reach = ret_reach;
    reach->round = round_at(plan, setup->shape, at.index);
    reach->absolute_round = round_absolute(plan, setup->shape, at.epoch, at.index);
    reach->epoch_begin = round_absolute_position(plan, at.epoch, 0);
    reach->source_count = plan_source_count(plan);
    if (at.epoch == session->start_epoch && reach->round.first_step < session->start_step)
        reach->round.first_step = session->start_step;
    reach->first_sequence = span_serial(&steps, at.epoch, reach->round.first_step);
    plan_epoch_init(&reach->epoch, plan, at.epoch);
    if (plan->mix)
        reach_mix(reach, plan);
    else
        reach_epoch(reach, plan, plan_step_first(&reach->epoch.plan, reach->round.first_step),
                    plan_step_first(&reach->epoch.plan, reach->round.end_step));
}
