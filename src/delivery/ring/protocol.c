/* See protocol.h. */
#include "delivery/ring/protocol.h"

#include "delivery/ring/fdpass.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PREFIX_BYTES = offsetof(struct protocol_message, hello) };

_Static_assert(PREFIX_BYTES == 16, "wire layout");
_Static_assert(sizeof(struct protocol_hello) ==
                   12 + PROTOCOL_COORDINATES_BYTES + PROTOCOL_STATE_BYTES,
               "wire layout");
_Static_assert(sizeof(struct protocol_wait) == 16, "wire layout");
_Static_assert(sizeof(struct protocol_welcome) == 24, "wire layout");
_Static_assert(sizeof(struct protocol_goodbye) == 16, "wire layout");
_Static_assert(sizeof(struct protocol_skip) == 32, "wire layout");
_Static_assert(sizeof(struct protocol_give) == 88, "wire layout");
_Static_assert(sizeof(struct error) == 16 + ERROR_FILE_BYTES + ERROR_MESSAGE_BYTES, "wire layout");
_Static_assert(sizeof(int[WELCOME_FDS]) <= sizeof(int[PACKET_MAX_FDS]), "a WELCOME is one packet");

static const struct kind {
    const char *name;
    size_t body_bytes;
    size_t fd_count;
} kinds[] = {
    [PROTOCOL_HELLO] = {"HELLO", sizeof(struct protocol_hello), 1},
    [PROTOCOL_WAIT] = {"WAIT", sizeof(struct protocol_wait), 0},
    [PROTOCOL_WELCOME] = {"WELCOME", sizeof(struct protocol_welcome), WELCOME_FDS},
    [PROTOCOL_GOODBYE] = {"GOODBYE", sizeof(struct protocol_goodbye), 0},
    [PROTOCOL_END] = {"END", 0, 0},
    [PROTOCOL_FAIL] = {"FAIL", sizeof(struct error), 0},
    [PROTOCOL_DONE] = {"DONE", 0, 0},
    [PROTOCOL_HANDOUT] = {"HANDOUT", 0, 1},
    [PROTOCOL_SKIP] = {"SKIP", sizeof(struct protocol_skip), 0},
    [PROTOCOL_GIVE] = {"GIVE", sizeof(struct protocol_give), 1},
};

static const struct kind *kind_of(uint32_t type)
{
    bool known = type > 0 && type < sizeof kinds / sizeof kinds[0];
    return known ? &kinds[type] : NULL;
}

enum status protocol_send(int socket, const struct protocol_message *message, const int *fds,
                          struct error *err)
{
    const struct kind *kind = kind_of(message->type);
    if (!kind)
        return error_set(err, STATUS_INVALID, "no message has type %" PRIu32, message->type);
    struct protocol_message stamped = *message;
    stamped.magic = PROTOCOL_MAGIC;
    stamped.version = PROTOCOL_VERSION;
    stamped.reserved = 0;
    enum status status = packet_send(socket, &stamped, PREFIX_BYTES + kind->body_bytes, fds,
                                     kind->fd_count, MSG_DONTWAIT, err);
    return status != STATUS_OK ? error_prefix(err, status, "%s: ", kind->name) : STATUS_OK;
}

static enum status check(const struct protocol_message *message, size_t size, size_t fd_count,
                         struct error *err)
{
    if (size < PREFIX_BYTES || message->magic != PROTOCOL_MAGIC)
        return error_set(err, STATUS_PROTOCOL, "%zu bytes that are not a Penstock message", size);
    if (message->version != PROTOCOL_VERSION)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the peer speaks protocol version %" PRIu32 ", this program version %d; "
                         "install the same release of Penstock on both sides",
                         message->version, PROTOCOL_VERSION);
    const struct kind *kind = kind_of(message->type);
    if (!kind)
        return error_set(err, STATUS_PROTOCOL, "a message of unknown type %" PRIu32, message->type);
    if (size != PREFIX_BYTES + kind->body_bytes)
        return error_set(err, STATUS_PROTOCOL, "a %s of %zu bytes: it must have %zu", kind->name,
                         size, PREFIX_BYTES + kind->body_bytes);
    if (fd_count != kind->fd_count)
        return error_set(err, STATUS_PROTOCOL, "a %s with %zu descriptors: it must have %zu",
                         kind->name, fd_count, kind->fd_count);
    const struct protocol_hello *hello = &message->hello;
    if (message->type == PROTOCOL_HELLO &&
        (hello->wish >= WISH_COUNT || !memchr(hello->state, '\0', sizeof hello->state) ||
         !memchr(hello->coordinates, '\0', sizeof hello->coordinates) ||
         (hello->wish == WISH_FRESH) != (hello->state[0] == '\0')))
        return error_set(err, STATUS_PROTOCOL,
                         "a HELLO whose wish (%" PRIu32 ") and state make no sense", hello->wish);
    if (message->type == PROTOCOL_GIVE &&
        (message->give.rank < 1 || message->give.rank > PROTOCOL_GIVE_MAX_RANK))
        return error_set(err, STATUS_PROTOCOL, "a GIVE of %" PRIu32 " axes", message->give.rank);
    return STATUS_OK;
}

