/* See server.h. This part listens, accepts, shakes hands and hears goodbyes; one thread, nothing
 * blocks.
 *
 * A connection is `pending` until its HELLO came (5 seconds at most; a fifth of a second where
 * others wait for its place, so that silent ones do not keep trainers out), and a trainer from then
 * on, or from the next session on. Before server_start() a trainer that hangs up is forgotten, so
 * that it may be started again. */
#include "delivery/server.h"

#include "base/clock.h"
#include "delivery/rundir.h"
#include "delivery/server_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t hello_timeout_ns = UINT64_C(5000000000);
static const uint64_t second_ns = UINT64_C(1000000000);
static const uint64_t crowded_timeout_ns = UINT64_C(200000000); /* when all places are taken */

enum { BACKLOG = 1024 };

static enum status open_place(struct server *server, struct error *err)
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
                                  .state_argument = options->state_argument};
        server->run_dir = strdup(options->run_dir);
        server->trainers = calloc(options->max_trainers + 1u, sizeof *server->trainers);
        server->parting = calloc(options->max_trainers + 1u, sizeof *server->parting);
    }
    if (!server || !server->run_dir || !server->trainers || !server->parting)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu32 " trainers",
                           options->max_trainers);
    else
        status = open_place(server, err);
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

/* Best effort: a peer that cannot be told is gone, or does not listen. */
static void send_fail(int socket, const struct error *error)
{
    struct message message = {.type = MESSAGE_FAIL, .fail = *error};
    enum status status = message_send(socket, &message, NULL, NULL);
    (void)status;
}

void trainer_lose(struct trainer *trainer, const struct error *error)
{
    trainer->state = SERVER_PEER_LOST;
    trainer->error = *error;
    if (error->status != STATUS_LOST) /* it lives: it shall know what it did */
        send_fail(trainer->socket, error);
    close_fd(&trainer->socket);
}

void trainer_done(struct trainer *trainer)
{
    close_fd(&trainer->socket);
    close_fd(&trainer->publish_fd);
    close_fd(&trainer->release_fd);
    ring_done(&trainer->ring);
}

static void drop_pending(struct server *server, uint32_t index)
{
    close(server->pending[index].socket);
    server->pending[index] = server->pending[--server->pending_count];
}

/* Accepts one connection if there is one; returns whether there was. A stranger is told and
 * dropped, which is nobody else's business. */
static bool accept_one(struct server *server)
{
    if (server->pending_count == MAX_PENDING)
        return false; /* the kernel's backlog holds the others until places are free */
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return false;
    uid_t uid;
    pid_t pid;
    struct error error;
    enum status status = peer_credentials(fd, &uid, &pid, &error);
    if (!status && !peer_allowed(uid))
        status = error_set(&error, STATUS_REFUSED,
                           "process %ld of user %ju may not connect: this reader serves user %ju",
                           (long)pid, (uintmax_t)uid, (uintmax_t)geteuid());
    if (status) {
        send_fail(fd, &error);
        close(fd);
        return true;
    }
    server->pending[server->pending_count++] =
        (struct pending){.socket = fd, .pid = pid, .accepted_ns = clock_now_ns()};
    return true;
}

static struct trainer *trainer_of_rank(const struct server *server, uint32_t rank)
{
    for (uint32_t i = 0; i < server->trainer_count; i++)
        if (server->trainers[i].rank == rank)
            return &server->trainers[i];
    return NULL;
}

static enum status check_rank(const struct server *server, const struct message_hello *hello,
                              struct error *err)
{
    const struct ring_service *service = &server->service;
    if (hello->world_size != service->world_size)
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " says that there are %" PRIu32
                         " trainers, the service was started for %" PRIu32
                         "; set delivery.trainers or the trainers' WORLD_SIZE",
                         hello->rank, hello->world_size, service->world_size);
    if (hello->rank >= service->world_size)
        return error_set(err, STATUS_REFUSED,
                         "trainer rank %" PRIu32 " is not below the %" PRIu32
                         " trainers of this service",
                         hello->rank, service->world_size);
    const struct trainer *other = trainer_of_rank(server, hello->rank);
    if (other && other->state == SERVER_PEER_CONNECTED)
        return error_set(err, STATUS_REFUSED,
                         "trainer rank %" PRIu32 " is taken by process %ld; give every trainer a "
                         "RANK of its own",
                         hello->rank, (long)other->pid);
    return STATUS_OK;
}

