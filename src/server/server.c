/* See server.h. This part listens, hears what trainers say, and tells them; one thread, nothing
 * blocks. Before server_start() a trainer that hangs up is forgotten, so that it may be started
 * again. */
#include "server/server.h"

#include "base/clock.h"
#include "delivery/rundir.h"
#include "server/server_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t second_ns = UINT64_C(1000000000);

enum { BACKLOG = 1024 };

static enum status open_socket(struct server *server, struct error *err)
{
    enum status status = rundir_open(server->run_dir, true, &server->dir, err);
    if (!status)
        status = rundir_claim(server->dir, server->reader, &server->lock, err);
    if (!status)
        status = rundir_bind(server->dir, server->reader, &server->listener, err);
    return status;
}

enum status server_new(const struct server_options *options, struct server **ret_server,
                       struct error *err)
{
    enum status status = ring_layout_check(options->layout, options->layout->total_bytes, err);
    if (status)
        return error_prefix(err, status, "settle the layout first: ");
    struct server *server = calloc(1, sizeof *server);
    if (server) {
        *server = (struct server){.dir = -1,
                                  .lock = -1,
                                  .listener = -1,
                                  .reader = options->reader,
                                  .max_trainers = options->max_trainers,
                                  .layout = *options->layout,
                                  .service = *options->service,
                                  .reconnect_ms = options->reconnect_ms,
                                  .read_state = options->read_state,
                                  .state_argument = options->state_argument,
                                  .fill = options->fill,
                                  .fill_argument = options->fill_argument};
        server->run_dir = strdup(options->run_dir);
        server->trainers = calloc(options->max_trainers + 1u, sizeof *server->trainers);
        server->parting = calloc(options->max_trainers + 1u, sizeof *server->parting);
        server->left = calloc(options->service->world_size + 1u, sizeof *server->left);
    }
    if (!server || !server->run_dir || !server->trainers || !server->parting || !server->left)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu32 " trainers",
                           options->max_trainers);
    else
        status = open_socket(server, err);
    if (status) {
        server_free(server);
        return status;
    }
    *ret_server = server;
    return STATUS_OK;
}

enum status server_listen(struct server *server, struct error *err)
{
    if (listen(server->listener, BACKLOG) < 0)
        return error_set_errno(err, STATUS_IO, "listen in run directory '%s'", server->run_dir);
    return STATUS_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void peer_fail(int socket, const struct error *error)
{
    struct protocol_message message = {.type = PROTOCOL_FAIL, .fail = *error};
    enum status status = protocol_send(socket, &message, NULL, NULL);
    (void)status;
}

void trainer_lose(struct trainer *trainer, const struct error *error)
{
    trainer->state = SERVER_PEER_LOST;
    trainer->error = *error;
    if (error->status != STATUS_LOST) /* it lives: it shall know what it did */
        peer_fail(trainer->socket, error);
    close_fd(&trainer->socket);
}

void trainer_done(struct trainer *trainer)
{
    close_fd(&trainer->socket);
    close_fd(&trainer->publish_fd);
    close_fd(&trainer->release_fd);
    ring_done(&trainer->ring);
    cursor_page_done(&trainer->page);
}

struct trainer *trainer_of_rank(const struct server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->trainer_count; i++)
        if (server->trainers[i].rank == rank)
            return &server->trainers[i];
    return NULL;
}

void peer_wait(const struct server *server, int socket, uint32_t connected, uint32_t expected)
{
    struct protocol_message message = {.type = PROTOCOL_WAIT,
                                       .wait = {.connected = connected,
                                                .expected = expected,
                                                .reconnect_ms = server->reconnect_ms}};
    enum status status = protocol_send(socket, &message, NULL, NULL);
    (void)status; /* news only; who is gone is found by server_progress() */
}

/* Forgets a trainer that hung up before delivery began. */
static void forget(struct server *server, struct trainer *trainer)
{
    trainer_done(trainer);
    struct trainer *end = server->trainers + --server->trainer_count;
    memmove(trainer, trainer + 1, (size_t)(end - trainer) * sizeof *trainer);
}

/* A process that is gone although its socket is open: another one, that it had forked, has it. */
static bool is_gone(const struct trainer *trainer)
{
    return trainer->pid > 0 && kill(trainer->pid, 0) < 0 && errno == ESRCH;
}

/* It said so, and where it was is known. */
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

