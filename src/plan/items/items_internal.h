/* What items.c, items_sort.c and items_mix.c share. Inside src/plan. Pure. */
#ifndef PENSTOCK_PLAN_ITEMS_ITEMS_INTERNAL_H
#define PENSTOCK_PLAN_ITEMS_ITEMS_INTERNAL_H

#include "plan/rounds/round.h"

/* Sorts by the keys in item.round: the smallest first. */
void items_sort(struct round_item *items, uint64_t count);

/* The round of an epoch that carries a position of the epoch, where each step has stripes. */
uint64_t items_round(const struct plan *plan, struct round_shape shape, uint64_t position);

/* Turns the items of a window of a mix's source, which are in order of position in their source's
 * epoch, into what round_window_items() gives: places their draws, leaves out what comes after the
 * run's end, and sorts. Returns how many are left. */
uint64_t items_of_draws(const struct plan_epoch *epoch, struct round_shape shape,
                        struct round_item *items, uint64_t count);

#endif
