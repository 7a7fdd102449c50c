/* Connections that are no trainers yet.
 *
 * A connection is `pending` until its HELLO has come, or, where it has to wait, until the next
 * session; then it is a trainer. A HELLO has five seconds to come. It has a fifth of a second when
 * all entries are taken, so that silent connections keep no trainer out. */
#include "base/clock.h"
#include "delivery/server/server_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t hello_timeout_ns = UINT64_C(5000000000);
static const uint64_t crowded_timeout_ns = UINT64_C(200000000); /* when no entry is free */

static void drop_pending(struct server *server, uint32_t index)
{
    cursor_page_done(&server->pending[index].page);
    close(server->pending[index].socket);
    server->pending[index] = server->pending[--server->pending_count];
}

/* Descriptors have run out, for a connection or for a HELLO's cursor page. The listener stays
 * readable all the time, so it is left alone for a while. The warning is given once. */
static void accept_later(struct server *server, int failure)
{
    const uint64_t pause_ns = 250000000;
    errno = failure;
    if (server->accept_ns == 0)
        error_set_errno(&server->warning, STATUS_IO,
                        "a trainer that connects has to wait until a descriptor is free: raise the "
                        "limit of open files (ulimit -n)");
    server->accept_ns = clock_now_ns() + pause_ns;
}

/* Accepts one connection. False: there is none, or it has to wait. Another user's process is told
 * so and dropped; the caller does not hear of it. */
static bool accept_one(struct server *server)
{
    if (server->pending_count == MAX_PENDING)
        return false; /* the kernel's backlog holds the others until entries are free */
    if (clock_now_ns() < server->accept_ns)
        return false;
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            accept_later(server, errno);
        return false;
    }
    uid_t uid;
    pid_t pid;
    struct error error;
    enum status status = peer_credentials(fd, &uid, &pid, &error);
    if (status == STATUS_OK && !peer_allowed(uid))
        status = error_set(&error, STATUS_REFUSED,
                           "process %ld of user %ju may not connect: this reader serves user %ju",
                           (long)pid, (uintmax_t)uid, (uintmax_t)geteuid());
    if (status != STATUS_OK) {
        peer_fail(fd, &error);
        close(fd);
        return true;
    }
    server->pending[server->pending_count++] =
        (struct pending){.socket = fd, .pid = pid, .accepted_ns = clock_now_ns()};
    return true;
}

/* The cursor that a trainer has released so far. A trainer that goes on may still lease batches of
 * an earlier ring, which lie before the cursor that it wishes: its page says how far it is. */
static uint64_t released_before(const struct pending *pending, const struct protocol_hello *hello,
                                uint64_t wished)
{
    uint64_t cursor = atomic_load(pending->page.cursor);
    return hello->wish == WISH_CONTINUE && cursor < wished ? cursor : wished;
}

static void admit(struct server *server, const struct pending *pending,
                  const struct protocol_hello *hello, uint64_t cursor)
{
    server_drop_others(server, hello->world_size);
    struct trainer *trainer =
        trainer_of_rank(server, hello->rank); /* not NULL: it said goodbye, and is back */
    if (!trainer)
        trainer = &server->trainers[server->trainer_count++];
    *trainer = (struct trainer){.socket = pending->socket,
                                .pid = pending->pid,
                                .rank = hello->rank,
                                .world_size = hello->world_size,
                                .state = SERVER_PEER_CONNECTED,
                                .wish = (enum protocol_wish)hello->wish,
                                .wished = cursor,
                                .first = UINT64_MAX,
                                .given = cursor,
                                .released = released_before(pending, hello, cursor),
                                .page = pending->page,
                                .publish_fd = -1,
                                .release_fd = -1};
    peer_wait(server, trainer->socket, 0, 0);
}

/* Whether the trainer that this one may replace still counts as connected: a process takes a moment
 * to die. */
static bool comes_early(const struct server *server, const struct pending *pending,
                        const struct protocol_hello *hello)
{
    const struct trainer *other = trainer_of_rank(server, hello->rank);
    return server->sessions_follow && !server->finished && other &&
           other->state == SERVER_PEER_CONNECTED && other->world_size == hello->world_size &&
           clock_now_ns() - pending->accepted_ns < hello_timeout_ns;
}

/* A trainer died between its last batch and its goodbye, and its successor knows of the end: nobody
 * is missing. */
static void close_lost(struct server *server, uint32_t rank)
{
    struct trainer *trainer = trainer_of_rank(server, rank);
    if (!trainer || trainer->state != SERVER_PEER_LOST)
        return;
    trainer->state = SERVER_PEER_CLOSED;
    trainer->goodbye = (struct protocol_goodbye){.epoch = server->service.epochs};
}

