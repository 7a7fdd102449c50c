/* One trainer, as its reader knows it: its messages, its tail and cursor, and its state. */
#include "delivery/ring/fdpass.h"
#include "delivery/server/server_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>

void peer_fail(int socket, const struct error *error)
{
    struct protocol_message message = {.type = PROTOCOL_FAIL, .fail = *error};
    enum status status = protocol_send(socket, &message, NULL, NULL);
    (void)status;
}

void peer_wait(const struct server *server, int socket, uint32_t connected, uint32_t expected)
{
    struct protocol_message message = {.type = PROTOCOL_WAIT,
                                       .wait = {.connected = connected,
                                                .expected = expected,
                                                .reconnect_ms = server->reconnect_ms}};
    enum status status = protocol_send(socket, &message, NULL, NULL);
    (void)status; /* server_progress() finds a peer that is gone */
}

struct trainer *trainer_of_rank(const struct server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->trainer_count; i++)
        if (server->trainers[i].rank == rank)
            return &server->trainers[i];
    return NULL;
}

void trainer_lose(struct trainer *trainer, const struct error *error)
{
    trainer->state = SERVER_PEER_LOST;
    trainer->error = *error;
    if (error->status != STATUS_LOST) /* it lives, and has to hear why */
        peer_fail(trainer->socket, error);
    fd_close(&trainer->socket);
}

void trainer_done(struct trainer *trainer)
{
    if (trainer->gave)
        fd_close(&trainer->result_fd);
    fd_close(&trainer->socket);
    fd_close(&trainer->publish_fd);
    fd_close(&trainer->release_fd);
    cursor_page_done(&trainer->page);
}

/* Whether the process is dead. Its socket may still be open: a child that it forked has a copy. */
static bool is_gone(const struct trainer *trainer)
{
    return trainer->pid > 0 && kill(trainer->pid, 0) < 0 && errno == ESRCH;
}

bool trainer_read_tail(const struct trainer *trainer, uint64_t *ret_tail)
{
    uint64_t tail = atomic_load(&trainer->control->tail);
    if (tail < trainer->tail || !ring_tail_possible(&trainer->shared->ring, trainer->head, tail))
        return false;
    *ret_tail = tail;
    return true;
}

uint64_t trainer_page_cursor(const struct trainer *trainer)
{
    return trainer->page.cursor ? atomic_load(trainer->page.cursor) : 0;
}

bool trainer_check_tail(struct trainer *trainer, uint64_t cursor)
{
    uint64_t tail;
    if (trainer_read_tail(trainer, &tail) && cursor <= trainer->given) {
        cursor = cursor > trainer->released ? cursor : trainer->released;
        bool moved = tail != trainer->tail || cursor != trainer->released;
        trainer->tail = tail;
        trainer->released = cursor;
        return moved;
    }
    struct error error;
    error_set(&error, STATUS_PROTOCOL,
              "trainer %" PRIu32 " (process %ld) wrote an impossible tail or cursor: tail %" PRIu64
              ", cursor %" PRIu64 ", with %" PRIu64 " slots published (before: tail %" PRIu64
              ", cursor %" PRIu64 ")",
              trainer->rank, (long)trainer->pid, atomic_load(&trainer->control->tail), cursor,
              trainer->head, trainer->tail, trainer->released);
    trainer_lose(trainer, &error);
    return true;
}

uint64_t trainer_cursor(const struct trainer *trainer)
{
    uint64_t cursor = trainer_page_cursor(trainer);
    bool possible = cursor > trainer->released && cursor <= trainer->given;
    return possible ? cursor : trainer->released;
}

/* The trainer said that it failed: makes the error that names the trainer, its step and its reason.
 */
static void trainer_fail(const struct server *server, struct trainer *trainer,
                         const struct error *reason)
{
    uint64_t cursor = trainer_cursor(trainer), steps = server->service.steps_per_epoch;
    struct error error;
    error_set(&error, STATUS_LOST,
              "trainer %" PRIu32 " (process %ld) failed at epoch %" PRIu64 " step %" PRIu64 ": %s",
              trainer->rank, (long)trainer->pid, cursor / steps, cursor % steps, reason->message);
    trainer->failed = true;
    trainer_lose(trainer, &error);
}

