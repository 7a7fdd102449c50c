/* Peers that mean harm or are broken: those who say nothing, stop half way, send the wrong things
 * or write where they should not. Each hurts at most itself, and no descriptor stays open. */
#include "delivery_support.h"

#include "delivery/fdpass.h"
#include "delivery/protocol.h"
#include "delivery/ring.h"
#include "delivery/rundir.h"
#include "delivery/wakeup.h"
#include "server/ring_memory.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { STRANGER = 54321 }; /* a user's number that nobody has */

/* The lowest free descriptor: the same before and after if none was left open. */
static int lowest_free_fd(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static int raw_connect(const char *run_dir)
{
    int dir, fd;
    assert_int_equal(rundir_open(run_dir, false, &dir, NULL), STATUS_OK);
    assert_int_equal(rundir_connect(dir, 0, &fd, NULL), STATUS_OK);
    close(dir);
    return fd;
}

static void progress(struct server *server)
{
    bool active;
    struct error error;
    if (server_progress(server, &active, &error))
        fail_msg("server_progress: %s", error.message);
}

/* Connections
 * ------------------------------------------------------------------------------------------ */

/* 1,000 connections that say nothing and stay: a trainer that comes last gets in. Bounded by the
 * test's time limit, and by the trainer's 30 s. */
static void silent_connections_keep_nobody_out(void **state)
{
    (void)state;
    enum { SILENT = 1000 };
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < SILENT + 300)
        skip();
    static int silent[SILENT];
    struct run_folder folder = run_folder_new();
    int before = lowest_free_fd();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    for (int i = 0; i < SILENT; i++)
        silent[i] = raw_connect(folder.path);
    struct dialing dialing;
    dial_for(&dialing, folder.path, 0, 1, 30000);
    pump_until(server, 1);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    pthread_join(dialing.thread, NULL);
    assert_int_equal(dialing.status, PENSTOCK_OK);
    penstock_close(dialing.client);
    server_free(server);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    assert_int_equal(lowest_free_fd(), before);
    run_folder_done(&folder);
}

/* Each stops at another point of the handshake; one that does not is served. */
static void handshakes_that_stop_half_way(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    int before = lowest_free_fd();
    struct server *server = support_server(folder.path, 3, SUPPORT_SLOTS, 0);
    int silent = raw_connect(folder.path), half = raw_connect(folder.path);
    int gone = raw_connect(folder.path), twice = raw_connect(folder.path);
    int deaf = raw_connect(folder.path);
    assert_int_equal(packet_send(half, "PNSM", 4, NULL, 0, 0, NULL), STATUS_OK);
    support_hello(gone, 0, 3);
    pump_until(server, 1);
    close(gone); /* between HELLO and WELCOME */
    pump_until(server, 0);
    support_hello(twice, 1, 3);
    pump_until(server, 1);
    support_hello(twice, 1, 3);
    pump_until(server, 0);
    support_hello(deaf, 2, 3); /* says hello, and then never reads */
    pump_until(server, 1);
    for (int i = 0; i < 10000; i++)
        server_announce(server, 1, 3); /* more than a socket would hold */

    struct dialing dialing;
    dial(&dialing, folder.path, 0, 3);
    pump_until(server, 2);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    pthread_join(dialing.thread, NULL);
    if (dialing.status)
        fail_msg("%s", dialing.message);
    assert_int_equal(server_trainer_state(server, 0, NULL), SERVER_PEER_CONNECTED); /* it may yet */
    assert_int_equal(server_trainer_state(server, 1, NULL), SERVER_PEER_CONNECTED);
    publish_to(server, 1, 0);
    struct penstock_batch batch;
    assert_int_equal(penstock_next(dialing.client, &batch, 2000), PENSTOCK_OK);
    penstock_close(dialing.client);
    server_free(server);
    close(silent), close(half), close(twice), close(deaf);
    assert_int_equal(lowest_free_fd(), before);
    run_folder_done(&folder);
}

