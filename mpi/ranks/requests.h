/* MPI requests that the service loop waits for, looked at together.
 *
 * MPI moves only inside MPI calls, and over a network each test of a request that is not complete
 * is a system call, since Open MPI looks at all its connections each time. So state machines do not
 * test requests one by one. They ask whether a request is complete, by comm_test(), and the loop
 * looks at all that were asked about with one MPI_Testsome, once a turn:
 *
 *     turn:  requests_look()   one call, which moves MPI on
 *            requests_ask()    each state machine: complete as of that look?
 *
 * Main thread only; nothing blocks.
 */
#ifndef PENSTOCK_MPI_RANKS_REQUESTS_H
#define PENSTOCK_MPI_RANKS_REQUESTS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum { REQUESTS_MOST = 64 };

/* Zero-initialised: nothing is asked about. */
struct requests {
    bool are_looked_at; /* the service loop turns: see comm_test() */
    uint32_t count;
    MPI_Request *asked[REQUESTS_MOST];
    MPI_Request copies[REQUESTS_MOST]; /* of the asked, for MPI */
    int indices[REQUESTS_MOST];        /* of the complete */
    MPI_Status statuses[REQUESTS_MOST];
};

/* Whether *request is complete: then it is MPI_REQUEST_NULL. If not, the next look has it, and
 * `request` is borrowed until then. With no room left it is tested here. */
bool requests_ask(struct requests *requests, MPI_Request *request);

/* Looks at all requests that were asked about since the last look: those that are complete become
 * MPI_REQUEST_NULL. Without any, does nothing. True: some are complete. */
bool requests_look(struct requests *requests);

#endif
