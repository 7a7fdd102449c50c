/* The reader's view of MPI: communicators, waiting without burning a core, agreeing on errors.
 *
 * MPI is called by the main thread alone (MPI_THREAD_FUNNELED). Each kind of traffic has a
 * communicator of its own, so that the order of one does not depend on the progress of another:
 *
 *     world    start and end: broadcasts, gathers, agreement
 *     control  the stop notice, and events before it
 *     drain    the notice of an orderly end, and where that is
 *     rounds   the exchange's collectives
 *     lanes    the exchange's messages, by round in flight
 *     pace     barriers that keep readers from running ahead of one another
 *     windows  rank 0's assignment of rows
 *     tally    what trainers were given of an epoch
 *     node     the readers that share this node's memory
 *
 * Open MPI's blocking calls spin. Everything here uses the nonblocking form and comm_wait(), which
 * tests and sleeps: a reader must not take a core from a trainer, at start-up either.
 */
#ifndef PENSTOCK_MPI_COMM_H
#define PENSTOCK_MPI_COMM_H

#include "base/error.h"
#include "plan/round.h"

#include <mpi.h>
#include <stddef.h>

enum { COMM_NODE_NAME_BYTES = 64, COMM_LANES = ROUND_MAX_IN_FLIGHT };

struct comm {
    MPI_Comm world, control, drain, rounds, lanes[COMM_LANES], pace, windows, tally, node;
    int rank, size;
    int node_rank, node_size;
    char node_name[COMM_NODE_NAME_BYTES];
    int signal_fd; /* signalfd of SIGINT and SIGTERM; looked at while waiting */
    /* Called when a signal is seen in any wait, or one that the service loop cannot answer in good
     * order; must not return. */
    void (*on_signal)(void *argument, int signal_number);
    void *on_signal_argument;
};

/* Collective. MPI: the library does not provide MPI_THREAD_FUNNELED, or is not the launcher's, so
 * that each process is a world of its own. */
MUST_USE enum status comm_init(struct comm *ret_comm, struct error *err);

/* Collective: waits for all ranks without spinning, frees the communicators and ends MPI. */
void comm_done(struct comm *comm);

/* Waits for a request, testing and sleeping. */
void comm_wait(const struct comm *comm, MPI_Request *request);

/* Sleeps a little longer each time it is called in a row: 20 us up to 1 ms. `*idle` starts at 0. */
void comm_back_off(unsigned *idle);

/* Collective over world: returns the same on every rank: OK when all came with OK, else the error
 * of the lowest rank that failed, with its rank filled in. `status` and `*err` are this rank's. */
MUST_USE enum status comm_agree(const struct comm *comm, enum status status, struct error *err);

/* Collective over world: rank 0's bytes on every rank, in malloc'ed memory (returned) on the
 * others; rank 0 gets its own pointer back. NO_MEMORY is fatal to the job. */
void comm_share(const struct comm *comm, void **bytes, size_t *size);

/* The number of a signal that has arrived; 0: none. */
int comm_take_signal(const struct comm *comm);

/* Looks whether a signal has arrived, and if so calls on_signal. */
void comm_heed_signals(const struct comm *comm);

#endif
