/* The handshake: who is welcome, who is told what, and what strangers and silence come to. */
#include "delivery_raw.h"

#include "delivery/ring/fdpass.h"
#include "delivery/ring/protocol.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* What the server answers on a raw connection within a second. */
static enum status answer(struct server *server, int fd, struct protocol_message *ret_message)
{
    enum status status = STATUS_TIMEOUT;
    for (int i = 0; i < 1000 && status == STATUS_TIMEOUT; i++) {
        bool active;
        enum status progress = server_progress(server, &active, NULL);
        assert_true(progress == STATUS_OK || progress == STATUS_REFUSED);
        status = protocol_receive(fd, ret_message, NULL, NULL);
        if (status == STATUS_TIMEOUT)
            clock_sleep_ns(1000000);
    }
    return status;
}

/* One that is stopped, or swapped out, while others are waited for long: its socket has room for
 * the WELCOME, and it has the news once it reads. */
static void who_does_not_read_is_not_lost(void **unused)
{
    (void)unused;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 2, SUPPORT_SLOTS, 0);
    int fd = raw_connect(folder.path);
    support_hello(fd, 0, 2);
    pump_until(server, 1);
    for (uint32_t i = 0; i < 5000; i++)
        server_announce(server, i, 5000);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(server, 0, NULL), SERVER_PEER_CONNECTED);
    struct protocol_message message;
    int fds[WELCOME_FDS];
    uint32_t waits = 0;
    while (protocol_receive(fd, &message, fds, NULL) == STATUS_OK && message.type == PROTOCOL_WAIT)
        waits++;
    assert_int_equal(message.type, PROTOCOL_WELCOME);
    assert_in_range(waits, 1, 2);
    for (int i = 0; i < WELCOME_FDS; i++)
        close(fds[i]);
    close(fd);
    server_free(server);
    run_folder_done(&folder);
}

/* Who reads hears each number that is another than before. */
static void who_reads_is_told(void **unused)
{
    (void)unused;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 2, SUPPORT_SLOTS, 0);
    int fd = raw_connect(folder.path);
    support_hello(fd, 0, 2);
    struct protocol_message message;
    assert_int_equal(answer(server, fd, &message), STATUS_OK);
    for (uint32_t i = 1; i < 5; i++) {
        server_announce(server, i, 7);
        assert_int_equal(protocol_receive(fd, &message, NULL, NULL), STATUS_OK);
        assert_int_equal(message.wait.connected, i);
        assert_int_equal(message.wait.expected, 7);
    }
    server_announce(server, 4, 7);
    assert_int_equal(protocol_receive(fd, &message, NULL, NULL), STATUS_TIMEOUT); /* told already */
    clock_sleep_ns(120000000);
    server_announce(server, 4, 7);
    assert_int_equal(protocol_receive(fd, &message, NULL, NULL), STATUS_OK); /* a sign of life */
    close(fd);
    server_free(server);
    run_folder_done(&folder);
}

static void nonsense_is_answered_and_dropped(void **unused)
{
    (void)unused;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 2, SUPPORT_SLOTS, 0);
    struct protocol_message good = {.magic = PROTOCOL_MAGIC,
                                    .version = PROTOCOL_VERSION,
                                    .type = PROTOCOL_HELLO,
                                    .hello = {.rank = 0, .world_size = 2}};
    const size_t size = offsetof(struct protocol_message, hello) + sizeof good.hello;
    struct protocol_message version = good, magic = good, early = good, wish = good, state = good;
    wish.hello.wish = WISH_STATE; /* without a state */
    state.hello.state[0] = '{';   /* without a wish */
    struct protocol_message endless = wish;
    memset(endless.hello.state, '{', sizeof endless.hello.state);
    char longer[sizeof good + 1] = {0};
    memcpy(longer, &good, sizeof good);
    version.version = 9;
    magic.magic = 0;
    early.type = PROTOCOL_END;
    const struct {
        const void *packet;
        size_t bytes, pages;
        enum status status;
    } cases[] = {
        {&version, 24, 0, STATUS_UNSUPPORTED}, {&magic, size, 1, STATUS_PROTOCOL},
        {&good, size - 4, 1, STATUS_PROTOCOL}, {longer, size + 1, 1, STATUS_PROTOCOL},
        {&early, 16, 0, STATUS_PROTOCOL},      {&wish, size, 1, STATUS_PROTOCOL},
        {&state, size, 1, STATUS_PROTOCOL},    {&endless, size, 1, STATUS_PROTOCOL},
        {&good, size, 0, STATUS_PROTOCOL},     {&good, size, 2, STATUS_PROTOCOL},
    };
    struct cursor_page page;
    assert_int_equal(cursor_page_new(&page, NULL), STATUS_OK);
    const int fds[] = {page.memfd, page.memfd};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int fd = raw_connect(folder.path);
        assert_int_equal(
            packet_send(fd, cases[i].packet, cases[i].bytes, fds, cases[i].pages, 0, NULL),
            STATUS_OK);
        struct protocol_message reply;
        assert_int_equal(answer(server, fd, &reply), STATUS_OK);
        assert_int_equal(reply.type, PROTOCOL_FAIL);
        assert_int_equal(reply.fail.status, cases[i].status);
        assert_int_equal(answer(server, fd, &reply), STATUS_LOST);
        close(fd);
    }
    assert_int_equal(server_trainer_count(server), 0);
    cursor_page_done(&page);
    server_free(server);
    run_folder_done(&folder);
}

