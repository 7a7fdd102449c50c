/* Dresses samples in slots: writes all that does not come with rows. Those are indices, keys and
 * validity, the fields that the node holds, and the fields that are made. A worker that plans a
 * round calls this. */
#ifndef PENSTOCK_MPI_ROUNDS_ROUND_DRESS_H
#define PENSTOCK_MPI_ROUNDS_ROUND_DRESS_H

#include "rounds/round.h"

/* Samples that follow one another in a slot's batch. */
enum { ROUND_RUN_MOST = 256 };
struct round_run {
    unsigned char *slot;
    bool dressed;         /* or the samples are listed alone */
    uint32_t table;       /* of the slot's starts: see struct round_trailers */
    uint32_t batch_index; /* of the first */
    bool valid;           /* or all are padding */
    size_t count;
    uint64_t frames[ROUND_RUN_MOST];
    uint64_t key_indices[ROUND_RUN_MOST];         /* plan_key_index() */
    uint16_t owners[ROUND_RUN_MOST];              /* of their rows */
    const struct window *windows[ROUND_RUN_MOST]; /* of a mix */
};

void round_dress(const struct round *round, const struct round_run *run);

#endif
