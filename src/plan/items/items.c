/* See round.h: the samples of a window that one reader sends, in the order they are due.
 *
 * A reader that has a large part of the window looks up all positions in order, and takes those in
 * its rows. Other readers walk their rows and look up each sample's position, so that the work of
 * many readers together is one look-up a sample. Then the items are sorted by radix within the
 * caller's array: an MSD radix sort that needs no second array (McIlroy, Bostic and McIlroy,
 * "Engineering radix sort", Computing Systems 6, 1993). It takes time linear in the items and 4 KiB
 * of stack a level, and allocates nothing.
 *
 * The sort key is dense, so that few bits of it need sorting: (round, trainer, offset in the slice)
 * as one number counted from the window's first round. It stands in item.round during the sort.
 *
 * Of a mix, the items are sorted by position in their source's epoch first, which is the order of
 * draws, and so of steps. Then the draws of each step are placed in it, and sorted again.
 */
#include "plan/assign/assign.h"
#include "plan/items/items_internal.h"
#include "plan/rounds/locality.h"
#include "plan/rounds/round.h"

#include "base/divide.h"
#include "base/number.h"
#include "base/size.h"

#include <assert.h>

/* Without stripes, or where the locality matters, rounds follow one another in order of position.
 */
static uint64_t key_of(const struct plan *plan, struct round_shape shape, uint64_t first_position,
                       uint64_t position)
{
    if (shape.stripes_per_step == 1 || locality_matters(plan) || plan->mix)
        return position - first_position;
    struct plan_recipient recipient = plan_recipient_of(plan, position);
    uint64_t index = round_of(plan, shape, recipient);
    struct plan_round round = round_at(plan, shape, index);
    struct round_slice slice = round_slice_at(plan, &round, recipient.step, recipient.trainer);
    uint64_t first_round = plan_step_of(plan, first_position) * shape.stripes_per_step;
    uint64_t slice_records = round_max_trainer_records(plan, shape);
    return ((index - first_round) * plan->trainer_count + recipient.trainer) * slice_records +
           (recipient.offset - slice.first);
}

/* Samples on their way to becoming items: their positions are looked up many at a time. */
enum { BLOCK = 256 };
struct collector {
    const struct plan *plan;
    const struct plan_window *window;
    struct round_shape shape;
    const uint16_t *owners; /* of the window's rows */
    uint32_t reader;
    struct round_rows rows; /* whose samples are wanted */
    uint64_t period;        /* padding repeats a position so many further; 0: never */
    struct round_item *items;
    uint64_t item_count;
    size_t block_count;
    struct plan_location block[BLOCK];
};

static bool has_row(const struct collector *c, uint64_t window_row)
{
    return window_row - c->rows.first < c->rows.end - c->rows.first &&
           assign_reader(c->owners[window_row]) == c->reader;
}

/* Adds a sample at its position and wherever padding repeats it. */
static void add_item(struct collector *c, struct plan_location location, uint64_t position)
{
    for (; position < c->plan->position_count; position += c->period) {
        c->items[c->item_count++] = (struct round_item){
            .position = position,
            .round = key_of(c->plan, c->shape, c->window->first_position, position),
            .window_row = (uint32_t)location.window_row,
            .offset = (uint32_t)location.offset,
        };
        if (c->period == 0)
            break;
    }
}

static void add_block(struct collector *c)
{
    uint64_t positions[BLOCK];
    plan_positions_of(c->window, c->block, c->block_count, positions);
    if (c->window->weighted)
        plan_offsets_settle(c->window, c->block, c->block_count);
    for (size_t i = 0; i < c->block_count; i++)
        add_item(c, c->block[i], positions[i]);
    c->block_count = 0;
}

static void collect(struct collector *c, struct plan_location location)
{
    if (c->block_count == BLOCK)
        add_block(c);
    c->block[c->block_count++] = location;
}

/* The samples of the reader's rows, row by row, each with its position; then sorted. */
static void collect_rows(struct collector *c)
{
    for (uint64_t window_row = c->rows.first; window_row < c->rows.end; window_row++) {
        if (!has_row(c, window_row))
            continue;
        uint64_t length = plan_window_row_samples(c->window, window_row);
        for (uint64_t offset = 0; offset < length; offset++)
            collect(c, (struct plan_location){window_row, offset});
    }
    add_block(c);
    items_sort(c->items, c->item_count);
}

/* Positions [first, end), whose samples lie at those from `unpadded` on: those in the reader's
 * rows. */
