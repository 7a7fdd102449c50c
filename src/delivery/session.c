/* See session.h, and ring.h for how the two ends wake each other. */
#include "delivery/session.h"

#include "base/clock.h"
#include "delivery/message.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* What a slot holds. The stamp is 2s+1 while the batch of sequence s is held and 2s+2 once it is
 * released, so that a slot's lives are never confused. Epoch and step are atomic only for a wrong
 * caller's sake: one that releases a batch twice may do so while the slot gets its next one. */
struct tenant {
    _Atomic uint64_t stamp;
    _Atomic uint64_t epoch, step;
};

struct session {
    struct link link;
    struct ring_header header; /* checked private copy */
    struct tenant *tenants;    /* [slot_count] */
    uint64_t taken;            /* slots handed out so far; session_next()'s thread only */
    bool ended;                /* END came: what is published is all there is */
    bool left;                 /* GOODBYE is sent */
    struct error final;        /* status is OK as long as batches may come */
};

enum status session_open(const struct connect_options *options, struct session **ret_session,
                         struct error *err)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a connection");
    enum status status = link_connect(options, &session->link, &session->header, err);
    if (status) {
        free(session);
        return status;
    }
    session->tenants = calloc(session->header.layout.slot_count, sizeof *session->tenants);
    if (!session->tenants) {
        link_done(&session->link);
        free(session);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a connection");
    }
    *ret_session = session;
    return STATUS_OK;
}

const struct ring_header *session_header(const struct session *session)
{
    return &session->header;
}

/* Reads what the service said. Final statuses are kept in session->final. */
static void hear_service(struct session *session)
{
    while (!session->ended && session->final.status == STATUS_OK) {
        struct message message;
        struct error error;
        enum status status = message_receive(session->link.socket, &message, NULL, &error);
        if (status == STATUS_TIMEOUT)
            return;
        if (status == STATUS_LOST)
            error_set(&session->final, STATUS_LOST,
                      "the reader on this node went away without an end or an error: it crashed or "
                      "was killed; see its output, and restart with --resume");
        else if (status)
            session->final = error;
        else if (message.type == MESSAGE_END)
            session->ended = true;
        else if (message.type == MESSAGE_FAIL)
            session->final = message.fail;
        else if (message.type != MESSAGE_WAIT)
            error_set(&session->final, STATUS_PROTOCOL,
                      "the service sent message %" PRIu32 " during delivery", message.type);
    }
}

/* In a full step every trainer's share begins at its rank's place. */
static enum status check_slot(const struct session *session, const struct slot_header *slot,
                              struct error *err)
{
    const struct ring_layout *layout = &session->header.layout;
    const struct ring_service *service = &session->header.service;
    if (slot->sample_count > layout->batch_size || slot->step >= service->steps_per_epoch)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: a batch of %" PRIu32 " samples at epoch %" PRIu64 " step %" PRIu64
                         "; at most %" PRIu32 " samples and %" PRIu64 " steps are possible",
                         slot->sample_count, slot->epoch, slot->step, layout->batch_size,
                         service->steps_per_epoch);
    uint64_t first = (uint64_t)service->rank * layout->batch_size;
    if (slot->step + 1 < service->steps_per_epoch && slot->first_position != first)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: the batch of epoch %" PRIu64 " step %" PRIu64
                         " begins at position %" PRIu32 " of the step, not at %" PRIu64,
                         slot->epoch, slot->step, slot->first_position, first);
    return STATUS_OK;
}

static bool published(const struct session *session)
{
    return atomic_load(&session->link.ring.control->head) != session->taken;
}

/* Takes the next slot if it is published. */
static bool take(struct session *session, struct session_batch *ret_batch)
{
    struct ring *ring = &session->link.ring;
    uint64_t head = atomic_load(&ring->control->head);
    if (head == session->taken)
        return false;
    uint64_t sequence = session->taken;
    struct session_batch batch = {.memory = ring_slot(ring, sequence),
                                  .slot = (uint32_t)(sequence % ring->slot_count)};
    struct error error = {0};
    if (head < sequence || head - sequence > ring->slot_count) {
        error_set(&error, STATUS_PROTOCOL,
                  "ring: head is %" PRIu64 " where %" PRIu64 " batches were taken", head, sequence);
    } else {
        memcpy(&batch.header, batch.memory, sizeof batch.header);
        enum status status = check_slot(session, &batch.header, &error);
        (void)status; /* it is in error */
    }
    if (error.status) {
        session->final = error;
        return false;
    }
    struct tenant *tenant = &session->tenants[batch.slot];
    atomic_store_explicit(&tenant->epoch, batch.header.epoch, memory_order_relaxed);
    atomic_store_explicit(&tenant->step, batch.header.step, memory_order_relaxed);
    atomic_store(&tenant->stamp, 2 * sequence + 1);
    session->taken++;
    *ret_batch = batch;
    return true;
}