/* *ret_place stays as it is if the trainer is fresh. */
static enum status check_state(const struct server *server, const struct message_hello *hello,
                               uint64_t *ret_place, struct error *err)
{
    if (hello->wish == WISH_FRESH)
        return STATUS_OK;
    struct error reason;
    enum status status =
        server->read_state
            ? server->read_state(server->state_argument, hello->state, hello->wish == WISH_CONTINUE,
                                 ret_place, &reason)
            : error_set(&reason, STATUS_UNSUPPORTED, "this service does not take states");
    if (status)
        return error_set(err, STATUS_REFUSED, "trainer %" PRIu32 ": %s", hello->rank,
                         reason.message);
    return STATUS_OK;
}

/* Who comes after the end has missed nothing, unless it asks for more. */
static enum status judge_late(const struct server *server, const struct message_hello *hello,
                              struct error *err)
{
    uint64_t end = server->service.epochs * server->service.steps_per_epoch, place = end;
    enum status status = STATUS_OK;
    if (server->outcome.status == STATUS_ENDED)
        status = check_state(server, hello, &place, err);
    if (status)
        return status;
    if (place < end)
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " has the state of an earlier step, and all trainers "
                         "had their last batch: start the service again, too",
                         hello->rank);
    return error_set(err, (enum status)server->outcome.status, "%s", server->outcome.message);
}

/* *ret_waits: not now, but in the next session. */
static enum status judge_hello(const struct server *server, const struct message_hello *hello,
                               uint64_t *ret_place, bool *ret_waits, struct error *err)
{
    if (server->finished)
        return judge_late(server, hello, err);
    enum status status = check_rank(server, hello, err);
    if (!status)
        status = check_state(server, hello, ret_place, err);
    if (status)
        return status;
    *ret_waits = server->started && server->reconnect_ms > 0;
    if (*ret_waits)
        return STATUS_OK;
    if (server->started)
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " comes too late: delivery has started; restart the "
                         "service with --resume",
                         hello->rank);
    if (server->trainer_count == server->max_trainers && !trainer_of_rank(server, hello->rank))
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " is one too many: reader %" PRIu32 " serves %" PRIu32
                         " trainers",
                         hello->rank, server->reader, server->max_trainers);
    return STATUS_OK;
}

static void send_wait(const struct server *server, int socket, uint32_t connected,
                      uint32_t expected)
{
    struct message message = {.type = MESSAGE_WAIT,
                              .wait = {.connected = connected,
                                       .expected = expected,
                                       .reconnect_ms = server->reconnect_ms}};
    enum status status = message_send(socket, &message, NULL, NULL);
    (void)status; /* news only; who is gone is found by server_progress() */
}

static void admit(struct server *server, const struct pending *pending,
                  const struct message_hello *hello, uint64_t place)
{
    struct trainer *trainer =
        trainer_of_rank(server, hello->rank); /* it said goodbye, and is back */
    if (!trainer)
        trainer = &server->trainers[server->trainer_count++];
    *trainer = (struct trainer){.socket = pending->socket,
                                .pid = pending->pid,
                                .rank = hello->rank,
                                .state = SERVER_PEER_CONNECTED,
                                .wish = (enum message_wish)hello->wish,
                                .wished = place,
                                .first = UINT64_MAX,
                                .ring = {.memfd = -1},
                                .publish_fd = -1,
                                .release_fd = -1};
    send_wait(server, trainer->socket, 0, 0);
}

/* Whether a trainer's place is still taken by one that it may be there to replace: a process takes
 * a moment to die. */
static bool comes_early(const struct server *server, const struct pending *pending, uint32_t rank)
{
    const struct trainer *other = trainer_of_rank(server, rank);
    return server->reconnect_ms > 0 && !server->finished && other &&
           other->state == SERVER_PEER_CONNECTED &&
           clock_now_ns() - pending->accepted_ns < hello_timeout_ns;
}

