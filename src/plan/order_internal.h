/* What order.c, order_many.c and tables.c share: the tables of plans with anchors, and where rows
 * of a window begin. Pure. */
#ifndef PENSTOCK_PLAN_ORDER_INTERNAL_H
#define PENSTOCK_PLAN_ORDER_INTERNAL_H

#include "plan/plan.h"

/* Of one epoch, in the order of its row positions. */
struct plan_counts {
    uint64_t epoch;          /* UINT64_MAX: none yet */
    uint64_t *window_begins; /* [window_count + 1] the first position of each window; N */
    uint32_t *row_begins;    /* [row_count] samples of the rows before in the same window */
};

struct plan_tables {
    uint32_t *rows; /* [row_count] that have samples, rising; NULL: all have, or there are gaps */
    uint32_t *gaps; /* [gap_count] of each row without samples, rising: the rows before with some */
    size_t gap_count;
    uint64_t epoch_count;        /* 0: no row has more than one sample */
    struct plan_counts epochs[]; /* [epoch_count] epoch e at e mod epoch_count */
};

/* Whether rows are numbered by a table. */
static inline bool plan_has_row_table(const struct plan *plan)
{
    return plan->tables && (plan->tables->rows || plan->tables->gap_count > 0);
}

/* The row that is number `number` of those that have samples. */
static inline uint64_t plan_tables_row(const struct plan_tables *tables, uint64_t number)
{
    if (tables->rows)
        return tables->rows[number];
    const uint32_t *base = tables->gaps;
    for (size_t count = tables->gap_count; count > 1; count -= count / 2)
        base += base[count / 2] <= number ? count / 2 : 0;
    return number + (uint64_t)(base - tables->gaps) + (*base <= number);
}

/* The tables of an epoch, whose plan and rows are set; NULL if the plan has none. */
const struct plan_counts *plan_tables_epoch(const struct plan_epoch *epoch);

/* The samples that short rows of the window lack, added up: over the rows that end at or before
 * sample `number` of the window, counted row after row; and over the rows before `window_row` <=
 * row_count. For windows without row_begins. */
uint64_t plan_window_lack(const struct plan_window *window, uint64_t number);
uint64_t plan_window_row_lack(const struct plan_window *window, uint64_t window_row);

/* The row that has sample `number` of the window, counted row after row. For windows with
 * row_begins. */
uint64_t plan_window_row_of(const struct plan_window *window, uint64_t number);

#endif
