/* See order_internal.h: the memory of epochs' steps. */
#include "plan/order/order_internal.h"

#include "base/number.h"

#include <assert.h>
#include <stdlib.h>

static void take_cut(struct plan_cut *cut, const struct plan *plan, struct tables *tables)
{
    cut->epoch = UINT64_MAX;
    cut->step_begins = tables_take(tables, plan->steps_per_epoch + 1, sizeof *cut->step_begins);
    cut->step_buckets = tables_take(tables, plan->steps_per_epoch, sizeof *cut->step_buckets);
}

static void take_window(struct plan_cut_window *window, const struct plan *plan,
                        struct tables *tables)
{
    window->epoch = window->window = UINT64_MAX;
    window->numbers = tables_take(tables, plan->window_most, sizeof *window->numbers);
    window->positions = tables_take(tables, plan->window_most, sizeof *window->positions);
}

static void take_scratch(struct plan_cut_scratch *scratch, const struct plan *plan,
                         struct tables *tables)
{
    scratch->sizes = tables_take(tables, plan->steps_per_epoch + 1, sizeof *scratch->sizes);
    scratch->window_steps = tables_take(tables, plan->window_count, sizeof *scratch->window_steps);
    scratch->begins = tables_take(tables, plan->steps_per_epoch + 1, sizeof *scratch->begins);
    scratch->buckets = tables_take(tables, plan->window_most, sizeof *scratch->buckets);
    scratch->counts = tables_take(tables, plan->cuts.bucket_count, sizeof *scratch->counts);
}

uint64_t plan_cut_tables_bytes(const struct plan *plan, uint64_t epoch_count, uint64_t window_count)
{
    struct tables cut = {.only_counts = true}, window = cut, scratch = cut;
    take_cut(&(struct plan_cut){0}, plan, &cut);
    take_window(&(struct plan_cut_window){0}, plan, &window);
    take_scratch(&(struct plan_cut_scratch){0}, plan, &scratch);
    uint64_t epochs = mul_sat(epoch_count, add_sat(sizeof(struct plan_cut), cut.bytes));
    uint64_t windows = mul_sat(window_count, add_sat(sizeof(struct plan_cut_window), window.bytes));
    return add_sat(offsetof(struct plan_cut_tables, tables),
                   add_sat(add_sat(epochs, windows), scratch.bytes));
}

struct plan_cut_tables *plan_cut_tables_new(const struct plan *plan, uint64_t epoch_count,
                                            uint64_t window_count)
{
    struct plan_cut_tables *of = calloc(1, sizeof *of + epoch_count * sizeof of->epochs[0]);
    if (!of)
        return NULL;
    of->count = epoch_count;
    of->window_count = window_count;
    take_scratch(&of->scratch, plan, &of->tables);
    of->windows = tables_take(&of->tables, window_count, sizeof *of->windows);
    for (uint64_t w = 0; w < window_count && !of->tables.failed; w++)
        take_window(&of->windows[w], plan, &of->tables);
    for (uint64_t e = 0; e < epoch_count && !of->tables.failed; e++)
        take_cut(&of->epochs[e], plan, &of->tables);
    if (!of->tables.failed)
        return of;
    plan_cut_tables_free(of);
    return NULL;
}

void plan_cut_tables_free(struct plan_cut_tables *tables)
{
    if (!tables)
        return;
    tables_done(&tables->tables);
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
