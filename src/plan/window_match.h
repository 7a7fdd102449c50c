/* Who gets the samples of a window with order.placement local, before any round is planned.
 *
 * Rows that every reader loads for itself (ASSIGN_EACH) have to be read ahead. So the readers must
 * know early whose trainers get which sample of such a row. A window is matched alone: of a step
 * that lies in other windows, too, their samples are looked up here as well. Destinations are those
 * that rounds find later (locality.h). Not of a mix, and not with cuts.
 *
 * Plain functions; one thread at a time.
 */
#ifndef PENSTOCK_PLAN_WINDOW_MATCH_H
#define PENSTOCK_PLAN_WINDOW_MATCH_H

#include "plan/plan.h"

#include <stdbool.h>
#include <stddef.h>

/* Destinations of one window after another. */
struct window_match;

/* Whether windows of the plan can be matched. */
static inline bool window_match_possible(const struct plan *plan)
{
    return plan->locality != 0 && !plan->mix && plan->cuts.items == 0;
}

/* plan->locality is the run's. NULL: no memory. For window_match_free(). */
struct window_match *window_match_new(const struct plan *plan);
void window_match_free(struct window_match *match);

/* The most memory of a match, whatever the locality. */
uint64_t window_match_bytes(const struct plan *plan);

/* Finds destinations for all positions of the window, padding's repeats included. Allocates
 * nothing. */
void window_match_find(struct window_match *match, const struct plan_epoch *epoch,
                       const struct plan_window *window);

/* The destination of a position of that window, counted from the epoch's first. */
uint64_t window_match_destination(const struct window_match *match, const struct plan *plan,
                                  uint64_t position);

#endif
