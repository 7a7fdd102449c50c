/* Rounds under way: from samples in rows to published slots.
 *
 *     PLANNING     a worker lists what goes where, and writes indices, keys and held fields into
 *                  the local slots
 *     FILLING      workers copy samples from rows, as they become ready: to local slots, or packed
 *                  into the send buffer; zero-copy fields are sent
 *     FILLED       waits for earlier rounds to be posted
 *     EXCHANGING   the lane's MPI_Ialltoallv and messages are under way
 *     SCATTERING   workers copy received records to local slots
 *     COMPLETE     waits for its turn to be published
 *
 * A round starts when the slots of its steps are free at this reader's trainers: that is the
 * backpressure. A trainer that has left has all its slots free: the others go on. Rounds
 * begin, are posted and are published in order of serial. The main thread calls everything here.
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

/* An early end: opens no further rounds, but for those that complete a step, and returns after how
 * many rounds it could end. Nothing is finished until rounds_end_at() has said where the end is, at
 * that number or a later one (beyond the last: where it always was). */
uint64_t rounds_hold(struct rounds *rounds);
void rounds_end_at(struct rounds *rounds, uint64_t count);

/* The step behind the last one that is ever published. */
void rounds_end(const struct rounds *rounds, uint64_t *ret_epoch, uint64_t *ret_step);

/* The oldest unpublished round: what it waits for, and the first step it carries. */
enum round_block rounds_blocked(const struct rounds *rounds, uint64_t *ret_epoch,
                                uint64_t *ret_step);

/* Whether MPI has work of ours under way. */
bool rounds_exchanging(const struct rounds *rounds);

/* Records sent to other readers in rounds of `epoch`, since this was last asked. To be asked as
 * soon as an epoch is published: rounds of later ones may be under way. */
uint64_t rounds_take_sent_records(struct rounds *rounds, uint64_t epoch);

/* Where the time went so far: workers' time for planning, copying from rows and copying from
 * receive buffers, and the main thread's in the exchange, which does what the MPI library does not
 * do elsewhere: copies between processes of a node, system calls for a network. */
struct rounds_times {
    uint64_t plan_ns, fill_ns, scatter_ns, exchange_ns;
};
struct rounds_times rounds_times(const struct rounds *rounds);

/* How many rounds this rank has begun: of which another may have received something. */
uint64_t rounds_begun(const struct rounds *rounds);

/* Stop: posts rounds, without filling them, until `count` are posted, and completes them; true when
 * done. The pool must be drained and the windows that those rounds need be planned. */
bool rounds_drain(struct rounds *rounds, uint64_t count);

#endif
