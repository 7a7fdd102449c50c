/* See order_internal.h: the memory of epochs' steps. */
#include "plan/order/order_internal.h"

#include "base/memory.h"
#include "base/number.h"

#include <assert.h>
#include <stdlib.h>

/* Of one epoch. */
static uint64_t cut_bytes(const struct plan *plan)
{
    uint64_t begins = mul_sat(plan->steps_per_epoch + 1, sizeof(uint64_t));
    uint64_t buckets = mul_sat(plan->steps_per_epoch, sizeof(uint16_t));
    return add_sat(sizeof(struct plan_cut), add_sat(begins, buckets));
}

static uint64_t window_bytes(const struct plan *plan)
{
    return add_sat(sizeof(struct plan_cut_window),
                   mul_sat(plan->window_most, 2 * sizeof(uint32_t)));
}

static uint64_t scratch_bytes(const struct plan *plan)
{
    uint64_t steps = mul_sat(plan->steps_per_epoch + 1, 2 * sizeof(uint32_t));
    uint64_t windows = mul_sat(plan->window_count, sizeof(uint32_t));
    uint64_t samples = mul_sat(plan->window_most, sizeof(uint16_t));
    return add_sat(add_sat(steps, windows),
                   add_sat(samples, plan->cuts.bucket_count * sizeof(uint64_t)));
}

uint64_t plan_cut_tables_bytes(const struct plan *plan, uint64_t epoch_count, uint64_t window_count)
{
    uint64_t epochs = mul_sat(epoch_count, cut_bytes(plan));
    uint64_t windows = mul_sat(window_count, window_bytes(plan));
    return add_sat(sizeof(struct plan_cut_tables),
                   add_sat(add_sat(epochs, windows), scratch_bytes(plan)));
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
    cut->step_buckets = new_table(plan->steps_per_epoch, sizeof *cut->step_buckets);
    return cut->step_begins && cut->step_buckets;
}

static bool window_init(struct plan_cut_window *window, const struct plan *plan)
{
    window->epoch = window->window = UINT64_MAX;
    window->numbers = new_table(plan->window_most, sizeof *window->numbers);
    window->positions = new_table(plan->window_most, sizeof *window->positions);
    return window->numbers && window->positions;
}

static bool scratch_init(struct plan_cut_scratch *scratch, const struct plan *plan)
{
    scratch->sizes = new_table(plan->steps_per_epoch, sizeof *scratch->sizes);
    scratch->window_steps = new_table(plan->window_count, sizeof *scratch->window_steps);
    scratch->begins = new_table(plan->steps_per_epoch + 1, sizeof *scratch->begins);
    scratch->buckets = new_table(plan->window_most, sizeof *scratch->buckets);
    scratch->counts = new_table(plan->cuts.bucket_count, sizeof *scratch->counts);
    return scratch->sizes && scratch->window_steps && scratch->begins && scratch->buckets &&
           scratch->counts;
}

struct plan_cut_tables *plan_cut_tables_new(const struct plan *plan, uint64_t epoch_count,
                                            uint64_t window_count)
{
    struct plan_cut_tables *tables =
        calloc(1, sizeof *tables + epoch_count * sizeof tables->epochs[0]);
    bool fine = tables && scratch_init(&tables->scratch, plan) &&
                (tables->windows = calloc(window_count, sizeof *tables->windows)) != NULL;
    while (fine && tables->window_count < window_count)
        fine = window_init(&tables->windows[tables->window_count++], plan);
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
        free(tables->epochs[e].step_buckets);
    }
    for (uint64_t w = 0; w < tables->window_count; w++) {
        free(tables->windows[w].numbers);
        free(tables->windows[w].positions);
    }
    free(tables->windows);
    free(tables->scratch.sizes);
    free(tables->scratch.window_steps);
    free(tables->scratch.begins);
    free(tables->scratch.buckets);
    free(tables->scratch.counts);
    free(tables);
}

const struct plan_cut *plan_tables_cut(const struct plan_epoch *epoch)
{
    assert(epoch->plan.tables && epoch->plan.tables->cuts);
    struct plan_cut_tables *tables = epoch->plan.tables->cuts;
    struct plan_cut *cut = &tables->epochs[epoch->epoch % tables->count];
    if (cut->epoch == epoch->epoch)
        return cut;
    plan_cut_fill(cut, &tables->scratch, epoch);
    for (uint64_t w = 0; w < tables->window_count; w++) /* filling these sets steps' buckets */
        if (tables->windows[w].epoch == epoch->epoch)
            tables->windows[w].epoch = UINT64_MAX;
    return cut;
}

const struct plan_cut *plan_pass_cut(const struct plan *plan, uint64_t epoch)
{
    assert(plan->tables && plan->tables->cuts);
    const struct plan_cut_tables *tables = plan->tables->cuts;
    const struct plan_cut *cut = &tables->epochs[epoch % tables->count];
    return cut->epoch == epoch ? cut : NULL;
}

const struct plan_cut_window *plan_tables_cut_window(const struct plan_epoch *epoch,
                                                     const struct plan_window *window)
{
    struct plan_cut_tables *tables = epoch->plan.tables->cuts;
    uint64_t serial = epoch->epoch * epoch->plan.window_count + window->index;
    struct plan_cut_window *table = &tables->windows[serial % tables->window_count];
    assert(epoch->cut->epoch == epoch->epoch); /* else the tables have no room */
    if (table->epoch != epoch->epoch || table->window != window->index)
        plan_cut_window_fill(table, &tables->scratch, epoch, window);
    return table;
}
