/* Fuzz target for one packet on a socket, as either side of the handshake takes it.
 *
 *     byte 0      low 3 bits: how many descriptors come with it; bit 3: a WELCOME is waited for;
 *                 bit 4: a HELLO, and nothing else
 *     the rest    the packet
 *
 * It is refused with a message, or is a message: and no descriptor is left open, either way. */
#include "fuzz.h"

#include "delivery/ring/protocol.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { MOST_FDS = 7 };

/* Any packet, with any number of descriptors, which the library's own packet_send() would not send.
 */
static bool send_packet(int socket, const uint8_t *bytes, size_t size, int fd, size_t fd_count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(MOST_FDS * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        packet.msg_control = control.bytes;
        packet.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        for (size_t i = 0; i < fd_count; i++)
            memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &fd, sizeof fd);
    }
    return sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static void receive(int socket, bool wants_welcome)
{
    struct protocol_message message;
    struct error err;
    int fds[WELCOME_FDS] = {-1, -1, -1};
    enum status status = protocol_receive(socket, &message, wants_welcome ? fds : NULL, &err);
    if (status != STATUS_OK) {
        CHECK(err.status == (int32_t)status && err.message[0]);
        CHECK(fds[0] == -1 && fds[1] == -1 && fds[2] == -1);
        return;
    }
    CHECK((message.type == PROTOCOL_WELCOME) == (fds[0] >= 0));
    for (int i = 0; i < WELCOME_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (message.type == PROTOCOL_FAIL) {
        CHECK(message.fail.status > STATUS_OK && message.fail.status <= STATUS_MPI);
        CHECK(memchr(message.fail.message, '\0', sizeof message.fail.message));
        CHECK(message.fail.message[0]);
        CHECK(memchr(message.fail.file, '\0', sizeof message.fail.file));
    }
}

static void receive_hello(int socket)
{
    struct protocol_hello hello;
    struct error err;
    int page_fd = -1;
    enum status status = protocol_receive_hello(socket, &hello, &page_fd, &err);
    if (status != STATUS_OK) {
        CHECK(err.status == (int32_t)status && err.message[0]);
        return;
    }
    CHECK(page_fd >= 0 && hello.wish < WISH_COUNT);
    CHECK(memchr(hello.state, '\0', sizeof hello.state));
    close(page_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int before = lowest_free_fd(), ends[2];
    struct input input = {data, size};
    uint8_t how = take_byte(&input);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    bool sent = send_packet(ends[0], input.at, input.left, ends[0], how % 8);
    if (sent && how & 16)
        receive_hello(ends[1]);
    else if (sent)
        receive(ends[1], how & 8);
    close(ends[0]);
    close(ends[1]);
    CHECK(lowest_free_fd() == before);
    return 0;
}
