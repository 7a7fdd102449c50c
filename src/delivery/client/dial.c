/* See dial.h. */
#include "delivery/client/dial.h"

#include "base/clock.h"
#include "delivery/ring/end_marker.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/rundir.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_READERS = 1024, RETRY_MS = 20 };

static const uint64_t ms_ns = 1000000;

uint32_t dial_reader_of(uint32_t local_rank, uint32_t local_world_size, uint32_t count)
{
    if (local_world_size == 0 || local_rank >= local_world_size)
        return 0;
    return (uint32_t)((uint64_t)local_rank * count / local_world_size);
}

static enum status choose_reader(const struct dial_options *options, int dir, uint32_t *ret_reader,
                                 struct error *err)
{
    if (options->reader >= 0) {
        *ret_reader = (uint32_t)options->reader;
        return STATUS_OK;
    }
    uint32_t readers[MAX_READERS];
    size_t count = rundir_readers(dir, readers, MAX_READERS);
    if (count == 0)
        return error_set(err, STATUS_NOT_FOUND, "no reader is alive in it");
    *ret_reader =
        readers[dial_reader_of(options->local_rank, options->local_world_size, (uint32_t)count)];
    return STATUS_OK;
}

/* One try. NOT_FOUND: worth another. Readers that have come since the choice may change it. */
static enum status reach(const struct dial_options *options, int *ret_socket, struct error *err)
{
    int dir, socket = -1;
    uint32_t reader = 0, again = 0;
    enum status status = rundir_open(options->run_dir, false, &dir, err);
    if (status != STATUS_OK)
        return status;
    status = choose_reader(options, dir, &reader, err);
    if (status == STATUS_OK)
        status = rundir_connect(dir, reader, &socket, err);
    if (status == STATUS_OK)
        status = choose_reader(options, dir, &again, err);
    if (status == STATUS_OK && again != reader)
        status = error_set(err, STATUS_NOT_FOUND, "other readers are coming");
    close(dir);
    if (status == STATUS_OK)
        *ret_socket = socket;
    else if (socket >= 0)
        close(socket);
    return status;
}

static double seconds(int64_t ms)
{
    return (double)ms / 1000;
}

static enum status nobody_there(const struct dial_options *options, const char *reason,
                                struct error *err)
{
    char node[HOST_NAME_MAX + 1] = "";
    gethostname(node, sizeof node - 1);
    return error_set(
        err, STATUS_NOT_FOUND,
        "no Penstock service answers in run directory '%s' of node %s within %.3g s, where trainer "
        "%" PRIu32 " looks for one: %s; start one "
        "with 'mpirun penstock-reader -c run.yaml', and set PENSTOCK_RUN_DIR to its "
        "delivery.run_dir",
        options->run_dir, node, seconds(options->timeout_ms), options->rank, reason);
}

/* All was delivered, and the readers have left. */
static enum status all_is_over(const struct dial_options *options, struct error *err)
{
    if (options->wish == WISH_STATE)
        return error_set(err, STATUS_REFUSED,
                         "trainer %" PRIu32 " has a state, and all trainers had their last batch: "
                         "the readers have left; if the state is of an earlier step, start a new "
                         "run",
                         options->rank);
    return error_set(err, STATUS_ENDED, "all epochs are consumed, and the readers have left");
}

static enum status check_peer(int socket, struct error *err)
{
    uid_t uid;
    pid_t pid;
    enum status status = peer_credentials(socket, &uid, &pid, err);
    if (status == STATUS_OK && !peer_allowed(uid))
        status = error_set(err, STATUS_REFUSED,
                           "the service there is process %ld of user %ju, not of this user",
                           (long)pid, (uintmax_t)uid);
    return status;
}

/* Sleeps until one of the descriptors (-1: none) is readable or the time has come. */
static enum status sleep_until(int socket, int wake_fd, uint64_t until_ns, struct error *err)
{
    uint64_t now = clock_now_ns();
    uint64_t left = until_ns > now ? until_ns - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
                               .tv_nsec = (long)(left % 1000000000u)};
    struct pollfd fds[] = {{.fd = socket, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    if (ppoll(fds, 2, until_ns == UINT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR)
        return error_set_errno(err, STATUS_IO, "poll");
    return STATUS_OK;
}

static bool is_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&poll_fd, 1, 0) > 0;
}

static enum status not_started(const struct dial *dial, struct error *err)
{
    const struct dial_options *options = dial->options;
    if (!dial->heard)
        return error_set(err, STATUS_TIMEOUT,
                         "the service in '%s' took the connection but said nothing for %.3g s",
                         options->run_dir, seconds(options->timeout_ms));
    return error_set(
        err, STATUS_TIMEOUT,
        "the service in '%s' waits for trainers: %" PRIu32 " of %" PRIu32
        " are there, and no other came for %.3g s; start them, or give a longer timeout",
        options->run_dir, dial->news.connected, dial->news.expected, seconds(options->timeout_ms));
}

static enum status say_hello(const struct dial *dial, struct error *err)
{
    const struct dial_options *options = dial->options;
    struct protocol_message hello = {
        .type = PROTOCOL_HELLO,
        .hello = {.rank = options->rank, .world_size = options->world_size, .wish = options->wish}};
    snprintf(hello.hello.coordinates, sizeof hello.hello.coordinates, "%s", options->coordinates);
    if (options->state)
        snprintf(hello.hello.state, sizeof hello.hello.state, "%s", options->state);
    enum status status = check_peer(dial->socket, err);
    if (status == STATUS_OK)
        status = protocol_send(dial->socket, &hello, &options->page_fd, err);
    return status == STATUS_LOST ? STATUS_OK : status; /* who hung up may have said why */
}

