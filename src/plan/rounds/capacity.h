/* Capacity: for how many records of a round one reader has room.
 *
 * Of what all readers send in a round, one reader sends about its share. Chance, and where rows
 * lie, decide how much more: so a reader has room for its share and a margin that is hardly ever
 * exceeded. Where a reader has more all the same, the round's positions are divided into passes:
 * exchanges one after another, for all readers alike, each of which fits. Sender and receiver agree
 * on the number of passes alone, since each position is in one pass.
 *
 * Of a window, too, a reader has the samples of its share of the rows. The list of them has room
 * for twice the share, as rank 0 gives a fast reader, and a margin. Where a reader has more, it
 * lists nothing, and each round looks up whose samples its positions are (mpi/windows/places.h).
 *
 * Pure; any thread.
 */
#ifndef PENSTOCK_PLAN_ROUNDS_CAPACITY_H
#define PENSTOCK_PLAN_ROUNDS_CAPACITY_H

#include "plan/order/plan.h"

/* Records of one pass; without the copies for further readers of a group. All 0: a round is one
 * pass, and there is room for whatever a reader may have. */
struct round_capacity {
    uint64_t listed;   /* of a reader's rows: to its own trainers, and to others */
    uint64_t sent;     /* of these, to others */
    uint64_t received; /* from others */
};

/* Whom rounds are between. */
struct round_peers {
    uint32_t readers;
    uint32_t rings;  /* most rings that one reader has; 0: as many as all others */
    uint32_t copies; /* most readers that have a ring for one group; 0: 1 */
    /* For tests, capacities of so many times the mean, whatever the margin; 0: by the margin. */
    double times_mean;
};

/* What is expected of rounds that carry `records` records of `steps` steps, or of a part of one,
 * with a margin of five standard deviations. A reader's part of a round varies as if samples came
 * in clusters: by themselves as windows are shuffled, by rows as rows have homes. With
 * order.placement local, what a reader has too many of travels. All 0 where a reader may have all
 * of it. */
struct round_capacity round_capacity_expected(const struct plan *plan,
                                              const struct round_peers *peers, double steps,
                                              uint64_t records);

/* The most items of a window (round_window_items()) that any reader may have. */
uint64_t round_window_capacity(const struct plan *plan);

/* For how many items of a window of a source, or without a mix of the run, the list has room: one
 * row, at least, has room; and all rows, if a reader's share is half of them. */
uint64_t round_window_expected(const struct plan *plan, uint32_t source,
                               const struct round_peers *peers);

/* Positions of an epoch, [first, end). */
struct round_range {
    uint64_t first, end;
};

/* Pass `pass` of `passes`, a power of two, of the positions of a round. Twice as many passes halve
 * each: so what fits into some passes fits into more. */
static inline struct round_range round_range_of_pass(struct round_range all, uint64_t passes,
                                                     uint64_t pass)
{
    uint64_t count = all.end - all.first;
    return (struct round_range){all.first + (uint64_t)((unsigned __int128)pass * count / passes),
                                all.first +
                                    (uint64_t)((unsigned __int128)(pass + 1) * count / passes)};
}

#endif