/* The trainer wants no batch between two cursors. False: there are no such cursors. */
static bool take_skip(const struct server *server, struct trainer *trainer,
                      const struct protocol_skip *skip)
{
    uint64_t steps = server->service.steps_per_epoch, epochs = server->service.epochs;
    if (skip->step >= steps || skip->from_step >= steps || skip->epoch > epochs ||
        skip->from_epoch > skip->epoch)
        return false;
    uint64_t from = skip->from_epoch * steps + skip->from_step;
    uint64_t to = skip->epoch * steps + skip->step;
    if (from >= to || from > trainer->given || to > epochs * steps)
        return false;
    trainer->wanted = to;
    trainer->skipped_from = from;
    trainer->skipped = true;
    if (trainer->given < to)
        trainer->given = to;
    return true;
}

/* It hung up, its process is gone, or it sent nonsense. */
static void lose_for(struct trainer *trainer, enum status status, const struct error *reason)
{
    struct error error = *reason;
    if (status == STATUS_LOST || status == STATUS_TIMEOUT)
        error_set(&error, STATUS_LOST,
                  "trainer %" PRIu32
                  " (process %ld) went without a goodbye: it crashed or was killed",
                  trainer->rank, (long)trainer->pid);
    else
        error_prefix(&error, status, "trainer %" PRIu32 " (process %ld): ", trainer->rank,
                     (long)trainer->pid);
    trainer_lose(trainer, &error);
}

/* Takes a result. False: this service has asked for none. */
static bool take_give(const struct server *server, struct trainer *trainer,
                      const struct protocol_give *give, int *fd)
{
    if (!server->takes_results || !server->started) {
        fd_close(fd);
        return false;
    }
    trainer->gave = true;
    trainer->result = *give;
    trainer->result_fd = *fd;
    return true;
}

bool trainer_hear(const struct server *server, struct trainer *trainer, bool look_for_process)
{
    struct protocol_message message;
    struct error error;
    int fd;
    enum status status = protocol_receive_given(trainer->socket, &message, &fd, &error);
    if (status == STATUS_TIMEOUT && !(look_for_process && is_gone(trainer)))
        return false;
    if (status == STATUS_OK && message.type == PROTOCOL_DONE) {
        trainer->done = true;
        return true;
    }
    if (status == STATUS_OK && message.type == PROTOCOL_SKIP &&
        take_skip(server, trainer, &message.skip))
        return true;
    if (status == STATUS_OK && message.type == PROTOCOL_SKIP)
        status = error_set(&error, STATUS_PROTOCOL, "it skips batches that do not exist");
    if (status == STATUS_OK && message.type == PROTOCOL_GIVE &&
        take_give(server, trainer, &message.give, &fd))
        return true;
    if (status == STATUS_OK && message.type == PROTOCOL_GIVE)
        status = error_set(&error, STATUS_UNSUPPORTED,
                           "it gives a result, which no run takes: penstock_give() is for encoders "
                           "of penstock ingest and penstock derive");
    if (status == STATUS_OK && message.type == PROTOCOL_GOODBYE) {
        trainer->state = SERVER_PEER_CLOSED;
        trainer->goodbye = message.goodbye;
        fd_close(&trainer->socket);
        return true;
    }
    if (status == STATUS_OK && message.type == PROTOCOL_FAIL) {
        trainer_fail(server, trainer, &message.fail);
        return true;
    }
    if (status == STATUS_OK)
        status = error_set(&error, STATUS_PROTOCOL, "it sent a message that only a reader sends");
    lose_for(trainer, status, &error);
    return true;
}

uint32_t server_trainer_count(const struct server *server)
{
    return server->trainer_count;
}

uint32_t server_trainer_rank(const struct server *server, uint32_t trainer)
{
    return server->trainers[trainer].rank;
}

pid_t server_trainer_pid(const struct server *server, uint32_t trainer)
{
    return server->trainers[trainer].pid;
}

enum protocol_wish server_trainer_wish(const struct server *server, uint32_t trainer,
                                       uint64_t *ret_cursor)
{
    const struct trainer *t = &server->trainers[trainer];
    const struct ring_service *service = &server->service;
    bool gone = t->state == SERVER_PEER_CLOSED;
    *ret_cursor = gone ? service->epochs * service->steps_per_epoch : t->wished;
    return gone ? WISH_CONTINUE : t->wish;
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

uint64_t server_trainer_seen(const struct server *server, uint32_t trainer)
{
    return server->trainers[trainer].released;
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
    bool alive =
        server->started && t->state == SERVER_PEER_CONNECTED && trainer_read_tail(t, &tail);
    return alive ? t->head - tail : 0;
}
