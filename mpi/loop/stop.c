/* See stop.h. */
#include "loop/stop.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { TAG_EVENT = 1 };
enum stop_event_kind {
    EVENT_ERROR,
    EVENT_RESTART,
    EVENT_WARNING,
    EVENT_IDLE,
    EVENT_EARLY,
    EVENT_LEFT,
    EVENT_DRAIN,
    EVENT_SKIP,
    EVENT_KINDS
};

struct stop_event {
    int32_t kind;
    int32_t signal_number; /* DRAIN */
    uint64_t cursor;       /* SKIP: of the notice; of an event as in stop_event_skip() */
    struct error error;
};

struct stop {
    const struct comm *comm;
    int idle_count;     /* rank 0: readers that have nobody left to serve */
    struct error early; /* rank 0: of a trainer that left early, as an idle reader told; else OK */
    int left_count;     /* rank 0: readers whose trainers have all left */
    struct error first_early; /* rank 0: of the first trainer that left early, told as it left */
    uint64_t early_ns;        /* rank 0: when first_early came; 0: it did not, or is in the log */
    uint64_t *wanted;     /* rank 0: [readers] as each told last: twice the cursor, and 1 if far */
    uint64_t told_wanted; /* what this rank told last */
    bool decided;         /* rank 0: the notice is on its way */
    bool begun;
    bool notice_posted, noticed;
    struct stop_event notice;   /* as decided: of kind RESTART or SKIP, or the end */
    struct stop_event incoming; /* rank 0: the last one */
    uint64_t received;          /* rank 0: events so far */
    uint64_t looked_ns;         /* rank 0: for events: see comm_take() */
    MPI_Request notice_request;
    bool told[EVENT_KINDS];
    uint64_t sent; /* to rank 0 by this one, if it is another */
    struct stop_event outgoing[EVENT_KINDS];
    MPI_Request outgoing_requests[EVENT_KINDS];
    int drain_signal; /* as broadcast; 0 at the end of a session that was not drained */
    bool drain_posted, drain_noticed;
    uint64_t end; /* in rounds: offered, then agreed */
    bool end_posted;
    MPI_Request drain_request, end_request;
};

static void post_notice(struct stop *stop)
{
    stop->notice_posted = true;
    MPI_Ibcast(&stop->notice, sizeof stop->notice, MPI_BYTE, 0, stop->comm->control,
               &stop->notice_request);
}

static void post_drain(struct stop *stop, int signal_number)
{
    if (stop->drain_posted)
        return;
    stop->drain_posted = true;
    stop->drain_signal = signal_number;
    MPI_Ibcast(&stop->drain_signal, 1, MPI_INT, 0, stop->comm->drain, &stop->drain_request);
}

enum status stop_new(const struct comm *comm, struct stop **ret_stop, struct error *err)
{
    struct stop *stop = calloc(1, sizeof *stop);
    if (stop && comm->rank == 0)
        stop->wanted = calloc((size_t)comm->size, sizeof *stop->wanted);
    if (stop && comm->rank == 0 && !stop->wanted) {
        free(stop);
        stop = NULL;
    }
    if (!stop)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the stop notice");
    stop->comm = comm;
    stop->notice_request = MPI_REQUEST_NULL;
    stop->drain_request = stop->end_request = MPI_REQUEST_NULL;
    for (int kind = 0; kind < EVENT_KINDS; kind++)
        stop->outgoing_requests[kind] = MPI_REQUEST_NULL;
    *ret_stop = stop;
    return STATUS_OK;
}

void stop_begin(struct stop *stop)
{
    stop->begun = true;
    if (stop->comm->rank == 0)
        return;
    post_notice(stop);
    post_drain(stop, 0);
}

static void decide(struct stop *stop, const struct stop_event *notice)
{
    if (stop->decided)
        return;
    stop->decided = true;
    stop->notice = *notice;
    post_notice(stop);
}

static void decide_end(struct stop *stop, enum stop_event_kind kind, const struct error *outcome)
{
    decide(stop, &(struct stop_event){.kind = kind, .error = *outcome});
}