/* Reads a trainer's socket; returns whether anything came. */
static bool hear_trainer(const struct server *server, struct trainer *trainer,
                         bool look_for_process)
{
    struct protocol_message message;
    struct error error;
    enum status status = protocol_receive(trainer->socket, &message, NULL, &error);
    if (status == STATUS_TIMEOUT && !(look_for_process && is_gone(trainer)))
        return false;
    if (!status && message.type == PROTOCOL_DONE) {
        trainer->done = true;
        return true;
    }
    if (!status && message.type == PROTOCOL_GOODBYE) {
        trainer->state = SERVER_PEER_CLOSED;
        trainer->goodbye = message.goodbye;
        close_fd(&trainer->socket);
        return true;
    }
    if (!status && message.type == PROTOCOL_FAIL) {
        trainer_fail(server, trainer, &message.fail);
        return true;
    }
    if (!status)
        status = error_set(&error, STATUS_PROTOCOL, "it sent a message that only a reader sends");
    if (status == STATUS_LOST || status == STATUS_TIMEOUT)
        error_set(&error, STATUS_LOST,
                  "trainer %" PRIu32
                  " (process %ld) went without a goodbye: it crashed or was killed",
                  trainer->rank, (long)trainer->pid);
    else
        error_prefix(&error, status, "trainer %" PRIu32 " (process %ld): ", trainer->rank,
                     (long)trainer->pid);
    trainer_lose(trainer, &error);
    return true;
}

/* One has hung up when no session is under way: who comes fresh instead goes on there. */
static void note_left(struct server *server, const struct trainer *trainer)
{
    uint64_t *left = &server->left[trainer->rank], cursor = trainer_cursor(trainer);
    if (*left < cursor + 1)
        *left = cursor + 1;
}

static bool hear_trainers(struct server *server)
{
    bool active = false;
    uint64_t now = clock_now_ns();
    bool look_for_processes = now - server->alive_ns >= second_ns;
    if (look_for_processes)
        server->alive_ns = now;
    for (uint32_t i = 0; i < server->trainer_count;) {
        struct trainer *trainer = &server->trainers[i];
        bool was_connected = trainer->state == SERVER_PEER_CONNECTED;
        bool heard = was_connected && hear_trainer(server, trainer, look_for_processes);
        if (server->started && trainer->state == SERVER_PEER_CONNECTED)
            heard |= trainer_check_tail(trainer);
        active |= heard;
        bool hung_up = !server->started && was_connected && trainer->state != SERVER_PEER_CONNECTED;
        if (hung_up && trainer->state == SERVER_PEER_LOST && trainer->wish == WISH_CONTINUE)
            note_left(server, trainer);
        if (hung_up)
            forget(server, trainer);
        else
            i++;
    }
    return active;
}

/* One that said goodbye, for the next session. */
static struct trainer closed_trainer(const struct trainer *trainer)
{
    return (struct trainer){.socket = -1,
                            .pid = trainer->pid,
                            .rank = trainer->rank,
                            .state = SERVER_PEER_CLOSED,
                            .first = UINT64_MAX,
                            .ring = {.memfd = -1},
                            .publish_fd = -1,
                            .release_fd = -1,
                            .goodbye = trainer->goodbye};
}

static void drop_parting(struct server *server, uint32_t index)
{
    trainer_done(&server->parting[index]);
    server->parting[index] = server->parting[--server->parting_count];
}

/* Between sessions. */
static void hear_parting(struct server *server)
{
    for (uint32_t i = 0; i < server->parting_count;) {
        struct trainer *trainer = &server->parting[i];
        bool heard =
            trainer->state == SERVER_PEER_CONNECTED && hear_trainer(server, trainer, false);
        if (trainer->state == SERVER_PEER_CLOSED && !trainer_of_rank(server, trainer->rank) &&
            server->trainer_count < server->max_trainers)
            server->trainers[server->trainer_count++] = closed_trainer(trainer);
        if (trainer->state == SERVER_PEER_LOST)
            note_left(server, trainer);
        if (trainer->state != SERVER_PEER_CONNECTED)
            drop_parting(server, i);
        else if (!heard)
            i++;
    }
}

enum status server_progress(struct server *server, bool *ret_active, struct error *err)
{
    bool active = hear_trainers(server); /* first: a rank that hung up is free for the next */
    if (!server->started)
        hear_parting(server);
    enum status status = server_hear_pending(server, &active, err);
    *ret_active = active;
    return status;
}

bool server_take_warning(struct server *server, struct error *ret_warning)
{
    if (server->warning.status == STATUS_OK)
        return false;
    *ret_warning = server->warning;
    server->warning.status = STATUS_OK;
    return true;
}

