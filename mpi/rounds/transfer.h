/* Sends a round's zero-copy fragments from rows to other readers' slots, without a copy on either
 * side. See exchange.h.
 *
 * A round begins when its slots are free, and then posts all its receives. A sample is sent when
 * its row is ready, and its row counts as used once the sample is sent. Sends to one reader are in
 * order of position, and so are the reader's receives. Main thread only; nothing blocks. Where all
 * fragments are packed, nothing here does anything.
 */
#ifndef PENSTOCK_MPI_ROUNDS_TRANSFER_H
#define PENSTOCK_MPI_ROUNDS_TRANSFER_H

#include "rounds/round.h"

/* Posts the receives of a planned round. */
void transfer_begin(struct exchange *exchange, uint32_t lane, const struct round *round);

/* Sends those of the fills [begin, end) that go to other readers. Their rows must be ready. */
void transfer_send(struct exchange *exchange, uint32_t lane, const struct round *round,
                   uint64_t begin, uint64_t end);

/* Gives up the rows of samples that are sent. True: at least one. */
bool transfer_release(struct exchange *exchange, uint32_t lane, struct round *round);

/* At an early end: sends the rest of a round without data, and receives and drops the rest that
 * other readers send, so that no reader waits for this one. `begun`: transfer_begin() was called
 * for the round. */
void transfer_abandon(struct exchange *exchange, uint32_t lane, const struct round *round,
                      bool begun);

#endif
