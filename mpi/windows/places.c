/* See places.h. */
#include "windows/places.h"

#include "base/number.h"

struct window *places_window(struct windows *windows, const struct round_reach *reach,
                             uint64_t position, uint64_t *ret_unpadded)
{
    const struct plan_epoch *epoch = &reach->epoch;
    *ret_unpadded = plan_unpad(epoch, position);
    return windows_of_draw(windows, reach, 0,
                           epoch->epoch * epoch->plan.sample_count + *ret_unpadded);
}

size_t places_in(const struct window *window, uint64_t unpadded, uint64_t most)
{
    uint64_t left = window->plan.first_position + window->plan.sample_count - unpadded;
    return min_u64(min_u64(left, most), PLACES_BLOCK);
}

static struct place_location location_of(struct plan_location location)
{
    return (struct place_location){(uint32_t)location.window_row, (uint32_t)location.offset};
}

static size_t places_in_window(struct windows *windows, const struct round_reach *reach,
                               uint64_t position, uint64_t most, struct place *ret_places)
{
    uint64_t unpadded;
    struct window *window = places_window(windows, reach, position, &unpadded);
    size_t count = places_in(window, unpadded, most);
    struct plan_location found[PLACES_BLOCK];
    plan_locations_at(&window->plan, unpadded, count, found);
    for (size_t i = 0; i < count; i++)
        ret_places[i] = (struct place){window, location_of(found[i])};
    return count;
}

/* Looks up positions in `windows`, those of one window together. */
static void locate_by_window(struct window *const *windows, const uint64_t *positions, size_t count,
                             struct place *ret_places)
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
            ret_places[members[k]] = (struct place){windows[first], location_of(found[k])};
            is_done[members[k]] = true;
        }
    }
}

/* In a mix, positions that follow one another are in windows of all sources. */
static size_t places_in_step(struct windows *windows, const struct round_reach *reach,
                             uint64_t position, uint64_t most, struct place *ret_places)
{
    const struct plan *plan = &reach->epoch.plan;
    struct plan_draw draws[PLACES_BLOCK];
    struct window *found[PLACES_BLOCK];
    uint64_t positions[PLACES_BLOCK];
    uint64_t step = plan_step_of(plan, position);
    uint64_t end = plan_step_first(plan, step) + plan_step_samples(plan, step);
    size_t count = min_u64(min_u64(end - position, most), PLACES_BLOCK);
    plan_draws_at(plan, reach->epoch.epoch, position, count, draws);
    for (size_t i = 0; i < count; i++) {
        found[i] = windows_of_draw(windows, reach, draws[i].source, draws[i].number);
        positions[i] = found[i]->plan.first_position + (draws[i].number - found[i]->first_draw);
    }
    locate_by_window(found, positions, count, ret_places);
    return count;
}

size_t places_look_up(struct windows *windows, const struct round_reach *reach, uint64_t position,
                      uint64_t most, struct place *ret_places)
{
    return reach->epoch.plan.mix ? places_in_step(windows, reach, position, most, ret_places)
                                 : places_in_window(windows, reach, position, most, ret_places);
}

uint64_t places_unused(const struct round_reach *reach, uint64_t position)
{
    const struct plan *plan = &reach->epoch.plan;
    if (!plan->mix || plan->cuts.items == 0)
        return 0;
    uint64_t step = plan_step_of(plan, position), first = plan_step_first(plan, step);
    bool is_used = position - first < plan_step_samples(plan, step);
    return is_used ? 0 : first + plan->global_batch - position;
}

size_t places_look_up_used(struct windows *windows, const struct round_reach *reach,
                           uint64_t *position, uint64_t end, struct place *ret_places)
{
    if (*position < end)
        *position = min_u64(*position + places_unused(reach, *position), end);
    return *position < end ? places_look_up(windows, reach, *position, end - *position, ret_places)
                           : 0;
}
