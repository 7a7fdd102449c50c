/* For the rounds' own files; rounds.h is for others. */
#ifndef PENSTOCK_MPI_ROUNDS_ROUNDS_INTERNAL_H
#define PENSTOCK_MPI_ROUNDS_ROUNDS_INTERNAL_H

#include "rounds/agreement.h"
#include "rounds/copies.h"
#include "rounds/exchange.h"
#include "rounds/pace.h"
#include "rounds/round.h"
#include "rounds/rounds.h"
#include "windows/item_merge.h"

#include "base/tables.h"

/* Rounds live in a ring of lanes by serial number:
 *
 *     published <= finished <= posted <= begun <= opened <= published + shape.in_flight
 *
 * Slots of a finished round are filled; the transform, if there is one, may still have them.
 *
 * With an exchange, another reader may have received something of a round that is begun, and can
 * complete a round that is posted.
 */
struct rounds {
    const struct job *job;
    const struct session *session;
    struct windows *windows;
    struct span span;           /* the rounds of the session; fewer after an early end */
    bool end_is_open;           /* an early end is not agreed on yet */
    struct exchange *exchange;  /* NULL with one reader */
    struct agreement agreement; /* where rounds may have passes */
    struct fragment_sources *fragments;
    size_t unit_bytes;                                        /* see struct round */
    uint32_t *record_units;                                   /* likewise; in `tables` */
    struct trailer_sources *trailers;                         /* NULL: there are no ragged fields */
    struct round_trailers lane_trailers[ROUND_MAX_IN_FLIGHT]; /* likewise, [lane_count] */
    struct found_rows *found; /* likewise, [workers, and the owner] */
    uint64_t published, finished, posted, begun, opened;
    struct pace *pace;                            /* NULL with one reader */
    struct rounds_sent sent[ROUND_MAX_IN_FLIGHT]; /* [epoch modulo its size] for
                                                   * rounds_take_sent() */
    struct round_times *times;                    /* [workers, and the owner]; owned */
    uint64_t exchange_ns;
    uint64_t posted_ns; /* how long rounds took of late from being posted until complete */
    uint64_t moved_ns;  /* when a round last moved on */
    struct copies copies;
    struct tables tables;           /* of the lanes, and of */
    struct round_matching matching; /* of the round that is planned last */
    struct item_merge merge;        /* likewise, of a mix */
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

/* rounds.c: sets the serial and the reach of the next round of a lane. */
void rounds_prepare(struct rounds *rounds, struct round *round);

/* Whether it is known how many passes a planned round has: then round->passes is set. */
bool rounds_agree(struct rounds *rounds, struct round *round);

/* Posts the exchange of the round's pass. */
void rounds_post(struct rounds *rounds, struct round *round);

/* Ends a published round: frees its lane, and the windows that no later round needs. */
void rounds_retire(struct rounds *rounds, struct round *round);

/* rounds_end.c: the first step of round `serial` of this session; of the number behind the last
 * round, the step where that round would begin. */
void rounds_begin_of(const struct rounds *rounds, uint64_t serial, uint64_t *ret_epoch,
                     uint64_t *ret_step);

#endif
