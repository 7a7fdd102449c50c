/* Runs of a round's positions: which samples they are, and whose. */
#ifndef PENSTOCK_MPI_ROUNDS_ROUND_PLACES_H
#define PENSTOCK_MPI_ROUNDS_ROUND_PLACES_H

#include "rounds/round_dress.h"
#include "windows/places.h"

/* Adds a sample to a run. */
static inline void round_run_add(const struct round *round, struct round_run *run,
                                 const struct window *window, struct place_location location)
{
    const struct plan *plan = &window->epoch.plan;
    uint64_t frame = plan_frame_at(plan, window->rows[location.window_row], location.offset);
    run->frames[run->count] = frame;
    run->key_indices[run->count] = plan_key_index(plan, location.offset, frame);
    if (round->reach.epoch.plan.mix)
        run->windows[run->count] = window;
    run->owners[run->count++] = window->owners[location.window_row];
}

/* Sets the samples of a run: those at positions from `position` on, before `end`, as many as
 * places_look_up(), and all padding or none. */
void round_run_look_up(const struct round *round, uint64_t position, uint64_t end,
                       struct round_run *ret_run);

#endif
