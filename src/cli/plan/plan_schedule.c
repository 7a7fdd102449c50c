/* See plan_schedule.h. */
#include "cli/plan/plan_schedule.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/order/mix.h"

#include <inttypes.h>
#include <string.h>

/* Entries of a schedule, and the steps for which figures are given. */
struct schedule {
    const struct plan *plan;
    struct config_weights weights[CONFIG_MAX_WEIGHTS];
    uint32_t count;
    uint64_t run_end;
    bool endless;
};

static bool schedule_init(struct schedule *schedule, const struct config *config,
                          const struct plan *plan)
{
    schedule->plan = plan;
    schedule->endless = config->epochs == 0;
    schedule->run_end = plan->mix ? plan->mix->end_step : 0;
    return plan->mix && *config->mix_schedule &&
           config_mix_weights(config, schedule->weights, &schedule->count, NULL) == STATUS_OK;
}

/* What an entry's steps give: up to the next entry, or the end; of an endless run an epoch. */
struct span {
    uint64_t begin, end;
    bool ramp; /* to the weights of the next entry */
    uint64_t samples[MIX_MAX_SOURCES];
};

static struct span span_of(const struct schedule *schedule, uint32_t entry)
{
    const struct config_weights *next =
        entry + 1 < schedule->count ? &schedule->weights[entry + 1] : NULL;
    uint64_t before[MIX_MAX_SOURCES];
    struct span span = {.begin = schedule->weights[entry].step};
    span.end = next                ? next->step
               : schedule->endless ? span.begin + schedule->plan->steps_per_epoch
                                   : schedule->run_end;
    span.end = min_u64(span.end, schedule->run_end);
    span.ramp = next && next->ramp;
    if (span.begin >= span.end)
        return span;
    plan_mix_given(schedule->plan, span.begin, before);
    plan_mix_given(schedule->plan, span.end, span.samples);
    for (uint32_t d = 0; d < plan_source_count(schedule->plan); d++)
        span.samples[d] -= before[d];
    return span;
}

static double share_of(const struct config_weights *weights, uint32_t source)
{
    double sum = 0;
    for (uint32_t d = 0; d < DATASET_MAX_SOURCES; d++)
        sum += (double)weights->of[d];
    return (double)weights->of[source] / sum;
}

static double passes_of(const struct schedule *schedule, const struct span *span, uint32_t source)
{
    return (double)span->samples[source] /
           (double)plan_source(schedule->plan, source)->sample_count;
}

static void describe_span(const struct schedule *schedule, const struct config *config,
                          uint32_t entry, struct text *out)
{
    const struct config_weights *weights = &schedule->weights[entry];
    struct span span = span_of(schedule, entry);
    text_append(out, "%-11s", entry == 0 ? "schedule" : "");
    if (span.begin >= span.end) {
        text_append(out, "step %s is not reached: the run has %s steps\n",
                    count_format(span.begin).text, count_format(schedule->run_end).text);
        return;
    }
    if (entry + 1 == schedule->count && schedule->endless)
        text_append(out, "from step %s on, of which %s steps give", count_format(span.begin).text,
                    count_format(span.end - span.begin).text);
    else
        text_append(out, "steps %s to %s%s", count_format(span.begin).text,
                    count_format(span.end - 1).text, span.ramp ? ", a ramp" : "");
    if (span.ramp && span.end < weights[1].step)
        text_append(out, " that would end at step %s", count_format(weights[1].step).text);
    text_append(out, "\n");
    for (uint32_t d = 0; d < plan_source_count(schedule->plan); d++) {
        text_append(out, "%-13ssource %" PRIu32 " %s: %.3g%%", "", d, config->sources[d].name,
                    100 * share_of(weights, d));
        if (span.ramp)
            text_append(out, " to %.3g%%", 100 * share_of(weights + 1, d));
        text_append(out, ", %s sample%s, %.3g passes\n", count_format(span.samples[d]).text,
                    count_plural(span.samples[d]), passes_of(schedule, &span, d));
    }
}

void plan_describe_schedule(const struct config *config, const struct plan *plan, struct text *out)
{
    struct schedule schedule;
    if (!schedule_init(&schedule, config, plan))
        return;
    for (uint32_t i = 0; i < schedule.count; i++)
        describe_span(&schedule, config, i, out);
}

void plan_schedule_json(const struct config *config, const struct plan *plan, struct text *out)
{
    struct schedule schedule;
    if (!schedule_init(&schedule, config, plan))
        return;
    text_append(out, "\"schedule\":[");
    for (uint32_t i = 0; i < schedule.count; i++) {
        struct span span = span_of(&schedule, i);
        text_append(out,
                    "%s{\"step\":%" PRIu64 ",\"end_step\":%" PRIu64 ",\"ramp\":%s,\"sources\":[",
                    i > 0 ? "," : "", span.begin, max_u64(span.begin, span.end),
                    span.ramp ? "true" : "false");
        for (uint32_t d = 0; d < plan_source_count(plan); d++)
            text_append(out, "%s{\"weight\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"passes\":%.6g}",
                        d > 0 ? "," : "", schedule.weights[i].of[d], span.samples[d],
                        passes_of(&schedule, &span, d));
        text_append(out, "]}");
    }
    text_append(out, "],");
}