static void handle_event(struct stop *stop, const struct stop_event *event)
{
    if (event->kind == EVENT_WARNING) {
        fprintf(stderr, "penstock-reader: warning: %s\n", event->error.message);
        return;
    }
    if (event->kind == EVENT_LEFT) {
        stop->left_count++;
        return;
    }
    if (event->kind == EVENT_EARLY) {
        if (stop->first_early.status != STATUS_OK)
            return;
        stop->early_ns = clock_now_ns();
        stop->first_early = event->error;
        return;
    }
    if (event->kind == EVENT_SKIP) {
        stop->wanted[event->error.rank] = event->cursor;
        return;
    }
    if (event->kind == EVENT_DRAIN) {
        post_drain(stop, event->signal_number);
        return;
    }
    if (event->kind != EVENT_IDLE) {
        decide_end(stop, (enum stop_event_kind)event->kind, &event->error);
        return;
    }
    if (stop->early.status == STATUS_OK)
        stop->early = event->error;
    if (++stop->idle_count == stop->comm->size)
        decide_end(stop, EVENT_IDLE, &stop->early);
}

/* `number`: of the signal of a DRAIN, or a SKIP's cursor. */
static void send_event(struct stop *stop, enum stop_event_kind kind, uint64_t number,
                       const struct error *error)
{
    struct stop_event *event = &stop->outgoing[kind];
    *event = (struct stop_event){.kind = kind, .error = *error};
    if (kind == EVENT_DRAIN)
        event->signal_number = (int)number;
    else
        event->cursor = number;
    event->error.rank = stop->comm->rank;
    if (kind != EVENT_IDLE)
        error_prefix(&event->error, (enum status)error->status,
                     "reader %d on %s: ", stop->comm->rank, stop->comm->node_name);
    if (stop->comm->rank == 0)
        handle_event(stop, event);
    else {
        MPI_Isend(event, sizeof *event, MPI_BYTE, 0, TAG_EVENT, stop->comm->control,
                  &stop->outgoing_requests[kind]);
        stop->sent++;
    }
}

/* The first event of its kind goes out; the others are forgotten. */
static void send_once(struct stop *stop, enum stop_event_kind kind, const struct error *error)
{
    if (!stop->told[kind])
        send_event(stop, kind, 0, error);
    stop->told[kind] = true;
}

void stop_event_drain(struct stop *stop, int signal_number)
{
    const struct error none = {0};
    if (!stop->told[EVENT_DRAIN])
        send_event(stop, EVENT_DRAIN, (uint64_t)signal_number, &none);
    stop->told[EVENT_DRAIN] = true;
}

int stop_drains(const struct stop *stop)
{
    return stop->drain_noticed ? stop->drain_signal : 0;
}

void stop_offer_end(struct stop *stop, uint64_t rounds)
{
    stop->end = rounds;
    stop->end_posted = true;
    MPI_Iallreduce(MPI_IN_PLACE, &stop->end, 1, MPI_UINT64_T, MPI_MAX, stop->comm->drain,
                   &stop->end_request);
}

bool stop_agreed_end(struct stop *stop, uint64_t *ret_rounds)
{
    bool complete = comm_test(stop->comm, &stop->end_request);
    if (complete)
        *ret_rounds = stop->end;
    return complete;
}

void stop_event_error(struct stop *stop, const struct error *error)
{
    send_once(stop, EVENT_ERROR, error);
}

void stop_end(struct stop *stop, const struct error *error)
{
    decide_end(stop, EVENT_ERROR, error);
}

void stop_event_restart(struct stop *stop, const struct error *loss)
{
    send_once(stop, EVENT_RESTART, loss);
}

void stop_event_idle(struct stop *stop, const struct error *early)
{
    send_once(stop, EVENT_IDLE, early);
}

void stop_event_early(struct stop *stop, const struct error *early)
{
    send_once(stop, EVENT_EARLY, early);
}

void stop_event_left(struct stop *stop)
{
    const struct error none = {0};
    send_once(stop, EVENT_LEFT, &none);
}

void stop_watch_early(struct stop *stop, bool fails)
{
    const uint64_t patience_ns = 2000000000;
    if (stop->early_ns == 0 || stop->left_count == stop->comm->size ||
        clock_now_ns() - stop->early_ns < patience_ns)
        return;
    struct error early;
    stop->early_ns = 0;
    error_set(&early, STATUS_LOST,
              "%s; other trainers are still there, and wait for this one if they work in step",
              stop->first_early.message);
    if (fails)
        decide_end(stop, EVENT_ERROR, &early);
    else
        fprintf(stderr, "penstock-reader: warning: %s\n", early.message);
}

