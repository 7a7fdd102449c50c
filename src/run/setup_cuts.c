/* See setup_internal.h: batches by budget, from a ragged field's lengths. */
#include "run/setup_internal.h"

#include "dataset/ragged.h"
#include "dataset/ragged_lengths.h"

#include "base/number.h"
#include "base/size.h"

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
    return STATUS_OK;
}

bool setup_is_budget(const struct plan *plan, const struct ragged *ragged)
{
    const struct dataset *dataset = plan->cuts.of;
    if (plan->cuts.items == 0)
        return false;
    const struct ragged *budget = &dataset->ragged[plan->cuts.field];
    return ragged == budget ||
           (ragged->lengths->offsets_hash == budget->lengths->offsets_hash &&
            ragged->step_count == budget->step_count && !ragged->truncates && !budget->truncates);
}

uint64_t setup_step_tail(const struct dataset *dataset, const struct plan *plan)
{
    uint64_t batch = plan->global_batch, bytes = mul_sat(batch, RAGGED_TAIL_ALIGNMENT);
    if (plan->cuts.items == 0)
        return 0;
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        uint64_t items = setup_is_budget(plan, ragged) ? plan_cuts_most_items(&plan->cuts, batch, 1)
                                                       : ragged_most_items(ragged, batch);
        bytes = add_sat(bytes, mul_sat(items, ragged->tail_item_bytes));
    }
    return bytes;
}
