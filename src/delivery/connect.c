/* See connect.h. */
#include "delivery/connect.h"

#include "base/clock.h"
#include "delivery/message.h"
#include "delivery/rundir.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { MAX_READERS = 1024, RETRY_MS = 20 };

static const uint64_t ms_ns = 1000000;

/* A deadline that can be "never". */
static uint64_t deadline_after(int64_t timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * ms_ns;
}

uint32_t connect_share(uint32_t local_rank, uint32_t local_world_size, uint32_t count)
{
    if (local_world_size == 0 || local_rank >= local_world_size)
        return 0;
    return (uint32_t)((uint64_t)local_rank * count / local_world_size);
}

static enum status choose_reader(const struct connect_options *options, int dir,
                                 uint32_t *ret_reader, struct error *err)
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
        readers[connect_share(options->local_rank, options->local_world_size, (uint32_t)count)];
    return STATUS_OK;
}

/* One try. NOT_FOUND: worth another. Readers that have come since the choice may change it. */
static enum status reach(const struct connect_options *options, int *ret_socket, struct error *err)
{
    int dir, socket = -1;
    uint32_t reader = 0, again = 0;
    enum status status = rundir_open(options->run_dir, false, &dir, err);
    if (status)
        return status;
    status = choose_reader(options, dir, &reader, err);
    if (!status)
        status = rundir_connect(dir, reader, &socket, err);
    if (!status)
        status = choose_reader(options, dir, &again, err);
    if (!status && again != reader)
        status = error_set(err, STATUS_NOT_FOUND, "other readers are coming");
    close(dir);
    if (!status)
        *ret_socket = socket;
    else if (socket >= 0)
        close(socket);
    return status;
}

static enum status reach_until(const struct connect_options *options, uint64_t deadline,
                               int *ret_socket, struct error *err)
{
    struct error last;
    for (;;) {
        enum status status = reach(options, ret_socket, &last);
        if (status != STATUS_NOT_FOUND) {
            if (status && err)
                *err = last;
            return status;
        }
        if (clock_now_ns() >= deadline)
            break;
        clock_sleep_ns(RETRY_MS * ms_ns);
    }
    return error_set(
        err, STATUS_NOT_FOUND,
        "no Penstock service answers in run directory '%s' within %.3g s: %s; start one "
        "with 'mpirun penstock-reader -c run.yaml', and set PENSTOCK_RUN_DIR to its "
        "delivery.run_dir",
        options->run_dir, (double)options->timeout_ms / 1000, last.message);
}

static enum status check_peer(int socket, struct error *err)
{
    uid_t uid;
    pid_t pid;
    enum status status = peer_credentials(socket, &uid, &pid, err);
    if (!status && !peer_allowed(uid))
        status = error_set(err, STATUS_REFUSED,
                           "the service there is process %ld of user %ju, not of this user",
                           (long)pid, (uintmax_t)uid);
    return status;
}

/* TIMEOUT when the deadline comes first. */
static enum status wait_readable(int socket, uint64_t deadline, struct error *err)
{
    for (;;) {
        uint64_t now = clock_now_ns();
        uint64_t left = deadline > now ? deadline - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
                                   .tv_nsec = (long)(left % 1000000000u)};
        struct pollfd fd = {.fd = socket, .events = POLLIN};
        int ready = ppoll(&fd, 1, deadline == UINT64_MAX ? NULL : &timeout, NULL);
        if (ready > 0)
            return STATUS_OK;
        if (ready == 0)
            return error_set(err, STATUS_TIMEOUT, "no answer");
        if (errno != EINTR)
            return error_set_errno(err, STATUS_IO, "poll");
    }
}

static enum status not_started(const struct connect_options *options,
                               const struct message_wait *wait, struct error *err)
{
    double seconds = (double)options->timeout_ms / 1000;
    if (wait->expected == 0)
        return error_set(err, STATUS_TIMEOUT,
                         "the service in '%s' took the connection but said nothing for %.3g s",
                         options->run_dir, seconds);
    return error_set(
        err, STATUS_TIMEOUT,
        "the service in '%s' waits for trainers: %" PRIu32 " of %" PRIu32
        " are there, and no other came for %.3g s; start them, or give a longer timeout",
        options->run_dir, wait->connected, wait->expected, seconds);
}

