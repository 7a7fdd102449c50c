/* Rounds under way: from samples in rows to published slots.
 *
 *     PLANNING     a worker lists what goes where, and writes indices, keys and held fields into
 * the local slots FILLING      workers copy samples from rows: to local slots, or to the send
 * buffer, as rows become ready EXCHANGING   the lane's MPI_Ialltoallv is under way SCATTERING
 * workers copy received samples to local slots COMPLETE     waits for its turn to be published
 *
 * A round starts when the slots of its steps are free at this reader's trainers: that is the
 * backpressure. A trainer that has left has all its slots free: the others go on. Rounds
 * start, are posted and are published in order of serial. The main thread calls everything here.
 */
#ifndef PENSTOCK_MPI_ROUNDS_H
#define PENSTOCK_MPI_ROUNDS_H

#include "exchange.h"
#include "job.h"
#include "windows.h"

/* What the oldest unpublished round waits for. */
enum round_block {
    BLOCK_NONE,
    BLOCK_PLAN,     /* planning, or rank 0's assignment */
    BLOCK_ROWS,     /* reading and decoding */
    BLOCK_COPY,     /* copying to slots and send buffers */
    BLOCK_EXCHANGE, /* other readers, or the network */
    BLOCK_SLOTS,    /* trainers that have not released their batches */
    BLOCK_COUNT
};

struct rounds;

MUST_USE enum status rounds_new(struct job *job, struct windows *windows,
                                struct rounds **ret_rounds, struct error *err);
void rounds_free(struct rounds *rounds);

/* Moves everything on. `*ret_active`: something moved. A row that cannot be read ends in its error.
 */
MUST_USE enum status rounds_progress(struct rounds *rounds, bool *ret_active, struct error *err);

bool rounds_finished(const struct rounds *rounds);

/* The oldest unpublished round: what it waits for, and the first step it carries. */
enum round_block rounds_blocked(const struct rounds *rounds, uint64_t *ret_epoch,
                                uint64_t *ret_step);

/* Whether MPI has work of ours under way. */
bool rounds_exchanging(const struct rounds *rounds);

/* Records sent to other readers in rounds of `epoch`, since this was last asked. To be asked as
 * soon as an epoch is published: rounds of later ones may be under way. */
uint64_t rounds_take_sent_records(struct rounds *rounds, uint64_t epoch);

/* How many rounds this rank has posted. */
uint64_t rounds_posted(const struct rounds *rounds);

/* Stop: posts rounds, without filling them, until `count` are posted, and completes them; true when
 * done. The pool must be drained and the windows that those rounds need be planned. */
bool rounds_drain(struct rounds *rounds, uint64_t count);

#endif
