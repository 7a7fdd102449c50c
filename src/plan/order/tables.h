/* The tables of a plan with anchors: which rows have samples, and for each epoch under way where
 * its windows and its rows begin.
 *
 *     rows          4 bytes a row with samples; none if every row has some
 *     an epoch      4 bytes a row with samples and 8 a window; none if no row has more than one
 *     with weights  16 bytes a row that may have samples, and of an epoch 4 more a row
 *
 *     with cuts     10 bytes a step, of an epoch, and 8 bytes a sample, of a window
 *
 * plan_epoch_init() fills the tables of its epoch, unless the tables are there: about 20 ns a row,
 * with weights 100. They stay as they are until another epoch needs the room: with room for n
 * epochs, epoch e's are there until plan_epoch_init() of an epoch e +- n, e +- 2n... So epochs that
 * are in use together must be n in a row at most. With cuts plan_window_at() fills the tables of
 * its window likewise, about 40 ns a sample, and with room for n windows those that are in use
 * together must be n in a row. One thread at a time calls plan_epoch_init() and plan_window_at() of
 * plans that share tables; any thread reads epochs and windows that are in use.
 */
#ifndef PENSTOCK_PLAN_ORDER_TABLES_H
#define PENSTOCK_PLAN_ORDER_TABLES_H

#include "plan/order/plan.h"

/* The most epochs that are in use together by a run that plans so many windows at once, and looks
 * one round further. */
uint64_t plan_epochs_at_once(const struct plan *plan, uint64_t planned_windows);

/* The memory of tables with room for so many epochs and, with cuts, so many windows; 0: the plan
 * needs none. */
uint64_t plan_tables_bytes(const struct plan *plan, uint64_t epoch_count, uint64_t planned_windows);

/* Sets plan->tables: NULL if the plan needs none. To be freed with plan_tables_free() when no copy
 * of the plan, and nothing made of one, is in use. NO_MEMORY. */
MUST_USE enum status plan_tables_new(struct plan *plan, uint64_t epoch_count,
                                     uint64_t planned_windows, struct error *err);
void plan_tables_free(struct plan_tables *tables);

#endif
