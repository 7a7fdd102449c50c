/* See setup.h and setup_internal.h: slots and rings. */
#include "run/setup_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "run/phases.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* delivery.slots "auto" */
enum { LEAST_AUTO_SLOTS = 4, MOST_AUTO_SLOTS = 32, AUTO_RINGS_BYTES = 512 << 20 };
enum { AUTO_NODE_RINGS_BYTES = 32 << 20 }; /* where all readers are on one node: caches have room */
enum { AUTO_ROUNDS_ALONE = 8 };            /* in the rings of one reader */
enum { AUTO_RINGS_PART = 8 };              /* of the reader's memory */

_Static_assert((int)DATASET_MAX_FIELDS <= (int)RING_MAX_FIELDS, "every field fits a ring");
_Static_assert((int)DATASET_MAX_RANK <= (int)RING_MAX_RANK, "every shape fits a ring");
_Static_assert((int)DATASET_NAME_BYTES <= (int)RING_NAME_BYTES, "every name fits a ring");

/* The most items of a trainer's batch. In a mix these are any of a step's draws. */
static uint64_t most_items(const struct dataset *dataset, const struct ragged *ragged,
                           const struct plan *plan)
{
    size_t number = (size_t)(ragged - dataset_source(dataset, 0)->ragged);
    if (plan->cuts.items > 0)
        return setup_cut_items(dataset, plan, number, plan->trainer_count);
    if (plan->mix) {
        struct plan_mix_most most;
        plan_mix_most(plan, plan->global_batch, &most);
        return mix_most_items(dataset, number, most.draws, most.copies, plan->batch);
    }
    uint64_t copies = plan_most_copies(plan, plan->global_batch);
    return mul_sat(copies, ragged_most_items(ragged, size_divide_up(plan->batch, copies)));
}

/* With a multiple each step of a sample may be padded. */
static uint64_t slot_capacity(const struct ragged *ragged, uint64_t items, const struct plan *plan)
{
    uint64_t multiple = max_u64(ragged->multiple, 1), steps = max_u64(ragged->step_count, 1);
    items = add_sat(items, mul_sat(mul_sat(plan->batch, steps), multiple - 1));
    return max_u64(items / multiple * multiple, multiple);
}

struct ring_field setup_slot_field(const struct dataset_field *from, uint64_t capacity)
{
    struct ring_field to = {.dtype = from->dtype, .rank = (uint32_t)from->rank};
    snprintf(to.name, sizeof to.name, "%s", from->name);
    memcpy(to.shape, from->shape, (size_t)from->rank * sizeof from->shape[0]);
    if (!from->ragged || !ragged_has_item_shape(from->ragged))
        return to;
    bool pads = from->ragged->form == RAGGED_BOUND;
    if (pads && from->source != FIELD_RAGGED)
        return to;
    if (from->source == FIELD_RAGGED) {
        to.kind = pads ? RING_PADDED : RING_ITEMS;
        to.capacity = capacity;
        if (!pads)
            to.offsets_field = (uint32_t)from->ragged->lengths_field;
        return to;
    }
    if (from->made == MADE_LENGTH)
        return to;
    to.kind = RING_OFFSETS;
    to.rank = from->ragged->step_count > 0;
    to.shape[0] = from->ragged->step_count;
    return to;
}

/* Fields of a mix are those of its first source. */
static struct ring_field slot_field(const struct dataset *dataset, const struct dataset_field *from,
                                    const struct plan *plan)
{
    bool has_items = from->source == FIELD_RAGGED && ragged_has_item_shape(from->ragged);
    return setup_slot_field(
        from,
        has_items ? slot_capacity(from->ragged, most_items(dataset, from->ragged, plan), plan) : 0);
}

uint32_t run_reserve_slots(const struct config *config, struct round_shape shape)
{
    return config->epochs == 0 ? (shape.in_flight + 1) * shape.steps_per_round : 0;
}

/* A round publishes all of its steps at once. */
static uint32_t spare_slots(const struct config *config, struct round_shape shape)
{
    return shape.steps_per_round - 1 + run_reserve_slots(config, shape);
}

/* Rounds that a ring has room for with delivery.slots "auto": with several readers all that are in
 * flight, since what a reader sends differs from step to step, and rounds in flight even it out. */
static uint32_t rounds_in_ring(const struct run_shape *run, struct round_shape shape)
{
    return run->reader_count > 1 ? shape.in_flight : 2;
}