/* The one that died between its last batch and its goodbye has a successor that knows of the end.
 */
static void close_lost(struct server *server, uint32_t rank)
{
    struct trainer *trainer = trainer_of_rank(server, rank);
    if (!trainer || trainer->state != SERVER_PEER_LOST)
        return;
    trainer->state = SERVER_PEER_CLOSED;
    trainer->goodbye = (struct message_goodbye){.epoch = server->service.epochs};
}

/* Takes a HELLO: *ret_kept is false if the connection is a trainer's now. */
static enum status handle_hello(struct server *server, struct pending *pending,
                                const struct message_hello *hello, bool *ret_kept,
                                struct error *err)
{
    uint64_t place = 0;
    bool waits = comes_early(server, pending, hello->rank);
    enum status status = waits ? STATUS_OK : judge_hello(server, hello, &place, &waits, err);
    *ret_kept = false;
    if (status == STATUS_ENDED)
        close_lost(server, hello->rank);
    if (status)
        return status;
    if (!waits) {
        admit(server, pending, hello, place);
        return STATUS_OK;
    }
    *ret_kept = true;
    if (pending->waits)
        return STATUS_OK;
    pending->waits = true;
    pending->hello = *hello;
    send_wait(server, pending->socket, 0, 0);
    return STATUS_OK;
}

/* Reads a pending connection. OK: there is a HELLO, now or from before. TIMEOUT: not yet. */
static enum status read_hello(struct pending *pending, uint64_t patience_ns,
                              struct message_hello *ret_hello, struct error *err)
{
    struct message message;
    enum status status = message_receive(pending->socket, &message, NULL, err);
    if (status == STATUS_TIMEOUT && pending->waits) {
        *ret_hello = pending->hello;
        return STATUS_OK;
    }
    if (status == STATUS_TIMEOUT && clock_now_ns() - pending->accepted_ns >= patience_ns)
        return error_set(err, STATUS_PROTOCOL, "no HELLO came within %.3g s%s",
                         (double)patience_ns / 1e9,
                         patience_ns < hello_timeout_ns ? ", and others wait to be heard" : "");
    if (!status && (pending->waits || message.type != MESSAGE_HELLO))
        return error_set(err, STATUS_PROTOCOL, "a connection begins with one HELLO");
    if (!status)
        *ret_hello = message.hello;
    return status;
}

/* Moves a pending connection on. Only a refusal is the owner's business; nonsense, silence and
 * hanging up are not. */
