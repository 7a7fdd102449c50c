/* See plan_weights.h. */
#include "cli/plan/plan_weights.h"

#include "base/size.h"
#include "base/text.h"
#include "plan/order/mix.h"

#include <inttypes.h>

static void describe(const struct plan *plan, const char *name, struct text *out)
{
    uint64_t samples = anchors_count(plan->anchors);
    text_append(out, "%-11s", "weights");
    if (name)
        text_append(out, "source '%s': ", name);
    text_append(out, "%s an epoch, of %s sample%s, %s at most %s time%s; ",
                count_format(plan->sample_count).text, count_format(samples).text,
                count_plural(samples),
                anchors_are_replaced(plan->anchors) ? "drawn with replacement, each"
                                                    : "each as often as it weighs,",
                count_format(plan->copies).text, count_plural(plan->copies));
    text_append(
        out,
        "an epoch reads %s of %s row%s%s, for %.3g samples each on average (without weights "
        "%.3g)\n",
        count_format(plan->row_count).text, count_format(plan->ever_rows).text,
        count_plural(plan->ever_rows),
        plan->row_count < plan->ever_rows ? ", others in each epoch" : "",
        (double)plan->sample_count / (double)plan->row_count,
        (double)samples / (double)plan->ever_rows);
}

void plan_describe_weights(const struct config *config, const struct plan *plan, struct text *out)
{
    for (uint32_t d = 0; d < plan_source_count(plan); d++)
        if (plan_source(plan, d)->weighted)
            describe(plan_source(plan, d), plan->mix ? config->sources[d].name : NULL, out);
}

void plan_weights_json(const struct plan *plan, struct text *out)
{
    const char *before = "\"weights\":[", *after = "";
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        const struct plan *source = plan_source(plan, d);
        if (!source->weighted)
            continue;
        text_append(out,
                    "%s{\"source\":%" PRIu32 ",\"samples\":%" PRIu64 ",\"of_samples\":%" PRIu64
                    ",\"rows\":%" PRIu64 ",\"of_rows\":%" PRIu64 ",\"copies\":%" PRIu64 "}",
                    before, d, source->sample_count, anchors_count(source->anchors),
                    source->row_count, source->ever_rows, source->copies);
        before = ",";
        after = "],";
    }
    text_append(out, "%s", after);
}
