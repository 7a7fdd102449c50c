/* See server.h. Opens and closes the server, turns it, and tells trainers how many are there;
 * server_internal.h lists the server's other files. */
#include "delivery/server/server.h"

#include "base/clock.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/rundir.h"
#include "delivery/server/server_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t second_ns = UINT64_C(1000000000);

enum { BACKLOG = 1024 };

static enum status open_socket(struct server *server, const char *mark, struct error *err)
{
    enum status status = rundir_open(server->run_dir, true, &server->dir, err);
    if (status == STATUS_OK)
        status = rundir_claim(server->dir, server->reader, mark, &server->lock, err);
    if (status == STATUS_OK)
        status = rundir_bind(server->dir, server->reader, &server->listener, err);
    return status;
}

static enum status keep_handout(struct server *server, const int *handout, struct error *err)
{
    if (!handout)
        return STATUS_OK;
    server->handout = fcntl(*handout, F_DUPFD_CLOEXEC, 0);
    return server->handout >= 0 ? STATUS_OK : error_set_errno(err, STATUS_IO, "keep constants");
}

/* NULL, or an incomplete one: no memory. */
static struct server *allocate(const struct server_options *options)
{
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return NULL;
    *server = (struct server){
        .dir = -1,
        .lock = -1,
        .listener = -1,
        .reader = options->reader,
        .max_trainers = options->max_trainers,
        .least_world_size =
            options->least_trainers > 0 ? options->least_trainers : options->service->world_size,
        .most_world_size = options->service->world_size,
        .layout = *options->layout,
        .service = *options->service,
        .reconnect_ms = options->reconnect_ms,
        .reserve_slots = options->reserve_slots,
        .sessions_follow = options->sessions_follow || options->reconnect_ms > 0,
        .takes_results = options->takes_results,
        .read_state = options->read_state,
        .state_argument = options->state_argument,
        .describe = options->describe,
        .describe_argument = options->describe_argument,
        .fill = options->fill,
        .fill_argument = options->fill_argument,
        .handout = -1};
    server->run_dir = strdup(options->run_dir);
    server->trainers = calloc(options->max_trainers + 1u, sizeof *server->trainers);
    server->rings = calloc(options->max_trainers + 1u, sizeof *server->rings);
    server->members = calloc(options->max_trainers + 1u, sizeof *server->members);
    server->parting = calloc(options->max_trainers + 1u, sizeof *server->parting);
    server->left = calloc(options->service->world_size + 1u, sizeof *server->left);
    return server;
}

enum status server_new(const struct server_options *options, struct server **ret_server,
                       struct error *err)
{
    enum status status = ring_layout_check(options->layout, options->layout->total_bytes, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "settle the layout first: ");
    struct server *server = allocate(options);
    if (!server || !server->run_dir || !server->trainers || !server->rings || !server->members ||
        !server->parting || !server->left)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu32 " trainers",
                           options->max_trainers);
    else
        status = keep_handout(server, options->handout, err);
    if (status == STATUS_OK)
        status = open_socket(server, options->mark, err);
    if (status != STATUS_OK) {
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

void server_forget(struct server *server, struct trainer *trainer)
{
    trainer_done(trainer);
    struct trainer *end = server->trainers + --server->trainer_count;
    memmove(trainer, trainer + 1, (size_t)(end - trainer) * sizeof *trainer);
}

static void give_way(const struct trainer *trainer, uint32_t world_size)
{
    struct error error;
    error_set(&error, STATUS_REFUSED,
              "trainer %" PRIu32 " has a world size of %" PRIu32 ", and trainers of %" PRIu32
              " have come to take its place",
              trainer->rank, trainer->world_size, world_size);
    peer_fail(trainer->socket, &error);
}

void server_drop_others(struct server *server, uint32_t world_size)
{
    for (uint32_t i = 0; i < server->parting_count;)
        if (server->parting[i].world_size != world_size)
            server_drop_parting(server, i);
        else
            i++;
    for (uint32_t i = 0; i < server->trainer_count;) {
        struct trainer *trainer = &server->trainers[i];
        if (trainer->world_size == world_size) {
            i++;
            continue;
        }
        if (trainer->state == SERVER_PEER_CONNECTED)
            give_way(trainer, world_size);
        server_forget(server, trainer);
    }
}

uint32_t server_world_size(const struct server *server)
{
    for (uint32_t i = 0; i < server->trainer_count; i++)
        if (server->trainers[i].state == SERVER_PEER_CONNECTED)
            return server->trainers[i].world_size;
    return 0;
}

uint32_t server_connected_count(const struct server *server)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < server->trainer_count; i++)
        count += server->trainers[i].state == SERVER_PEER_CONNECTED;
    return count;
}

