/* See order_internal.h: the memory of epochs' steps. */
#include "plan/order_internal.h"

#include "base/memory.h"
#include "base/number.h"

#include <assert.h>
#include <stdlib.h>

/* Of one epoch. */
static uint64_t cut_bytes(const struct plan *plan)
{
    uint64_t begins = mul_sat(plan->steps_per_epoch + 1, sizeof(uint64_t));
    uint64_t samples = mul_sat(plan->sample_count, 2 * sizeof(uint32_t));
    return add_sat(sizeof(struct plan_cut), add_sat(begins, samples));
}

static uint64_t scratch_bytes(const struct plan *plan)
{
    uint64_t steps = mul_sat(plan->steps_per_epoch + 1, 2 * sizeof(uint32_t));
    uint64_t windows = mul_sat(plan->window_count, sizeof(uint32_t));
    uint64_t samples = mul_sat(plan->window_most, sizeof(uint16_t));
    return add_sat(add_sat(steps, windows),
                   add_sat(samples, plan->cuts.bucket_count * sizeof(uint64_t)));
}

uint64_t plan_cut_tables_bytes(const struct plan *plan, uint64_t epoch_count)
{
    uint64_t epochs = mul_sat(epoch_count, cut_bytes(plan));
    return add_sat(sizeof(struct plan_cut_tables), add_sat(epochs, scratch_bytes(plan)));
}

/* Touched now, so that no page is missing later. */
static void *new_table(uint64_t count, size_t size)
{
    void *table = calloc(count, size);
    if (table)
        memory_touch(table, count * size);
    return table;
}

static bool cut_init(struct plan_cut *cut, const struct plan *plan)
{
    cut->epoch = UINT64_MAX;
    cut->step_begins = new_table(plan->steps_per_epoch + 1, sizeof *cut->step_begins);
    cut->numbers = new_table(plan->sample_count, sizeof *cut->numbers);
    cut->positions = new_table(plan->sample_count, sizeof *cut->positions);
    return cut->step_begins && cut->numbers && cut->positions;
}

static bool scratch_init(struct plan_cut_scratch *scratch, const struct plan *plan)
{
    scratch->sizes = new_table(plan->steps_per_epoch, sizeof *scratch->sizes);
    scratch->window_steps = new_table(plan->window_count, sizeof *scratch->window_steps);
    scratch->begins = new_table(plan->steps_per_epoch + 1, sizeof *scratch->begins);
    scratch->buckets = new_table(plan->window_most, sizeof *scratch->buckets);
    scratch->ends = new_table(plan->cuts.bucket_count, sizeof *scratch->ends);
    return scratch->sizes && scratch->window_steps && scratch->begins && scratch->buckets &&
           scratch->ends;
}

struct plan_cut_tables *plan_cut_tables_new(const struct plan *plan, uint64_t epoch_count)
{
    struct plan_cut_tables *tables =
        calloc(1, sizeof *tables + epoch_count * sizeof tables->epochs[0]);
    bool fine = tables && scratch_init(&tables->scratch, plan);
    while (fine && tables->count < epoch_count)
        fine = cut_init(&tables->epochs[tables->count++], plan);
    if (fine)
        return tables;
    plan_cut_tables_free(tables);
    return NULL;
}

void plan_cut_tables_free(struct plan_cut_tables *tables)
{
    if (!tables)
        return;
    for (uint64_t e = 0; e < tables->count; e++) {
        free(tables->epochs[e].step_begins);
        free(tables->epochs[e].numbers);
        free(tables->epochs[e].positions);
    }
    free(tables->scratch.sizes);
    free(tables->scratch.window_steps);
    free(tables->scratch.begins);
    free(tables->scratch.buckets);
    free(tables->scratch.ends);
    free(tables);
}

const struct plan_cut *plan_tables_cut(const struct plan_epoch *epoch)
{
    assert(epoch->plan.tables && epoch->plan.tables->cuts);
    struct plan_cut_tables *tables = epoch->plan.tables->cuts;
    struct plan_cut *cut = &tables->epochs[epoch->epoch % tables->count];
    if (cut->epoch != epoch->epoch)
        plan_cut_fill(cut, &tables->scratch, epoch);
    return cut;
}
