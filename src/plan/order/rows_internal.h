/* How many samples rows have, for plan_init(). Inside src/plan. Pure. */
#ifndef PENSTOCK_PLAN_ORDER_ROWS_INTERNAL_H
#define PENSTOCK_PLAN_ORDER_ROWS_INTERNAL_H

#include "plan/order/plan.h"

enum { PLAN_ROW_SIZES = 1024 };

struct plan_rows {
    uint64_t all, with_samples, ever; /* with_samples: in one epoch; ever: in any */
    uint64_t copies;                  /* as of struct plan */
    bool rounds_up;                   /* a row may have one more than its size says */
    uint64_t most_samples;            /* of a row */
    uint64_t mean_samples;            /* of a row that has some, rounded down */
    uint64_t size_step;               /* so many numbers of samples are one size */
    uint64_t sizes[PLAN_ROW_SIZES];   /* rows of each size; all 0 without anchors */
};

/* Frames, and rows with and without samples, of valid options. */
uint64_t plan_rows_frames(const struct plan_options *options);
uint64_t plan_rows_all(const struct plan_options *options);

/* The samples of an epoch. */
uint64_t plan_rows_samples(const struct plan_options *options);

/* With anchors two passes over the rows. The anchors must have been compared with the options. */
void plan_rows_count(const struct plan_options *options, struct plan_rows *ret_rows);

/* Bounds of the samples of `window_rows` rows, whichever these are. */
uint64_t plan_rows_least(const struct plan_rows *rows, uint64_t window_rows);
uint64_t plan_rows_most(const struct plan_rows *rows, uint64_t window_rows);

/* The least of a last window of `window_rows` rows: without anchors the last row of a store, which
 * may be shorter, counts. */
uint64_t plan_rows_last_least(const struct plan_options *options, const struct plan_rows *rows,
                              uint64_t window_rows);

#endif