/* Waits through the WAITs for WELCOME and its descriptors. */
static enum status await_welcome(const struct connect_options *options, int socket,
                                 int ret_fds[WELCOME_FDS], struct error *err)
{
    struct message_wait news = {0};
    uint64_t deadline = deadline_after(options->timeout_ms);
    for (;;) {
        struct message message;
        enum status status = wait_readable(socket, deadline, err);
        if (status == STATUS_TIMEOUT)
            return not_started(options, &news, err);
        if (!status)
            status = message_receive(socket, &message, ret_fds, err);
        if (status == STATUS_TIMEOUT)
            continue; /* readable for nothing */
        if (status == STATUS_LOST)
            return error_set(
                err, STATUS_LOST,
                "the service in '%s' went away before it started delivery; see its output",
                options->run_dir);
        if (status)
            return status;
        switch (message.type) {
        case MESSAGE_WAIT:
            news = message.wait;
            deadline = deadline_after(options->timeout_ms);
            break;
        case MESSAGE_WELCOME:
            return STATUS_OK;
        case MESSAGE_FAIL:
            if (err)
                *err = message.fail;
            return (enum status)message.fail.status;
        default:
            return error_set(err, STATUS_PROTOCOL,
                             "the service sent message %" PRIu32 " during the handshake",
                             message.type);
        }
    }
}

static enum status shake_hands(const struct connect_options *options, int socket,
                               int ret_fds[WELCOME_FDS], struct error *err)
{
    struct message hello = {.type = MESSAGE_HELLO,
                            .hello = {.rank = options->rank, .world_size = options->world_size}};
    enum status status = check_peer(socket, err);
    if (!status)
        status = message_send(socket, &hello, NULL, err);
    if (status && status != STATUS_LOST) /* a service that hung up may have said why */
        return status;
    return await_welcome(options, socket, ret_fds, err);
}

static enum status check_service(const struct connect_options *options,
                                 const struct ring_service *service, struct error *err)
{
    if (service->rank == options->rank && service->world_size == options->world_size &&
        service->steps_per_epoch > 0)
        return STATUS_OK;
    return error_set(err, STATUS_PROTOCOL,
                     "ring: made for trainer %" PRIu32 " of %" PRIu32 " with %" PRIu64
                     " steps an epoch, this is trainer %" PRIu32 " of %" PRIu32,
                     service->rank, service->world_size, service->steps_per_epoch, options->rank,
                     options->world_size);
}

/* Takes the descriptors of a WELCOME. */
static enum status take_ring(const struct connect_options *options, const int fds[WELCOME_FDS],
                             struct link *link, struct ring_header *ret_header, struct error *err)
{
    link->publish_fd = fds[1];
    link->release_fd = fds[2];
    enum status status = ring_open(fds[0], &link->ring, ret_header, err);
    if (!status)
        status = check_service(options, &ret_header->service, err);
    for (int i = 1; !status && i < WELCOME_FDS; i++)
        if (!event_check(fds[i]))
            status = error_set(err, STATUS_PROTOCOL,
                               "ring: a wake-up descriptor is no eventfd, or would block");
    return status;
}

enum status link_connect(const struct connect_options *options, struct link *ret_link,
                         struct ring_header *ret_header, struct error *err)
{
    struct link link = {.socket = -1, .ring = {.memfd = -1}, .publish_fd = -1, .release_fd = -1};
    int fds[WELCOME_FDS];
    enum status status =
        reach_until(options, deadline_after(options->timeout_ms), &link.socket, err);
    if (!status)
        status = shake_hands(options, link.socket, fds, err);
    if (!status)
        status = take_ring(options, fds, &link, ret_header, err);
    if (status) {
        link_done(&link);
        return status;
    }
    *ret_link = link;
    return STATUS_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void link_done(struct link *link)
{
    ring_done(&link->ring);
    close_fd(&link->publish_fd);
    close_fd(&link->release_fd);
    close_fd(&link->socket);
}