/* Who sends a reader other descriptors than a page is dropped, and they are closed. */
static void a_reader_takes_no_other_descriptors(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    int before = lowest_free_fd();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    struct protocol_message hello = {.magic = PROTOCOL_MAGIC,
                                     .version = PROTOCOL_VERSION,
                                     .type = PROTOCOL_HELLO,
                                     .hello = {.world_size = 1}};
    struct protocol_message welcome = {.type = PROTOCOL_WELCOME};
    for (int i = 0; i < 2; i++) {
        int fd = raw_connect(folder.path), fds[WELCOME_FDS] = {fd, fd, fd};
        if (i == 0)
            assert_int_equal(
                packet_send(fd, &hello,
                            offsetof(struct protocol_message, hello) + sizeof hello.hello, fds, 3,
                            0, NULL),
                STATUS_OK);
        else
            assert_int_equal(protocol_send(fd, &welcome, fds, NULL), STATUS_OK);
        struct protocol_message reply;
        enum status status = STATUS_TIMEOUT;
        for (int tries = 0; tries < 1000 && status == STATUS_TIMEOUT; tries++) {
            progress(server);
            status = protocol_receive(fd, &reply, NULL, NULL);
        }
        assert_int_equal(status, STATUS_OK);
        assert_int_equal(reply.type, PROTOCOL_FAIL);
        assert_int_equal(reply.fail.status, STATUS_PROTOCOL);
        close(fd);
    }
    assert_int_equal(server_trainer_count(server), 0);
    server_free(server);
    assert_int_equal(lowest_free_fd(), before);
    run_folder_done(&folder);
}

