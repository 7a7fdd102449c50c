/* See round_places.h. */
#include "rounds/round_places.h"

_Static_assert((int)PLACES_BLOCK <= (int)ROUND_RUN_MOST, "a run has room for what is looked up");

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
                      (struct place_location){items[i].window_row, items[i].offset});
    return true;
}

void round_run_look_up(const struct round *round, uint64_t position, uint64_t end,
                       struct round_run *ret_run)
{
    struct place places[PLACES_BLOCK];
    ret_run->valid = position < round->reach.epoch.plan.sample_count;
    ret_run->count = 0;
    if (!round->reach.epoch.plan.mix) {
        uint64_t unpadded;
        const struct window *window =
            places_window(round->windows, &round->reach, position, &unpadded);
        if (add_listed(round, ret_run, window, unpadded,
                       places_in(window, unpadded, end - position)))
            return;
    }
    size_t count = places_look_up(round->windows, &round->reach, position, end - position, places);
    for (size_t i = 0; i < count; i++)
        round_run_add(round, ret_run, places[i].window, places[i].location);
}
