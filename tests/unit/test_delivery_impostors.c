/* Readers that are none: what a trainer says to a welcome with the wrong descriptors, or with too
 * few. No descriptor stays open. */
#include "delivery_raw.h"

#include "delivery/ring/fdpass.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/ring.h"
#include "delivery/ring/wakeup.h"
#include "delivery/server/ring_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum kind {
    KIND_RIGHT,
    KIND_UNSEALED,
    KIND_EMPTY,
    KIND_LONG,
    KIND_FILE,
    KIND_PIPE,
    KIND_EVENT_IS_PIPE,
    KIND_EVENT_IS_FILE,
    KIND_EVENT_BLOCKS,
    KIND_TWO,
    KIND_FOUR,
    KIND_NONE,
    KIND_WRONG_MAGIC,
    KIND_WRONG_VERSION,
    KIND_LONG_PACKET,
    KIND_COUNT
};

/* A service that answers the first HELLO as `kind` says. */
struct fake {
    char run_dir[64];
    enum kind kind;
    int dir, lock, listener;
    struct ring ring;
    int events[2];
};

static int memory_like(const struct ring *ring, bool sealed, off_t size)
{
    int fd = memfd_create("penstock-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    if (size > 0)
        assert_int_equal(pwrite(fd, ring->memory, sizeof(struct ring_header), 0),
                         sizeof(struct ring_header));
    if (sealed)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    return fd;
}

static int read_end_of_a_pipe(void)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    close(ends[1]);
    return ends[0];
}

/* The descriptor that stands where a right one should; -1: they are all right. */
static int wrong_one(const struct fake *fake, int *ret_index)
{
    off_t size = (off_t)fake->ring.bytes;
    *ret_index = fake->kind < KIND_EVENT_IS_PIPE ? 0 : fake->kind - KIND_EVENT_IS_PIPE > 1 ? 2 : 1;
    switch (fake->kind) {
    case KIND_UNSEALED:
        return memory_like(&fake->ring, false, size);
    case KIND_EMPTY:
        return memory_like(&fake->ring, true, 0);
    case KIND_LONG:
        return memory_like(&fake->ring, true, size + 4096);
    case KIND_FILE:
    case KIND_EVENT_IS_FILE:
        return open("/proc/self/exe", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    case KIND_PIPE:
    case KIND_EVENT_IS_PIPE:
        return read_end_of_a_pipe();
    case KIND_EVENT_BLOCKS:
        return eventfd(0, EFD_CLOEXEC);
    default:
        return -1;
    }
}

/* The packet of a right WELCOME, as it would be sent. */
static size_t welcome_packet(const struct fake *fake, struct protocol_message *ret_message)
{
    int ends[2];
    const int fds[WELCOME_FDS] = {fake->ring.memfd, fake->events[0], fake->events[1]};
    struct protocol_message welcome = {.type = PROTOCOL_WELCOME};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(protocol_send(ends[0], &welcome, fds, NULL), STATUS_OK);
    ssize_t size = recv(ends[1], ret_message, sizeof *ret_message, 0);
    assert_true(size > 0);
    close(ends[0]), close(ends[1]);
    return (size_t)size;
}

static void send_welcome(const struct fake *fake, int fd)
{
    struct protocol_message welcome;
    size_t size = welcome_packet(fake, &welcome);
    int index, fds[] = {fake->ring.memfd, fake->events[0], fake->events[1], fake->events[1]};
    int wrong = wrong_one(fake, &index);
    if (wrong >= 0)
        fds[index] = wrong;
    size_t count = fake->kind == KIND_TWO    ? 2
                   : fake->kind == KIND_FOUR ? 4
                   : fake->kind == KIND_NONE ? 0
                                             : WELCOME_FDS;
    welcome.magic ^= fake->kind == KIND_WRONG_MAGIC;
    welcome.version += fake->kind == KIND_WRONG_VERSION;
    size += fake->kind == KIND_LONG_PACKET;
    assert_int_equal(packet_send(fd, &welcome, size, fds, count, 0, NULL), STATUS_OK);
    if (wrong >= 0)
        close(wrong);
}

static void *answer_once(void *argument)
{
    const struct fake *fake = argument;
    struct protocol_hello hello;
    int page_fd;
    struct pollfd polled = {.fd = fake->listener, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 5000), 1);
    int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    polled.fd = fd;
    assert_int_equal(poll(&polled, 1, 5000), 1);
    assert_int_equal(protocol_receive_hello(fd, &hello, &page_fd, NULL), STATUS_OK);
    close(page_fd);
    send_welcome(fake, fd);
    close(fd);
    return NULL;
}

static void fake_new(struct fake *fake, const char *run_dir, enum kind kind)
{
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    struct ring_service service = support_service(1);
    *fake = (struct fake){.kind = kind};
    assert_int_equal(rundir_open(run_dir, true, &fake->dir, NULL), STATUS_OK);
    assert_int_equal(rundir_claim(fake->dir, 0, NULL, &fake->lock, NULL), STATUS_OK);
    assert_int_equal(rundir_bind(fake->dir, 0, &fake->listener, NULL), STATUS_OK);
    assert_int_equal(listen(fake->listener, 4), 0);
    const struct ring_member member = {.is_there = 1, .fields = UINT64_MAX};
    assert_int_equal(
        ring_memory_create(&layout, &service, &member, 1, NULL, NULL, &fake->ring, NULL),
        STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(wakeup_new(&fake->events[i], NULL), STATUS_OK);
}

static void fake_done(struct fake *fake, const char *run_dir)
{
    rundir_leave(fake->dir, 0);
    close(fake->dir), close(fake->lock), close(fake->listener);
    ring_done(&fake->ring);
    close(fake->events[0]), close(fake->events[1]);
    assert_int_equal(rmdir(run_dir), 0);
}

static void descriptors_of_the_wrong_kind_are_refused(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    for (enum kind kind = KIND_RIGHT; kind < KIND_COUNT; kind++) {
        int before = lowest_free_fd();
        struct fake fake;
        pthread_t thread;
        struct penstock *client = NULL;
        struct penstock_options options = {
            .run_dir = folder.path, .world_size = 1, .timeout_ms = 5000};
        char message[PENSTOCK_MESSAGE_BYTES];
        fake_new(&fake, folder.path, kind);
        assert_int_equal(pthread_create(&thread, NULL, answer_once, &fake), 0);
        enum penstock_status status = penstock_connect(&options, &client, message);
        pthread_join(thread, NULL);
        enum penstock_status expected = kind == KIND_RIGHT           ? PENSTOCK_OK
                                        : kind == KIND_WRONG_VERSION ? PENSTOCK_UNSUPPORTED
                                                                     : PENSTOCK_PROTOCOL;
        if (status != expected || (status != PENSTOCK_OK && !message[0]))
            fail_msg("kind %d: status %d, '%s'", (int)kind, (int)status, message);
        if (status == PENSTOCK_OK)
            penstock_close(client);
        fake_done(&fake, folder.path);
        assert_int_equal(lowest_free_fd(), before);
    }
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_of_the_wrong_kind_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
