/* What ways cost, for ways.c (rates, burden, windows) and ways_rows.c (the way of a row). Inside
 * src/plan. */
#ifndef PENSTOCK_PLAN_WAYS_INTERNAL_H
#define PENSTOCK_PLAN_WAYS_INTERNAL_H

#include "plan/ways.h"

/* Samples of a row. */
static inline double ways_samples(const struct ways *ways)
{
    return (double)ways->row_samples;
}

/* With order.placement local: readers that load a row of another in an epoch, as expected. */
static inline double ways_local_loads(const struct ways *ways)
{
    double most = ways->reader_count - 1, wanted = ways->moved * ways_samples(ways);
    double missing = ways->held < ways->replicas ? 1 - ways->held / ways->replicas : 0;
    return (wanted < most ? wanted : most) * missing;
}

/* What a reader takes to read a row. `stores`: times the row comes from the store, if all share
 * one. */
struct ways_load ways_read_load(const struct ways *ways, uint32_t reader, double stores);

/* To send so many samples, and to receive so many. */
struct ways_load ways_move_load(const struct ways *ways, uint32_t reader, double out, double in);

/* Of the tape of a row: `out` times sent, and `in` times received and decoded. */
struct ways_load ways_tape_load(const struct ways *ways, uint32_t reader, double out, double in);

/* Adds a load to the plan's, and to those that decide if it is the chosen one; and rows that the
 * store gives. */
void ways_add_planned(struct ways *ways, enum ways_plan plan, uint32_t reader,
                      struct ways_load more);
void ways_add_store(struct ways *ways, enum ways_plan plan, double rows);

/* What `more` adds to the sum of powers, but for a factor; and a row that the store gives. */
double ways_price(const struct ways_load *load, struct ways_load more);
double ways_store_price(const struct ways *ways);

/* Brings the loads of long rows, and the prices, up to date. */
void ways_refresh(struct ways *ways);

#endif
