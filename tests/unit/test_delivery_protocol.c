/* Messages and packets: what passes, and that nonsense leaves no descriptors behind. */
#include "delivery/ring/fdpass.h"
#include "delivery/ring/protocol.h"
#include "delivery/server/server.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int left, right; /* two connected sockets */

static int connect_both(void **state)
{
    (void)state;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    left = pair[0];
    right = pair[1];
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    close(left);
    close(right);
    return 0;
}

static int open_fds(void)
{
    int count = 0;
    DIR *list = opendir("/proc/self/fd");
    assert_non_null(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

static void bodies_arrive(void **state)
{
    (void)state;
    struct protocol_message sent = {.type = PROTOCOL_GOODBYE, .goodbye = {.epoch = 3, .step = 8}},
                            got;
    assert_int_equal(protocol_send(left, &sent, NULL, NULL), STATUS_OK);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_OK);
    assert_int_equal(got.type, PROTOCOL_GOODBYE);
    assert_int_equal(got.goodbye.step, 8);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_TIMEOUT);
    close(left);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_LOST);
    assert_int_equal(protocol_send(right, &sent, NULL, NULL), STATUS_LOST);
}

/* A trainer leaves while the reader tells it something: the reader still hears the goodbye. */
static void a_goodbye_outlives_packets_that_are_not_read(void **state)
{
    (void)state;
    struct protocol_message end = {.type = PROTOCOL_END},
                            goodbye = {.type = PROTOCOL_GOODBYE, .goodbye = {.epoch = 2}}, got;
    assert_int_equal(protocol_send(right, &end, NULL, NULL), STATUS_OK);
    assert_int_equal(protocol_send(left, &goodbye, NULL, NULL), STATUS_OK);
    close(left);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_OK);
    assert_int_equal(got.type, PROTOCOL_GOODBYE);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_LOST);
}

static void failures_are_tamed(void **state)
{
    (void)state;
    struct protocol_message sent = {.type = PROTOCOL_FAIL, .fail = {.status = 99}}, got;
    memset(sent.fail.message, '\n', sizeof sent.fail.message);
    assert_int_equal(protocol_send(left, &sent, NULL, NULL), STATUS_OK);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_OK);
    assert_int_equal(got.fail.status, STATUS_PROTOCOL);
    assert_int_equal(strlen(got.fail.message), sizeof got.fail.message - 1);
    assert_int_equal(got.fail.message[0], ' ');
    sent.fail.status = STATUS_OK;
    assert_int_equal(protocol_send(left, &sent, NULL, NULL), STATUS_OK);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_OK);
    assert_int_equal(got.fail.status, STATUS_PROTOCOL);
}

static void descriptors_come_with_a_welcome_only(void **state)
{
    (void)state;
    struct protocol_message welcome = {.type = PROTOCOL_WELCOME}, got;
    int fds[WELCOME_FDS] = {left, right, STDIN_FILENO}, got_fds[WELCOME_FDS];
    int before = open_fds();
    assert_int_equal(protocol_send(left, &welcome, fds, NULL), STATUS_OK);
    assert_int_equal(protocol_receive(right, &got, got_fds, NULL), STATUS_OK);
    assert_int_equal(open_fds(), before + WELCOME_FDS);
    for (int i = 0; i < WELCOME_FDS; i++) {
        assert_true(fcntl(got_fds[i], F_GETFD) & FD_CLOEXEC);
        close(got_fds[i]);
    }
    assert_int_equal(protocol_send(left, &welcome, fds, NULL), STATUS_OK);
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_PROTOCOL);
    assert_int_equal(open_fds(), before);
}

static void a_hello_comes_with_a_page(void **state)
{
    (void)state;
    struct protocol_message sent = {.type = PROTOCOL_HELLO, .hello = {.rank = 3, .world_size = 8}},
                            got;
    struct protocol_message welcome = {.type = PROTOCOL_WELCOME},
                            goodbye = {.type = PROTOCOL_GOODBYE};
    struct protocol_hello hello;
    int fds[WELCOME_FDS] = {left, right, STDIN_FILENO}, got_fds[WELCOME_FDS], page_fd;
    int before = open_fds();
    assert_int_equal(protocol_send(left, &sent, fds, NULL), STATUS_OK);
    assert_int_equal(protocol_receive_hello(right, &hello, &page_fd, NULL), STATUS_OK);
    assert_int_equal(hello.world_size, 8);
    assert_int_equal(open_fds(), before + 1);
    assert_true(fcntl(page_fd, F_GETFD) & FD_CLOEXEC);
    close(page_fd);
    assert_int_equal(protocol_send(left, &sent, fds, NULL), STATUS_OK);
    assert_int_equal(protocol_receive(right, &got, got_fds, NULL), STATUS_PROTOCOL);
    assert_int_equal(protocol_send(left, &welcome, fds, NULL), STATUS_OK);
    assert_int_equal(protocol_receive_hello(right, &hello, &page_fd, NULL), STATUS_PROTOCOL);
    assert_int_equal(protocol_send(left, &goodbye, NULL, NULL), STATUS_OK);
    assert_int_equal(protocol_receive_hello(right, &hello, &page_fd, NULL), STATUS_PROTOCOL);
    assert_int_equal(open_fds(), before);
}