static int memory_of_size(off_t bytes, int seals)
{
    int fd = memfd_create("penstock-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* A page that could shrink under the reader's feet, or is none. */
static void a_page_of_the_wrong_kind_is_refused(void **state)
{
    (void)state;
    enum { SEALED = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
    struct run_folder folder = run_folder_new();
    int before = lowest_free_fd();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    const int pages[] = {memory_of_size(4096, F_SEAL_GROW | F_SEAL_SEAL),
                         memory_of_size(0, SEALED),
                         memory_of_size(8192, SEALED),
                         open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                         open("/dev/null", O_RDWR | O_CLOEXEC),
                         open("/tmp", O_PATH | O_CLOEXEC)};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        struct protocol_message hello = {.type = PROTOCOL_HELLO, .hello = {.world_size = 1}}, reply;
        int fd = raw_connect(folder.path);
        assert_int_equal(protocol_send(fd, &hello, &pages[i], NULL), STATUS_OK);
        close(pages[i]);
        enum status status = STATUS_TIMEOUT;
        for (int tries = 0; tries < 1000 && status == STATUS_TIMEOUT; tries++) {
            progress(server);
            status = protocol_receive(fd, &reply, NULL, NULL);
        }
        assert_int_equal(status, STATUS_OK);
        assert_int_equal(reply.fail.status, STATUS_PROTOCOL);
        assert_non_null(strstr(reply.fail.message, "not the sealed page"));
        close(fd);
    }
    assert_int_equal(server_trainer_count(server), 0);
    server_free(server);
    assert_int_equal(lowest_free_fd(), before);
    run_folder_done(&folder);
}

/* Rings
 * ------------------------------------------------------------------------------------------ */

/* Trainer 1's own ring, as it maps it. */
static unsigned char *memory_of(const struct penstock_batch *batch)
{
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    return (unsigned char *)batch->indices - layout.indices_offset - layout.data_offset -
           batch->slot * layout.slot_stride;
}

/* Two trainers, delivery started; each has taken its first batch. */
struct couple {
    struct run_folder folder;
    struct server *server;
    struct penstock *clients[2];
    struct penstock_batch first[2];
};

static struct couple couple_new(void)
{
    struct couple couple = {.folder = run_folder_new()};
    struct dialing dialings[2];
    couple.server = support_server(couple.folder.path, 2, SUPPORT_SLOTS, 0);
    for (int i = 0; i < 2; i++) {
        dial(&dialings[i], couple.folder.path, i, 2);
        pump_until(couple.server, (uint32_t)i + 1);
    }
    assert_int_equal(server_start(couple.server, NULL), STATUS_OK);
    for (int i = 0; i < 2; i++) {
        pthread_join(dialings[i].thread, NULL);
        assert_int_equal(dialings[i].status, PENSTOCK_OK);
        couple.clients[i] = dialings[i].client;
        publish_to(couple.server, (uint32_t)i, 0);
        assert_int_equal(penstock_next(couple.clients[i], &couple.first[i], 2000), PENSTOCK_OK);
    }
    return couple;
}

static void couple_done(struct couple *couple)
{
    for (int i = 0; i < 2; i++)
        penstock_close(couple->clients[i]);
    server_free(couple->server);
    run_folder_done(&couple->folder);
}

/* Trainer 0 gets its next batch as it should be. */
static void the_other_goes_on(struct couple *couple, uint64_t sequence)
{
    struct penstock_batch batch;
    assert_true(server_slot_free(couple->server, 0, sequence));
    publish_to(couple->server, 0, sequence);
    progress(couple->server);
    assert_int_equal(server_trainer_state(couple->server, 0, NULL), SERVER_PEER_CONNECTED);
    assert_int_equal(penstock_next(couple->clients[0], &batch, 2000), PENSTOCK_OK);
    assert_int_equal(batch.indices[0], sequence * 10);
    assert_int_equal(((int64_t *)batch.data[1])[2], sequence * 1000 + 2);
    assert_int_equal(penstock_release(couple->clients[0], &batch), PENSTOCK_OK);
}

static void a_tail_that_moves_back_loses_that_trainer(void **state)
{
    (void)state;
    struct couple couple = couple_new();
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    struct ring_control *control = (void *)(memory_of(&couple.first[1]) + layout.control_offset);
    assert_int_equal(penstock_release(couple.clients[1], &couple.first[1]), PENSTOCK_OK);
    progress(couple.server); /* has seen tail 1 */
    assert_int_equal(atomic_load(&control->tail), 1);
    atomic_store(&control->tail, 0);
    progress(couple.server);
    struct error error;
    assert_int_equal(server_trainer_state(couple.server, 1, &error), SERVER_PEER_LOST);
    assert_non_null(strstr(error.message, "impossible tail"));
    the_other_goes_on(&couple, 1);
    couple_done(&couple);
}

/* A couple whose trainer 1 is played by hand, from its page on. */
static struct couple couple_with_page(struct cursor_page *ret_page, int *ret_socket)
{
    struct couple couple = {.folder = run_folder_new()};
    struct protocol_message hello = {.type = PROTOCOL_HELLO, .hello = {.rank = 1, .world_size = 2}};
    struct dialing dialing;
    couple.server = support_server(couple.folder.path, 2, SUPPORT_SLOTS, 0);
    dial(&dialing, couple.folder.path, 0, 2);
    pump_until(couple.server, 1);
    *ret_socket = raw_connect(couple.folder.path);
    assert_int_equal(cursor_page_new(ret_page, NULL), STATUS_OK);
    assert_int_equal(protocol_send(*ret_socket, &hello, &ret_page->memfd, NULL), STATUS_OK);
    pump_until(couple.server, 2);
    assert_int_equal(server_start(couple.server, NULL), STATUS_OK);
    pthread_join(dialing.thread, NULL);
    assert_int_equal(dialing.status, PENSTOCK_OK);
    couple.clients[0] = dialing.client;
    publish_to(couple.server, 0, 0);
    publish_to(couple.server, 1, 0);
    assert_int_equal(penstock_next(couple.clients[0], &couple.first[0], 2000), PENSTOCK_OK);
    return couple;
}

static void an_impossible_release_loses_that_trainer(void **state)
{
    (void)state;
    static const uint64_t impossible[] = {2, UINT64_MAX}; /* one batch was published */
    for (int i = 0; i < 2; i++) {
        struct cursor_page page;
        int socket;
        struct couple couple = couple_with_page(&page, &socket);
        atomic_store(page.cursor, 1);
        progress(couple.server);
        atomic_store(page.cursor, 0); /* no news: what was released stays so */
        progress(couple.server);
        assert_int_equal(server_trainer_state(couple.server, 1, NULL), SERVER_PEER_CONNECTED);
        assert_int_equal(server_trainer_cursor(couple.server, 1), 1);
        atomic_store(page.cursor, impossible[i]);
        assert_int_equal(server_trainer_cursor(couple.server, 1), 1);
        progress(couple.server);
        assert_int_equal(server_trainer_state(couple.server, 1, NULL), SERVER_PEER_LOST);
        assert_int_equal(server_trainer_cursor(couple.server, 1), 1);
        the_other_goes_on(&couple, 1);
        cursor_page_done(&page);
        close(socket);
        couple_done(&couple);
    }
}

/* Header, flags and the head of a ring are the reader's to write, never to read. */
static void garbage_in_a_ring_changes_nothing(void **state)
{
    (void)state;
    struct couple couple = couple_new();
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    unsigned char *memory = memory_of(&couple.first[1]);
    struct ring_control *control = (void *)(memory + layout.control_offset);
    memset(memory, 0xa5, sizeof(struct ring_header));
    memset(memory + layout.data_offset, 0xa5, layout.slot_count * layout.slot_stride);
    atomic_store(&control->head, UINT64_MAX);
    atomic_store(&control->trainer_waits, UINT32_MAX);
    atomic_store(&control->reader_waits, UINT32_MAX);
    server_arm(couple.server);
    progress(couple.server);
    server_disarm(couple.server);
    assert_int_equal(server_trainer_state(couple.server, 1, NULL), SERVER_PEER_CONNECTED);
    assert_int_equal(server_trainer_backlog(couple.server, 1), 1);
    assert_true(server_slot_free(couple.server, 1, SUPPORT_SLOTS - 1));
    assert_false(server_slot_free(couple.server, 1, SUPPORT_SLOTS));
    struct penstock_batch batch;
    publish_to(couple.server, 1, 1); /* and its head is right again */
    assert_int_equal(penstock_next(couple.clients[1], &batch, 2000), PENSTOCK_OK);
    assert_int_equal(batch.indices[0], 10);
    the_other_goes_on(&couple, 1);
    couple_done(&couple);
}

/* Readers that are none
 * ------------------------------------------------------------------------------------------ */

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
    assert_int_equal(rundir_claim(fake->dir, 0, &fake->lock, NULL), STATUS_OK);
    assert_int_equal(rundir_bind(fake->dir, 0, &fake->listener, NULL), STATUS_OK);
    assert_int_equal(listen(fake->listener, 4), 0);
    assert_int_equal(ring_memory_create(&layout, &service, NULL, NULL, &fake->ring, NULL),
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
        if (status != expected || (status && !message[0]))
            fail_msg("kind %d: status %d, '%s'", (int)kind, (int)status, message);
        if (!status)
            penstock_close(client);
        fake_done(&fake, folder.path);
        assert_int_equal(lowest_free_fd(), before);
    }
    run_folder_done(&folder);
}

/* Other users
 * ------------------------------------------------------------------------------------------ */

/* Runs `act` in a child that is another user; returns its exit code. */
static int as_a_stranger(int (*act)(void *argument), void *argument)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool other = setgroups(0, NULL) == 0 && setgid(STRANGER) == 0 && setuid(STRANGER) == 0;
        _exit(other ? act(argument) : 99);
    }
    int outcome;
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_true(WIFEXITED(outcome));
    return WEXITSTATUS(outcome);
}

