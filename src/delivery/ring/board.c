/* See board.h. */
#include "delivery/ring/board.h"

#include "delivery/ring/fdpass.h"

#include <inttypes.h>
#include <stddef.h>

static size_t bytes_of(uint32_t type)
{
    switch (type) {
    case BOARD_TRIAL:
    case BOARD_OUTPUTS:
    case BOARD_BEGIN:
        return sizeof(struct board_message);
    case BOARD_TROUBLE:
    case BOARD_BAD:
        return offsetof(struct board_message, text) + BOARD_TEXT_BYTES;
    default:
        return offsetof(struct board_message, text);
    }
}

enum status board_send(int socket, const struct board_message *message, const int *fds, int flags,
                       struct error *err)
{
    struct board_message stamped = *message;
    stamped.magic = BOARD_MAGIC;
    stamped.version = BOARD_VERSION;
    size_t count = 0;
    while (fds && count < BOARD_MOST_FDS && fds[count] >= 0)
        count++;
    return packet_send(socket, &stamped, bytes_of(message->type), fds, count, flags, err);
}

enum status board_receive(int socket, struct board_message *ret_message, int *ret_fds, int flags,
                          struct error *err)
{
    int fds[PACKET_MAX_FDS];
    size_t size = 0, count = 0;
    enum status status =
        packet_receive(socket, ret_message, sizeof *ret_message, flags, &size, fds, &count, err);
    if (status != STATUS_OK)
        return status;
    if (size < offsetof(struct board_message, text) || ret_message->magic != BOARD_MAGIC)
        status = error_set(err, STATUS_PROTOCOL, "transform: %zu bytes that are no message", size);
    else if (ret_message->version != BOARD_VERSION)
        status =
            error_set(err, STATUS_UNSUPPORTED,
                      "transform: the other side has version %" PRIu32 " of the messages, this "
                      "one version %d: install the same release of Penstock on both sides",
                      ret_message->version, BOARD_VERSION);
    else if (size != bytes_of(ret_message->type) || count > BOARD_MOST_FDS)
        status =
            error_set(err, STATUS_PROTOCOL, "transform: a message of %zu bytes of type %" PRIu32,
                      size, ret_message->type);
    if (status == STATUS_OK &&
        (ret_message->type == BOARD_TROUBLE || ret_message->type == BOARD_BAD))
        ret_message->text[BOARD_TEXT_BYTES - 1] = '\0';
    for (size_t i = 0; i < count; i++)
        if (status != STATUS_OK || !ret_fds || i >= BOARD_MOST_FDS)
            fd_close(&fds[i]);
    for (size_t i = 0; status == STATUS_OK && ret_fds && i < BOARD_MOST_FDS; i++)
        ret_fds[i] = i < count ? fds[i] : -1;
    return status;
}
