/* Where the samples of a round's positions are. Sender and receiver look positions up alike, so
 * that no message says which samples it holds. Any thread, once the round's windows are found. */
#ifndef PENSTOCK_MPI_WINDOWS_PLACES_H
#define PENSTOCK_MPI_WINDOWS_PLACES_H

#include "windows/windows.h"

struct place_location {
    uint32_t window_row, offset;
};

/* Where the sample of a position is. */
struct place {
    struct window *window;
    struct place_location location;
};

enum { PLACES_BLOCK = 256 };

/* The places of positions of the epoch from `position` on, which is a sample's, at most `most` and
 * PLACES_BLOCK: of as many as are in one step, and without a mix in one window. Returns how many.
 */
size_t places_look_up(struct windows *windows, const struct round_reach *reach, uint64_t position,
                      uint64_t most, struct place *ret_places);

/* How many positions from `position` on are behind the samples of its step: plan.h, of mixes with
 * cuts. */
uint64_t places_unused(const struct round_reach *reach, uint64_t position);

/* The same from *position on, before `end`, but moves *position over what is behind the samples of
 * a step. 0: at the end. */
size_t places_look_up_used(struct windows *windows, const struct round_reach *reach,
                           uint64_t *position, uint64_t end, struct place *ret_places);

/* Without a mix: the window that holds a position, and where in the epoch the position is with
 * padding resolved. */
struct window *places_window(struct windows *windows, const struct round_reach *reach,
                             uint64_t position, uint64_t *ret_unpadded);

/* How many positions from there on are in the window, at most `most` and PLACES_BLOCK. */
size_t places_in(const struct window *window, uint64_t unpadded, uint64_t most);

#endif
