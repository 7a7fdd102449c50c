/* A round's zero-copy fields: from a row to another reader's slot, without a copy on
 * either side. See exchange.h.
 *
 * A round's receives are all posted as it begins, when its slots are free; its samples are sent as
 * their rows become ready, and a row counts as used once its sample has left. Sends to one reader
 * are in order of position, as receives from it are. Main thread only. Where all fields are packed,
 * nothing here does anything.
 */
#ifndef PENSTOCK_MPI_TRANSFER_H
#define PENSTOCK_MPI_TRANSFER_H

#include "round.h"

/* Posts the receives of a planned round. */
void transfer_begin(struct exchange *exchange, uint32_t lane, const struct round *round);

/* Sends the remote ones of fills [begin, end), whose rows are ready. */
void transfer_send(struct exchange *exchange, uint32_t lane, const struct round *round,
                   uint64_t begin, uint64_t end);

/* Gives up the rows of samples that have left; true if there were any. */
bool transfer_release(struct exchange *exchange, uint32_t lane, struct round *round);

/* Stop: does without data what is left to do of a round, so that no reader waits for it. `begun`:
 * transfer_begin() was called. */
void transfer_abandon(struct exchange *exchange, uint32_t lane, const struct round *round,
                      bool begun);

#endif
