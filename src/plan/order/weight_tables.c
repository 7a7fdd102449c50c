/* See weights.h and order_internal.h: the rows that an epoch has, and how many samples each. */
#include "plan/order/weights.h"

#include "base/number.h"
#include "base/random.h"
#include "plan/order/keys.h"
#include "plan/order/order_internal.h"

#include <assert.h>
#include <stdlib.h>

static const uint64_t ONE = UINT64_C(1) << 32;

uint64_t plan_row_weight(const struct anchors *anchors, uint64_t row)
{
    uint32_t samples = anchors_row_samples(anchors, row);
    if (samples == 0)
        return 0;
    const uint64_t *sums = anchors_row_weights(anchors, row);
    return sums[samples] - sums[0];
}

double plan_new_rows(const struct plan *plan, uint64_t epoch)
{
    double rows = 0;
    for (uint64_t row = 0; row < plan->all_rows; row++) {
        uint64_t weight = plan_row_weight(plan->anchors, row);
        double chance = (double)min_u64(weight, ONE) / (double)ONE, is_new = chance;
        for (uint64_t e = 0; e < epoch; e++)
            is_new *= 1 - chance;
        rows += is_new;
    }
    return rows;
}

static void take(struct plan_weight_tables *to, const struct plan *plan)
{
    to->rows = tables_take(&to->tables, plan->ever_rows, sizeof *to->rows);
    to->sums = tables_take(&to->tables, plan->ever_rows + 1, sizeof *to->sums);
    to->counts = tables_take(&to->tables, plan->ever_rows, sizeof *to->counts);
}

uint64_t plan_weight_tables_bytes(const struct plan *plan)
{
    struct plan_weight_tables counted = {.tables.only_counts = true};
    take(&counted, plan);
    return add_sat(counted.tables.bytes, sizeof counted);
}

/* The light rows, or the others, in order. */
static void list_rows(struct plan_weight_tables *to, const struct plan *plan, bool light)
{
    for (uint64_t row = 0; row < plan->all_rows; row++) {
        uint64_t weight = plan_row_weight(plan->anchors, row);
        if (weight == 0 || (weight < ONE) != light)
            continue;
        to->rows[to->count] = (uint32_t)row;
        to->sums[to->count + 1] = to->sums[to->count] + weight;
        to->count++;
    }
}

struct plan_weight_tables *plan_weight_tables_new(const struct plan *plan)
{
    struct plan_weight_tables *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    take(made, plan);
    if (made->tables.failed) {
        plan_weight_tables_free(made);
        return NULL;
    }
    list_rows(made, plan, true);
    made->light_count = made->count;
    list_rows(made, plan, false);
    assert(made->count == plan->ever_rows);
    return made;
}

void plan_weight_tables_free(struct plan_weight_tables *tables)
{
    if (!tables)
        return;
    tables_done(&tables->tables);
    free(tables);
}

/* Both lists, as one that rises: the next row that has samples; false: there is none. */
struct merging {
    const struct plan_weight_tables *from;
    uint64_t light, heavy;
};

static bool next_row(struct merging *merging, uint32_t *ret_row, uint32_t *ret_samples)
{
    const struct plan_weight_tables *from = merging->from;
    while (merging->light < from->light_count || merging->heavy < from->count) {
        bool is_light = merging->heavy == from->count ||
                        (merging->light < from->light_count &&
                         from->rows[merging->light] < from->rows[merging->heavy]);
        uint64_t at = is_light ? merging->light++ : merging->heavy++;
        *ret_row = from->rows[at];
        *ret_samples = from->counts[at];
        if (*ret_samples > 0)
            return true;
    }
    return false;
}

static void draw_counts(struct plan_weight_tables *tables, const struct plan_epoch *epoch)
{
    const uint64_t *sums = tables->sums;
    uint64_t key = random_u64(epoch->plan.seed, KEY_WEIGHED_ROWS, epoch->epoch);
    uint64_t light = tables->light_count, all = tables->count;
    weights_divide(sums, 0, light, sums[light] / ONE, key, tables->counts);
    weights_divide(sums, light, all, (sums[all] - sums[light]) / ONE, key, tables->counts);
}

void plan_weight_tables_spread(struct plan_weight_tables *tables, const struct plan_epoch *epoch,
                               uint32_t *ret_rows, uint32_t *ret_samples)
{
    enum { BLOCK = 1024 };
    const struct plan *plan = &epoch->plan;
    struct merging merging = {.from = tables, .heavy = tables->light_count};
    uint64_t positions[BLOCK];
    uint32_t row, samples;
    draw_counts(tables, epoch);
    for (uint64_t first = 0; first < plan->row_count; first += BLOCK) {
        size_t count = min_u64(BLOCK, plan->row_count - first);
        for (size_t i = 0; i < count; i++)
            positions[i] = first + i;
        if (plan->shuffle)
            permutation_inverse_many(&epoch->rows, positions, count);
        for (size_t i = 0; i < count; i++) {
            bool there = next_row(&merging, &row, &samples);
            assert(there);
            ret_rows[positions[i]] = row;
            ret_samples[positions[i]] = samples;
        }
    }
    assert(!next_row(&merging, &row, &samples));
}