static void lay_out(const struct dataset *dataset, const struct run_setup *setup,
                    struct ring_layout *layout)
{
    assert(dataset->field_count <= RING_MAX_FIELDS);
    layout->field_count = (uint32_t)dataset->field_count; /* and those of a transform, below */
    for (size_t f = 0; f < dataset->field_count; f++)
        layout->fields[f] = slot_field(dataset, &dataset->fields[f], &setup->plan);
    phases_lay_out(dataset, layout);
    shares_lay_out(&setup->shares, layout);
}

void run_setup_lay_out(const struct run_setup *setup, const struct dataset *dataset,
                       struct ring_layout *ret_layout)
{
    *ret_layout = (struct ring_layout){.slot_count = setup->layout.slot_count,
                                       .spare_slots = setup->layout.spare_slots,
                                       .batch_size = setup->plan.batch};
    lay_out(dataset, setup, ret_layout);
}

/* The layout of the class of readers whose slots are largest. */
static enum status settle_largest(const struct need_classes *classes, struct ring_layout *layout,
                                  struct error *err)
{
    struct ring_layout largest = {0};
    enum status status = STATUS_OK;
    for (uint32_t c = 0; status == STATUS_OK && c < classes->count; c++) {
        struct ring_layout own = *layout;
        needs_lay_out(&classes->needs[c], &own);
        status = ring_layout_settle(&own, err);
        if (status == STATUS_OK && own.total_bytes > largest.total_bytes)
            largest = own;
    }
    *layout = largest;
    return status;
}

enum status setup_settle_layout(const struct config *config, const struct dataset *dataset,
                                const struct run_setup *setup, const struct need_classes *classes,
                                const struct run_shape *run, struct round_shape shape,
                                struct ring_layout *ret_layout, struct error *err)
{
    const struct plan *plan = &setup->plan;
    uint32_t spare = spare_slots(config, shape);
    uint32_t most = RING_MAX_SLOTS - (uint32_t)min_u64(spare, RING_MAX_SLOTS);
    uint32_t wanted = (uint32_t)min_u64(rounds_in_ring(run, shape) * shape.steps_per_round, most);
    uint32_t least = max_u32(LEAST_AUTO_SLOTS, 2 * shape.steps_per_round);
    uint32_t slots = config->slots ? (uint32_t)config->slots : max_u32(least, wanted);
    struct ring_layout layout = {
        .slot_count = slots + spare,
        .spare_slots = spare,
        .batch_size = plan->batch,
    };
    lay_out(dataset, setup, &layout);
    enum status status = settle_largest(classes, &layout, err);
    if (status == STATUS_OK)
        *ret_layout = layout;
    return status;
}

enum status setup_most_slots(const struct config *config, const struct dataset *dataset,
                             const struct run_shape *shape, const struct run_setup *setup,
                             const struct need_classes *classes, uint32_t *ret_slots,
                             struct error *err)
{
    const struct round_shape small = {
        .steps_per_round = 1, .stripes_per_step = 1, .in_flight = ROUND_MAX_IN_FLIGHT};
    struct ring_layout layout;
    bool alone = shape->reader_count == 1, one_node = shape->readers_on_node == shape->reader_count;
    uint64_t given = config->slots ? config->slots : 2 * config->steps_per_round;
    if (given == 0 && one_node && !alone && !setup->plan.locality)
        given = LEAST_AUTO_SLOTS;
    *ret_slots = (uint32_t)given;
    if (given > 0 && (!alone || config->steps_per_round > 0))
        return STATUS_OK;
    enum status status =
        setup_settle_layout(config, dataset, setup, classes, shape, small, &layout, err);
    if (status != STATUS_OK)
        return status;
    uint64_t step_slots = rounds_in_ring(shape, small) + 1 + run_reserve_slots(config, small);
    uint64_t most = alone      ? AUTO_ROUNDS_ALONE * round_alone_bytes(shape->worker_count)
                    : one_node ? AUTO_NODE_RINGS_BYTES
                               : AUTO_RINGS_BYTES;
    uint64_t rings = min_u64(most, run_memory_limit(config, shape) / AUTO_RINGS_PART);
    uint64_t steps =
        rings / mul_sat(mul_sat(layout.slot_stride, step_slots), max_u32(shape->ring_count, 1));
    uint64_t least = one_node ? 2 : LEAST_AUTO_SLOTS;
    uint64_t slots = min_u64(max_u64(2 * steps, least), MOST_AUTO_SLOTS);
    *ret_slots = (uint32_t)(given > 0 ? min_u64(given, slots) : slots);
    return STATUS_OK;
}
