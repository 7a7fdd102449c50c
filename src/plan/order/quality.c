/* See quality.h. */
#include "plan/order/quality.h"

#include "base/number.h"
#include "base/tables.h"
#include "plan/order/tables.h"
#include "plan/permutation/permutation.h"

#include <math.h>
#include <stdlib.h>

/* What stands at consecutive positions, and memory for sorting. */
struct sequence {
    uint64_t count;
    struct tables tables;              /* those that follow */
    uint64_t *indices, *rows, *sorted; /* [count] */
};

static enum status sequence_init(struct sequence *ret_sequence, uint64_t count, struct error *err)
{
    struct sequence sequence = {.count = count};
    sequence.indices = tables_take(&sequence.tables, count, sizeof(uint64_t));
    sequence.rows = tables_take(&sequence.tables, count, sizeof(uint64_t));
    sequence.sorted = tables_take(&sequence.tables, count, sizeof(uint64_t));
    *ret_sequence = sequence;
    return sequence.tables.failed
               ? error_set(err, STATUS_NO_MEMORY, "no memory to measure the order of %llu samples",
                           (unsigned long long)count)
               : STATUS_OK;
}

/* Takes what stands at `position`, which is not padding. */
static void look_up(struct sequence *sequence, uint64_t i, const struct plan_epoch *epoch,
                    uint64_t position)
{
    struct plan_window window;
    plan_window_at(&window, epoch, plan_window_of(epoch, position));
    uint64_t window_row = plan_location_at(&window, position).window_row;
    sequence->rows[i] = plan_row_at(epoch, window.first_row_position + window_row);
    sequence->indices[i] = plan_sample_at(epoch, position);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The number of values equal to the first of `count` sorted ones. */
static uint64_t run_length(const uint64_t *values, uint64_t count)
{
    uint64_t length = 1;
    while (length < count && values[length] == values[0])
        length++;
    return length;
}

/* `step` values from rows[first] on: how many are equal, at most. */
static uint64_t most_equal(struct sequence *sequence, uint64_t first, uint64_t step)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < step; i++)
        sequence->sorted[i] = sequence->rows[first + i];
    qsort(sequence->sorted, step, sizeof(uint64_t), compare);
    for (uint64_t i = 0; i < step;) {
        uint64_t length = run_length(sequence->sorted + i, step - i);
        most = length > most ? length : most;
        i += length;
    }
    return most;
}

static double largest_share(struct sequence *sequence, uint64_t global_batch)
{
    double sum = 0;
    uint64_t steps = 0;
    for (uint64_t first = 0; first < sequence->count; first += global_batch, steps++) {
        uint64_t step = min_u64(global_batch, sequence->count - first);
        sum += (double)most_equal(sequence, first, step) / (double)step;
    }
    return sum / (double)steps;
}

/* Distances between neighbours, sorted. */
static void sort_distances(struct sequence *sequence, const uint64_t *values)
{
    for (uint64_t i = 0; i + 1 < sequence->count; i++) {
        uint64_t a = values[i], b = values[i + 1];
        sequence->sorted[i] = a > b ? a - b : b - a;
    }
    qsort(sequence->sorted, sequence->count - 1, sizeof(uint64_t), compare);
}

static double sorted_entropy(const uint64_t *sorted, uint64_t count)
{
    double bits = 0;
    for (uint64_t i = 0; i < count;) {
        uint64_t length = run_length(sorted + i, count - i);
        double share = (double)length / (double)count;
        bits -= share * log2(share);
        i += length;
    }
    return bits;
}

static struct quality measure(struct sequence *sequence, const struct plan *plan)
{
    struct quality quality = {.largest_share = largest_share(sequence, plan->global_batch)};
    uint64_t distances = sequence->count - 1;
    if (distances == 0)
        return quality;
    sort_distances(sequence, sequence->indices);
    uint64_t frames = plan->anchors ? anchors_frames(plan->anchors) : plan->sample_count;
    quality.distance = (double)sequence->sorted[distances / 2] / (double)frames;
    quality.entropy = sorted_entropy(sequence->sorted, distances);
    sort_distances(sequence, sequence->rows);
    quality.entropy += sorted_entropy(sequence->sorted, distances);
    return quality;
}

enum status quality_measure(const struct plan *plan, uint64_t epoch_number, uint64_t *ret_samples,
                            struct quality *ret_order, struct quality *ret_uniform,
                            struct error *err)
{
    uint64_t steps = QUALITY_MAX_SAMPLES / plan->global_batch;
    uint64_t delivered = min_u64(plan->position_count, plan->sample_count);
    uint64_t count = min_u64((steps > 0 ? steps : 1) * plan->global_batch, delivered);
    struct plan own = *plan;
    struct plan_epoch epoch;
    struct sequence sequence;
    enum status status = sequence_init(&sequence, count, err);
    if (status == STATUS_OK)
        status = plan_tables_new(&own, 1, 1, err);
    if (status != STATUS_OK) {
        tables_done(&sequence.tables);
        return status;
    }
    plan_epoch_init(&epoch, &own, epoch_number);
    for (uint64_t i = 0; i < count; i++)
        look_up(&sequence, i, &epoch, i);
    *ret_order = measure(&sequence, plan);
    /* Positions in a random order have samples in a random order. */
    struct permutation shuffle;
    permutation_init(&shuffle, delivered, plan->seed + epoch_number);
    for (uint64_t i = 0; i < count; i++)
        look_up(&sequence, i, &epoch, permutation_apply(&shuffle, i));
    *ret_uniform = measure(&sequence, plan);
    *ret_samples = count;
    plan_tables_free(own.tables);
    tables_done(&sequence.tables);
    return STATUS_OK;
}