static void silence_is_dropped_after_five_seconds(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    int fd = raw_connect(folder.path);
    uint64_t start = clock_now_ns();
    struct protocol_message reply;
    enum status status = STATUS_TIMEOUT;
    for (int i = 0; i < 8 && status == STATUS_TIMEOUT; i++)
        status = answer(server, fd, &reply);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(reply.fail.status, STATUS_PROTOCOL);
    assert_in_range((clock_now_ns() - start) / 1000000, 4900, 30000);
    close(fd);
    server_free(server);
    run_folder_done(&folder);
}

/* More silent connections than may be pending: the rest waits in the backlog, and a trainer still
 * comes through. */
static void a_hundred_connections_are_survived(void **state)
{
    (void)state;
    enum { MANY = 100 };
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    int fds[MANY];
    for (int i = 0; i < MANY; i++)
        fds[i] = raw_connect(folder.path);
    bool active;
    assert_int_equal(server_progress(server, &active, NULL), STATUS_OK);
    struct pollfd polled[2 * MANY];
    size_t sockets;
    assert_int_equal(server_pollfds(server, polled, 2 * MANY, &sockets), 64); /* not the listener */
    assert_int_equal(server_pollfds(server, polled, 5, &sockets), 5);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    struct dialing dialing;
    dial(&dialing, folder.path, 0, 1);
    pump_until(server, 1);
    start_delivery(server, &dialing);
    penstock_close(dialing.client);
    server_free(server);
    run_folder_done(&folder);
}

/* Connects as (rank, world_size), which must be refused with a message that has `text`. */
static void refused(struct server *server, const struct run_folder *folder, uint32_t rank,
                    uint32_t world_size, const char *text)
{
    int fd = raw_connect(folder->path);
    support_hello(fd, rank, world_size);
    enum status status = STATUS_OK;
    struct error error;
    for (int i = 0; i < 1000 && status == STATUS_OK; i++) {
        bool active;
        status = server_progress(server, &active, &error);
        if (!active)
            clock_sleep_ns(1000000);
    }
    assert_int_equal(status, STATUS_REFUSED);
    struct protocol_message reply;
    assert_int_equal(protocol_receive(fd, &reply, NULL, NULL), STATUS_OK);
    assert_int_equal(reply.fail.status, STATUS_REFUSED);
    assert_string_equal(reply.fail.message, error.message);
    if (!strstr(error.message, text))
        fail_msg("'%s' does not say '%s'", error.message, text);
    close(fd);
}

/* A connection that there is no descriptor for stays readable: nobody may poll for it. */
static void a_connection_waits_for_a_descriptor(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    int fd = raw_connect(folder.path);
    struct rlimit limit, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    int next = dup(fd);
    close(next);
    low.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    bool active;
    struct error warning;
    struct pollfd polled[4];
    size_t sockets;
    uint64_t start = clock_now_ns();
    while (clock_now_ns() - start < 600000000) {
        assert_int_equal(server_progress(server, &active, NULL), STATUS_OK);
        assert_false(active);
        assert_int_equal(poll(polled, server_pollfds(server, polled, 4, &sockets), 10), 0);
        if (server_take_warning(server, &warning))
            assert_non_null(strstr(warning.message, "ulimit -n"));
    }
    assert_int_equal(warning.system_errno, EMFILE);
    assert_false(server_take_warning(server, &warning));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    struct protocol_message reply;
    support_hello(fd, 0, 2);
    assert_int_equal(answer(server, fd, &reply), STATUS_OK);
    assert_int_equal(reply.type, PROTOCOL_FAIL); /* of another world size */
    close(fd);
    server_free(server);
    run_folder_done(&folder);
}

