/* What the files of a budget share: budget.c (sizes by purpose), budget_rows.c (how many row
 * buffers a run needs by the assigner's rules, and what these take), and budget_text.c (the budget
 * in words). Inside src/plan. Pure. */
#ifndef PENSTOCK_PLAN_BUDGET_BUDGET_INTERNAL_H
#define PENSTOCK_PLAN_BUDGET_BUDGET_INTERNAL_H

#include "plan/budget/budget.h"

/* Of one source, or of a run without a mix. */
struct budget_source {
    uint64_t window_rows;
    bool single;      /* rows of one sample: they are given up one by one */
    uint64_t even;    /* a reader's share of a window when all get the same */
    uint64_t at_once; /* windows whose rows are in use at once; for those of one sample 1 */
    uint64_t short_windows, short_rows; /* and short windows besides, and the rows of each */
    uint64_t least, enough;             /* 0 for rows of one sample */
};

struct budget_rows {
    uint32_t source_count;
    bool single;        /* all rows are of one sample */
    uint64_t all;       /* rows of all windows that it keeps at most; more room is of no use */
    uint64_t least;     /* buffers without which a run could stand still */
    uint64_t preferred; /* and with which reading stays ahead, and shares can be uneven */
    uint64_t enough;    /* and with which one reader can be given whole windows */
    struct budget_source sources[MIX_MAX_SOURCES];
};

void budget_rows_count(const struct budget_demand *demand, struct budget_rows *ret_rows);

/* The most rows of a window that one reader may be given, by source, with so many buffers for rows
 * that do not stay; UINT64_MAX: all of its rows. `whole`: up to all of its rows. */
void budget_rows_share(const struct budget_rows *rows, uint64_t buffers, bool whole,
                       uint64_t *ret_most_rows);

/* What a row buffer takes, without pages. */
uint64_t budget_buffer_bytes(const struct budget_demand *demand);

/* The pages of so many row buffers, and what pages take. With as many pages as any rows take that
 * are in the buffers together, a free buffer has free pages: read/row_pages.h. */
uint64_t budget_pages(const struct budget_demand *demand, uint64_t buffers);
uint64_t budget_pages_bytes(const struct budget_demand *demand, uint64_t pages);

/* What so many row buffers take, with their pages; and how many there is room for. */
uint64_t budget_buffers_bytes(const struct budget_demand *demand, uint64_t buffers);
uint64_t budget_buffers_in(const struct budget_demand *demand, uint64_t bytes);

/* budget_text.c: a limit below least_bytes. */
MUST_USE enum status budget_refuse(const struct budget_demand *demand, const struct budget *budget,
                                   uint64_t least_rows, struct error *err);

/* budget.c: the part of a source in plan_bytes. */
uint64_t budget_source_bytes(const struct budget_demand *demand, const struct budget *budget,
                             uint32_t source);

#endif
