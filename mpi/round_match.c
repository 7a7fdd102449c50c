/* See round_match.h. */
#include "round_match.h"

#include "base/divide.h"
#include "base/number.h"

/* Positions that a worker takes at a time; and that are looked up in one call. */
enum { PORTION = 4096, BLOCK = 256 };

/* A session begins with the first stripe of a step, and a stripe is planned when those before it
 * are. */
void round_match_begin(struct round *round)
{
    const struct plan *plan = &round->job->setup.plan;
    const struct plan_round *reach = &round->reach.round;
    struct round_matching *matching = round->matching;
    uint64_t last_step = reach->end_step - 1;
    matching->known = reach->stripe > 0;
    if (matching->known)
        return;
    matching->first = reach->first_step * plan->global_batch;
    matching->count =
        last_step * plan->global_batch + plan_step_samples(plan, last_step) - matching->first;
    atomic_store(&matching->taken, 0);
    atomic_store(&matching->looked_up, 0);
}

uint32_t round_match_workers(const struct round *round, uint32_t workers)
{
    const struct round_matching *matching = round->matching;
    uint64_t portions = (matching->count + PORTION - 1) / PORTION;
    return matching->known ? 1 : (uint32_t)min_u64(portions, workers);
}

const struct window *round_window_at(const struct round *round, uint64_t position,
                                     uint64_t *ret_unpadded)
{
    const struct plan_epoch *epoch = &round->reach.epoch;
    *ret_unpadded = plan_unpad(epoch, position);
    return windows_at(round->windows, windows_serial_of(round->windows, epoch, *ret_unpadded));
}

/* Looks up positions from `position` on, `most` at most, that are in one window. Returns how many.
 */
static uint64_t look_up_block(struct round *round, struct locality_near near, uint64_t position,
                              uint64_t most)
{
    uint64_t unpadded;
    const struct window *window = round_window_at(round, position, &unpadded);
    uint64_t window_left = window->plan.first_position + window->plan.sample_count - unpadded;
    uint64_t count = min_u64(min_u64(most, window_left), BLOCK);
    struct plan_location found[BLOCK];
    plan_locations_at(&window->plan, unpadded, count, found);
    uint64_t at = position - round->matching->first;
    struct round_location *locations = round->matching->locations + at;
    uint32_t *destinations = round->matching->destinations + at;
    for (uint64_t i = 0; i < count; i++) {
        locations[i] =
            (struct round_location){(uint32_t)found[i].window_row, (uint32_t)found[i].offset};
        destinations[i] = locality_trainer(near, window->rows[found[i].window_row]);
    }
    return count;
}

bool round_match_look_up(struct round *round)
{
    struct round_matching *matching = round->matching;
    struct locality_near near = locality_near(&round->job->setup.plan);
    if (matching->known)
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
    const struct plan *plan = &round->job->setup.plan;
    const struct plan_round *reach = &round->reach.round;
    struct round_matching *matching = round->matching;
    if (matching->known)
        return;
    for (uint64_t step = reach->first_step; step < reach->end_step; step++)
        matcher_match(matching->matcher, round->reach.epoch.epoch, step,
                      matching->destinations + (step * plan->global_batch - matching->first));
}
