/* The assigner's own data. Inside src/plan; for assign.c and assign_slow.c. */
#ifndef PENSTOCK_PLAN_ASSIGN_ASSIGN_INTERNAL_H
#define PENSTOCK_PLAN_ASSIGN_ASSIGN_INTERNAL_H

#include "base/tables.h"
#include "plan/assign/assign.h"
#include "plan/order/mix.h"
#include "plan/rounds/locality.h"

/* Values beside readers: a row without a home; a row whose home has no buffers for it in this
 * window; a row that is near no reader; a row of which nobody gets a sample in this epoch. */
enum { HOME_NONE = 0xffff, HOME_FULL = 0xfffe, NEAR_NONE = 0xffff, NEAR_UNREAD = 0xfffe };

struct candidate {
    uint64_t kept;      /* rows that stay */
    double share;       /* of the trainers that the reader serves, and of its turns with them */
    double serves;      /* of the trainers that it serves, whoever else does */
    double near_share;  /* of rows that are near it, with order.placement local */
    bool is_waited_for; /* by its last pace sample */
    struct {
        double mean_ns; /* of a row, as the reader told: a moving average */
        int count;      /* of pace samples in it */
    } told;
    struct {                    /* in the window being assigned */
        uint64_t given;         /* rows to read, and rows that it keeps as stored */
        uint64_t near;          /* rows without a home that are near it */
        uint64_t passed, loses; /* of those, that came so far; that others are to read */
        uint64_t gains;         /* other rows that it has time for */
    } window;
};

struct assigner {
    uint64_t row_count;
    uint32_t reader_count, trainer_count;
    uint64_t keep_rows, most_rows;
    uint64_t
        source_most_rows[MIX_MAX_SOURCES]; /* of a mix: most_rows is of the last window's source */
    bool kept_are_read;
    const uint32_t *reader_of_trainer;
    uint32_t copies;
    double readers_of_sample;   /* on average: those that serve a trainer */
    struct tables tables;       /* those that follow */
    struct candidate *readers;  /* [reader_count] */
    uint16_t *without_trainers; /* [reader_count] readers that serve none, `without_count` */
    uint32_t without_count;
    uint32_t readers_with_room; /* to keep a row */
    uint32_t turn;              /* the last reader that got a row in turn */
    uint64_t *rows;             /* [window_rows] the rows of the window being assigned */
    uint16_t *near;             /* [window_rows] their near readers, NEAR_NONE, NEAR_UNREAD */
    uint16_t *home_table;       /* [plan.all_rows], HOME_NONE; NULL when nothing is kept */
    struct assigner_stats stats;
};

/* The window being assigned. */
struct assigner_task {
    const struct plan_epoch *epoch;
    const struct plan_window *window;
    uint16_t *owners;          /* [rows] first their homes, at last their owners */
    struct locality_near near; /* with order.placement local: which trainers rows are near */
};

/* Of a row's home, or the reader that it is near. */
static inline bool is_reader(uint16_t reader)
{
    return reader < NEAR_UNREAD;
}

#endif
