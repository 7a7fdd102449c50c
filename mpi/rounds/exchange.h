/* The exchange: in each round every reader sends samples to every other reader.
 *
 * A lane is one round in flight. Its samples travel in one of two ways, by size:
 *
 *     packed     row --copy--> send buffer ~~~ MPI_Ialltoallv ~~~ receive buffer --copy--> slot
 *     zero-copy  row ~~~ MPI_Isend, MPI_Irecv, one message a piece ~~~ slot
 *
 * Packing makes one message of many small pieces. A large piece is a message of its own, which
 * saves two copies and the buffers. run/fragments.h chooses by size (docs/inside/exchange.md has
 * the measurement). A round may use both ways, for different fields.
 *
 * Packed: rounds are posted in the same order on all readers. Counts are in records of one
 * contiguous datatype, so that neither a count nor a displacement overflows an int however large
 * the samples are; or in smaller units, where readers need different parts of samples. Ialltoallv
 * starts all sends and receives at once and skips empty ones.
 *
 * Zero-copy: between two readers, messages of one lane are received in the order in which they are
 * sent. Lanes do not wait for one another, since each lane has a communicator: MPI looks for a
 * message's receive among the lane's own receives. Very large pieces travel in several messages.
 *
 * Trailers: where samples have ragged fields, a record has a trailer of any length
 * (dataset/ragged.h). Trailers travel as packed records do, in a second MPI_Ialltoallv of the lane,
 * with buffers and counts of their own. Counts are in units of EXCHANGE_UNIT_BYTES. Both readers
 * know all lengths.
 *
 * MPI moves only inside MPI calls, so the owner tests often. Main thread only; nothing blocks.
 */
#ifndef PENSTOCK_MPI_ROUNDS_EXCHANGE_H
#define PENSTOCK_MPI_ROUNDS_EXCHANGE_H

#include "base/error.h"
#include "ranks/comm.h"

#include <stdbool.h>
#include <stdint.h>

struct exchange;

/* What travels packed. */
enum exchange_part { EXCHANGE_RECORDS, EXCHANGE_TRAILERS, EXCHANGE_PARTS };
enum { EXCHANGE_UNIT_BYTES = 16 };

/* Units of records, or of trailers, per peer, in order of rank; displacements are running sums. */
struct exchange_counts {
    int *send_counts, *send_displacements;
    int *receive_counts, *receive_displacements;
};

/* The most that a round may carry. A sample is one record of `record_bytes` (0: nothing is packed),
 * and pieces that travel in `sample_messages` (0: nothing is zero-copy). Samples of several sources
 * may have different pieces: then these are the sizes of the largest. */
struct exchange_sizes {
    uint64_t send_samples, receive_samples; /* to and from all peers together */
    uint64_t record_bytes;                  /* a multiple of 16; of the largest */
    uint64_t unit_bytes; /* in which records are counted: record_bytes, where all are alike; else
                          * EXCHANGE_UNIT_BYTES */
    uint64_t sample_messages;
    uint64_t message_bytes; /* of the largest, ROUND_MESSAGE_BYTES at most */
    /* Of all trailers, multiples of EXCHANGE_UNIT_BYTES. send_trailer_bytes 0: there are none, on
     * no rank. */
    uint64_t send_trailer_bytes, receive_trailer_bytes;
};

/* Allocates all buffers and tables. The packed buffers are not touched: see exchange_buffers().
 * `comm` is borrowed until exchange_free(). NO_MEMORY. INVALID: a round has more than 2^31 samples
 * or units of trailers, or MPI cannot describe the record. */
MUST_USE enum status exchange_new(const struct comm *comm, uint32_t lane_count,
                                  const struct exchange_sizes *sizes,
                                  struct exchange **ret_exchange, struct error *err);
void exchange_free(struct exchange *exchange);

/* The lane's packed buffers and counts, borrowed until exchange_free(). The buffers are NULL where
 * the part does not travel. */
unsigned char *exchange_send_buffer(const struct exchange *exchange, uint32_t lane,
                                    enum exchange_part part);
const unsigned char *exchange_receive_buffer(const struct exchange *exchange, uint32_t lane,
                                             enum exchange_part part);
struct exchange_counts exchange_counts(const struct exchange *exchange, uint32_t lane,
                                       enum exchange_part part);

/* Empties a lane whose last round is complete. */
void exchange_open(struct exchange *exchange, uint32_t lane);

/* Starts to receive the next piece that reader `peer` sends in this lane, or to send the next piece
 * to it. Both readers take the pieces in one order. `piece` is borrowed until the lane is complete.
 * Sending NULL stands for a piece without data: the receiver's memory stays as it is. */
void exchange_receive(struct exchange *exchange, uint32_t lane, int peer, void *piece,
                      uint64_t piece_bytes);
void exchange_send(struct exchange *exchange, uint32_t lane, int peer, const void *piece,
                   uint64_t piece_bytes);

/* How many messages of the lane, in the order of exchange_send(), are sent, so that their memory
 * may be used again. Moves all lanes on. */
uint64_t exchange_sent(struct exchange *exchange, uint32_t lane);

/* Receives `messages` more messages from `peer`, and drops the data, while exchange_test() is
 * called for this lane. For the end of a run; one lane at a time. */
void exchange_discard(struct exchange *exchange, uint32_t lane, int peer, uint64_t messages);

/* The memory that holds all buffers of the lane, borrowed. Nobody has touched it: the
 * caller does so on the NUMA node where the buffers are to lie. NULL and 0 where nothing is packed
 * and there are no trailers. */
unsigned char *exchange_buffers(const struct exchange *exchange, uint32_t lane, size_t *ret_bytes);

/* Collective, in the same order of rounds on all ranks: starts the lane's packed part, then its
 * trailers. Counts and send buffers must not change until the lane is complete. Does nothing where
 * nothing is packed and there are no trailers. */
void exchange_post(struct exchange *exchange, uint32_t lane);

/* Whether everything started in the lane is complete. Moves all lanes on. */
bool exchange_test(struct exchange *exchange, uint32_t lane);

#endif
