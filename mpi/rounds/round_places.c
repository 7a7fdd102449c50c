/* See round_places.h. */
#include "rounds/round_places.h"

#include "base/number.h"

_Static_assert((int)PLACES_BLOCK <= (int)ROUND_RUN_MOST, "a run has room for what is looked up");

/* The window that holds a position, and where in the epoch the position is with padding resolved.
 */
static const struct window *window_at(const struct round *round, uint64_t position,
                                      uint64_t *ret_unpadded)
{
    const struct plan_epoch *epoch = &round->reach.epoch;
    *ret_unpadded = plan_unpad(epoch, position);
    return windows_of_draw(round->windows, &round->reach, 0,
                           epoch->epoch * epoch->plan.sample_count + *ret_unpadded);
}

const struct window *round_window_at(const struct round *round, uint64_t position)
{
    uint64_t unpadded;
    return window_at(round, position, &unpadded);
}

/* How many positions from `unpadded` on are in the window. */
static size_t count_in(const struct window *window, uint64_t unpadded, uint64_t most)
{
    uint64_t left = window->plan.first_position + window->plan.sample_count - unpadded;
    return min_u64(min_u64(left, most), PLACES_BLOCK);
}

static struct round_location location_of(struct plan_location location)
{
    return (struct round_location){(uint32_t)location.window_row, (uint32_t)location.offset};
}

static size_t places_in_window(const struct round *round, uint64_t position, uint64_t most,
                               struct round_place *ret_places)
{
    uint64_t unpadded;
    const struct window *window = window_at(round, position, &unpadded);
    size_t count = count_in(window, unpadded, most);
    struct plan_location found[PLACES_BLOCK];
    plan_locations_at(&window->plan, unpadded, count, found);
    for (size_t i = 0; i < count; i++)
        ret_places[i] = (struct round_place){window, location_of(found[i])};
    return count;
}

/* Looks up positions in `windows`, those of one window together. */
static void locate_by_window(const struct window *const *windows, const uint64_t *positions,
                             size_t count, struct round_place *ret_places)
{
    uint16_t members[PLACES_BLOCK];
    uint64_t together[PLACES_BLOCK];
    struct plan_location found[PLACES_BLOCK];
    bool is_done[PLACES_BLOCK] = {false};
    for (size_t first = 0; first < count; first++) {
        size_t member_count = 0;
        if (is_done[first])
            continue;
        for (size_t i = first; i < count; i++)
            if (windows[i] == windows[first]) {
                members[member_count] = (uint16_t)i;
                together[member_count++] = positions[i];
            }
        plan_locations_of(&windows[first]->plan, together, member_count, found);
        for (size_t k = 0; k < member_count; k++) {
            ret_places[members[k]] = (struct round_place){windows[first], location_of(found[k])};
            is_done[members[k]] = true;
        }
    }
}

/* In a mix, positions that follow one another are in windows of all sources. */
static size_t places_in_step(const struct round *round, uint64_t position, uint64_t most,
                             struct round_place *ret_places)
{
    const struct plan *plan = &round->reach.epoch.plan;
    struct plan_draw draws[PLACES_BLOCK];
    const struct window *windows[PLACES_BLOCK];
    uint64_t positions[PLACES_BLOCK];
    uint64_t step = plan_step_of(plan, position);
    uint64_t end = plan_step_first(plan, step) + plan_step_samples(plan, step);
    size_t count = min_u64(min_u64(end - position, most), PLACES_BLOCK);
    plan_draws_at(plan, round->reach.epoch.epoch, position, count, draws);
    for (size_t i = 0; i < count; i++) {
        windows[i] =
            windows_of_draw(round->windows, &round->reach, draws[i].source, draws[i].number);
        positions[i] = windows[i]->plan.first_position + (draws[i].number - windows[i]->first_draw);
    }
    locate_by_window(windows, positions, count, ret_places);
    return count;
}

size_t round_places(const struct round *round, uint64_t position, uint64_t most,
                    struct round_place *ret_places)
{
    return round->reach.epoch.plan.mix ? places_in_step(round, position, most, ret_places)
                                       : places_in_window(round, position, most, ret_places);
}

/* Adds `count` samples of a window from the position `unpadded` on, if this reader has them all:
 * then they are in its list, where the window's planning has looked them up. */
static bool add_listed(const struct round *round, struct round_run *run,
                       const struct window *window, uint64_t unpadded, uint64_t count)
{
    uint64_t first = unpadded - window->plan.first_position;
    if (first + count > window->item_count)
        return false;
    const struct round_item *items = window->items + first;
    uint64_t position = round->reach.epoch_begin + unpadded;
    for (uint64_t i = 0; i < count; i++)
        if (items[i].position != position + i)
            return false;
    for (uint64_t i = 0; i < count; i++)
        round_run_add(round, run, window,
                      (struct round_location){items[i].window_row, items[i].offset});
    return true;
}

void round_run_look_up(const struct round *round, uint64_t position, uint64_t end,
                       struct round_run *ret_run)
{
    struct round_place places[PLACES_BLOCK];
    ret_run->valid = position < round->reach.epoch.plan.sample_count;
    ret_run->count = 0;
    if (!round->reach.epoch.plan.mix) {
        uint64_t unpadded;
        const struct window *window = window_at(round, position, &unpadded);
        if (add_listed(round, ret_run, window, unpadded,
                       count_in(window, unpadded, end - position)))
            return;
    }
    size_t count = round_places(round, position, end - position, places);
    for (size_t i = 0; i < count; i++)
        round_run_add(round, ret_run, places[i].window, places[i].location);
}
