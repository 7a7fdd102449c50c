/* The exchange: every reader sends every other its samples of one round.
 *
 * A lane is one round in flight. Its samples travel in one of two ways, by size:
 *
 *     packed     row --copy--> send buffer ~~~ MPI_Ialltoallv ~~~ receive buffer --copy--> slot
 *     zero-copy  row ~~~ MPI_Isend, MPI_Irecv, one message a piece ~~~ slot
 *
 * Packing makes one message of many small pieces; a large piece is a message of its own, and the
 * two copies and the buffers are saved. exchange_is_zero_copy() says which; the measurement behind
 * it is in docs/exchange.md. A round may use both, for different fields.
 *
 * Packed: rounds are posted in the same order on all readers. Counts are in records of one
 * contiguous datatype, so that neither a count nor a displacement overflows an int however large
 * the samples are. Ialltoallv starts all sends and receives at once and skips empty ones.
 *
 * Zero-copy: between two readers, messages of a lane are taken in the order in which they are sent;
 * lanes do not wait for one another: each has a
 * communicator, so that MPI looks for the receive of a message among those of its lane alone. Very
 * large pieces travel in several messages.
 *
 * MPI moves only inside MPI calls: the owner (MPI's thread, which alone calls everything here)
 * tests often.
 */
#ifndef PENSTOCK_MPI_EXCHANGE_H
#define PENSTOCK_MPI_EXCHANGE_H

#include "base/error.h"
#include "comm.h"

#include <stdbool.h>
#include <stdint.h>

struct exchange;

/* Whether pieces of that size are better sent from where they are than packed. */
bool exchange_is_zero_copy(uint64_t piece_bytes);

/* Records per peer, in order of rank; displacements are running sums. */
struct exchange_counts {
    int *send_counts, *send_displacements;
    int *receive_counts, *receive_displacements;
};

/* What a round may carry at most. A sample is one record of `record_bytes` (0: nothing is packed)
 * and `piece_count` pieces (0: nothing is zero-copy) of `piece_bytes`. */
struct exchange_sizes {
    uint64_t send_samples, receive_samples; /* to and from all peers together */
    uint64_t record_bytes;                  /* a multiple of 16 */
    uint64_t piece_count;
    const uint64_t *piece_bytes; /* [piece_count]; read by exchange_new() alone */
};

/* Buffers are allocated and touched here. NO_MEMORY; INVALID: more than 2^31 samples in a round, or
 * a record that MPI cannot describe. */
MUST_USE enum status exchange_new(const struct comm *comm, uint32_t lane_count,
                                  const struct exchange_sizes *sizes,
                                  struct exchange **ret_exchange, struct error *err);
void exchange_free(struct exchange *exchange);

/* Borrowed until exchange_free(); NULL where nothing is packed. */
unsigned char *exchange_send_buffer(const struct exchange *exchange, uint32_t lane);
const unsigned char *exchange_receive_buffer(const struct exchange *exchange, uint32_t lane);
struct exchange_counts exchange_counts(const struct exchange *exchange, uint32_t lane);

/* Empties a lane whose last round is complete. */
void exchange_open(struct exchange *exchange, uint32_t lane);

/* Starts to receive the next piece that `peer` sends in this lane, or to send one. A sample's
 * pieces are sent in the order of `piece_bytes`. The memory is borrowed until the lane is complete.
 * Sending NULL sends nothing instead of a piece: what the receiver has there stays. */
void exchange_receive(struct exchange *exchange, uint32_t lane, int peer, void *piece,
                      uint64_t piece_bytes);
void exchange_send(struct exchange *exchange, uint32_t lane, int peer, const void *piece,
                   uint64_t piece_bytes);

/* How many samples, in the order of exchange_send(), have left their memory with all their pieces.
 * Moves all lanes on. */
uint64_t exchange_sent(struct exchange *exchange, uint32_t lane);

/* Receives all pieces of `sample_count` samples from `peer` and forgets them, while this lane is
 * tested. For the end of a run; one lane at a time. */
void exchange_discard(struct exchange *exchange, uint32_t lane, int peer, uint64_t sample_count);

/* The lane's packed buffers, in one: nothing of them is touched yet, that is the caller's to do,
 * where they shall lie. NULL and 0 where nothing is packed. */
unsigned char *exchange_buffers(const struct exchange *exchange, uint32_t lane, size_t *ret_bytes);

/* Collective in order: starts the lane's packed part. Counts and send buffer must not change until
 * it is complete. Does nothing where nothing is packed. */
void exchange_post(struct exchange *exchange, uint32_t lane);

/* Whether all that was started in the lane is complete; moves all lanes on. */
bool exchange_test(struct exchange *exchange, uint32_t lane);

#endif