/* Nor is there one for what comes with a HELLO: the trainer hears nothing, and comes again. */
static void a_page_waits_for_a_descriptor(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    int fd = raw_connect(folder.path);
    support_hello(fd, 0, 1);
    struct rlimit limit, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    int next = dup(fd);
    close(next);
    low.rlim_cur = (rlim_t)next + 1; /* for the connection alone */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    struct protocol_message reply;
    struct error warning;
    assert_int_equal(answer(server, fd, &reply), STATUS_LOST);
    assert_true(server_take_warning(server, &warning));
    assert_non_null(strstr(warning.message, "ulimit -n"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    close(fd);
    struct dialing dialing;
    dial(&dialing, folder.path, 0, 1);
    pump_until(server, 1);
    start_delivery(server, &dialing);
    penstock_close(dialing.client);
    server_free(server);
    run_folder_done(&folder);
}

static void wrong_ranks_are_told_why(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 2, SUPPORT_SLOTS, 0);
    refused(server, &folder, 0, 3, "world size is 3, the service was started for 2");
    refused(server, &folder, 2, 2, "rank 2 is not below the 2");
    int first = raw_connect(folder.path);
    support_hello(first, 1, 2);
    pump_until(server, 1);
    assert_int_equal(server_trainer_rank(server, 0), 1);
    refused(server, &folder, 1, 2, "which is this one: its earlier connection");

    close(first); /* its rank is free again */
    pump_until(server, 0);
    first = raw_connect(folder.path);
    support_hello(first, 1, 2);
    pump_until(server, 1);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    refused(server, &folder, 0, 2, "too late");
    close(first);
    server_free(server);
    run_folder_done(&folder);
}

static void a_reader_serves_no_more_than_it_should(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct ring_layout layout = support_layout(2);
    struct ring_service service = support_service(4);
    struct server_options options = {
        .run_dir = folder.path, .max_trainers = 1, .layout = &layout, .service = &service};
    struct server *server;
    assert_int_equal(server_new(&options, &server, NULL), STATUS_OK);
    assert_int_equal(server_listen(server, NULL), STATUS_OK);
    int fd = raw_connect(folder.path);
    support_hello(fd, 2, 4);
    pump_until(server, 1);
    refused(server, &folder, 3, 4, "one too many");
    close(fd);
    server_free(server);
    run_folder_done(&folder);
}

static void waiting_trainers_hear_of_progress_and_failure(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 2, SUPPORT_SLOTS, 0);
    struct dialing dialing;
    dial(&dialing, folder.path, 1, 2);
    pump_until(server, 1);
    int silent = raw_connect(folder.path); /* still without a HELLO */
    bool active;
    assert_int_equal(server_progress(server, &active, NULL), STATUS_OK);
    server_announce(server, 1, 2);
    struct error outcome;
    error_set(&outcome, STATUS_MPI, "reader 4 on node n2: MPI_Bcast: no");
    server_finish(server, &outcome);
    pthread_join(dialing.thread, NULL);
    assert_int_equal(dialing.status, PENSTOCK_MPI);
    assert_string_equal(dialing.message, outcome.message);
    struct protocol_message reply;
    assert_int_equal(protocol_receive(silent, &reply, NULL, NULL), STATUS_OK);
    assert_int_equal(reply.fail.status, STATUS_MPI);
    close(silent);
    silent = raw_connect(folder.path); /* and who comes later still hears it */
    support_hello(silent, 0, 2);
    assert_int_equal(answer(server, silent, &reply), STATUS_OK);
    assert_int_equal(reply.fail.status, STATUS_MPI);
    close(silent);
    error_set(&outcome, STATUS_ENDED, "all epochs are consumed");
    server_finish(server, &outcome); /* a rank that there is not has nothing to look up */
    silent = raw_connect(folder.path);
    support_hello(silent, 1000000, 2);
    assert_int_equal(answer(server, silent, &reply), STATUS_OK);
    assert_non_null(strstr(reply.fail.message, "trainer rank 1000000 is not below the 2 trainers"));
    close(silent);
    server_free(server);
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_read_is_not_lost),
        cmocka_unit_test(who_reads_is_told),
        cmocka_unit_test(nonsense_is_answered_and_dropped),
        cmocka_unit_test(silence_is_dropped_after_five_seconds),
        cmocka_unit_test(a_hundred_connections_are_survived),
        cmocka_unit_test(a_connection_waits_for_a_descriptor),
        cmocka_unit_test(a_page_waits_for_a_descriptor),
        cmocka_unit_test(wrong_ranks_are_told_why),
        cmocka_unit_test(a_reader_serves_no_more_than_it_should),
        cmocka_unit_test(waiting_trainers_hear_of_progress_and_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
