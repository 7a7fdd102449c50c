/* Steps of fields: which frames a sample has, how far they reach, and which fields are read
 * together. Called while opening, by one thread. */
#include "dataset/fields/steps.h"

#include "base/number.h"
#include "dataset/fields/slices.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum status steps_check(const struct dataset_field_spec *spec, struct error *err)
{
    if (spec->step_count > DATASET_MAX_STEPS)
        return error_set(err, STATUS_INVALID, "field '%s': %zu steps; the limit is %d", spec->name,
                         spec->step_count, DATASET_MAX_STEPS);
    for (size_t i = 0; i < spec->step_count; i++) {
        int32_t step = spec->steps[i];
        if (step < -DATASET_MAX_STEP || step > DATASET_MAX_STEP)
            return error_set(err, STATUS_INVALID,
                             "field '%s': step %" PRId32 " is out of range: from -%d to %d",
                             spec->name, step, DATASET_MAX_STEP, DATASET_MAX_STEP);
        if (i > 0 && step <= spec->steps[i - 1])
            return error_set(err, STATUS_INVALID,
                             "field '%s': steps must rise, but %" PRId32 " follows %" PRId32,
                             spec->name, step, spec->steps[i - 1]);
    }
    if (spec->phase_count > 0 && spec->phases[0].epoch > 0)
        return error_set(err, STATUS_INVALID,
                         "field '%s': steps begin with epoch %" PRIu64
                         ": say which steps there are "
                         "from epoch 0 on",
                         spec->name, spec->phases[0].epoch);
    if (spec->segments && spec->step_count == 0)
        return error_set(err, STATUS_INVALID,
                         "field '%s' has segments but no steps: set steps, for example \"0:4096\"",
                         spec->name);
    return STATUS_OK;
}

/* Copies steps to *next, which moves on. */
static void keep(int32_t **next, const int32_t **steps, size_t count)
{
    if (count == 0)
        return;
    memcpy(*next, *steps, count * sizeof **next);
    *steps = *next;
    *next += count;
}

enum status steps_keep(struct dataset *dataset, struct error *err)
{
    struct dataset_private *private = dataset->private;
    size_t total = 0;
    for (size_t i = 0; i < dataset->field_count; i++)
        total += private->origins[i].step_count;
    for (size_t r = 0; r < dataset->ragged_count; r++)
        total += private->ragged_origins[r].step_count;
    private->has_steps = total > 0;
    if (total == 0)
        return STATUS_OK;
    private->steps = malloc(total * sizeof *private->steps);
    if (!private->steps)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu steps", total);
    int32_t *next = private->steps;
    for (size_t i = 0; i < dataset->field_count; i++)
        keep(&next, &private->origins[i].steps, private->origins[i].step_count);
    for (size_t r = 0; r < dataset->ragged_count; r++)
        keep(&next, &private->ragged_origins[r].steps, private->ragged_origins[r].step_count);
    return STATUS_OK;
}

static int compare_steps(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool counts(const struct dataset *dataset, size_t i, size_t leader)
{
    return dataset->private->origins[i].array &&
           (leader == SIZE_MAX || dataset->fields[i].row_leader == leader);
}

/* Returns how many: without steps there is step 0. */
static size_t put_steps(int32_t *out, const int32_t *steps, size_t count)
{
    if (count == 0)
        *out = 0;
    else
        memcpy(out, steps, count * sizeof *out);
    return count > 0 ? count : 1;
}

/* Sorts them; each stays once. Returns how many stay. */
static size_t sort_steps(int32_t *steps, size_t count)
{
    size_t kept = 0;
    qsort(steps, count, sizeof *steps, compare_steps);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || steps[i] != steps[kept - 1])
            steps[kept++] = steps[i];
    return kept;
}

enum status steps_merge(int32_t **steps, size_t *count, const int32_t *more, size_t more_count,
                        struct error *err)
{
    int32_t *all = realloc(*steps, (*count + more_count + 1) * sizeof *all);
    if (!all)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu steps", *count + more_count);
    memcpy(all + *count, more, more_count * sizeof *all);
    *steps = all;
    *count = sort_steps(all, *count + more_count);
    return STATUS_OK;
}