static size_t add_fd(struct pollfd *fds, size_t count, size_t capacity, int fd)
{
    if (fd < 0 || count == capacity)
        return count;
    fds[count] = (struct pollfd){.fd = fd, .events = POLLIN};
    return count + 1;
}

size_t server_pollfds(const struct server *server, struct pollfd *fds, size_t capacity)
{
    size_t count = 0;
    if (server->pending_count < MAX_PENDING && clock_now_ns() >= server->accept_ns)
        count = add_fd(fds, count, capacity, server->listener);
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        const struct trainer *trainer = &server->trainers[i];
        count = add_fd(fds, count, capacity, trainer->socket);
        if (trainer->state == SERVER_PEER_CONNECTED)
            count = add_fd(fds, count, capacity, trainer->release_fd);
    }
    for (uint32_t i = 0; i < server->pending_count; i++)
        count = add_fd(fds, count, capacity, server->pending[i].socket);
    return count;
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

/* Whether the peer has read all that was sent to it. */
static bool is_heard(int socket)
{
    int unread = 0;
    return ioctl(socket, SIOCOUTQ, &unread) == 0 && unread == 0;
}

void server_announce(struct server *server, uint32_t connected, uint32_t expected)
{
    const uint64_t period_ns = second_ns / 10, now = clock_now_ns();
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        bool due = trainer->told != connected || now - trainer->told_ns >= period_ns;
        if (trainer->socket < 0 || !due || !is_heard(trainer->socket))
            continue;
        peer_wait(server, trainer->socket, connected, expected);
        trainer->told = connected;
        trainer->told_ns = now;
    }
}

void server_restart(struct server *server)
{
    uint32_t kept = 0;
    while (server->parting_count > 0)
        drop_parting(server, 0);
    hear_trainers(server);
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->state == SERVER_PEER_CONNECTED) {
            shutdown(trainer->socket, SHUT_WR);
            struct trainer *parting = &server->parting[server->parting_count++];
            *parting = *trainer;
            parting->publish_fd = parting->release_fd = -1;
            parting->ring = (struct ring){.memfd = -1};
            trainer->page = (struct cursor_page){0};
            trainer->socket = -1;
        } else if (trainer->state == SERVER_PEER_LOST) {
            note_left(server, trainer);
        }
        trainer_done(trainer);
        if (trainer->state == SERVER_PEER_CLOSED)
            server->trainers[kept++] = closed_trainer(trainer);
    }
    server->trainer_count = kept;
    server->started = server->finished = false;
}

void server_expect(struct server *server, uint32_t rank)
{
    struct trainer *trainer = trainer_of_rank(server, rank);
    if (trainer && trainer->state == SERVER_PEER_CLOSED)
        forget(server, trainer);
    for (uint32_t i = 0; i < server->parting_count;)
        if (server->parting[i].rank == rank) {
            note_left(server, &server->parting[i]);
            drop_parting(server, i);
        } else {
            i++;
        }
}

bool server_take_parted(struct server *server, uint32_t *ret_rank, uint64_t *ret_cursor)
{
    for (uint32_t rank = 0; rank < server->service.world_size; rank++) {
        if (server->left[rank] == 0)
            continue;
        *ret_rank = rank;
        *ret_cursor = server->left[rank] - 1;
        server->left[rank] = 0;
        return true;
    }
    return false;
}

void server_finish(struct server *server, const struct error *outcome)
{
    server->finished = true;
    server->outcome = *outcome;
    struct protocol_message end = {.type = PROTOCOL_END};
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->state != SERVER_PEER_CONNECTED)
            continue;
        if (server->started && outcome->status == STATUS_ENDED) {
            enum status status = protocol_send(trainer->socket, &end, NULL, NULL);
            (void)status;
        } else {
            peer_fail(trainer->socket, outcome);
        }
    }
    server_drop_pending(server, outcome);
}

void server_leave(struct server *server)
{
    if (server->lock < 0)
        return;
    rundir_leave(server->dir, server->reader);
    if (rmdir(server->run_dir) < 0)
        errno = 0; /* other readers still use it */
    close_fd(&server->lock);
}

void server_free(struct server *server)
{
    if (!server)
        return;
    server_drop_pending(server, NULL);
    while (server->parting_count > 0)
        drop_parting(server, 0);
    for (uint32_t i = 0; i < server->trainer_count; i++)
        trainer_done(&server->trainers[i]);
    close_fd(&server->listener);
    server_leave(server);
    close_fd(&server->dir);
    free(server->left);
    free(server->parting);
    free(server->trainers);
    free(server->run_dir);
    free(server);
}
