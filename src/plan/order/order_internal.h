/* What order.c, order_many.c and tables.c share: the tables of plans with anchors, and where rows
 * of a window begin. Pure. */
#ifndef PENSTOCK_PLAN_ORDER_ORDER_INTERNAL_H
#define PENSTOCK_PLAN_ORDER_ORDER_INTERNAL_H

#include "base/tables.h"
#include "plan/order/plan.h"

/* Of one epoch, in the order of its row positions. */
struct plan_counts {
    uint64_t epoch;          /* UINT64_MAX: none yet */
    uint64_t *window_begins; /* [window_count + 1] the first position of each window; N */
    uint32_t *row_begins;    /* [row_count] samples of the rows before in the same window */
    uint32_t *rows;          /* [row_count] which row it is, with weights; else NULL */
};

/* The steps of one epoch, with cuts. */
struct plan_cut {
    uint64_t epoch;         /* UINT64_MAX: none yet */
    uint64_t *step_begins;  /* [steps_per_epoch + 1] the first position of each step; N */
    uint16_t *step_buckets; /* [steps_per_epoch] of the longest sample of each step; those of a
                             * window are PLAN_NO_BUCKET until plan_window_at() was called */
};
#define PLAN_NO_BUCKET UINT16_MAX

/* The samples of one window of such an epoch, step after step. */
struct plan_cut_window {
    uint64_t epoch, window; /* UINT64_MAX: none yet */
    uint32_t *numbers;      /* [window_most] as in struct plan_window */
    uint32_t *positions;    /* [window_most] */
};

/* For filling these. */
struct plan_cut_scratch {
    uint32_t *sizes;        /* [steps_per_epoch] samples of steps */
    uint32_t *window_steps; /* [window_count] */
    uint32_t *begins;  /* [steps_per_epoch + 1] of a window's steps, before these are permuted */
    uint16_t *buckets; /* [window_most] of a window's samples */
    uint64_t *counts;  /* [bucket_count] a window's samples of each bucket */
};

struct plan_cut_tables {
    struct plan_cut_scratch scratch;
    uint64_t window_count;
    struct plan_cut_window *windows; /* [window_count] window w of epoch e at (e windows + w) mod
                                      * window_count */
    uint64_t count;
    struct tables tables;     /* all but the epochs, which are behind this */
    struct plan_cut epochs[]; /* [count] epoch e at e mod count */
};

/* With weights: the rows that may have samples, the light ones first. */
struct plan_weight_tables {
    struct tables tables; /* those that follow */
    uint64_t light_count, count;
    uint32_t *rows;
    uint64_t *sums;   /* [count + 1] what the rows before weigh, in units of 2^-32 */
    uint32_t *counts; /* samples of each in the epoch that is being filled */
};

struct plan_tables {
    uint32_t *rows; /* [row_count] that have samples, rising; NULL: all have, or there are gaps */
    uint32_t *gaps; /* [gap_count] of each row without samples, rising: the rows before with some */
    size_t gap_count;
    struct plan_cut_tables *cuts;       /* NULL: there are no cuts */
    struct plan_weight_tables *weights; /* NULL: there are no weights */
    uint64_t epoch_count;               /* 0: no row has more than one sample */
    struct plan_counts epochs[];        /* [epoch_count] epoch e at e mod epoch_count */
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

/* The steps of an epoch of a plan with cuts, which has all but these. */
const struct plan_cut *plan_tables_cut(const struct plan_epoch *epoch);

/* The same of an epoch, if the tables have it; else NULL. */
const struct plan_cut *plan_pass_cut(const struct plan *plan, uint64_t epoch);

/* The samples of a window of such an epoch; the window has all but these. */
const struct plan_cut_window *plan_tables_cut_window(const struct plan_epoch *epoch,
                                                     const struct plan_window *window);

/* cuts.c: finds the steps of the epoch, which has all but these; and the samples of a window. */
void plan_cut_fill(struct plan_cut *cut, const struct plan_cut_scratch *scratch,
                   const struct plan_epoch *epoch);
void plan_cut_window_fill(struct plan_cut_window *table, const struct plan_cut_scratch *scratch,
                          const struct plan_epoch *epoch, const struct plan_window *window);

/* cut_tables.c: the tables of so many epochs and windows of a plan with cuts, and their bytes.
 * NULL: no memory. */
uint64_t plan_cut_tables_bytes(const struct plan *plan, uint64_t epoch_count,
                               uint64_t window_count);
struct plan_cut_tables *plan_cut_tables_new(const struct plan *plan, uint64_t epoch_count,
                                            uint64_t window_count);
void plan_cut_tables_free(struct plan_cut_tables *tables);

/* weight_tables.c: likewise. */
uint64_t plan_weight_tables_bytes(const struct plan *plan);
struct plan_weight_tables *plan_weight_tables_new(const struct plan *plan);
void plan_weight_tables_free(struct plan_weight_tables *tables);

/* The rows of an epoch, whose plan and permutation of rows are set, and the samples of each, by row
 * position. Draws them anew. */
void plan_weight_tables_spread(struct plan_weight_tables *tables, const struct plan_epoch *epoch,
                               uint32_t *ret_rows, uint32_t *ret_samples);

/* What a row weighs, in units of 2^-32. */
uint64_t plan_row_weight(const struct anchors *anchors, uint64_t row);

/* With weights: replaces the number of a sample within those that its row has in the epoch by the
 * number of its anchor in the row. */
void plan_settle_offset(const struct plan_window *window, struct plan_location *location);

/* The samples that short rows of the window lack, added up: over the rows that end at or before
 * sample `number` of the window, counted row after row; and over the rows before `window_row` <=
 * row_count. For windows without row_begins. */
uint64_t plan_window_lack(const struct plan_window *window, uint64_t number);
uint64_t plan_window_row_lack(const struct plan_window *window, uint64_t window_row);

/* The row that has sample `number` of the window, counted row after row. For windows with
 * row_begins. */
uint64_t plan_window_row_of(const struct plan_window *window, uint64_t number);

#endif
