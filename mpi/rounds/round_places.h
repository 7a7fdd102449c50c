/* Where the samples of a round's positions are. Sender and receiver look positions up alike, so
 * that no message says which samples it holds. */
#ifndef PENSTOCK_MPI_ROUNDS_ROUND_PLACES_H
#define PENSTOCK_MPI_ROUNDS_ROUND_PLACES_H

#include "rounds/round_dress.h"

/* Where the sample of a position is. */
struct round_place {
    const struct window *window;
    struct round_location location;
};

enum { PLACES_BLOCK = 256 };

/* The places of positions of the epoch from `position` on, which is a sample's, at most `most` and
 * PLACES_BLOCK: of as many as are in one step, and without a mix in one window. Returns how many.
 * Any thread. */
size_t round_places(const struct round *round, uint64_t position, uint64_t most,
                    struct round_place *ret_places);

/* The window that holds a position of the round, without a mix. Any thread. */
const struct window *round_window_at(const struct round *round, uint64_t position);

/* Adds a sample to a run. */
static inline void round_run_add(const struct round *round, struct round_run *run,
                                 const struct window *window, struct round_location location)
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
 * round_places(), and all padding or none. */
void round_run_look_up(const struct round *round, uint64_t position, uint64_t end,
                       struct round_run *ret_run);

#endif
