/* See window_match.h. */
#include "plan/window_match.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "plan/locality.h"
#include "plan/round.h"

#include <stdlib.h>

enum { BLOCK = 256 };

struct window_match {
    struct matcher *matcher;
    struct locality_near near;
    uint64_t first; /* position of the epoch that `destinations` begin with: a step's first */
    uint32_t *destinations;
};

/* The window's positions, and the rest of the steps at both of its ends. */
static uint64_t capacity(const struct plan *plan)
{
    return add_sat(round_window_capacity(plan), mul_sat(2, plan->global_batch));
}

uint64_t window_match_bytes(const struct plan *plan)
{
    return add_sat(sizeof(struct window_match) + matcher_bytes(plan),
                   mul_sat(capacity(plan), sizeof(uint32_t)));
}

struct window_match *window_match_new(const struct plan *plan)
{
    struct window_match *match = calloc(1, sizeof *match);
    if (!match)
        return NULL;
    match->near = locality_near(plan);
    match->matcher = matcher_new(plan);
    match->destinations = calloc(capacity(plan), sizeof *match->destinations);
    if (!match->matcher || !match->destinations) {
        window_match_free(match);
        return NULL;
    }
    memory_touch(match->destinations, capacity(plan) * sizeof *match->destinations);
    return match;
}

void window_match_free(struct window_match *match)
{
    if (!match)
        return;
    matcher_free(match->matcher);
    free(match->destinations);
    free(match);
}

/* The trainers that the rows of `count` positions of a window are near, BLOCK positions at most. */
static void look_up(const struct window_match *match, const struct plan_epoch *epoch,
                    const struct plan_window *window, uint64_t position, size_t count,
                    uint32_t *ret_trainers)
{
    struct plan_location locations[BLOCK];
    uint64_t rows[BLOCK];
    plan_locations_at(window, position, count, locations);
    for (size_t i = 0; i < count; i++)
        rows[i] = window->first_row_position + locations[i].window_row;
    plan_rows_at(epoch, rows, count);
    for (size_t i = 0; i < count; i++)
        ret_trainers[i] = locality_trainer(match->near, rows[i]);
}

static bool has(const struct plan_window *window, uint64_t position)
{
    return position >= window->first_position &&
           position - window->first_position < window->sample_count;
}

/* All positions of a step. `window` is the one looked at last, and is moved on. */
static void look_up_step(const struct window_match *match, const struct plan_epoch *epoch,
                         uint64_t step, struct plan_window *window)
{
    const struct plan *plan = &epoch->plan;
    uint64_t position = plan_step_first(plan, step), end = plan_step_first(plan, step + 1);
    while (position < end) {
        uint64_t unpadded = plan_unpad(epoch, position);
        if (!has(window, unpadded))
            plan_window_at(window, epoch, plan_window_of(epoch, unpadded));
        uint64_t left = window->first_position + window->sample_count - unpadded;
        size_t count = min_u64(min_u64(left, end - position), BLOCK);
        look_up(match, epoch, window, unpadded, count,
                match->destinations + (position - match->first));
        position += count;
    }
}

void window_match_find(struct window_match *match, const struct plan_epoch *epoch,
                       const struct plan_window *window)
{
    const struct plan *plan = &epoch->plan;
    struct plan_window at = *window;
    bool last = window->index + 1 == plan->window_count;
    uint64_t end =
        last ? plan->position_count
             : min_u64(window->first_position + window->sample_count, plan->position_count);
    if (window->first_position >= end)
        return;
    uint64_t step = plan_step_of(plan, window->first_position);
    match->first = plan_step_first(plan, step);
    for (; step < plan->steps_per_epoch && plan_step_first(plan, step) < end; step++) {
        look_up_step(match, epoch, step, &at);
        matcher_match(match->matcher, epoch->epoch, step,
                      match->destinations + (plan_step_first(plan, step) - match->first));
    }
}

uint64_t window_match_destination(const struct window_match *match, const struct plan *plan,
                                  uint64_t position)
{
    return plan_step_first(plan, plan_step_of(plan, position)) +
           match->destinations[position - match->first];
}