void server_resize(struct server *server, const struct mesh *mesh)
{
    assert(!server->started);
    server_drop_others(server, mesh->rank_count);
    memset(server->left, 0, server->most_world_size * sizeof *server->left);
    server->service.world_size = mesh->rank_count;
    server->service.mesh = *mesh;
}

bool server_hear_trainers(struct server *server)
{
    enum { MOST_HEARD = 8 }; /* messages at once: the others have to be heard, too */
    bool active = false;
    uint64_t now = clock_now_ns();
    bool look_for_processes = now - server->alive_ns >= second_ns;
    if (look_for_processes)
        server->alive_ns = now;
    for (uint32_t i = 0; i < server->trainer_count;) {
        struct trainer *trainer = &server->trainers[i];
        bool was_connected = trainer->state == SERVER_PEER_CONNECTED;
        uint64_t cursor = trainer_page_cursor(trainer);
        bool more =
            was_connected && (trainer->gave || trainer_hear(server, trainer, look_for_processes));
        bool heard = more;
        for (int count = 1; count < MOST_HEARD && more; count++)
            more = trainer->state == SERVER_PEER_CONNECTED &&
                   (trainer->skipped || trainer->gave || trainer_hear(server, trainer, false));
        if (server->started && trainer->state == SERVER_PEER_CONNECTED && !more)
            heard |= trainer_check_tail(trainer, cursor);
        active |= heard;
        bool hung_up = !server->started && was_connected && trainer->state != SERVER_PEER_CONNECTED;
        if (hung_up && trainer->state == SERVER_PEER_LOST && trainer->wish == WISH_CONTINUE)
            server_note_left(server, trainer);
        if (hung_up)
            server_forget(server, trainer);
        else
            i++;
    }
    return active;
}

enum status server_progress(struct server *server, bool *ret_active, struct error *err)
{
    bool active = server_hear_trainers(server); /* first: this frees the ranks that hung up */
    if (!server->started)
        server_hear_parting(server);
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

size_t server_pollfds(const struct server *server, struct pollfd *fds, size_t capacity,
                      size_t *ret_sockets)
{
    size_t count = 0;
    if (server->pending_count < MAX_PENDING && clock_now_ns() >= server->accept_ns)
        count = add_fd(fds, count, capacity, server->listener);
    for (uint32_t i = 0; i < server->trainer_count; i++)
        count = add_fd(fds, count, capacity, server->trainers[i].socket);
    for (uint32_t i = 0; i < server->pending_count; i++)
        count = add_fd(fds, count, capacity, server->pending[i].socket);
    *ret_sockets = count;
    for (uint32_t i = 0; i < server->trainer_count; i++)
        if (server->trainers[i].state == SERVER_PEER_CONNECTED)
            count = add_fd(fds, count, capacity, server->trainers[i].release_fd);
    return count;
}

/* Whether the peer has read all messages that were sent. */
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

void server_leave(struct server *server)
{
    if (server->lock < 0)
        return;
    rundir_leave(server->dir, server->reader);
    if (rmdir(server->run_dir) < 0)
        errno = 0; /* other readers still use it */
    fd_close(&server->lock);
}

void server_free(struct server *server)
{
    if (!server)
        return;
    server_drop_pending(server, NULL);
    while (server->parting_count > 0)
        server_drop_parting(server, 0);
    for (uint32_t i = 0; i < server->trainer_count; i++)
        trainer_done(&server->trainers[i]);
    server_free_rings(server);
    fd_close(&server->listener);
    server_leave(server);
    fd_close(&server->dir);
    fd_close(&server->handout);
    free(server->left);
    free(server->parting);
    free(server->trainers);
    free(server->members);
    free(server->rings);
    free(server->run_dir);
    free(server);
}
