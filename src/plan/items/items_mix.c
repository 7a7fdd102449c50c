/* See items_internal.h: the items of a window of a mix's source. */
#include "plan/items/items_internal.h"
#include "plan/order/mix.h"
#include "plan/rounds/locality.h"

#include "base/number.h"

#include <assert.h>

struct draws_walk {
    const struct plan *outer;
    struct round_shape shape;
    bool by_position;    /* rounds follow one another in order of position */
    uint64_t first_draw; /* of the source's epoch */
    struct round_item *items;
    uint64_t taken, placed;
};

/* Places the next items, whose draws are of the step, at most BLOCK of them. */
static void take_block(struct draws_walk *p, const struct plan_source_step *step, uint64_t end)
{
    enum { BLOCK = 256 };
    uint64_t offsets[BLOCK];
    uint64_t count = min_u64(end - p->taken, BLOCK);
    const struct round_item *items = p->items + p->taken;
    for (uint64_t i = 0; i < count; i++)
        offsets[i] = p->first_draw + items[i].position;
    plan_source_step_offsets(step, offsets, count);
    for (uint64_t i = 0; i < count; i++) {
        struct round_item item = items[i];
        item.position = step->first_position + offsets[i];
        item.round = offsets[i];
        p->items[p->placed++] = item;
    }
    p->taken += count;
}

static void take_step(struct draws_walk *p, const struct plan_source_step *step, uint64_t count)
{
    uint64_t first = p->placed, end = p->taken;
    uint64_t first_round = round_absolute(p->outer, p->shape, step->epoch, 0);
    while (end < count && p->first_draw + p->items[end].position < step->end_draw)
        end++;
    while (p->taken < end)
        take_block(p, step, end);
    assert(p->outer->cuts.items == 0 || p->shape.stripes_per_step == 1);
    if (p->by_position && step->permuted)
        items_sort(p->items + first, p->placed - first);
    for (uint64_t i = first; i < p->placed; i++) {
        uint64_t position = p->items[i].position - step->first_position;
        position += step->step * p->outer->global_batch;
        p->items[i].round = first_round + (p->shape.stripes_per_step == 1
                                               ? step->step / p->shape.steps_per_round
                                               : items_round(p->outer, p->shape, position));
    }
}

/* Of rounds that are stripes, one after another, each in order of position: the next so many items
 * of the same step or steps. */
static void sort_stripes(const struct draws_walk *p)
{
    const struct plan *outer = p->outer;
    if (p->placed == 0)
        return;
    uint64_t first_round = p->items[0].round - p->items[0].round % p->shape.stripes_per_step;
    for (uint64_t i = 0; i < p->placed; i++) {
        struct round_item *item = &p->items[i];
        uint64_t offset = item->position % outer->position_count % outer->global_batch;
        item->round = (item->round - first_round) * outer->global_batch + offset;
    }
    items_sort(p->items, p->placed);
    for (uint64_t i = 0; i < p->placed; i++)
        p->items[i].round = first_round + p->items[i].round / outer->global_batch;
}

uint64_t items_of_draws(const struct plan_epoch *epoch, struct round_shape shape,
                        struct round_item *items, uint64_t count)
{
    const struct plan *plan = &epoch->plan;
    struct draws_walk p = {.outer = &plan->mix->outer,
                           .shape = shape,
                           .by_position = shape.stripes_per_step == 1 || locality_matters(plan),
                           .first_draw = epoch->epoch * plan->sample_count,
                           .items = items};
    while (p.taken < count) {
        struct plan_source_step step;
        struct plan_draw next = {plan->source, p.first_draw + items[p.taken].position};
        if (!plan_source_step_at(plan, next, &step) || step.absolute_step >= plan->mix->end_step)
            break;
        take_step(&p, &step, count);
    }
    if (!p.by_position)
        sort_stripes(&p);
    return p.placed;
}
