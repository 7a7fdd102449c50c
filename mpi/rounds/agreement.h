/* Agreement: into how many passes readers divide each round.
 *
 * A reader that has listed a round knows how many passes it needs (plan/rounds/capacity.h), usually
 * one. All readers make as many as the one that needs most: a nonblocking allreduce of one number a
 * round, posted when the round is listed. Nothing of a round is sent before, so that all readers
 * have listed a round that any of them has begun. Each lane's rounds follow one another on the
 * lane's communicator: so all ranks post them in one order, whatever else they post between them.
 * Main thread only; nothing blocks.
 */
#ifndef PENSTOCK_MPI_ROUNDS_AGREEMENT_H
#define PENSTOCK_MPI_ROUNDS_AGREEMENT_H

#include "ranks/comm.h"

struct agreement {
    const struct comm *comm; /* borrowed */
    uint32_t lane_count;
    uint64_t posted;                                               /* rounds */
    uint64_t mine[ROUND_MAX_IN_FLIGHT], most[ROUND_MAX_IN_FLIGHT]; /* by lane */
    MPI_Request requests[ROUND_MAX_IN_FLIGHT];
};

void agreement_init(struct agreement *agreement, const struct comm *comm, uint32_t lane_count);

/* Posts what this reader needs for round `serial`, if it has not: passes of the next one. The round
 * of the lane before must be complete. */
void agreement_post(struct agreement *agreement, uint64_t serial, uint64_t passes);

/* How many passes round `serial`, which this reader has posted, has; 0: not all readers have said.
 */
uint64_t agreement_passes(struct agreement *agreement, uint64_t serial);

/* At an early end, when all rounds that any reader has begun are complete: posts and completes the
 * rest of the `count` rounds that any reader has posted. True: done; otherwise call again. */
bool agreement_drain(struct agreement *agreement, uint64_t count);

#endif
