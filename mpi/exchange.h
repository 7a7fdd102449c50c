/* The exchange: every reader sends every other its records of one round.
 *
 * A lane is one round in flight: a send buffer, a receive buffer and a request. Rounds are posted
 * in the same order on all readers; any number of lanes may be under way. Counts are in records of
 * one contiguous datatype, so that neither a count nor a displacement overflows an int however
 * large the samples are.
 *
 * MPI_Ialltoallv: all sends and receives at once, empty ones skipped. It moves only inside MPI
 * calls: the owner (MPI's thread) tests often.
 */
#ifndef PENSTOCK_MPI_EXCHANGE_H
#define PENSTOCK_MPI_EXCHANGE_H

#include "base/error.h"
#include "comm.h"

#include <stdbool.h>
#include <stdint.h>

struct exchange;

/* Records per peer, in order of rank; displacements are running sums. */
struct exchange_counts {
    int *send_counts, *send_displacements;
    int *receive_counts, *receive_displacements;
};

/* Buffers are allocated and touched here. NO_MEMORY; INVALID: more than 2^31 records in
 * a round. */
MUST_USE enum status exchange_new(const struct comm *comm, uint32_t lane_count,
                                  uint64_t record_bytes, uint64_t send_records,
                                  uint64_t receive_records, struct exchange **ret_exchange,
                                  struct error *err);
void exchange_free(struct exchange *exchange);

unsigned char *exchange_send_buffer(const struct exchange *exchange, uint32_t lane);
const unsigned char *exchange_receive_buffer(const struct exchange *exchange, uint32_t lane);
struct exchange_counts exchange_counts(const struct exchange *exchange, uint32_t lane);

/* Collective in order: starts the lane's round. Counts and send buffer must not change until it is
 * complete. */
void exchange_post(struct exchange *exchange, uint32_t lane);

/* Whether the lane's round is complete; moves all lanes on. */
bool exchange_test(struct exchange *exchange, uint32_t lane);

#endif
