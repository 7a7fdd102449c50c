/* See tables.h. */
#include "plan/order/tables.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "plan/order/order_internal.h"

#include <assert.h>
#include <stdlib.h>

static bool has_empty_rows(const struct plan *plan)
{
    return !plan->weighted && plan->row_count < plan->all_rows;
}

static bool has_unequal_rows(const struct plan *plan)
{
    return plan->weighted || (plan->anchors && plan->row_samples > 1);
}

/* Windows that follow one another, from the one that a round ends in to the one that the round
 * ahead of all planned windows begins in. PLAN_DROP may leave out as many as a step needs. In a mix
 * with cuts plan_step_draws() also looks at the end of that round, which is at most as many windows
 * as are planned further. */
uint64_t plan_epochs_at_once(const struct plan *plan, uint64_t planned_windows)
{
    uint64_t left_out = size_divide_up(plan->global_batch, plan->window_least) + 1;
    if (plan->mix && plan->cuts.items > 0)
        left_out += planned_windows;
    return size_divide_up(planned_windows + left_out, plan->window_count) + 1;
}

/* A few empty rows are a table that the first cache has room for; a table of all other rows may
 * have tens of megabytes. */
enum { MOST_GAPS = 4096 };

static bool has_gaps(const struct plan *plan)
{
    uint64_t gaps = plan->all_rows - plan->row_count;
    return gaps <= MOST_GAPS && gaps <= plan->row_count / 8;
}

static uint64_t rows_bytes(const struct plan *plan)
{
    if (!has_empty_rows(plan))
        return 0;
    uint64_t rows = has_gaps(plan) ? plan->all_rows - plan->row_count : plan->row_count;
    return mul_sat(rows, sizeof(uint32_t));
}

static uint64_t windows_bytes(const struct plan *plan)
{
    return mul_sat(plan->window_count + 1, sizeof(uint64_t));
}

/* Of cuts: one is looked at, at least. */
static uint64_t cut_windows(uint64_t planned_windows)
{
    return max_u64(planned_windows, 1);
}

uint64_t plan_tables_bytes(const struct plan *plan, uint64_t epoch_count, uint64_t planned_windows)
{
    uint64_t bytes = rows_bytes(plan);
    if (has_unequal_rows(plan)) {
        uint64_t row = (plan->weighted ? 2 : 1) * sizeof(uint32_t);
        uint64_t counts = add_sat(windows_bytes(plan), mul_sat(plan->row_count, row));
        bytes = add_sat(bytes, mul_sat(epoch_count, add_sat(counts, sizeof(struct plan_counts))));
    }
    if (plan->weighted)
        bytes = add_sat(bytes, plan_weight_tables_bytes(plan));
    if (plan->cuts.items > 0)
        bytes =
            add_sat(bytes, plan_cut_tables_bytes(plan, epoch_count, cut_windows(planned_windows)));
    return bytes > 0 ? add_sat(bytes, sizeof(struct plan_tables)) : 0;
}

static bool counts_init(struct plan_counts *counts, const struct plan *plan)
{
    counts->epoch = UINT64_MAX;
    counts->window_begins = malloc(windows_bytes(plan));
    counts->row_begins = malloc(plan->row_count * sizeof *counts->row_begins);
    counts->rows = plan->weighted ? malloc(plan->row_count * sizeof *counts->rows) : NULL;
    if (!counts->window_begins || !counts->row_begins || (plan->weighted && !counts->rows))
        return false;
    memory_prefer_huge(counts->row_begins, plan->row_count * sizeof *counts->row_begins);
    memory_touch(counts->window_begins, windows_bytes(plan));
    memory_touch(counts->row_begins, plan->row_count * sizeof *counts->row_begins);
    if (counts->rows) {
        memory_prefer_huge(counts->rows, plan->row_count * sizeof *counts->rows);
        memory_touch(counts->rows, plan->row_count * sizeof *counts->rows);
    }
    return true;
}

static bool list_gaps(struct plan_tables *tables, const struct plan *plan)
{
    tables->gaps = calloc(plan->all_rows - plan->row_count, sizeof *tables->gaps);
    if (!tables->gaps)
        return false;
    for (uint64_t row = 0; row < plan->all_rows; row++)
        if (anchors_row_samples(plan->anchors, row) == 0) {
            tables->gaps[tables->gap_count] = (uint32_t)(row - tables->gap_count);
            tables->gap_count++;
        }
    assert(tables->gap_count == plan->all_rows - plan->row_count);
    return true;
}

