/* Hands a round's copies to workers: those of the NUMA node that a copy writes to. A slot is on the
 * node of its trainer's seat; lanes' buffers are on the nodes in turn. Copies are handed out in the
 * order in which their samples are due. Main thread only.
 */
#ifndef PENSTOCK_MPI_COPIES_H
#define PENSTOCK_MPI_COPIES_H

#include "job.h"
#include "round.h"

struct copies {
    const struct job *job; /* borrowed */
    uint32_t numa_count;
    struct ring_numa *rings; /* [job->trainer_count], in order of address */
};

/* When trainers have their rings. NO_MEMORY. copies_done() is fine even so. */
MUST_USE enum status copies_init(struct copies *copies, const struct job *job, struct error *err);
void copies_done(struct copies *copies);

/* The NUMA node of a lane's buffers. */
uint32_t copies_lane_numa(const struct copies *copies, uint32_t lane);

/* Hands out the next fills whose rows are ready; *ret_end is behind them, or round->fill_next where
 * there is nothing to hand out yet: few rows wait for more, unless nothing else is being copied. A
 * row that could not be read: its error. */
MUST_USE enum status copies_next_fills(const struct copies *copies, struct round *round,
                                       uint32_t lane, uint64_t *ret_end, struct error *err);

/* Hands out copies from the receive buffer, as many as the pool takes; true if there were any. */
bool copies_scatter(const struct copies *copies, struct round *round);

#endif