/* Answers a HELLO. *ret_stays: the connection stays pending; false: it is a trainer's now, or has
 * failed. */
static enum status handle_hello(struct server *server, struct pending *pending,
                                const struct protocol_hello *hello, bool *ret_stays,
                                struct error *err)
{
    uint64_t cursor = 0;
    bool waits = comes_early(server, pending, hello);
    enum status status =
        waits ? STATUS_OK : hello_judge(server, hello, pending->pid, &cursor, &waits, err);
    *ret_stays = false;
    if (status == STATUS_ENDED)
        close_lost(server, hello->rank);
    if (status != STATUS_OK)
        return status;
    if (!waits) {
        admit(server, pending, hello, cursor);
        return STATUS_OK;
    }
    *ret_stays = true;
    if (pending->waits)
        return STATUS_OK;
    pending->waits = true;
    pending->hello = *hello;
    peer_wait(server, pending->socket, 0, 0);
    return STATUS_OK;
}

/* Reads a pending connection. OK: there is a HELLO, now or from before. TIMEOUT: not yet. */
static enum status read_hello(struct pending *pending, uint64_t patience_ns,
                              struct protocol_hello *ret_hello, struct error *err)
{
    int page_fd;
    enum status status = protocol_receive_hello(pending->socket, ret_hello, &page_fd, err);
    if (status == STATUS_TIMEOUT && pending->waits) {
        *ret_hello = pending->hello;
        return STATUS_OK;
    }
    if (status == STATUS_TIMEOUT && clock_now_ns() - pending->accepted_ns >= patience_ns)
        return error_set(
            err, STATUS_PROTOCOL, "no HELLO came within %.3g s%s", (double)patience_ns / 1e9,
            patience_ns < hello_timeout_ns ? ", and other connections wait for theirs" : "");
    if (status != STATUS_OK || !pending->waits)
        return status != STATUS_OK ? status : cursor_page_open(page_fd, &pending->page, err);
    close(page_fd);
    return error_set(err, STATUS_PROTOCOL, "a connection must begin with one HELLO");
}

/* It is told why, unless it is gone, or nothing came through. */
static void turn_away(struct server *server, uint32_t index, bool understood,
                      const struct error *error)
{
    if (error->status == STATUS_NO_MEMORY && !understood)
        accept_later(server, EMFILE); /* the trainer sees a closed socket, and comes again */
    else if (error->status != STATUS_LOST)
        peer_fail(server->pending[index].socket, error);
    drop_pending(server, index);
}

/* Moves a pending connection on; *index goes on to the next one. Returns REFUSED alone: an
 * impossible message, silence or a hang-up just drops the connection. */
static enum status hear_one(struct server *server, uint64_t patience_ns, uint32_t *index,
                            bool *active, struct error *err)
{
    struct pending *pending = &server->pending[*index];
    struct protocol_hello hello;
    struct error error;
    bool stays = true, waited = pending->waits;
    enum status status = read_hello(pending, patience_ns, &hello, &error);
    if (status == STATUS_TIMEOUT) {
        ++*index;
        return STATUS_OK;
    }
    bool understood = status == STATUS_OK;
    if (status == STATUS_OK && !waited)
        status = hello_settle_rank(server, &hello, &error);
    if (status == STATUS_OK)
        status = handle_hello(server, pending, &hello, &stays, &error);
    *active |= !(waited && stays && status == STATUS_OK);
    if (status == STATUS_OK && stays)
        ++*index;
    else if (status == STATUS_OK)
        server->pending[*index] = server->pending[--server->pending_count];
    if (status == STATUS_OK)
        return STATUS_OK;
    turn_away(server, *index, understood, &error);
    if (!understood || status != STATUS_REFUSED)
        return STATUS_OK;
    if (err)
        *err = error;
    return STATUS_REFUSED;
}

enum status server_hear_pending(struct server *server, bool *active, struct error *err)
{
    for (int i = 0; i < MAX_PENDING && accept_one(server); i++)
        *active = true;
    bool crowded = server->pending_count == MAX_PENDING;
    uint64_t patience_ns = crowded ? crowded_timeout_ns : hello_timeout_ns;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < server->pending_count && status == STATUS_OK;)
        status = hear_one(server, patience_ns, &i, active, err);
    return status;
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

void server_drop_pending(struct server *server, const struct error *outcome)
{
    while (server->pending_count > 0) {
        if (outcome)
            peer_fail(server->pending[0].socket, outcome);
        drop_pending(server, 0);
    }
}
