/* See server.h. This part makes the rings, publishes slots and watches the trainers' tails. */
#include "delivery/wakeup.h"
#include "server/server_internal.h"

#include <inttypes.h>
#include <string.h>

/* Descriptors and memory for one trainer; undone by trainer_done(). */
static enum status equip(const struct server *server, struct trainer *trainer, struct error *err)
{
    struct ring_service service = server->service;
    service.rank = trainer->rank;
    enum status status = ring_memory_create(&server->layout, &service, server->fill,
                                            server->fill_argument, &trainer->ring, err);
    if (!status)
        status = wakeup_new(&trainer->publish_fd, err);
    if (!status)
        status = wakeup_new(&trainer->release_fd, err);
    return status ? error_prefix(err, status, "ring of trainer %" PRIu32 ": ", trainer->rank)
                  : STATUS_OK;
}

static uint64_t start_of(const struct server *server)
{
    const struct ring_service *service = &server->service;
    return service->start_epoch * service->steps_per_epoch + service->start_step;
}

void server_set_start(struct server *server, uint64_t cursor)
{
    server->service.start_epoch = cursor / server->service.steps_per_epoch;
    server->service.start_step = cursor % server->service.steps_per_epoch;
}

void server_set_first(struct server *server, uint32_t trainer, uint64_t cursor)
{
    server->trainers[trainer].first = cursor;
}

static void welcome(const struct server *server, struct trainer *trainer)
{
    const int fds[WELCOME_FDS] = {trainer->ring.memfd, trainer->publish_fd, trainer->release_fd};
    uint64_t steps = server->service.steps_per_epoch;
    struct protocol_message message = {
        .type = PROTOCOL_WELCOME,
        .welcome = {.epoch = trainer->first / steps, .step = trainer->first % steps}};
    struct error error;
    enum status status = protocol_send(trainer->socket, &message, fds, &error);
    if (!status)
        return;
    error_prefix(&error, status, "trainer %" PRIu32 " (process %ld): ", trainer->rank,
                 (long)trainer->pid);
    trainer_lose(trainer, &error);
}

enum status server_start(struct server *server, struct error *err)
{
    memset(server->left, 0, server->service.world_size * sizeof *server->left);
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        enum status status = equip(server, &server->trainers[i], err);
        if (status)
            return status;
    }
    server->started = true;
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->first == UINT64_MAX)
            trainer->first = start_of(server);
        if (trainer->first != trainer->wished) /* else it may hold batches before that */
            trainer->released = trainer->first;
        trainer->given = trainer->first;
        if (trainer->state == SERVER_PEER_CONNECTED)
            welcome(server, trainer);
    }
    return STATUS_OK;
}

/* The tail in shared memory if it is possible and did not go back, else false. */
static bool read_tail(const struct trainer *trainer, uint64_t *ret_tail)
{
    uint64_t tail = atomic_load(&trainer->ring.control->tail);
    if (tail < trainer->tail || !ring_tail_possible(&trainer->ring, trainer->head, tail))
        return false;
    *ret_tail = tail;
    return true;
}

/* The same of the cursor behind what it has released. Before its first batch it may have none to
 * tell, or an older one: that is no news. */
static bool read_released(const struct trainer *trainer, uint64_t *ret_cursor)
{
    uint64_t cursor = trainer->page.cursor ? atomic_load(trainer->page.cursor) : 0;
    if (cursor > trainer->given)
        return false;
    *ret_cursor = cursor > trainer->released ? cursor : trainer->released;
    return true;
}

