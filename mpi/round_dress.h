/* Dresses samples in slots: writes all that does not come with rows. Those are indices, keys and
 * validity, the fields that the node holds, and the fields that are made. A worker that plans a
 * round calls this. */
#ifndef PENSTOCK_MPI_ROUND_DRESS_H
#define PENSTOCK_MPI_ROUND_DRESS_H

#include "round.h"

/* The samples at `frames` ([count]), which follow one another in a slot's batch from `batch_index`
 * on. All of them are `valid`, or all are padding. */
void round_dress(const struct round *round, unsigned char *slot, uint32_t batch_index,
                 const uint64_t *frames, size_t count, bool valid);

#endif
