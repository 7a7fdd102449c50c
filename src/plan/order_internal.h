/* Short rows within a window, for order.c and order_many.c. Pure. */
#ifndef PENSTOCK_PLAN_ORDER_INTERNAL_H
#define PENSTOCK_PLAN_ORDER_INTERNAL_H

#include "plan/plan.h"

/* The samples that short rows of the window lack, added up: over the rows that end at or before
 * sample `number` of the window, counted row after row; and over the rows before `window_row` <=
 * row_count. */
uint64_t plan_window_lack(const struct plan_window *window, uint64_t number);
uint64_t plan_window_row_lack(const struct plan_window *window, uint64_t window_row);

#endif