/* Takes the descriptors of a WELCOME, and the socket. */
static enum status take_ring(struct dial *dial, const int fds[WELCOME_FDS],
                             const struct protocol_welcome *welcome,
                             struct connection *ret_connection, struct connection_terms *ret_terms,
                             struct error *err)
{
    const struct dial_options *options = dial->options;
    struct connection_terms terms = {.welcome = *welcome, .reconnect_ms = dial->news.reconnect_ms};
    terms.rank = options->rank;
    enum status status =
        connection_open(dial->socket, fds, welcome->member, options->world_size,
                        !*options->coordinates, &terms.rank, ret_connection, &terms.header, err);
    dial->socket = -1;
    if (status != STATUS_OK)
        return status;
    terms.handout = dial->handout;
    dial->handout = (struct handout){0};
    *ret_terms = terms;
    return STATUS_OK;
}

void dial_begin(struct dial *ret_dial, const struct dial_options *options)
{
    *ret_dial = (struct dial){
        .options = options, .socket = -1, .deadline_ns = clock_deadline_ns(options->timeout_ms)};
}

/* One look for the reader. *ret_over stays false while another is worth it; then *ret_until says
 * when. */
static enum status look_for_reader(struct dial *dial, bool *ret_over, uint64_t *ret_until,
                                   struct error *err)
{
    struct error reason;
    uint64_t now = clock_now_ns();
    enum status status = reach(dial->options, &dial->socket, &reason);
    *ret_over = true;
    if (status == STATUS_NOT_FOUND && end_marker_found(dial->options->cursors))
        return all_is_over(dial->options, err);
    if (status == STATUS_NOT_FOUND && now >= dial->deadline_ns)
        return nobody_there(dial->options, reason.message, err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND) {
        if (err)
            *err = reason;
        return status;
    }
    if (status == STATUS_OK)
        status = say_hello(dial, err);
    else
        status = STATUS_OK;
    *ret_over = status != STATUS_OK;
    *ret_until = dial->socket < 0 ? now + RETRY_MS * ms_ns : now;
    return status;
}

/* The reader is gone: another try, unless it said that there is none. */
static enum status reader_gone(struct dial *dial, bool *ret_over, uint64_t *ret_until,
                               struct error *err)
{
    dial_done(dial);
    *ret_over = dial->heard && dial->news.reconnect_ms == 0;
    if (*ret_over)
        return error_set(err, STATUS_LOST,
                         "the service in '%s' went away before it started delivery; see its output",
                         dial->options->run_dir);
    if (dial->heard)
        dial->deadline_ns = clock_deadline_ns((int64_t)dial->news.reconnect_ms);
    dial->heard = false;
    *ret_until = clock_now_ns() + RETRY_MS * ms_ns;
    return STATUS_OK;
}

/* What the reader says; `fds` of a WELCOME are taken. */
static enum status take_message(struct dial *dial, const struct protocol_message *message,
                                const int fds[WELCOME_FDS], struct connection *ret_connection,
                                struct connection_terms *ret_terms, struct error *err)
{
    switch (message->type) {
    case PROTOCOL_WAIT:
        dial->news = message->wait;
        dial->heard = true;
        dial->deadline_ns = clock_deadline_ns(dial->options->timeout_ms);
        return STATUS_OK;
    case PROTOCOL_HANDOUT:
        handout_done(&dial->handout);
        return handout_open(fds[0], &dial->handout, err);
    case PROTOCOL_WELCOME:
        return take_ring(dial, fds, &message->welcome, ret_connection, ret_terms, err);
    case PROTOCOL_FAIL:
        dial->told = true;
        if (err)
            *err = message->fail;
        return (enum status)message->fail.status;
    default:
        return error_set(err, STATUS_PROTOCOL,
                         "the service sent message %" PRIu32 " during the handshake",
                         message->type);
    }
}

/* One look at what the reader says. As look_for_reader(). */
static enum status hear_reader(struct dial *dial, bool *ret_over, uint64_t *ret_until,
                               struct connection *ret_connection,
                               struct connection_terms *ret_terms, struct error *err)
{
    struct protocol_message message;
    int fds[WELCOME_FDS];
    enum status status = protocol_receive(dial->socket, &message, fds, err);
    *ret_over = false;
    *ret_until = 0;
    if (status == STATUS_LOST)
        return reader_gone(dial, ret_over, ret_until, err);
    if (status == STATUS_TIMEOUT && clock_now_ns() < dial->deadline_ns) {
        *ret_until = dial->deadline_ns;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = take_message(dial, &message, fds, ret_connection, ret_terms, err);
    else if (status == STATUS_TIMEOUT)
        status = not_started(dial, err);
    *ret_over = status != STATUS_OK || message.type == PROTOCOL_WELCOME;
    return status;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

enum status dial_continue(struct dial *dial, uint64_t until_ns, int wake_fd, bool *ret_over,
                          struct connection *ret_connection, struct connection_terms *ret_terms,
                          struct error *err)
{
    for (;;) {
        uint64_t again = 0;
        enum status status =
            dial->socket < 0 ? look_for_reader(dial, ret_over, &again, err)
                             : hear_reader(dial, ret_over, &again, ret_connection, ret_terms, err);
        if (*ret_over) {
            dial_done(dial);
            return status;
        }
        if (again > clock_now_ns())
            status = sleep_until(dial->socket, wake_fd, sooner(again, until_ns), err);
        if (status != STATUS_OK || clock_now_ns() >= until_ns || is_readable(wake_fd)) {
            *ret_over = status != STATUS_OK;
            return status;
        }
    }
}

void dial_done(struct dial *dial)
{
    fd_close(&dial->socket);
    handout_done(&dial->handout);
}