/* Makes a FAIL harmless: its status is a failure, its text ends, has no control characters and is
 * not empty. */
static void tame(struct error *fail)
{
    if (fail->status <= STATUS_OK || fail->status > STATUS_MPI)
        fail->status = STATUS_PROTOCOL;
    fail->file[sizeof fail->file - 1] = '\0';
    fail->message[sizeof fail->message - 1] = '\0';
    for (char *c = fail->message; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    if (!fail->message[0])
        snprintf(fail->message, sizeof fail->message, "the other side gave no reason");
}

enum { NO_CARRIER = 0, WELCOMES = 1u << PROTOCOL_WELCOME | 1u << PROTOCOL_HANDOUT };

/* `carriers`: the message types (bits) whose descriptors go to `ret_fds`; NO_CARRIER: no message
 * may have descriptors. */
static enum status receive(int socket, uint32_t carriers, struct protocol_message *ret_message,
                           int *ret_fds, struct error *err)
{
    struct protocol_message message = {0};
    int fds[PACKET_MAX_FDS];
    size_t size, fd_count;
    enum status status =
        packet_receive(socket, &message, sizeof message, MSG_DONTWAIT, &size, fds, &fd_count, err);
    if (status != STATUS_OK)
        return status;
    status = check(&message, size, fd_count, err);
    if (status == STATUS_OK && fd_count > 0 && (carriers >> message.type & 1) == 0)
        status = error_set(err, STATUS_PROTOCOL, "a %s, which may not come now",
                           kind_of(message.type)->name);
    if (status != STATUS_OK) {
        for (size_t i = 0; i < fd_count; i++)
            close(fds[i]);
        return status;
    }
    if (message.type == PROTOCOL_WAIT && message.wait.reconnect_ms > PROTOCOL_MOST_RECONNECT_MS)
        return error_set(err, STATUS_PROTOCOL, "a WAIT that asks to reconnect for %" PRIu64 " ms",
                         message.wait.reconnect_ms);
    if (message.type == PROTOCOL_FAIL)
        tame(&message.fail);
    if (fd_count > 0)
        memcpy(ret_fds, fds, fd_count * sizeof *fds);
    *ret_message = message;
    return STATUS_OK;
}

enum status protocol_receive(int socket, struct protocol_message *ret_message,
                             int ret_fds[WELCOME_FDS], struct error *err)
{
    return receive(socket, ret_fds ? WELCOMES : NO_CARRIER, ret_message, ret_fds, err);
}

enum status protocol_receive_given(int socket, struct protocol_message *ret_message, int *ret_fd,
                                   struct error *err)
{
    *ret_fd = -1;
    return receive(socket, 1u << PROTOCOL_GIVE, ret_message, ret_fd, err);
}

enum status protocol_receive_hello(int socket, struct protocol_hello *ret_hello, int *ret_page_fd,
                                   struct error *err)
{
    struct protocol_message message;
    enum status status = receive(socket, 1u << PROTOCOL_HELLO, &message, ret_page_fd, err);
    if (status == STATUS_OK && message.type != PROTOCOL_HELLO)
        status = error_set(err, STATUS_PROTOCOL, "a connection must begin with one HELLO");
    if (status == STATUS_OK)
        *ret_hello = message.hello;
    return status;
}

enum status peer_credentials(int socket, uid_t *ret_uid, pid_t *ret_pid, struct error *err)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return error_set_errno(err, STATUS_IO, "ask for the peer's user");
    *ret_uid = peer.uid;
    *ret_pid = peer.pid;
    return STATUS_OK;
}

bool peer_allowed(uid_t uid)
{
    return uid == geteuid();
}
