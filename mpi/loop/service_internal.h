/* For the service's own files; service.h is for others. Main thread only. */
#ifndef PENSTOCK_MPI_LOOP_SERVICE_INTERNAL_H
#define PENSTOCK_MPI_LOOP_SERVICE_INTERNAL_H

#include "account/books.h"
#include "account/tally.h"
#include "loop/service.h"
#include "loop/stall.h"
#include "loop/stop.h"

/* A session under way. Members are grouped by the file that changes them, and are borrowed or owned
 * as service_run() made them. */
struct service {
    const struct job *job;
    struct session *session;
    struct windows *windows;
    struct rounds *rounds;
    struct stop *stop;
    struct stall *stall;
    struct tally *tally;
    struct books books;

    /* The loop's. */
    struct pollfd *fds;
    size_t fd_capacity;
    bool outside_ready;    /* poll() has seen a readable socket, or a signal */
    uint64_t outside_ns;   /* when sockets, signals and children were last looked at */
    uint64_t active_ns;    /* when something last moved */
    bool armed;            /* whoever has something wakes this thread */
    bool awaits_answer;    /* the last turn was followed by no sleep, for an answer */
    uint32_t late_answers; /* in a row, that did not come soon */

    /* The trainers'. */
    bool *left; /* [trainer_count], in order of the server's trainers: it has said goodbye */
    uint32_t left_count;
    bool *
        lost; /* [trainer_count], in order of the server's peers: its connection was found broken */
    uint64_t lost_ns;      /* when the last trainer was lost that had its last batch */
    uint64_t least_cursor; /* least cursor at which a trainer of this reader said goodbye;
                            * INT64_MAX: none did */
    uint32_t children_running;
    struct error early; /* ENDED: a trainer of this reader left before the end; INTERRUPTED: it left
                         * at an early end */

    /* The end's. */
    int signal_number;    /* the signal that came to this rank; 0: none */
    uint64_t signal_ns;   /* when a signal came here, or the news of one on another rank; 0: none */
    bool holds_rounds;    /* no further rounds are opened until the end is agreed on */
    bool ends_early;      /* an early end is agreed on */
    MPI_Request all_done; /* a barrier: every rank's trainers have their last batch */
    bool done_posted;     /* all_done is under way or complete */
    bool ended;           /* trainers were told of the end */
    bool skips;           /* delivery goes on, at cursor skip_to */
    uint64_t skip_to;
};

/* service_trainers.c: reads trainers' sockets, reaps children, and warns of trainers that keep
 * others waiting. True if anything moved. */
bool service_look_at_trainers(struct service *service);

/* service_transform.c: looks after the transform. `looks`: as of transform_progress(). True if
 * anything moved. */
bool service_progress_transform(struct service *service, bool looks);

/* Waits until its processes have no slot, for service_skip(). Errors of transform_progress(). */
MUST_USE enum status service_cancel_transform(const struct job *job, struct error *err);

/* service_skip.c: hears which steps trainers skip. On rank 0 ends the session once steps are to
 * come that no trainer wants. */
void service_look_for_skips(struct service *service);

/* Collective, after such a session: the next one begins at the cursor `wanted`, or behind what all
 * readers have published (`published` is this reader's cursor), with the same trainers and rings.
 */
void service_skip(struct session *session, uint64_t wanted, uint64_t published);

/* service_end.c: takes a signal, if one has come. The first signal asks for an orderly end. A later
 * signal asks for an immediate end, unless it is an echo of the first: a terminal's ^C comes from
 * the launcher, too. With a supervisor a SIGTERM also asks for an immediate end: this is how a
 * launcher ends the ranks that a dead reader left behind. */
void service_heed_signal(struct service *service);

/* Begins an orderly end because of a signal that came to this rank. */
void service_take_signal(struct service *service, int number);

/* On rank 0: tells other runs of a signal, and ends this run as they say. */
void service_heed_siblings(struct service *service);

/* Moves an orderly end on: all readers go on to the same step. If this takes too long, or rank 0
 * does not answer, the end becomes an immediate one. True if anything moved. */
bool service_progress_to_end(struct service *service);

/* Tells trainers of the end, once all trainers of the run have their last batch: until then a lost
 * trainer that comes again needs the others. Then trainers say goodbye, and children exit. Trainers
 * are told of an early end at once, since nobody comes again. True if anything moved. */
bool service_end_delivery(struct service *service);

/* Collective, when the loop is over. Leaves no collective half done: see stop.h. Waits for rows
 * that are being loaded, unless a session follows (`again`) that uses them. */
void service_drain(struct service *service, bool again);

/* Collective: sets session->stop_cursor to the least cursor at which a trainer stopped. All
 * trainers stopped there, unless one left early. */
void service_settle_stop_cursor(struct service *service);

#endif
