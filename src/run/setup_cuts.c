/* See setup_internal.h: batches by budget, from a ragged field's lengths. */
#include "run/setup_internal.h"

#include "dataset/dataset.h"
#include "dataset/ragged.h"
#include "dataset/ragged_lengths.h"

#include "base/number.h"
#include "base/size.h"

#include <inttypes.h>
#include <string.h>

_Static_assert((int)LENGTHS_BUCKETS <= (int)PLAN_MAX_BUCKETS, "every bucket is in a plan");

static uint32_t bucket_of(const void *of, size_t field, uint64_t frame)
{
    return lengths_bucket(dataset_sample_items(of, field, frame));
}

static uint64_t bound_of(const void *of, size_t field, uint32_t bucket)
{
    (void)of;
    (void)field;
    return lengths_bound(bucket);
}

static uint64_t samples_of(const void *of, size_t field, uint32_t bucket)
{
    const struct dataset *dataset = of;
    return dataset->ragged[field].lengths->samples.buckets[bucket].count;
}

/* Of batch.budget_buckets. */
static const struct ragged_lengths *fixed_lengths(const void *of, size_t field)
{
    return ((const struct dataset *)of)->ragged[field].lengths;
}

static uint32_t fixed_bucket_of(const void *of, size_t field, uint64_t frame)
{
    return length_bounds_find(&fixed_lengths(of, field)->bounds,
                              dataset_sample_items(of, field, frame));
}

static uint64_t fixed_bound_of(const void *of, size_t field, uint32_t bucket)
{
    return fixed_lengths(of, field)->bounds.of[bucket];
}

static uint64_t fixed_samples_of(const void *of, size_t field, uint32_t bucket)
{
    return fixed_lengths(of, field)->bounded[bucket];
}

static enum status refuse_field(const char *name, const struct dataset *dataset, struct error *err)
{
    if (dataset->ragged_count == 0)
        return error_set(err, STATUS_INVALID,
                         "batch.budget_field '%s': the dataset has no ragged field", name);
    return error_set(err, STATUS_INVALID,
                     "batch.budget_field '%s' is no ragged field of the dataset; '%s' is one", name,
                     dataset->ragged[0].name);
}

enum status setup_cuts(const struct config *config, const struct dataset *dataset,
                       struct plan_cuts *ret_cuts, struct error *err)
{
    size_t field = 0;
    *ret_cuts = (struct plan_cuts){0};
    if (!*config->budget_field)
        return STATUS_OK;
    while (field < dataset->ragged_count &&
           strcmp(dataset->ragged[field].name, config->budget_field) != 0)
        field++;
    if (field == dataset->ragged_count)
        return refuse_field(config->budget_field, dataset, err);
    uint64_t longest = ragged_most_items(&dataset->ragged[field], 1);
    *ret_cuts = (struct plan_cuts){.items = config->budget_items,
                                   .bucket_count = lengths_bucket(longest) + 1,
                                   .of = dataset,
                                   .field = field,
                                   .bucket = bucket_of,
                                   .bound = bound_of,
                                   .samples = samples_of,
                                   .longest = longest};
    const struct length_bounds *bounds = &dataset->ragged[field].lengths->bounds;
    if (bounds->count > 0) {
        ret_cuts->bucket = fixed_bucket_of;
        ret_cuts->bound = fixed_bound_of;
        ret_cuts->samples = fixed_samples_of;
        ret_cuts->bucket_count = length_bounds_find(bounds, longest) + 1;
        ret_cuts->is_fixed = true;
    }
    return STATUS_OK;
}

static bool is_budget(const struct plan *plan, const struct ragged *ragged)
{
    const struct dataset *dataset = plan->cuts.of;
    const struct ragged *budget = &dataset->ragged[plan->cuts.field];
    return ragged == budget ||
           (ragged->lengths->offsets_hash == budget->lengths->offsets_hash &&
            ragged->step_count == budget->step_count &&
            (ragged->step_count == 0 || memcmp(ragged->steps, budget->steps,
                                               ragged->step_count * sizeof *ragged->steps) == 0) &&
            !ragged->truncates && !budget->truncates);
}

bool setup_is_budget(const struct dataset *dataset, const struct plan *plan, size_t number)
{
    for (uint32_t d = 0; plan->cuts.items > 0 && d < plan_source_count(plan); d++)
        if (!is_budget(plan_source(plan, d), &dataset_source(dataset, d)->ragged[number]))
            return false;
    return plan->cuts.items > 0;
}

/* All samples of a step are of one source. */
uint64_t setup_cut_items(const struct dataset *dataset, const struct plan *plan, size_t number,
                         uint64_t trainers)
{
    uint64_t most = 0, batch = size_divide_up(plan->global_batch, trainers);
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        const struct plan *source = plan_source(plan, d);
        const struct ragged *ragged = &dataset_source(dataset, d)->ragged[number];
        uint64_t items = is_budget(source, ragged)
                             ? plan_cuts_most_items(&source->cuts, plan->global_batch, trainers)
                             : ragged_most_items(ragged, batch);
        most = max_u64(most, items);
    }
    return most;
}

uint64_t setup_step_trailer(const struct dataset *dataset, const struct plan *plan)
{
    uint64_t bytes = mul_sat(plan->global_batch, RAGGED_TRAILER_ALIGNMENT);
    if (plan->cuts.items == 0)
        return 0;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        bytes = add_sat(bytes, mul_sat(setup_cut_items(dataset, plan, r, 1),
                                       dataset->ragged[r].trailer_item_bytes));
    return bytes;
}

void run_setup_warn_scarce(const struct config *config, const struct run_setup *setup,
                           struct text *out)
{
    const struct plan *plan = &setup->plan;
    uint64_t count = 0, longest = 0, items = plan->cuts.items, trainers = plan->trainer_count;
    for (uint32_t d = 0; items > 0 && d < plan_source_count(plan); d++) {
        const struct plan_cuts *cuts = &plan_source(plan, d)->cuts;
        count += plan_cuts_scarce(cuts, plan->global_batch, trainers);
        longest = max_u64(longest, plan_cuts_bound(cuts, cuts->bucket_count - 1));
    }
    if (count == 0)
        return;
    text_append(out,
                "warning: %s sample%s of '%s' count%s as more than %" PRIu64
                " items, which are batch.budget_items (%" PRIu64 ") over %" PRIu64
                " trainers: a step of such samples has fewer samples than there are "
                "trainers, of which some get an empty batch; with %" PRIu64
                " items a full step has a sample for each trainer\n",
                count_format(count).text, count_plural(count), config->budget_field,
                count == 1 ? "s" : "", items / trainers, items, trainers,
                mul_sat(longest, trainers));
}