enum status steps_union(const struct dataset *dataset, size_t leader, int32_t **ret_steps,
                        size_t *ret_count, struct error *err)
{
    size_t total = 0, count = 0;
    size_t ragged_count = leader == SIZE_MAX ? dataset->ragged_count : 0;
    for (size_t i = 0; i < dataset->field_count; i++)
        total += counts(dataset, i, leader) ? dataset->private->origins[i].step_count + 1 : 0;
    for (size_t r = 0; r < ragged_count; r++)
        total += dataset->private->ragged_origins[r].step_count + 1;
    int32_t *steps = calloc(total + 1, sizeof *steps);
    if (!steps)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu steps", total);
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        if (counts(dataset, i, leader))
            count += put_steps(steps + count, origin->steps, origin->step_count);
    }
    for (size_t r = 0; r < ragged_count; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        count += put_steps(steps + count, origin->steps, origin->step_count);
    }
    *ret_steps = steps;
    *ret_count = sort_steps(steps, count);
    return STATUS_OK;
}

static bool same_convert(const struct convert *a, const struct convert *b)
{
    return a->to == b->to && memcmp(&a->scale, &b->scale, sizeof a->scale) == 0 &&
           memcmp(&a->offset, &b->offset, sizeof a->offset) == 0;
}

/* Whether two direct fields are one view of one array. */
static bool same_view(const struct field_origin *a, const struct field_origin *b)
{
    return a->array == b->array && !a->index && !b->index && a->axis == b->axis &&
           same_convert(&a->convert, &b->convert) && slices_same(a, b) &&
           normal_same(a->normal, b->normal);
}

static size_t leader_of(const struct dataset *dataset, size_t i)
{
    const struct field_origin *origins = dataset->private->origins;
    for (size_t k = 0; k < i && origins[i].array && dataset->private->has_steps; k++)
        if (origins[k].is_absent == origins[i].is_absent && same_view(&origins[k], &origins[i]))
            return k;
    return i;
}

static uint64_t reach_before(const int32_t *steps, size_t count)
{
    return count > 0 && steps[0] < 0 ? (uint64_t) - (int64_t)steps[0] : 0;
}

static uint64_t reach_after(const int32_t *steps, size_t count)
{
    return count > 0 && steps[count - 1] > 0 ? (uint64_t)steps[count - 1] : 0;
}

/* A memory of frames reaches as far as all fields that share the memory. */
static void widen_halo(struct dataset_field *leader, const struct dataset_field *field)
{
    leader->halo_before =
        max_u64(leader->halo_before, reach_before(field->steps, field->step_count));
    leader->halo_after = max_u64(leader->halo_after, reach_after(field->steps, field->step_count));
}

enum status steps_settle(struct dataset *dataset, struct error *err)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        origin->halo_before = reach_before(origin->steps, origin->step_count);
        origin->halo_after = reach_after(origin->steps, origin->step_count);
    }
    for (size_t i = 0; i < dataset->field_count; i++) {
        struct dataset_field *field = &dataset->fields[i];
        field->row_leader = leader_of(dataset, i);
        widen_halo(&dataset->fields[field->row_leader], field);
    }
    for (size_t i = 0; i < dataset->field_count; i++) {
        struct dataset_field *field = &dataset->fields[i];
        int32_t *steps;
        field->halo_before = dataset->fields[field->row_leader].halo_before;
        field->halo_after = dataset->fields[field->row_leader].halo_after;
        if (field->row_leader != i || !dataset->private->origins[i].array)
            continue;
        enum status status = steps_union(dataset, i, &steps, &field->record_frames, err);
        if (status != STATUS_OK)
            return status;
        free(steps);
    }
    return STATUS_OK;
}

/* Adds an epoch, unless it is there. */
static enum status add_epoch(struct dataset *dataset, uint64_t epoch, struct error *err)
{
    uint32_t at = dataset->phase_count;
    for (uint32_t i = 0; i < dataset->phase_count; i++)
        if (dataset->phase_epochs[i] == epoch)
            return STATUS_OK;
    if (at == DATASET_MAX_PHASES)
        return error_set(err, STATUS_INVALID,
                         "steps of fields change at more than %d epochs: let them change together",
                         DATASET_MAX_PHASES);
    for (; at > 0 && dataset->phase_epochs[at - 1] > epoch; at--)
        dataset->phase_epochs[at] = dataset->phase_epochs[at - 1];
    dataset->phase_epochs[at] = epoch;
    dataset->phase_count++;
    return STATUS_OK;
}

enum status phases_settle(struct dataset *dataset, struct error *err)
{
    enum status status = STATUS_OK;
    dataset->phase_epochs[0] = 0;
    dataset->phase_count = 1;
    for (size_t f = 0; f < dataset->field_count; f++)
        for (size_t i = 0; i < dataset->fields[f].phase_count && status == STATUS_OK; i++)
            status = add_epoch(dataset, dataset->fields[f].phases[i].epoch, err);
    return status;
}
