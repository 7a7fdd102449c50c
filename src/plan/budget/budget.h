/* The memory of a reader by purpose, computed before the start, and the number of rows that fit.
 * Readers allocate by this budget, and `penstock plan` prints the budget: no other code adds these
 * sizes up. Pure.
 */
#ifndef PENSTOCK_PLAN_BUDGET_BUDGET_H
#define PENSTOCK_PLAN_BUDGET_BUDGET_H

#include "base/text.h"
#include "plan/order/mix.h"
#include "plan/order/plan.h"
#include "plan/rounds/ragged_limits.h"
#include "plan/rounds/round.h"

enum {
    BUDGET_BUFFER_TABLE_BYTES =
        128, /* what the row store notes of each buffer, its index included */
    BUDGET_BUFFER_PAGES_BYTES = 128, /* and of each buffer's pages */
    BUDGET_PAGE_TABLE_BYTES = 4,     /* and of each page */
    BUDGET_WINDOW_ROW_BYTES = 18,    /* of a row of a planned window: which, owner, buffer, uses */
    BUDGET_FILL_BYTES = 24,          /* of a record that a round may send */
    BUDGET_ROOM_BYTES = 8,           /* of one whose fragments may shift: run/fragments.h */
    BUDGET_KEY_BYTES = 8,            /* of one whose fragments have crops */
    BUDGET_ARRIVAL_BYTES = 24,       /* of a record that it may receive */
    BUDGET_TRAILER_BYTES = 24,       /* of a record sent or received, where it has a trailer */
    BUDGET_START_BYTES = 8,          /* of a start of a slot's samples: run/trailers.h */
    BUDGET_FOUND_BYTES = 10240,      /* of a worker or the main thread, where there are trailers */
    BUDGET_DESTINATION_BYTES = 12,   /* of a position of round_max_matched() */
    BUDGET_MIXED_WINDOW_BYTES = 48, /* of a planned window more, in a mix: to merge windows twice */
    BUDGET_KIND_BYTES = 2,          /* of a record that a round may send: its kind, and its uses */
    BUDGET_MIXED_DESTINATION_BYTES = 8, /* of a position: its window */
    BUDGET_SEND_BYTES = 16,             /* of a message that a round may send */
    BUDGET_RECEIVE_BYTES = 8,           /* of one that it may receive */
};

/* How rows are kept for later epochs. */
enum budget_keep {
    BUDGET_KEEP_NOTHING,
    BUDGET_KEEP_DECODED, /* in row buffers of their own */
    BUDGET_KEEP_STORED,  /* as stored, and decoded again for each use */
};

struct budget_demand {
    const struct plan *plan;
    struct round_shape shape;
    uint32_t reader_count;
    uint32_t ring_count;    /* most rings that one reader has: one for each group that it serves */
    uint32_t trainers_most; /* `plan` has the fewest trainers of the run, and this is the most */
    uint32_t copies;        /* most readers that have a ring for one group, and get its samples */
    double times_mean;      /* for tests: see struct round_peers */
    uint32_t partition_count; /* of readers (run/partitions.h), of which these are one; 0: 1 */
    uint32_t worker_count;    /* threads of the reader */
    uint64_t row_bytes;
    uint64_t packed_bytes; /* of a record, that travels packed: see round.h */
    struct plan_ragged ragged;
    uint64_t messages;        /* of a record, for what is zero-copy */
    bool shifts;              /* records need rooms: see run/fragments.h */
    bool crops;               /* records need keys */
    bool has_kinds;           /* records are of several kinds: see run/fragment_sources.h */
    uint64_t held_bytes;      /* of the held arrays, which the readers of a node share */
    uint64_t hold_room_bytes; /* of chunks on their way while these arrays are read, at least: when
                               * rings, exchange and fetches are not in use yet */
    uint64_t anchor_bytes;    /* of the anchors, which each reader has */
    uint64_t constant_bytes;  /* of what trainers get once, which each reader has */
    uint64_t scratch_bytes;   /* of one worker */
    uint64_t inflate_bytes;   /* of these: to inflate values of zip archives */
    uint64_t inflated_bytes;  /* of all such values of which parts are read, once inflated */
    uint64_t index_bytes;     /* for shards' indices, which they share */
    uint64_t catalogue_bytes; /* for manifests, references and directories of zip archives
                               * (dataset.h), which they share */
    uint64_t ring_bytes;      /* of one ring */
    uint64_t rest_bytes;  /* of the ring before, that a trainer which comes again may hold still */
    uint64_t fetch_bytes; /* chunks on their way from a remote store, and its connections */
    uint64_t fetch_rows;  /* that may be on their way at once, and need buffers to come to */
    enum budget_keep keep;
    uint64_t stored_row_bytes; /* BUDGET_KEEP_STORED: of a kept row on average, tables included */
    bool last_epoch;           /* there is only one epoch: nothing to keep rows for */
    uint64_t limit_bytes;
};

struct budget {
    uint64_t transient_rows; /* row buffers for rows that are used and given up */
    uint64_t keep_rows;      /* rows that stay at their home, in row buffers or as stored */
    uint64_t buffer_rows;    /* row buffers, for both */
    uint64_t most_rows;      /* of a window, that one reader is given to read; of a mix: of a
                              * window of each source together */
    uint64_t source_most_rows[MIX_MAX_SOURCES]; /* the same by source; without a mix the first */
    uint64_t planned_windows;                 /* windows planned at once, of all sources together */
    uint64_t source_windows[MIX_MAX_SOURCES]; /* and by source; without a mix the first is all */
    uint64_t source_items[MIX_MAX_SOURCES];   /* for which each of these windows' lists has room */
    uint64_t pages;                           /* of these buffers' rows, for ragged fields */
    uint64_t send_trailer_bytes,
        receive_trailer_bytes; /* of a round's trailers; in exchange_bytes */
    uint64_t stored_bytes;     /* for rows that stay as stored */
    uint64_t
        inflated_bytes; /* what else is left, for values that stay inflated; in scratch_bytes */
    uint64_t rows_bytes, pages_bytes, held_bytes, rings_bytes, exchange_bytes, scratch_bytes,
        plan_bytes, fetch_bytes, constant_bytes;
    uint64_t total_bytes;
    uint64_t least_bytes; /* the smallest limit that would do */
};

/* Settles sizes for as many rows as the limit allows, and no more than are of use. NO_MEMORY: the
 * limit is below least_bytes; the message lists the sizes by purpose and says what to change. */
MUST_USE enum status budget_settle(const struct budget_demand *demand, struct budget *ret_budget,
                                   struct error *err);

/* Appends the sizes by purpose, one a line, and last the total against the limit. */
void budget_describe(const struct budget_demand *demand, const struct budget *budget,
                     struct text *out);

#endif
