/* The slots of the trainers' rings. Pool workers fill slots; this file publishes them, and asks for
 * wake-ups when slots are free. */
#include "base/number.h"
#include "delivery/ring/wakeup.h"
#include "delivery/server/server_internal.h"

/* Whether a trainer has released what the slot held before. */
static bool has_released(const struct server *server, const struct trainer *t, uint64_t sequence)
{
    const struct group_ring *shared = t->shared;
    uint64_t tail;
    if (t->state != SERVER_PEER_CONNECTED)
        return true;
    if (!trainer_read_tail(t, &tail))
        return false;
    uint32_t reserved = tail < shared->base ? 0 : server->reserve_slots;
    return shared->base + sequence < tail + shared->ring.slot_count - reserved;
}

bool server_slot_free(const struct server *server, uint32_t ring, uint64_t sequence)
{
    const struct group_ring *shared = &server->rings[ring];
    const uint32_t *members = server->members + shared->first_member;
    for (uint32_t i = 0; i < shared->member_count; i++)
        if (!has_released(server, &server->trainers[members[i]], sequence))
            return false;
    return true;
}

void *server_slot(const struct server *server, uint32_t ring, uint64_t sequence)
{
    const struct group_ring *shared = &server->rings[ring];
    return ring_slot(&shared->ring, shared->base + sequence);
}

const struct ring *server_ring(const struct server *server, uint32_t ring)
{
    return &server->rings[ring].ring;
}

enum ring_pages server_ring_pages(const struct server *server, uint32_t ring)
{
    return server->rings[ring].ring.pages;
}

void server_publish(struct server *server, uint32_t ring)
{
    struct group_ring *shared = &server->rings[ring];
    const uint32_t *members = server->members + shared->first_member;
    uint64_t cursor = server_start_cursor(server) + ++shared->head - shared->base;
    for (uint32_t i = 0; i < shared->member_count; i++) {
        struct trainer *t = &server->trainers[members[i]];
        if (t->state != SERVER_PEER_CONNECTED)
            continue;
        t->head = shared->head;
        if (cursor > t->given)
            t->given = cursor;
        ring_publish(t->control, t->head, t->publish_fd);
    }
}

bool server_take_skip(struct server *server, uint32_t trainer, uint64_t *ret_from, uint64_t *ret_to)
{
    struct trainer *t = &server->trainers[trainer];
    if (!t->skipped)
        return false;
    t->skipped = false;
    *ret_from = t->skipped_from;
    *ret_to = t->wanted;
    return true;
}

bool server_take_given(struct server *server, uint32_t trainer, struct protocol_give *ret_given,
                       int *ret_memfd)
{
    struct trainer *t = &server->trainers[trainer];
    if (!t->gave)
        return false;
    t->gave = false;
    *ret_given = t->result;
    *ret_memfd = t->result_fd;
    return true;
}

uint64_t server_trainer_wanted(const struct server *server, uint32_t trainer)
{
    return server->trainers[trainer].wanted;
}

void server_skip(struct server *server, uint64_t cursor)
{
    server_set_start(server, cursor);
    for (uint32_t r = 0; r < server->ring_count; r++)
        server->rings[r].base = server->rings[r].head;
}

struct server_ring_view server_trainer_ring(const struct server *server, uint32_t trainer)
{
    const struct trainer *t = &server->trainers[trainer];
    struct server_ring_view view = {0};
    uint64_t tail;
    if (!server->started || !t->control)
        return view;
    view.waits = waits_read(&t->control->waits);
    view.slots = server->layout.slot_count - server->layout.spare_slots;
    if (t->state != SERVER_PEER_CONNECTED || !trainer_read_tail(t, &tail))
        return view;
    uint32_t backlog = (uint32_t)(t->head - tail), ready = (uint32_t)t->head - view.waits.taken;
    view.ready_slots = ready < backlog ? ready : backlog;
    view.leased_slots = backlog - view.ready_slots;
    view.waiting = atomic_load(&t->control->trainer_waits) != 0;
    return view;
}

/* The least tail with which server_slot_free(). */
static uint64_t tail_for(const struct server *server, const struct trainer *t, uint64_t sequence)
{
    uint64_t end = add_sat(add_sat(t->shared->base, sequence), 1);
    uint64_t tail = end - min_u64(end, server->layout.slot_count);
    return tail < t->shared->base ? tail : add_sat(tail, server->reserve_slots);
}

/* For wakeup_waiting_for(). */
static uint32_t awaited(const struct server *server, const struct trainer *t, uint64_t sequence)
{
    uint64_t tail, awaited = min_u64(tail_for(server, t, sequence), t->head);
    if (trainer_read_tail(t, &tail))
        awaited = max_u64(awaited, tail + 1);
    return (uint32_t)awaited ? (uint32_t)awaited : UINT32_MAX;
}

void server_arm(struct server *server, uint64_t sequence)
{
    for (uint32_t i = 0; server->started && i < server->trainer_count; i++) {
        const struct trainer *t = &server->trainers[i];
        atomic_store(&t->control->reader_waits, awaited(server, t, sequence));
    }
}

void server_disarm(struct server *server)
{
    for (uint32_t i = 0; server->started && i < server->trainer_count; i++) {
        atomic_store(&server->trainers[i].control->reader_waits, 0);
        wakeup_drain(server->trainers[i].release_fd);
    }
}
