/* What the files of the service share; see service.h for what others may use. */
#ifndef PENSTOCK_MPI_SERVICE_INTERNAL_H
#define PENSTOCK_MPI_SERVICE_INTERNAL_H

#include "books.h"
#include "service.h"
#include "stall.h"
#include "stop.h"
#include "tally.h"

/* A session under way. Members are grouped by the file that changes them. */
struct service {
    struct job *job;
    struct windows *windows;
    struct rounds *rounds;
    struct stop *stop;
    struct stall *stall;
    struct tally *tally;
    struct books books;

    /* The loop's. */
    struct pollfd *fds;
    size_t fd_capacity;
    bool outside_ready;  /* poll() has seen a socket or a signal */
    uint64_t outside_ns; /* when sockets, signals and children were last looked at */
    uint64_t active_ns;  /* when something last moved */

    /* The trainers'. */
    bool *left; /* [trainer_count], in order of the server's peers: has said goodbye */
    uint32_t left_count;
    bool *
        lost; /* [trainer_count], in order of the server's peers: its connection was found broken */
    uint64_t lost_ns;      /* when the last one was lost, of those that had everything */
    uint64_t least_cursor; /* at which a trainer of ours said goodbye; INT64_MAX: none did */
    uint32_t children_running;
    struct error early; /* ENDED once a trainer left before the end, INTERRUPTED at an early one */

    /* The end's. */
    int signal_number;    /* that came here; 0: none */
    uint64_t signal_ns;   /* when it came, or the news of one */
    bool holds_rounds;    /* no further rounds are opened until the end is agreed on */
    bool ends_early;      /* the end is agreed on, and it is an early one */
    MPI_Request all_done; /* a barrier: every rank's trainers have their last batch */
    bool done_posted;     /* that barrier */
    bool ended;           /* trainers were told of the end */
};

/* service_trainers.c: looks at trainers' sockets, at children, and at who is waited for; true if
 * anything moved. */
bool service_look_at_trainers(struct service *service);

/* service_end.c: the first signal asks for an orderly end, any later one that is not just its echo
 * (a terminal's comes from the launcher, too) for an immediate one, as does a supervisor's SIGTERM,
 * by which its launcher ends what a dead reader has left. */
void service_heed_signal(struct service *service);

/* Moves an orderly end on: all readers go on to the same step. Where that takes too long, or where
 * rank 0 does not answer, the end is an immediate one. */
bool service_progress_to_end(struct service *service);

/* Trainers hear of the end when all of the run have their last batch, and not before: until then
 * one that is lost and comes again needs the others. Then they say goodbye and, if they are ours,
 * exit. An early end is told at once: nobody comes again. */
bool service_end_delivery(struct service *service);

/* Collective, when the loop is over. Leaves no collective half done: see stop.h. Rows on their way
 * are waited for unless a session follows (`again`), which takes them. */
void service_drain(struct service *service, bool again);

/* Collective: sets job->stop_cursor, where a trainer has stopped that comes first; all have stopped
 * there unless one left early. */
void service_settle_stop_cursor(struct service *service);

#endif
