/* The assigner's own data. Inside src/plan; for assign.c and assign_wants.c. */
#ifndef PENSTOCK_PLAN_ASSIGN_INTERNAL_H
#define PENSTOCK_PLAN_ASSIGN_INTERNAL_H

#include "plan/assign.h"
#include "plan/mix.h"
#include "plan/reader_heap.h"

enum { HOME_NONE = 0xffff };

struct candidate {
    uint64_t row_ns;    /* of one row; what counts is how it compares with the others' */
    double burden;      /* how many times longer it takes all in all */
    uint64_t given;     /* rows to read that it got, since the start */
    uint64_t read;      /* of those, read by its last pace sample */
    uint64_t kept;      /* rows that stay */
    bool is_waited_for; /* by its last pace sample */
    struct {
        double mean_ns; /* of a row, as the reader told: a moving average */
        int count;      /* of pace samples in it */
    } told;
    uint64_t window_given; /* rows of the window being assigned that it did not keep */
    uint64_t window_wants; /* rows of the window that nobody keeps and its trainers want */
    uint64_t window_passed, window_loses; /* of those, that came so far; that others are to read */
    uint64_t window_gains;                /* rows that it may read for others */
};

/* Values of `wanting`: no reader wants the row in this epoch; any reader may, as the row has
 * several samples. */
enum { WANTED_BY_NONE = 0xffff, WANTED_BY_ANY = 0xfffe };

struct assigner {
    uint64_t row_count;
    uint32_t reader_count, trainer_count;
    uint64_t keep_rows, most_rows;
    uint64_t
        source_most_rows[MIX_MAX_SOURCES]; /* of a mix: most_rows is of the last window's source */
    bool kept_are_read;
    const uint32_t *reader_of_trainer;
    struct candidate *readers; /* [reader_count] */
    double *share;             /* [reader_count] of the trainers that the reader serves */
    uint64_t *rows;            /* [window_rows] the rows of the window being assigned */
    uint16_t *wanting;         /* [window_rows] the reader whose trainer gets a row's one sample;
                                * WANTED_BY_NONE: no reader in this epoch;
                                * WANTED_BY_ANY: the row has more samples */
    struct reader_heap pace, room;
    uint32_t gainer;      /* the last reader that got a row that another one wants */
    uint16_t *home_table; /* [plan.all_rows], HOME_NONE; NULL when nothing is kept */
    struct assigner_stats stats;
};

/* The window being assigned. */
struct assigner_task {
    const struct plan_epoch *epoch;
    const struct plan_window *window;
    uint16_t *owners; /* [rows] */
};

static inline bool is_reader(uint16_t wanting)
{
    return wanting < WANTED_BY_ANY;
}

#endif
