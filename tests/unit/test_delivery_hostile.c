/* Trainers that mean harm or are broken: those who say nothing, stop half way, send the wrong
 * things or write where they should not. Each hurts at most itself, and no descriptor stays open.
 */
#include "delivery_raw.h"

#include "delivery/ring/fdpass.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

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
    start_delivery(server, &dialing);
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
    start_delivery(server, &dialing);
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
    start_delivery(couple.server, &dialing);
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
    server_arm(couple.server, 0);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
