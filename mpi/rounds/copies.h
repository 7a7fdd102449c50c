/* Hands a round's copies to the workers of the NUMA node that a copy writes to. A slot lies on the
 * NUMA node of its trainer's seat. Lane buffers lie on one NUMA node each, in turn. Each lane has
 * piles (pile.h) for each NUMA node, on which copies are put in the order in which their samples
 * are due. Main thread only. */
#ifndef PENSTOCK_MPI_ROUNDS_COPIES_H
#define PENSTOCK_MPI_ROUNDS_COPIES_H

#include "job/session.h"
#include "rounds/round_copy.h"

struct copies {
    const struct job *job; /* borrowed, and so is */
    const struct session *session;
    uint32_t numa_count;
    uint64_t sample_bytes;   /* in slots: of ragged fields the most there is room for */
    struct ring_numa *rings; /* [session->ring_count], in order of address; owned, and so are */
    uint32_t *workers;       /* [numa_count] */
    struct round_pile *fills, *arrivals; /* [lanes][numa_count] */
};

/* To be called when the trainers have their rings, with `lanes` [lane_count], borrowed. NO_MEMORY.
 * copies_done() is fine after a failure, too, and may be called when no task of the pool is left.
 */
MUST_USE enum status copies_init(struct copies *copies, const struct session *session,
                                 struct round *lanes, uint32_t lane_count, struct error *err);
void copies_done(struct copies *copies);

/* The NUMA node of a lane's buffers. */
uint32_t copies_lane_numa(const struct copies *copies, uint32_t lane);

/* Hands out the next fills whose rows are ready. *ret_end is the index behind them, or
 * round->fill_next if nothing was handed out: a few ready rows wait for more, unless no other copy
 * of the round is under way. Other statuses: of a row that could not be read. */
MUST_USE enum status copies_next_fills(const struct copies *copies, struct round *round,
                                       uint32_t lane, uint64_t *ret_end, struct error *err);

/* Hands out copies from the receive buffer, as many as there is room for. True: at least one. */
bool copies_scatter(const struct copies *copies, struct round *round, uint32_t lane);

/* Queues workers for copies of a lane that wait for some: where the pool had no room, or the main
 * thread has helped. */
void copies_call(const struct copies *copies, uint32_t lane);

#endif
