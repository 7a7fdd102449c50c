/* What the files of the rounds share; see rounds.h for what others may use. */
#ifndef PENSTOCK_MPI_ROUNDS_INTERNAL_H
#define PENSTOCK_MPI_ROUNDS_INTERNAL_H

#include "copies.h"
#include "exchange.h"
#include "pace.h"
#include "round.h"
#include "rounds.h"

/* Rounds live in a ring of lanes by serial number:
 *
 *     published <= posted <= begun <= opened <= published + shape.in_flight
 *
 * Where there is an exchange, another reader may have something of a round once it is begun, and
 * has all that it needs for it to end once it is posted.
 */
struct rounds {
    struct job *job;
    struct windows *windows;
    struct span span;          /* its count is less after an early end */
    bool end_is_open;          /* an early end is not agreed on yet */
    struct exchange *exchange; /* NULL with one reader */
    struct round_fields fields;
    uint64_t published, posted, begun, opened;
    struct pace *pace;                          /* NULL with one reader */
    uint64_t sent_records[ROUND_MAX_IN_FLIGHT]; /* of the epochs under way, in turn */
    struct round_times times;
    uint64_t exchange_ns;
    struct copies copies;
    uint32_t lane_count;
    struct round lanes[ROUND_MAX_IN_FLIGHT]; /* [lane_count] */
};

static inline struct round *rounds_lane_of(struct rounds *rounds, uint64_t serial)
{
    return &rounds->lanes[serial % rounds->lane_count];
}

static inline uint32_t rounds_lane_index(const struct rounds *rounds, const struct round *round)
{
    return (uint32_t)(round - rounds->lanes);
}

/* rounds.c: settles which round comes next in its lane, and which windows it takes samples from. */
void rounds_prepare(struct rounds *rounds, struct round *round);

/* Whether the windows of a round that is prepared are planned. */
bool rounds_windows_ready(struct rounds *rounds, const struct round *round);

/* Posts the round's exchange. */
void rounds_post(struct rounds *rounds, struct round *round);

/* The round is over: its lane is free, and so are the windows that no later round needs. */
void rounds_retire(struct rounds *rounds, struct round *round);

/* rounds_end.c: where a round begins, of this session's first; or where it would, behind the last.
 */
void rounds_begin_of(const struct rounds *rounds, uint64_t serial, uint64_t *ret_epoch,
                     uint64_t *ret_step);

#endif