bool trainer_check_tail(struct trainer *trainer)
{
    uint64_t tail, cursor;
    if (read_tail(trainer, &tail) && read_released(trainer, &cursor)) {
        bool moved = tail != trainer->tail || cursor != trainer->released;
        trainer->tail = tail;
        trainer->released = cursor;
        return moved;
    }
    struct error error;
    error_set(&error, STATUS_PROTOCOL,
              "trainer %" PRIu32 " (process %ld) wrote an impossible tail or cursor: %" PRIu64
              " (cursor %" PRIu64 ") with %" PRIu64 " published, last %" PRIu64 " (cursor %" PRIu64
              ")",
              trainer->rank, (long)trainer->pid, atomic_load(&trainer->ring.control->tail),
              atomic_load(trainer->page.cursor), trainer->head, trainer->tail, trainer->released);
    trainer_lose(trainer, &error);
    return true;
}

bool server_slot_free(const struct server *server, uint32_t trainer, uint64_t sequence)
{
    const struct trainer *t = &server->trainers[trainer];
    uint64_t tail;
    if (t->state != SERVER_PEER_CONNECTED)
        return true;
    return read_tail(t, &tail) && sequence < tail + t->ring.slot_count;
}

void *server_slot(const struct server *server, uint32_t trainer, uint64_t sequence)
{
    return ring_slot(&server->trainers[trainer].ring, sequence);
}

enum ring_pages server_ring_pages(const struct server *server, uint32_t trainer)
{
    return server->trainers[trainer].ring.pages;
}

void server_publish(struct server *server, uint32_t trainer)
{
    struct trainer *t = &server->trainers[trainer];
    if (t->state != SERVER_PEER_CONNECTED)
        return;
    uint64_t cursor = start_of(server) + ++t->head;
    if (cursor > t->given)
        t->given = cursor;
    ring_publish(&t->ring, t->head, t->publish_fd);
}

enum server_peer server_trainer_state(const struct server *server, uint32_t trainer,
                                      struct error *ret_error)
{
    const struct trainer *t = &server->trainers[trainer];
    if (t->state == SERVER_PEER_LOST && ret_error)
        *ret_error = t->error;
    return t->state;
}

bool server_trainer_failed(const struct server *server, uint32_t trainer)
{
    return server->trainers[trainer].failed;
}

void server_trainer_goodbye(const struct server *server, uint32_t trainer, uint64_t *ret_epoch,
                            uint64_t *ret_step)
{
    *ret_epoch = server->trainers[trainer].goodbye.epoch;
    *ret_step = server->trainers[trainer].goodbye.step;
}

uint64_t trainer_cursor(const struct trainer *trainer)
{
    uint64_t cursor = trainer->released;
    (void)read_released(trainer, &cursor); /* else as it was last seen */
    return cursor;
}

uint64_t server_trainer_cursor(const struct server *server, uint32_t trainer)
{
    const struct trainer *t = &server->trainers[trainer];
    uint64_t wished;
    if (server->started || t->state != SERVER_PEER_CLOSED)
        return trainer_cursor(t);
    server_trainer_wish(server, trainer, &wished);
    return wished;
}

bool server_trainer_done(const struct server *server, uint32_t trainer)
{
    const struct trainer *t = &server->trainers[trainer];
    uint64_t end = server->service.epochs * server->service.steps_per_epoch;
    return t->done || t->state == SERVER_PEER_CLOSED ||
           server_trainer_cursor(server, trainer) == end;
}

uint64_t server_trainer_backlog(const struct server *server, uint32_t trainer)
{
    const struct trainer *t = &server->trainers[trainer];
    uint64_t tail;
    bool alive = server->started && t->state == SERVER_PEER_CONNECTED && read_tail(t, &tail);
    return alive ? t->head - tail : 0;
}

static void set_waits(struct server *server, uint32_t waits)
{
    for (uint32_t i = 0; server->started && i < server->trainer_count; i++)
        atomic_store(&server->trainers[i].ring.control->reader_waits, waits);
}

void server_arm(struct server *server)
{
    set_waits(server, 1);
}

void server_disarm(struct server *server)
{
    set_waits(server, 0);
    for (uint32_t i = 0; server->started && i < server->trainer_count; i++)
        wakeup_drain(server->trainers[i].release_fd);
}
