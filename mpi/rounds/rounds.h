/* Rounds under way: from samples in rows to published slots.
 *
 *     PLANNING     a worker lists what goes where, and writes indices, keys and held fields into
 *                  the local slots
 *     FILLING      workers copy samples from rows, as they become ready: to local slots, or packed
 *                  into the send buffer; zero-copy fragments are sent
 *     FILLED       waits for earlier rounds to be posted
 *     EXCHANGING   the lane's MPI_Ialltoallv and messages are under way
 *     SCATTERING   workers copy received records to local slots
 *     COMPLETE     waits for its turn to be published
 *
 * Where readers agree on passes (agreement.h), a round that is planned waits for all readers to
 * have planned it, and goes from PLANNING to SCATTERING once for each of its passes.
 *
 * A round starts when the slots of its steps are free at this reader's trainers: that is the
 * backpressure. All slots of a trainer that has left count as free, so that the other trainers go
 * on. Rounds begin, are posted and are published in order of serial. Main thread only; nothing
 * blocks but rounds_new().
 */
#ifndef PENSTOCK_MPI_ROUNDS_ROUNDS_H
#define PENSTOCK_MPI_ROUNDS_ROUNDS_H

#include "job/session.h"
#include "rounds/exchange.h"
#include "windows/windows.h"

/* What the oldest round that is not published waits for. */
enum round_block {
    BLOCK_NONE,
    BLOCK_PLAN,      /* planning, or rank 0's assignment */
    BLOCK_ROWS,      /* reading and decoding */
    BLOCK_COPY,      /* copying to slots and send buffers */
    BLOCK_EXCHANGE,  /* messages from other readers */
    BLOCK_TRANSFORM, /* processes of delivery.transform */
    BLOCK_SLOTS,     /* trainers that have not released their batches */
    BLOCK_COUNT
};

struct rounds;

MUST_USE enum status rounds_new(const struct session *session, struct windows *windows,
                                struct rounds **ret_rounds, struct error *err);
void rounds_free(struct rounds *rounds);

/* Moves MPI on, within the service loop: looks at the requests that the loop's state machines wait
 * for (comm_test()). True: MPI moved something, as far as that shows. */
bool rounds_look(struct rounds *rounds);

/* Moves all rounds on. *ret_active: something moved. Other statuses: of a row that could not be
 * read. */
MUST_USE enum status rounds_progress(struct rounds *rounds, bool *ret_active, struct error *err);

/* The last slot of the next round, if that is what the round waits for; else UINT64_MAX. */
uint64_t rounds_awaited_slot(const struct rounds *rounds);

bool rounds_finished(const struct rounds *rounds);

/* Prepares an early end. rounds_hold(): from now on only those rounds are opened that complete a
 * step; returns after how many rounds this reader can end. rounds_end_at(): sets the end, after
 * `count` rounds: at least that number; a number beyond the last round means the usual end. Between
 * the two calls rounds_finished() is false. */
uint64_t rounds_hold(struct rounds *rounds);
void rounds_end_at(struct rounds *rounds, uint64_t count);

/* The step behind the last one that will be published. */
void rounds_end(const struct rounds *rounds, uint64_t *ret_epoch, uint64_t *ret_step);

/* The step behind the last one that a round of this reader carries so far. */
void rounds_reached(const struct rounds *rounds, uint64_t *ret_epoch, uint64_t *ret_step);

/* What the oldest round that is not published waits for, and the first step that it carries. */
enum round_block rounds_blocked(const struct rounds *rounds, uint64_t *ret_epoch,
                                uint64_t *ret_step);

/* Whether a message or collective of a round is under way. */
bool rounds_exchanging(const struct rounds *rounds);

/* How long rounds took of late from being posted until their exchange was complete, up to 16 ms; 0:
 * none yet. */
uint64_t rounds_posted_ns(const struct rounds *rounds);

/* What was sent to other readers in rounds of `epoch` since the last call: records, and bytes of
 * records and trailers. Counts anew from 0. To be called as soon as the epoch is published: only a
 * few epochs are counted at once. */
struct rounds_sent {
    uint64_t records, bytes;
    uint64_t further_passes; /* behind the first one of each round */
};
struct rounds_sent rounds_take_sent(struct rounds *rounds, uint64_t epoch);

/* How long rounds took so far, in nanoseconds. Of workers: plan_ns for planning, fill_ns for
 * copying from rows, scatter_ns for copying from receive buffers. Of the main thread: exchange_ns
 * inside MPI, where the library copies between processes of a node, and makes system calls for a
 * network. */
struct rounds_times {
    uint64_t plan_ns, fill_ns, scatter_ns, exchange_ns;
};
struct rounds_times rounds_times(const struct rounds *rounds);

/* How many rounds this rank has begun. Another rank may have received something of these rounds. */
uint64_t rounds_begun(const struct rounds *rounds);

/* For how many rounds this rank has told the others into how many passes it would divide them. */
uint64_t rounds_agreed(const struct rounds *rounds);

/* Ends rounds at once: posts rounds without filling them until `count` are posted, the most that
 * any rank has begun, and completes them; and so the agreements on the passes of `agreed` rounds.
 * True: done; otherwise call again. The pool must be drained, and the windows of these rounds must
 * be planned. */
bool rounds_drain(struct rounds *rounds, uint64_t count, uint64_t agreed);

#endif
