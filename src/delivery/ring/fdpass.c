/* See fdpass.h. */
#include "delivery/ring/fdpass.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Aligned for a control message. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(PACKET_MAX_FDS * sizeof(int))];
};

static void attach_fds(struct msghdr *message, union control *control, const int *fds, size_t count)
{
    memset(control, 0, sizeof *control);
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(count * sizeof *fds);
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    assert(header); /* the buffer has room for one header */
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof *fds);
    memcpy(CMSG_DATA(header), fds, count * sizeof *fds);
}

enum status packet_send(int socket, const void *data, size_t size, const int *fds, size_t fd_count,
                        int flags, struct error *err)
{
    union control control;
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > PACKET_MAX_FDS)
        return error_set(err, STATUS_INVALID, "%zu descriptors in one packet; at most %d", fd_count,
                         PACKET_MAX_FDS);
    if (fd_count > 0)
        attach_fds(&message, &control, fds, fd_count);
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)size)
        return STATUS_OK;
    if (sent >= 0)
        return error_set(err, STATUS_IO, "sent %zd of %zu bytes", sent, size);
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return error_set(err, STATUS_TIMEOUT, "the peer does not read its socket");
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
        return error_set(err, STATUS_LOST, "the peer closed its socket");
    return error_set_errno(err, STATUS_IO, "send to the peer");
}

/* Collects the descriptors of all control messages. A descriptor without room in `fds` is closed.
 */
static size_t collect_fds(struct msghdr *message, int fds[PACKET_MAX_FDS])
{
    size_t count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (count < PACKET_MAX_FDS)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

/* A peer that closes its socket with packets unread resets the connection. The kernel tells this
 * once, and before what the peer had sent: its last packets follow. */
static enum status receive(int socket, struct msghdr *message, int flags, size_t *ret_size,
                           struct error *err)
{
    ssize_t got;
    bool reset = false, again;
    do {
        got = recvmsg(socket, message, flags | MSG_CMSG_CLOEXEC);
        again = got < 0 && (errno == EINTR || (errno == ECONNRESET && !reset));
        reset |= got < 0 && errno == ECONNRESET;
    } while (again);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return error_set(err, STATUS_TIMEOUT, "nothing to receive");
    if (got < 0 && errno != ECONNRESET)
        return error_set_errno(err, STATUS_IO, "receive from the peer");
    if (got < 0)
        return error_set(err, STATUS_LOST, "the peer reset the connection");
    *ret_size = (size_t)got;
    return STATUS_OK;
}

/* Closes the descriptors of a packet that is cut or empty, and says what is wrong. */
static enum status drop(const struct msghdr *message, const int *fds, size_t fd_count,
                        size_t capacity, struct error *err)
{
    for (size_t i = 0; i < fd_count; i++)
        close(fds[i]);
    if (fd_count < PACKET_MAX_FDS && message->msg_flags & MSG_CTRUNC)
        return error_set(
            err, STATUS_NO_MEMORY,
            "a descriptor came, and this process may open no more files: raise the limit "
            "(ulimit -n)");
    if (message->msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return error_set(err, STATUS_PROTOCOL,
                         "a packet longer than %zu bytes or with more than %d "
                         "descriptors",
                         capacity, PACKET_MAX_FDS);
    return error_set(err, STATUS_LOST, "the peer closed the connection");
}

enum status packet_receive(int socket, void *data, size_t capacity, int flags, size_t *ret_size,
                           int ret_fds[PACKET_MAX_FDS], size_t *ret_fd_count, struct error *err)
{
    union control control;
    struct iovec bytes = {.iov_base = data, .iov_len = capacity};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    size_t size;
    enum status status = receive(socket, &message, flags, &size, err);
    if (status != STATUS_OK)
        return status;

    int fds[PACKET_MAX_FDS];
    size_t fd_count = collect_fds(&message, fds);
    if (size > 0 && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        memcpy(ret_fds, fds, fd_count * sizeof *fds);
        *ret_fd_count = fd_count;
        *ret_size = size;
        return STATUS_OK;
    }
    return drop(&message, fds, fd_count, capacity, err);
}

void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