/* Connects to a socket and says hello; 0 if what comes is a refusal that names the user. */
static int connect_as_stranger(void *argument)
{
    struct protocol_message reply;
    struct error error;
    int dir = *(int *)argument, fd;
    if (rundir_connect(dir, 0, &fd, &error))
        return strstr(error.message, "Permission denied") ? 1 : 2;
    for (int i = 0; i < 5000; i++) {
        if (protocol_receive(fd, &reply, NULL, NULL) == STATUS_OK)
            return reply.type == PROTOCOL_FAIL && reply.fail.status == STATUS_REFUSED &&
                           strstr(reply.fail.message, "of user 54321")
                       ? 0
                       : 3;
        clock_sleep_ns(1000000);
    }
    return 4;
}

static void *pump_thread(void *argument)
{
    struct server *server = argument;
    for (int i = 0; i < 500; i++) {
        progress(server); /* a stranger is nobody's business but its own */
        clock_sleep_ns(1000000);
    }
    return NULL;
}

static void strangers_are_told_and_dropped(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* nobody else can become another user */
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    char socket_path[96];
    int dir;
    assert_int_equal(rundir_open(folder.path, false, &dir, NULL), STATUS_OK);
    assert_int_equal(as_a_stranger(connect_as_stranger, &dir), 1); /* 0700 */

    /* Someone has opened it to the world. */
    snprintf(socket_path, sizeof socket_path, "%s/reader-0.sock", folder.path);
    assert_int_equal(chmod(folder.path, 0711), 0);
    assert_int_equal(chmod(socket_path, 0777), 0);
    char parent[sizeof folder.path];
    snprintf(parent, sizeof parent, "%s", folder.path);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(chmod(parent, 0711), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pump_thread, server), 0);
    assert_int_equal(as_a_stranger(connect_as_stranger, &dir), 0);
    pthread_join(thread, NULL);
    assert_int_equal(server_trainer_count(server), 0);
    close(dir);
    server_free(server);
    run_folder_done(&folder);
}

static int listen_as_stranger(void *argument)
{
    return listen(*(int *)argument, 4) == 0 ? 0 : 1;
}