static enum status hear_pending(struct server *server, uint64_t patience_ns, uint32_t *index,
                                bool *active, struct error *err)
{
    struct pending *pending = &server->pending[*index];
    struct message_hello hello;
    struct error error;
    bool kept = true, waited = pending->waits;
    enum status status = read_hello(pending, patience_ns, &hello, &error);
    if (status == STATUS_TIMEOUT) {
        ++*index;
        return STATUS_OK;
    }
    bool understood = !status;
    if (!status)
        status = handle_hello(server, pending, &hello, &kept, &error);
    *active |= !(waited && kept && !status);
    if (!status && kept)
        ++*index;
    else if (!status)
        server->pending[*index] = server->pending[--server->pending_count];
    if (!status)
        return STATUS_OK;
    if (status != STATUS_LOST)
        send_fail(pending->socket, &error);
    drop_pending(server, *index);
    if (!understood || status != STATUS_REFUSED)
        return STATUS_OK;
    if (err)
        *err = error;
    return STATUS_REFUSED;
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

/* Reads a trainer's socket; returns whether anything came. */
static bool hear_trainer(struct trainer *trainer, bool look_for_process)
{
    struct message message;
    struct error error;
    enum status status = message_receive(trainer->socket, &message, NULL, &error);
    if (status == STATUS_TIMEOUT && !(look_for_process && is_gone(trainer)))
        return false;
    if (!status && message.type == MESSAGE_DONE) {
        trainer->done = true;
        return true;
    }
    if (!status && message.type == MESSAGE_GOODBYE) {
        trainer->state = SERVER_PEER_CLOSED;
        trainer->goodbye = message.goodbye;
        close_fd(&trainer->socket);
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
        bool heard = was_connected && hear_trainer(trainer, look_for_processes);
        if (server->started && trainer->state == SERVER_PEER_CONNECTED)
            heard |= trainer_check_tail(trainer);
        active |= heard;
        if (!server->started && was_connected && trainer->state != SERVER_PEER_CONNECTED)
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
        bool heard = trainer->state == SERVER_PEER_CONNECTED && hear_trainer(trainer, false);
        if (trainer->state == SERVER_PEER_CLOSED && !trainer_of_rank(server, trainer->rank) &&
            server->trainer_count < server->max_trainers)
            server->trainers[server->trainer_count++] = closed_trainer(trainer);
        if (trainer->state == SERVER_PEER_CLOSED)
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
    enum status status = STATUS_OK;
    for (int i = 0; i < MAX_PENDING && accept_one(server); i++)
        active = true;
    bool crowded = server->pending_count == MAX_PENDING;
    uint64_t patience_ns = crowded ? crowded_timeout_ns : hello_timeout_ns;
    for (uint32_t i = 0; i < server->pending_count && !status;)
        status = hear_pending(server, patience_ns, &i, &active, err);
    *ret_active = active;
    return status;
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
    if (server->pending_count < MAX_PENDING)
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

enum message_wish server_trainer_wish(const struct server *server, uint32_t trainer,
                                      uint64_t *ret_place)
{
    const struct trainer *t = &server->trainers[trainer];
    const struct ring_service *service = &server->service;
    bool gone = t->state == SERVER_PEER_CLOSED;
    *ret_place = gone ? service->epochs * service->steps_per_epoch : t->wished;
    return gone ? WISH_CONTINUE : t->wish;
}

void server_announce(struct server *server, uint32_t connected, uint32_t expected)
{
    for (uint32_t i = 0; i < server->trainer_count; i++)
        if (server->trainers[i].socket >= 0)
            send_wait(server, server->trainers[i].socket, connected, expected);
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
            trainer->ring = (struct ring){.memfd = -1};
            trainer->socket = -1;
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
    for (uint32_t i = 0; i < server->parting_count; i++)
        if (server->parting[i].rank == rank) {
            server->parting[i].state = SERVER_PEER_LOST;
            close_fd(&server->parting[i].socket);
        }
}

bool server_take_parted(struct server *server, uint32_t *ret_rank, uint64_t *ret_place)
{
    for (uint32_t i = 0; i < server->parting_count; i++) {
        struct trainer *trainer = &server->parting[i];
        if (trainer->state == SERVER_PEER_CONNECTED)
            continue;
        *ret_rank = trainer->rank;
        *ret_place = trainer_place(server, trainer);
        drop_parting(server, i);
        return true;
    }
    return false;
}

bool server_trainer_returns(const struct server *server)
{
    for (uint32_t i = 0; i < server->pending_count; i++) {
        const struct pending *pending = &server->pending[i];
        const struct trainer *trainer =
            pending->waits ? trainer_of_rank(server, pending->hello.rank) : NULL;
        if (trainer && trainer->state != SERVER_PEER_CONNECTED)
            return true;
    }
    return false;
}

void server_finish(struct server *server, const struct error *outcome)
{
    server->finished = true;
    server->outcome = *outcome;
    struct message end = {.type = MESSAGE_END};
    for (uint32_t i = 0; i < server->trainer_count; i++) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->state != SERVER_PEER_CONNECTED)
            continue;
        if (server->started && outcome->status == STATUS_ENDED) {
            enum status status = message_send(trainer->socket, &end, NULL, NULL);
            (void)status;
        } else {
            send_fail(trainer->socket, outcome);
        }
    }
    while (server->pending_count > 0) {
        send_fail(server->pending[0].socket, outcome);
        drop_pending(server, 0);
    }
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
    while (server->pending_count > 0)
        drop_pending(server, 0);
    while (server->parting_count > 0)
        drop_parting(server, 0);
    for (uint32_t i = 0; i < server->trainer_count; i++)
        trainer_done(&server->trainers[i]);
    close_fd(&server->listener);
    server_leave(server);
    close_fd(&server->dir);
    free(server->parting);
    free(server->trainers);
    free(server->run_dir);
    free(server);
}
