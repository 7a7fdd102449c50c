/* See round_match.h. */
#include "rounds/round_match.h"

#include "windows/places.h"

#include "base/number.h"

enum { PORTION = 4096 }; /* positions that a worker takes at a time */

/* The whole steps of which positions are listed. */
static struct round_range steps_of(const struct round *round, uint64_t *ret_first_step,
                                   uint64_t *ret_end_step)
{
    const struct plan *plan = &round->reach.epoch.plan;
    uint64_t last = max_u64(round->range.end, round->range.first + 1) - 1;
    *ret_first_step = plan_step_of(plan, round->range.first);
    *ret_end_step = plan_step_of(plan, last) + 1;
    return (struct round_range){plan_step_first(plan, *ret_first_step),
                                plan_step_first(plan, *ret_end_step)};
}

/* The destinations of a step are those of all of its stripes, and of a round those of its passes,
 * unless another round was matched in between. */
void round_match_begin(struct round *round)
{
    struct round_matching *matching = round->matching;
    uint64_t first_step, end_step;
    struct round_range wanted = steps_of(round, &first_step, &end_step);
    round->is_matched = matching->is_whole && matching->epoch == round->reach.epoch.epoch &&
                        matching->first <= wanted.first &&
                        wanted.end <= matching->first + matching->count;
    if (round->is_matched)
        return;
    matching->is_whole = false;
    matching->epoch = round->reach.epoch.epoch;
    matching->first = wanted.first;
    matching->count = wanted.end - wanted.first;
    atomic_store(&matching->taken, 0);
    atomic_store(&matching->looked_up, 0);
}

uint32_t round_match_workers(const struct round *round, uint32_t workers)
{
    const struct round_matching *matching = round->matching;
    uint64_t portions = (matching->count + PORTION - 1) / PORTION;
    return round->is_matched ? 1 : (uint32_t)min_u64(portions, workers);
}

/* Looks up positions from `position` on, `most` at most. Returns how many. */
static uint64_t look_up_block(struct round *round, struct locality_near near, uint64_t position,
                              uint64_t most)
{
    struct round_matching *matching = round->matching;
    struct place places[PLACES_BLOCK];
    uint64_t unused = places_unused(&round->reach, position);
    if (unused > 0)
        return min_u64(unused, most);
    uint64_t at = position - matching->first;
    uint64_t count = places_look_up(round->windows, &round->reach, position, most, places);
    for (uint64_t i = 0; i < count; i++) {
        const struct window *window = places[i].window;
        matching->locations[at + i] = places[i].location;
        if (matching->windows)
            matching->windows[at + i] = window;
        matching->destinations[at + i] =
            locality_trainer(near, window->rows[places[i].location.window_row]);
    }
    return count;
}

bool round_match_look_up(struct round *round)
{
    struct round_matching *matching = round->matching;
    struct locality_near near = locality_near(&round->job->setup.plan);
    if (round->is_matched)
        return true;
    for (;;) {
        uint64_t begin = atomic_fetch_add(&matching->taken, PORTION);
        if (begin >= matching->count)
            return false;
        uint64_t end = min_u64(begin + PORTION, matching->count);
        for (uint64_t at = begin; at < end;)
            at += look_up_block(round, near, matching->first + at, end - at);
        if (atomic_fetch_add(&matching->looked_up, end - begin) + end - begin == matching->count)
            return true;
    }
}

void round_match_finish(struct round *round)
{
    const struct plan *plan = &round->reach.epoch.plan;
    struct round_matching *matching = round->matching;
    uint64_t first_step, end_step;
    if (round->is_matched)
        return;
    (void)steps_of(round, &first_step, &end_step);
    matcher_set_epoch(matching->matcher, plan);
    for (uint64_t step = first_step; step < end_step; step++)
        matcher_match(matching->matcher, round->reach.epoch.epoch, step,
                      matching->destinations + (plan_step_first(plan, step) - matching->first));
    matching->is_whole = true;
}