void stop_event_warning(struct stop *stop, const struct error *warning)
{
    if (comm_test(stop->comm, &stop->outgoing_requests[EVENT_WARNING]))
        send_event(stop, EVENT_WARNING, 0, warning);
}

void stop_event_skip(struct stop *stop, uint64_t cursor, bool far)
{
    const struct error none = {0};
    uint64_t number = cursor == STOP_WANTS_NOTHING ? cursor : 2 * cursor + far;
    if (!comm_test(stop->comm, &stop->outgoing_requests[EVENT_SKIP]) || number == stop->told_wanted)
        return;
    stop->told_wanted = number;
    send_event(stop, EVENT_SKIP, number, &none);
}

uint64_t stop_wanted(const struct stop *stop, bool *ret_far)
{
    uint64_t least = STOP_WANTS_NOTHING;
    *ret_far = false;
    for (int rank = 0; rank < stop->comm->size; rank++) {
        uint64_t number = stop->wanted[rank];
        *ret_far |= number != STOP_WANTS_NOTHING && number % 2 == 1;
        if (number != STOP_WANTS_NOTHING && number / 2 < least)
            least = number / 2;
    }
    return least;
}

void stop_skip(struct stop *stop, uint64_t cursor)
{
    if (!stop->drain_posted)
        decide(stop, &(struct stop_event){.kind = EVENT_SKIP, .cursor = cursor});
}

bool stop_skips(const struct stop *stop, uint64_t *ret_cursor)
{
    if (!stop->noticed || stop->notice.kind != EVENT_SKIP)
        return false;
    *ret_cursor = stop->notice.cursor;
    return true;
}

static bool take_event(struct stop *stop)
{
    if (!comm_take(stop->comm, stop->comm->control, TAG_EVENT, &stop->incoming,
                   sizeof stop->incoming, &stop->looked_ns))
        return false;
    stop->received++;
    handle_event(stop, &stop->incoming);
    return true;
}

bool stop_progress(struct stop *stop)
{
    bool active = false;
    if (stop->comm->rank == 0)
        active = take_event(stop);
    if (!stop->noticed && stop->notice_posted) {
        stop->noticed = comm_test(stop->comm, &stop->notice_request);
        active |= stop->noticed;
    }
    if (!stop->drain_noticed && stop->drain_posted) {
        stop->drain_noticed = comm_test(stop->comm, &stop->drain_request);
        active |= stop->drain_noticed;
    }
    return active;
}

const struct error *stop_outcome(const struct stop *stop)
{
    return stop->noticed ? &stop->notice.error : NULL;
}

bool stop_restarts(const struct stop *stop)
{
    return stop->noticed && stop->notice.kind == EVENT_RESTART;
}

void stop_agree_highest(struct stop *stop, uint64_t *values, int count)
{
    comm_reduce(stop->comm, values, (size_t)count, MPI_UINT64_T, MPI_MAX, stop->comm->control);
}

/* Rank 0 takes the events that came too late to matter, so that no send is left open, however MPI
 * sends them. */
static void take_late_events(struct stop *stop, uint64_t sent)
{
    for (unsigned idle = 0; stop->received < sent; comm_back_off(&idle)) {
        comm_heed_signals(stop->comm);
        take_event(stop);
    }
}

void stop_free(struct stop *stop)
{
    if (!stop || !stop->begun) {
        if (stop)
            free(stop->wanted);
        free(stop);
        return;
    }
    bool root = stop->comm->rank == 0;
    uint64_t sent = 0;
    MPI_Request request;
    MPI_Ireduce(&stop->sent, &sent, 1, MPI_UINT64_T, MPI_SUM, 0, stop->comm->control, &request);
    comm_wait(stop->comm, &request);
    if (root)
        take_late_events(stop, sent);
    for (int kind = 0; kind < EVENT_KINDS; kind++)
        comm_wait(stop->comm, &stop->outgoing_requests[kind]);
    post_drain(stop, 0);
    comm_wait(stop->comm, &stop->drain_request);
    if (stop->drain_signal && !stop->end_posted)
        stop_offer_end(stop, 0);
    comm_wait(stop->comm, &stop->end_request);
    free(stop->wanted);
    free(stop);
}
