/* Short rows within a window, for order.c and order_many.c. Pure. */
#ifndef PENSTOCK_PLAN_ORDER_INTERNAL_H
#define PENSTOCK_PLAN_ORDER_INTERNAL_H

#include "plan/plan.h"

/* What short rows of the window lack together: those that end at or before its sample `number`,
 * counted row after row; and those in the rows before `window_row` <= row_count. */
uint64_t plan_window_lack(const struct plan_window *window, uint64_t number);
uint64_t plan_window_row_lack(const struct plan_window *window, uint64_t window_row);

#endif