/* Someone else listens at a reader's socket: a trainer does not talk to them. */
static void a_strangers_service_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct run_folder folder = run_folder_new();
    int dir, lock, listener;
    assert_int_equal(rundir_open(folder.path, true, &dir, NULL), STATUS_OK);
    assert_int_equal(rundir_claim(dir, 0, &lock, NULL), STATUS_OK);
    assert_int_equal(rundir_bind(dir, 0, &listener, NULL), STATUS_OK);
    assert_int_equal(as_a_stranger(listen_as_stranger, &listener), 0);
    struct penstock_options options = {.run_dir = folder.path, .world_size = 1, .timeout_ms = 2000};
    struct penstock *client;
    char message[PENSTOCK_MESSAGE_BYTES];
    assert_int_equal(penstock_connect(&options, &client, message), PENSTOCK_REFUSED);
    assert_non_null(strstr(message, "of user 54321"));
    rundir_leave(dir, 0);
    close(dir), close(lock), close(listener);
    assert_int_equal(rmdir(folder.path), 0);
    run_folder_done(&folder);
}

/* Run directories
 * ------------------------------------------------------------------------------------------ */

/* What stands where the lock or the socket of a reader should. A link is never followed. */
static void strange_files_in_the_run_directory(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    char lock_path[96], socket_path[96], target[96];
    int dir, lock, fd;
    struct error error;
    struct stat info;
    snprintf(lock_path, sizeof lock_path, "%s/reader-0.lock", folder.path);
    snprintf(socket_path, sizeof socket_path, "%s/reader-0.sock", folder.path);
    snprintf(target, sizeof target, "%s/target", folder.path);
    assert_int_equal(rundir_open(folder.path, true, &dir, NULL), STATUS_OK);
    fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "mine", 4), 4);
    close(fd);

    assert_int_equal(symlink(target, lock_path), 0);
    assert_int_equal(rundir_claim(dir, 0, &lock, &error), STATUS_IO);
    assert_non_null(strstr(error.message, "reader-0.lock"));
    unlink(lock_path);
    assert_int_equal(mkdir(lock_path, 0700), 0);
    assert_int_equal(rundir_claim(dir, 0, &lock, &error), STATUS_IO);
    rmdir(lock_path);

    fd = open(lock_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* of a dead reader, or nonsense */
    assert_int_equal(write(fd, "99999999999999999999 \n\n", 23), 23);
    close(fd);
    assert_int_equal(symlink(target, socket_path), 0);
    assert_int_equal(rundir_claim(dir, 0, &lock, NULL), STATUS_OK);
    assert_int_equal(lstat(socket_path, &info), -1); /* the link is gone, what it named is not */
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_size, 4);
    close(lock);

    assert_int_equal(mkdir(socket_path, 0700), 0);
    assert_int_equal(rundir_claim(dir, 0, &lock, &error), STATUS_IO);
    assert_non_null(strstr(error.message, "reader-0.sock"));
    rmdir(socket_path);
    unlink(target), unlink(lock_path);
    close(dir);
    assert_int_equal(rmdir(folder.path), 0);
    run_folder_done(&folder);
}

/* A socket that was replaced by a file, a link to nowhere or a folder is a service that is not
 * there, said within the timeout. */
static void a_replaced_socket_is_no_service(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    char socket_path[96];
    snprintf(socket_path, sizeof socket_path, "%s/reader-0.sock", folder.path);
    for (int kind = 0; kind < 3; kind++) {
        remove(socket_path);
        if (kind == 0)
            close(open(socket_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        else
            assert_int_equal(
                kind == 1 ? symlink("/nonexistent", socket_path) : mkdir(socket_path, 0700), 0);
        struct penstock_options options = {
            .run_dir = folder.path, .world_size = 1, .timeout_ms = 100};
        struct penstock *client;
        char message[PENSTOCK_MESSAGE_BYTES];
        enum penstock_status status = penstock_connect(&options, &client, message);
        assert_true(status == PENSTOCK_NOT_FOUND || status == PENSTOCK_IO);
        assert_non_null(strstr(message, "reader-0.sock"));
    }
    remove(socket_path);
    server_free(server);
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_connections_keep_nobody_out),
        cmocka_unit_test(handshakes_that_stop_half_way),
        cmocka_unit_test(a_reader_takes_no_other_descriptors),
        cmocka_unit_test(a_page_of_the_wrong_kind_is_refused),
        cmocka_unit_test(a_tail_that_moves_back_loses_that_trainer),
        cmocka_unit_test(an_impossible_release_loses_that_trainer),
        cmocka_unit_test(garbage_in_a_ring_changes_nothing),
        cmocka_unit_test(descriptors_of_the_wrong_kind_are_refused),
        cmocka_unit_test(strangers_are_told_and_dropped),
        cmocka_unit_test(a_strangers_service_is_refused),
        cmocka_unit_test(strange_files_in_the_run_directory),
        cmocka_unit_test(a_replaced_socket_is_no_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
