/* The reader's view of MPI: communicators, waiting without a busy core, agreeing on errors.
 *
 * The main thread alone calls MPI (MPI_THREAD_FUNNELED), and everything here. Each kind of traffic
 * has a communicator of its own, so that its order does not depend on the progress of other kinds:
 *
 *     world    start and end: broadcasts, gathers, agreement
 *     control  the stop notice, and events before it
 *     drain    the notice of an orderly end, and the round of that end
 *     rounds   the exchange's collectives
 *     lanes    the exchange's messages, and agreements on passes, by round in flight
 *     pace     meetings that keep readers from running ahead of one another
 *     windows  rank 0's assignment of rows
 *     tally    what trainers were given of an epoch
 *     overview what rank 0 asks other nodes' readers for `penstock top`
 *     node     the readers that share this node's memory
 *     all      the readers of all runs that one launcher has started (--also): start and end
 *
 * Where one launcher starts several runs, each run has a world of its own: every node's processes
 * are divided evenly, the first ones for run 0.
 *
 * Open MPI's blocking calls spin. The functions here use nonblocking calls and comm_wait(), which
 * tests and sleeps: a reader must not take a core from a trainer, not even at the start. Where
 * readers outnumber cores, all sleeps of these processes grow with that: comm_init().
 */
#ifndef PENSTOCK_MPI_RANKS_COMM_H
#define PENSTOCK_MPI_RANKS_COMM_H

#include "base/error.h"
#include "plan/rounds/round.h"
#include "ranks/nics.h"
#include "ranks/requests.h"
#include "run/also.h"

#include <mpi.h>
#include <stddef.h>

enum { COMM_NODE_NAME_BYTES = 65, COMM_LANES = ROUND_MAX_IN_FLIGHT, COMM_MAX_RUNS = ALSO_MOST + 1 };

struct comm {
    MPI_Comm world, control, drain, rounds, lanes[COMM_LANES], pace, windows, tally, overview, node;
    MPI_Comm all; /* MPI_COMM_NULL: there is one run */
    int rank, size;
    int run, run_count; /* which of the runs this process belongs to, and how many there are */
    int leaders[COMM_MAX_RUNS]; /* [run_count] rank in `all` of each run's rank 0 */
    int node_rank, node_size;
    uint32_t crowd; /* readers of this node that share a core, 1 or more: all sleeps are as much
                     * coarser */
    char node_name[COMM_NODE_NAME_BYTES];
    char nics[NICS_BYTES]; /* that MPI was told to use; "": none */
    int signal_fd;         /* signalfd of SIGINT and SIGTERM, -1 without; read while waiting */
    /* Called when a signal comes during a wait, or one comes to which the service loop cannot
     * answer with an orderly end. Returns only if an orderly end that the signal asks for is under
     * way: the wait goes on then. */
    void (*on_signal)(void *argument, int signal_number);
    void *on_signal_argument;
    bool is_hasty; /* the launcher kills processes 0.25 s after SIGTERM, others wait a second or
                      more */
    struct requests *requests; /* borrowed; NULL: there is no service loop */
};

/* Collective. Initialises MPI, and makes the communicators for `run_count` runs. *ret_comm is the
 * caller's, for comm_done(). INVALID, on all ranks, with ret_comm->rank set: the processes of a
 * node do not divide into as many runs. MPI: the library does not provide MPI_THREAD_FUNNELED, or
 * is not the launcher's, so that each process is a world of its own. After an error, call
 * MPI_Finalize() when the error is said: launchers end a job with its first process that fails. */
MUST_USE enum status comm_init(int run_count, struct comm *ret_comm, struct error *err);

/* Collective: waits for all ranks without spinning, frees the communicators and ends MPI. */
void comm_done(struct comm *comm);

/* Whether a request is complete, and so MPI_REQUEST_NULL. In the service loop, as of the loop's
 * last look at MPI (requests.h), and `request` is borrowed until its next look; else tested here. A
 * look may set *request before the owner asks: NULL does not say that nothing was posted. */
bool comm_test(const struct comm *comm, MPI_Request *request);

/* Takes a message with this tag from any rank of `where`, one of comm's, into `message`; false:
 * none is here. In the service loop it looks once a millisecond, by *looked_ns, which is the
 * caller's and begins as 0. No receive from any rank is left open: with MPICH 5.0.2 over UCX runs
 * on three hosts then hung at their end, with messages to rank 0 that had not come. */
bool comm_take(const struct comm *comm, MPI_Comm where, int tag, void *message, size_t bytes,
               uint64_t *looked_ns);

/* Waits for a request: tests, looks for signals, and sleeps. */
void comm_wait(const struct comm *comm, MPI_Request *request);

/* Lets MPI move what is on its way, in a wait for something else. */
void comm_move(const struct comm *comm);

/* Collective over `where`, one of comm's: reduces `count` values of all ranks, which become the
 * result. Waits as comm_wait() does, and so does the next one. Values of 64 bits are below 2^63:
 * MPICH 4.0 compares unsigned integers as if they were signed. */
void comm_reduce(const struct comm *comm, void *values, size_t count, MPI_Datatype type,
                 MPI_Op operation, MPI_Comm where);

/* Collective over `where`: gives all ranks `size` bytes of rank `root`. */
void comm_broadcast(const struct comm *comm, void *bytes, size_t size, int root, MPI_Comm where);

/* Sleeps a little longer each time it is called in a row: 20 us up to 1 ms, and longer in a crowd.
 * `*idle` starts at 0. */
void comm_back_off(unsigned *idle);

/* Puts "reader 1 on node: " in front of an error of this rank's stores; the value is `status`. What
 * rank 0 finds INVALID or UNSUPPORTED is so for all, and stays as it is. */
enum status comm_name_reader(const struct comm *comm, enum status status, struct error *err);

/* Collective over world: agrees on an outcome. `status` and `*err` are this rank's own. Returns the
 * same on every rank: OK if all ranks have OK; else the error of the lowest rank that failed, with
 * that rank filled in. `err` must not be NULL. */
MUST_USE enum status comm_agree(const struct comm *comm, enum status status, struct error *err);

/* Collective over all runs: as comm_agree(), for an outcome that is the same on all ranks of each
 * run. Returns the error of the first run that has one. */
MUST_USE enum status comm_agree_runs(const struct comm *comm, enum status status,
                                     struct error *err);

/* Collective over all runs: gives them `size` bytes of run `run`'s rank 0. */
void comm_share_with_runs(const struct comm *comm, int run, void *bytes, size_t size);

/* Collective over world: gives all ranks rank 0's `*size` bytes. On rank 0 *bytes and *size are
 * input and stay. On the other ranks *bytes becomes memory of *size bytes, with a NUL behind, that
 * the caller frees. Lack of memory aborts the job. */
void comm_share(const struct comm *comm, void **bytes, size_t *size);

/* Takes a signal that has arrived, and returns its number; 0: none. A signal goes to all runs, and
 * run 0 ends the others: these take SIGINT and SIGTERM only when nothing was heard of run 0 for a
 * while. */
int comm_take_signal(const struct comm *comm);

/* Takes a signal that has arrived, if any, and calls on_signal with it. */
void comm_heed_signals(const struct comm *comm);

#endif