/* No descriptor is free for one that comes: that is no fault of who sends it. */
static void too_few_descriptors_are_said_to_be_that(void **state)
{
    (void)state;
    struct protocol_message sent = {.type = PROTOCOL_HELLO};
    struct protocol_hello hello;
    struct rlimit usual, few;
    struct error error;
    int page_fd;
    int lowest = dup(left);
    close(lowest);
    assert_int_equal(protocol_send(left, &sent, &left, NULL), STATUS_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
    few = usual;
    few.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    enum status status = protocol_receive_hello(right, &hello, &page_fd, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    assert_int_equal(status, STATUS_NO_MEMORY);
    assert_non_null(strstr(error.message, "ulimit -n"));
}

/* A raw packet that is not a message, with `fd_count` descriptors, must be refused and leave none.
 */
static void refused(const void *data, size_t size, size_t fd_count, enum status expected)
{
    int fds[PACKET_MAX_FDS] = {left, left, left, left}, got_fds[WELCOME_FDS];
    struct protocol_message got;
    struct error error = {0};
    int before = open_fds();
    assert_int_equal(packet_send(left, data, size, fds, fd_count, 0, NULL), STATUS_OK);
    assert_int_equal(protocol_receive(right, &got, got_fds, &error), expected);
    assert_true(error.message[0] != '\0');
    assert_int_equal(open_fds(), before);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct protocol_message good = {
        .magic = PROTOCOL_MAGIC, .version = PROTOCOL_VERSION, .type = PROTOCOL_GOODBYE};
    size_t size = offsetof(struct protocol_message, hello) + sizeof good.goodbye;
    struct protocol_message bad = good;
    refused("x", 1, 0, STATUS_PROTOCOL);
    refused(&good, 15, 0, STATUS_PROTOCOL);
    refused(&good, size - 1, 0, STATUS_PROTOCOL);
    char longer[sizeof good + 1] = {0};
    memcpy(longer, &good, sizeof good);
    refused(longer, size + 1, 0, STATUS_PROTOCOL);
    for (size_t fds = 1; fds <= PACKET_MAX_FDS; fds++)
        refused(&good, size, fds, STATUS_PROTOCOL);
    bad.magic ^= 1;
    refused(&bad, size, 0, STATUS_PROTOCOL);
    bad = good;
    bad.version = PROTOCOL_VERSION + 1;
    refused(&bad, size, 0, STATUS_UNSUPPORTED);
    static const uint32_t types[] = {0, PROTOCOL_DONE + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        bad = good;
        bad.type = types[i];
        refused(&bad, size, 0, STATUS_PROTOCOL);
    }
    bad = good;
    bad.type = PROTOCOL_WELCOME;
    size = offsetof(struct protocol_message, hello) + sizeof bad.welcome;
    refused(&bad, size, WELCOME_FDS - 1, STATUS_PROTOCOL);
    refused(&bad, size, WELCOME_FDS + 1, STATUS_PROTOCOL);
    static const char huge[sizeof(struct protocol_message) + 1];
    refused(huge, sizeof huge, 2, STATUS_PROTOCOL);
}

/* More descriptors than a packet may have, sent around packet_send(). */
static void floods_of_descriptors_are_closed(void **state)
{
    (void)state;
    enum { MANY = 60 };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(MANY * sizeof(int))];
    } control = {0};
    int fds[MANY];
    for (int i = 0; i < MANY; i++)
        fds[i] = left;
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr flood = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(&control.header), fds, sizeof fds);
    int before = open_fds();
    assert_int_equal(sendmsg(left, &flood, 0), 1);
    struct protocol_message got;
    assert_int_equal(protocol_receive(right, &got, NULL, NULL), STATUS_PROTOCOL);
    assert_int_equal(open_fds(), before);
}

static void a_peer_that_does_not_read_is_no_obstacle(void **state)
{
    (void)state;
    struct protocol_message end = {.type = PROTOCOL_END};
    enum status status = STATUS_OK;
    for (int i = 0; i < 100000 && status == STATUS_OK; i++)
        status = protocol_send(left, &end, NULL, NULL);
    assert_int_equal(status, STATUS_TIMEOUT);
}

static void only_the_same_user_may_talk(void **state)
{
    (void)state;
    uid_t uid;
    pid_t pid;
    assert_int_equal(peer_credentials(left, &uid, &pid, NULL), STATUS_OK);
    assert_int_equal(uid, geteuid());
    assert_int_equal(pid, getpid());
    assert_true(peer_allowed(geteuid()));
    assert_false(peer_allowed(geteuid() + 1));
}

int main(void)
{
#define BOTH(test) cmocka_unit_test_setup_teardown(test, connect_both, close_both)
    const struct CMUnitTest tests[] = {
        BOTH(bodies_arrive),
        BOTH(a_goodbye_outlives_packets_that_are_not_read),
        BOTH(failures_are_tamed),
        BOTH(descriptors_come_with_a_welcome_only),
        BOTH(a_hello_comes_with_a_page),
        BOTH(too_few_descriptors_are_said_to_be_that),
        BOTH(nonsense_is_refused),
        BOTH(floods_of_descriptors_are_closed),
        BOTH(a_peer_that_does_not_read_is_no_obstacle),
        BOTH(only_the_same_user_may_talk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