static void collect_positions(struct collector *c, uint64_t first, uint64_t end, uint64_t unpadded)
{
    for (uint64_t done = first; done < end;) {
        size_t count = min_u64(BLOCK, end - done);
        plan_locations_at(c->window, unpadded + (done - first), count, c->block);
        for (size_t i = 0; i < count; i++)
            if (has_row(c, c->block[i].window_row))
                c->items[c->item_count++] = (struct round_item){
                    .position = done + i,
                    .window_row = (uint32_t)c->block[i].window_row,
                    .offset = (uint32_t)c->block[i].offset,
                };
        done += count;
    }
}

/* All of the window's positions one after another: nothing has to be sorted. */
static void collect_in_order(struct collector *c)
{
    uint64_t first = c->window->first_position, end = first + c->window->sample_count;
    collect_positions(c, first, min_u64(end, c->plan->position_count), first);
    for (uint64_t at = end; c->period > 0 && at < c->plan->position_count; at += c->period)
        collect_positions(c, at, min_u64(at + c->period, c->plan->position_count), first);
}

/* Looking up one's own samples and sorting them takes so many times longer, a sample, than looking
 * up a position; so readers of a large part of the window look up all of it. */
enum { SORTED_COST = 3 };

static bool has_many(const struct collector *c)
{
    uint64_t own = 0;
    for (uint64_t window_row = c->rows.first; window_row < c->rows.end; window_row++)
        own += has_row(c, window_row);
    return SORTED_COST * own >= c->window->row_count;
}

uint64_t items_round(const struct plan *plan, struct round_shape shape, uint64_t position)
{
    if (locality_matters(plan))
        return round_of_position(plan, shape, position);
    return round_of(plan, shape, plan_recipient_of(plan, position));
}

/* Sets the rounds, instead of the sort keys if there are any, and makes positions absolute. */
static void number_rounds(const struct plan_epoch *epoch, struct round_shape shape,
                          struct round_item *items, uint64_t count)
{
    const struct plan *plan = &epoch->plan;
    struct divider batch = divider_of(plan->global_batch);
    struct divider steps = divider_of(shape.steps_per_round);
    uint64_t first_position = round_absolute_position(plan, epoch->epoch, 0);
    uint64_t first_round = round_absolute(plan, shape, epoch->epoch, 0);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t position = items[i].position;
        items[i].position = first_position + position;
        items[i].round = first_round + (shape.stripes_per_step == 1 && !plan->step_begins
                                            ? divide(steps, divide(batch, position))
                                            : items_round(plan, shape, position));
    }
}

uint64_t round_window_items(const struct plan_epoch *epoch, const struct plan_window *window,
                            struct round_shape shape, const uint16_t *owners, uint32_t reader,
                            struct round_rows rows, struct round_item *ret_items)
{
    const struct plan *plan = &epoch->plan;
    bool last = window->index + 1 == plan->window_count;
    struct collector c = {.plan = plan,
                          .window = window,
                          .shape = shape,
                          .owners = owners,
                          .reader = reader,
                          .rows = rows,
                          .period = last ? window->sample_count : 0,
                          .items = ret_items};
    bool by_position = shape.stripes_per_step == 1 || locality_matters(plan) || plan->mix;
    if (by_position && has_many(&c))
        collect_in_order(&c);
    else
        collect_rows(&c);
    if (plan->mix)
        return items_of_draws(epoch, shape, ret_items, c.item_count);
    number_rounds(epoch, shape, ret_items, c.item_count);
    return c.item_count;
}

struct round_rows round_rows_from(const struct plan *plan, const struct plan_window *window,
                                  const uint16_t *owners, uint32_t reader, uint64_t first,
                                  uint64_t capacity)
{
    bool last = window->index + 1 == plan->window_count;
    uint64_t padding = last && plan->position_count > plan->sample_count
                           ? plan->position_count - plan->sample_count
                           : 0;
    uint64_t copies = 1 + size_divide_up(padding, window->sample_count), items = 0;
    struct round_rows rows = {first, window->row_count};
    if (first == 0 && capacity >= round_window_capacity(plan))
        return rows;
    for (uint64_t row = first; row < rows.end; row++) {
        if (assign_reader(owners[row]) != reader)
            continue;
        items += copies * plan_window_row_samples(window, row);
        if (items > capacity)
            rows.end = row;
    }
    assert(rows.end > first);
    return rows;
}