/* Sleeps until a publish, a word from the service, or the deadline (UINT64_MAX: none). */
static enum status sleep_until(struct session *session, uint64_t deadline, struct error *err)
{
    struct link *link = &session->link;
    enum status status = STATUS_OK;
    atomic_store(&link->ring.control->trainer_waits, 1);
    if (!published(session)) {
        uint64_t now = clock_now_ns();
        uint64_t left = deadline > now ? deadline - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
                                   .tv_nsec = (long)(left % 1000000000u)};
        struct pollfd fds[] = {{.fd = link->publish_fd, .events = POLLIN},
                               {.fd = link->socket, .events = POLLIN}};
        /* Once the end is known, the socket has nothing to say and may be hung up. */
        nfds_t count = session->ended ? 1 : 2;
        if (ppoll(fds, count, deadline == UINT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR)
            status = error_set_errno(err, STATUS_IO, "poll");
    }
    atomic_store(&link->ring.control->trainer_waits, 0);
    event_drain(link->publish_fd);
    return status;
}

/* The slots that a trainer may count on. */
static uint32_t slots_to_hold(const struct session *session)
{
    return session->link.ring.slot_count - session->header.layout.spare_slots;
}

/* The batch that keeps the ring from moving, even when later ones are released: the oldest held
 * one, if as many batches have been taken since as a trainer may hold. NULL if there is none. */
static const struct tenant *obstacle(const struct session *session)
{
    const struct ring *ring = &session->link.ring;
    uint64_t tail = atomic_load(&ring->control->tail);
    const struct tenant *oldest = &session->tenants[tail % ring->slot_count];
    bool held = atomic_load(&oldest->stamp) == 2 * tail + 1;
    return held && session->taken - tail >= slots_to_hold(session) ? oldest : NULL;
}

static enum status all_held(const struct session *session, const struct tenant *oldest,
                            struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "all %" PRIu32 " slots are taken and the oldest batch, epoch %" PRIu64
                     " step %" PRIu64 ", is not released: release it before asking for another, or "
                     "raise delivery.slots",
                     slots_to_hold(session), atomic_load(&oldest->epoch),
                     atomic_load(&oldest->step));
}

enum status session_next(struct session *session, int64_t timeout_ms,
                         struct session_batch *ret_batch, struct error *err)
{
    uint64_t deadline =
        timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        hear_service(session);
        if (!session->final.status && take(session, ret_batch))
            return STATUS_OK;
        if (!session->final.status && session->ended)
            error_set(&session->final, STATUS_ENDED, "all epochs are consumed");
        if (session->final.status) {
            if (err)
                *err = session->final;
            return (enum status)session->final.status;
        }
        const struct tenant *oldest = obstacle(session);
        if (oldest)
            return all_held(session, oldest, err);
        if (deadline != UINT64_MAX && clock_now_ns() >= deadline)
            return error_set(err, STATUS_TIMEOUT, "no batch within %" PRId64 " ms", timeout_ms);
        enum status status = sleep_until(session, deadline, err);
        if (status)
            return status;
    }
}

/* Moves the tail over everything that is released. Any number of threads; each slot is passed by
 * exactly one. */
static void advance_tail(struct session *session)
{
    struct ring *ring = &session->link.ring;
    _Atomic uint64_t *shared_tail = &ring->control->tail;
    bool moved = false;
    for (;;) {
        uint64_t tail = atomic_load(shared_tail);
        struct tenant *oldest = &session->tenants[tail % ring->slot_count];
        if (atomic_load(&oldest->stamp) != 2 * tail + 2)
            break;
        moved |= atomic_compare_exchange_strong(shared_tail, &tail, tail + 1);
    }
    if (moved && atomic_load(&ring->control->reader_waits))
        event_signal(session->link.release_fd);
}

enum status session_release(struct session *session, uint32_t slot, uint64_t epoch, uint64_t step,
                            struct error *err)
{
    if (slot >= session->link.ring.slot_count)
        return error_set(err, STATUS_INVALID, "there is no slot %" PRIu32, slot);
    struct tenant *tenant = &session->tenants[slot];
    uint64_t held = atomic_load(&tenant->stamp);
    bool ours =
        held % 2 == 1 && atomic_load(&tenant->epoch) == epoch && atomic_load(&tenant->step) == step;
    if (!ours || !atomic_compare_exchange_strong(&tenant->stamp, &held, held + 1))
        return error_set(err, STATUS_INVALID,
                         "the batch of epoch %" PRIu64 " step %" PRIu64
                         " is not held: it was released before",
                         epoch, step);
    advance_tail(session);
    return STATUS_OK;
}

void session_leave(struct session *session, uint64_t next_epoch, uint64_t next_step)
{
    if (session->left)
        return;
    session->left = true;
    struct message goodbye = {.type = MESSAGE_GOODBYE,
                              .goodbye = {.epoch = next_epoch, .step = next_step}};
    enum status status = message_send(session->link.socket, &goodbye, NULL, NULL);
    (void)status; /* a service that is gone needs no goodbye */
    if (!session->final.status)
        error_set(&session->final, STATUS_ENDED, "this trainer has said goodbye");
}

void session_close(struct session *session)
{
    if (!session)
        return;
    link_done(&session->link);
    free(session->tenants);
    free(session);
}
