/* How a trainer finds its reader: services that come late, do not start or are not there, and
 * several readers of a node. */
#include "delivery_raw.h"

#include "delivery/ring/protocol.h"

static void a_service_that_does_not_start_is_named(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 2, SUPPORT_SLOTS, 0);
    struct dialing dialing;
    dial(&dialing, folder.path, 0, 2);
    pump_until(server, 1);
    server_free(server);
    pthread_join(dialing.thread, NULL);
    assert_int_equal(dialing.status, PENSTOCK_LOST);

    server = support_server(folder.path, 2, SUPPORT_SLOTS, 0);
    dial_for(&dialing, folder.path, 0, 2, 2000);
    pump_until(server, 1);
    clock_sleep_ns(500000000);
    uint64_t start = clock_now_ns();
    server_announce(server, 1, 2); /* a sign of life: the timeout starts anew */
    pthread_join(dialing.thread, NULL);
    assert_in_range((clock_now_ns() - start) / 1000000, 1990, 20000);
    assert_int_equal(dialing.status, PENSTOCK_TIMEOUT);
    assert_non_null(strstr(dialing.message, "1 of 2 are there"));
    server_free(server);
    run_folder_done(&folder);
}

/* Without a limit, and with that of 60 s which 0 stands for. */
static void a_service_may_come_late(void **state)
{
    (void)state;
    const int64_t timeouts[] = {-1, 0};
    for (size_t i = 0; i < 2; i++) {
        struct run_folder folder = run_folder_new();
        struct dialing dialing;
        dial_for(&dialing, folder.path, 0, 1, timeouts[i]);
        clock_sleep_ns(150000000);
        struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
        pump_until(server, 1);
        start_delivery(server, &dialing);
        penstock_close(dialing.client);
        server_free(server);
        run_folder_done(&folder);
    }
}

static enum penstock_status try_connect(const struct penstock_options *options, char *message)
{
    struct penstock *client;
    enum penstock_status status = penstock_connect(options, &client, message);
    if (status == PENSTOCK_OK)
        penstock_close(client);
    return status;
}

static void missing_services_are_explained(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    char message[PENSTOCK_MESSAGE_BYTES];
    struct penstock_options options = {.run_dir = folder.path, .world_size = 1, .timeout_ms = 60};
    uint64_t start = clock_now_ns();
    assert_int_equal(try_connect(&options, message), PENSTOCK_NOT_FOUND);
    assert_in_range((clock_now_ns() - start) / 1000000, 59, 20000);
    assert_non_null(strstr(message, folder.path));
    assert_non_null(strstr(message, "penstock-reader"));

    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    assert_int_equal(try_connect(&options, message), PENSTOCK_TIMEOUT); /* nobody accepts */
    assert_non_null(strstr(message, "said nothing"));
    assert_int_equal(setenv("PENSTOCK_READER", "5", 1), 0);
    assert_int_equal(try_connect(&options, message), PENSTOCK_NOT_FOUND);
    assert_non_null(strstr(message, "reader-5.sock"));
    unsetenv("PENSTOCK_READER");
    server_free(server);
    run_folder_done(&folder);
}

static void the_environment_is_checked(void **state)
{
    (void)state;
    char message[PENSTOCK_MESSAGE_BYTES];
    unsetenv("PENSTOCK_RUN_DIR");
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    assert_int_equal(try_connect(NULL, message), PENSTOCK_INVALID);
    assert_non_null(strstr(message, "PENSTOCK_RUN_DIR"));
    setenv("PENSTOCK_RUN_DIR", "/nonexistent/penstock", 1);
    setenv("RANK", "two", 1);
    setenv("WORLD_SIZE", "2", 1);
    assert_int_equal(try_connect(NULL, message), PENSTOCK_INVALID);
    assert_non_null(strstr(message, "RANK='two'"));
    setenv("RANK", "2", 1);
    assert_int_equal(try_connect(NULL, message), PENSTOCK_INVALID);
    assert_non_null(strstr(message, "RANK=2 is not below"));
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    struct penstock_options options = {.rank = -1, .world_size = 1};
    assert_int_equal(try_connect(&options, message), PENSTOCK_INVALID);
    options = (struct penstock_options){.world_size = 1, .timeout_ms = -2};
    assert_int_equal(try_connect(&options, message), PENSTOCK_INVALID);
    options = (struct penstock_options){.world_size = 1, .timeout_ms = 1};
    assert_int_equal(try_connect(&options, message), PENSTOCK_NOT_FOUND);
    unsetenv("PENSTOCK_RUN_DIR");
}

/* Two readers of a node share its trainers by local rank. */
static void readers_share_the_trainers_of_a_node(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *servers[2];
    for (uint32_t i = 0; i < 2; i++)
        servers[i] = support_server(folder.path, 2, SUPPORT_SLOTS, 10 * i);
    for (int rank = 0; rank < 2; rank++) {
        setenv("LOCAL_RANK", rank ? "1" : "0", 1);
        setenv("LOCAL_WORLD_SIZE", "2", 1);
        struct dialing dialing;
        dial(&dialing, folder.path, rank, 2);
        pump_until(servers[rank], 1);
        assert_int_equal(server_trainer_rank(servers[rank], 0), rank);
        start_delivery(servers[rank], &dialing);
        assert_int_equal(penstock_describe(dialing.client)->rank, rank);
        penstock_close(dialing.client);
    }
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    server_free(servers[0]);
    server_free(servers[1]);
    run_folder_done(&folder);
}

/* A trainer that comes while the readers of its node do chooses among all of them. */
static void early_trainers_wait_for_all_readers(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *servers[2] = {NULL, support_unopened(folder.path, 2, SUPPORT_SLOTS, 1)};
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    struct dialing dialing;
    dial(&dialing, folder.path, 0, 2);
    clock_sleep_ns(100000000); /* it has tried the one that is there */
    servers[0] = support_unopened(folder.path, 2, SUPPORT_SLOTS, 0);
    for (int i = 1; i >= 0; i--)
        assert_int_equal(server_listen(servers[i], NULL), STATUS_OK);
    pump_until(servers[0], 1);
    start_delivery(servers[0], &dialing);
    penstock_close(dialing.client);
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    server_free(servers[0]);
    server_free(servers[1]);
    run_folder_done(&folder);
}

static void a_live_reader_keeps_its_socket(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0), *second;
    struct ring_layout layout = support_layout(1);
    struct ring_service service = support_service(1);
    struct server_options options = {
        .run_dir = folder.path, .max_trainers = 1, .layout = &layout, .service = &service};
    struct error error;
    assert_int_equal(server_new(&options, &second, &error), STATUS_REFUSED);
    assert_non_null(strstr(error.message, "alive already"));
    int fd = raw_connect(folder.path); /* the attempt did no harm */
    support_hello(fd, 0, 1);
    pump_until(server, 1);
    close(fd);
    server_free(server);
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_service_that_does_not_start_is_named),
        cmocka_unit_test(a_service_may_come_late),
        cmocka_unit_test(missing_services_are_explained),
        cmocka_unit_test(the_environment_is_checked),
        cmocka_unit_test(readers_share_the_trainers_of_a_node),
        cmocka_unit_test(early_trainers_wait_for_all_readers),
        cmocka_unit_test(a_live_reader_keeps_its_socket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
