/* See agreement.h. */
#include "rounds/agreement.h"

#include <assert.h>

void agreement_init(struct agreement *agreement, const struct comm *comm, uint32_t lane_count)
{
    *agreement = (struct agreement){.comm = comm, .lane_count = lane_count};
    for (uint32_t lane = 0; lane < ROUND_MAX_IN_FLIGHT; lane++)
        agreement->requests[lane] = MPI_REQUEST_NULL;
}

void agreement_post(struct agreement *agreement, uint64_t serial, uint64_t passes)
{
    if (serial < agreement->posted)
        return;
    uint32_t lane = (uint32_t)(serial % agreement->lane_count);
    assert(serial == agreement->posted && agreement->requests[lane] == MPI_REQUEST_NULL);
    agreement->mine[lane] = passes;
    MPI_Iallreduce(&agreement->mine[lane], &agreement->most[lane], 1, MPI_UINT64_T, MPI_MAX,
                   agreement->comm->lanes[lane], &agreement->requests[lane]);
    agreement->posted++;
}

uint64_t agreement_passes(struct agreement *agreement, uint64_t serial)
{
    uint32_t lane = (uint32_t)(serial % agreement->lane_count);
    assert(serial < agreement->posted);
    return comm_test(agreement->comm, &agreement->requests[lane]) ? agreement->most[lane] : 0;
}

bool agreement_drain(struct agreement *agreement, uint64_t count)
{
    bool complete = true;
    while (agreement->posted < count)
        agreement_post(agreement, agreement->posted, 1);
    for (uint32_t lane = 0; lane < agreement->lane_count; lane++)
        complete &= comm_test(agreement->comm, &agreement->requests[lane]);
    return complete;
}