static bool list_rows(struct plan_tables *tables, const struct plan *plan)
{
    uint64_t count = 0;
    if (has_gaps(plan))
        return list_gaps(tables, plan);
    tables->rows = calloc(plan->row_count, sizeof *tables->rows);
    if (!tables->rows)
        return false;
    memory_prefer_huge(tables->rows, rows_bytes(plan));
    for (uint64_t row = 0; row < plan->all_rows; row++)
        if (anchors_row_samples(plan->anchors, row) > 0)
            tables->rows[count++] = (uint32_t)row;
    assert(count == plan->row_count);
    return true;
}

enum status plan_tables_new(struct plan *plan, uint64_t epoch_count, uint64_t planned_windows,
                            struct error *err)
{
    uint64_t bytes = plan_tables_bytes(plan, epoch_count, planned_windows);
    plan->tables = NULL;
    if (bytes == 0)
        return STATUS_OK;
    uint64_t unequal = has_unequal_rows(plan) ? epoch_count : 0;
    struct plan_tables *tables = calloc(1, sizeof *tables + unequal * sizeof tables->epochs[0]);
    bool fine = tables && (!has_empty_rows(plan) || list_rows(tables, plan));
    if (fine && plan->weighted)
        fine = (tables->weights = plan_weight_tables_new(plan)) != NULL;
    if (fine && plan->cuts.items > 0)
        fine = (tables->cuts =
                    plan_cut_tables_new(plan, epoch_count, cut_windows(planned_windows))) != NULL;
    for (uint64_t e = 0; e < unequal && fine; e++) {
        fine = counts_init(&tables->epochs[e], plan);
        tables->epoch_count++;
    }
    if (!fine) {
        plan_tables_free(tables);
        return error_set(err, STATUS_NO_MEMORY,
                         "no memory for the tables of %s rows: %s; raise samples.row_chunks",
                         count_format(plan->row_count).text, size_format(bytes).text);
    }
    plan->tables = tables;
    return STATUS_OK;
}

void plan_tables_free(struct plan_tables *tables)
{
    if (!tables)
        return;
    for (uint64_t e = 0; e < tables->epoch_count; e++) {
        free(tables->epochs[e].window_begins);
        free(tables->epochs[e].row_begins);
        free(tables->epochs[e].rows);
    }
    plan_weight_tables_free(tables->weights);
    plan_cut_tables_free(tables->cuts);
    free(tables->rows);
    free(tables->gaps);
    free(tables);
}

/* The number of samples of each row, where the row stands in the epoch's order. Rows come one after
 * another, so that only this table is written out of order. */
static void spread_rows(const struct plan_epoch *epoch, uint32_t *ret_samples)
{
    enum { BLOCK = 1024 };
    const struct plan *plan = &epoch->plan;
    bool table = plan_has_row_table(plan);
    uint64_t positions[BLOCK];
    for (uint64_t first = 0; first < plan->row_count; first += BLOCK) {
        size_t count = min_u64(BLOCK, plan->row_count - first);
        for (size_t i = 0; i < count; i++)
            positions[i] = first + i;
        if (plan->shuffle)
            permutation_inverse_many(&epoch->rows, positions, count);
        for (size_t i = 0; i < count; i++)
            ret_samples[positions[i]] = anchors_row_samples(
                plan->anchors, table ? plan_tables_row(plan->tables, first + i) : first + i);
    }
}

static void fill(struct plan_counts *counts, const struct plan_epoch *epoch)
{
    const struct plan *plan = &epoch->plan;
    uint64_t position = 0;
    if (plan->weighted)
        plan_weight_tables_spread(plan->tables->weights, epoch, counts->rows, counts->row_begins);
    else
        spread_rows(epoch, counts->row_begins);
    for (uint64_t w = 0; w < plan->window_count; w++) {
        uint64_t end = min_u64((w + 1) * plan->window_rows, plan->row_count);
        uint32_t begin = 0;
        for (uint64_t i = w * plan->window_rows; i < end; i++) {
            uint32_t samples = counts->row_begins[i];
            counts->row_begins[i] = begin;
            begin += samples;
        }
        counts->window_begins[w] = position;
        position += begin;
    }
    assert(position == plan->sample_count);
    counts->window_begins[plan->window_count] = position;
    counts->epoch = epoch->epoch;
}

const struct plan_counts *plan_tables_epoch(const struct plan_epoch *epoch)
{
    struct plan_tables *tables = epoch->plan.tables;
    assert(tables || plan_tables_bytes(&epoch->plan, 1, 1) == 0);
    if (!tables || tables->epoch_count == 0)
        return NULL;
    struct plan_counts *counts = &tables->epochs[epoch->epoch % tables->epoch_count];
    if (counts->epoch != epoch->epoch)
        fill(counts, epoch);
    return counts;
}
