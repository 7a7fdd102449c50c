/* Delivery from end to end in one process: a server and a client of the public API, step by step,
 * then both in threads, then each killed. */
#include "delivery_support.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static uint64_t ms_since(uint64_t start_ns)
{
    return (clock_now_ns() - start_ns) / 1000000;
}

static void service_is_described(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    const struct penstock_info *info = penstock_describe(pair.client);
    assert_int_equal(info->field_count, 2);
    assert_string_equal(info->fields[0].name, "image");
    assert_int_equal(info->fields[0].dtype, PENSTOCK_FLOAT16);
    assert_int_equal(info->fields[0].rank, 2);
    assert_int_equal(info->fields[0].shape[1], 3);
    assert_int_equal(info->fields[0].sample_bytes, 12);
    assert_int_equal(info->fields[1].rank, 0);
    assert_int_equal(info->fields[1].sample_bytes, 8);
    assert_int_equal(info->slot_count, SUPPORT_SLOTS);
    assert_int_equal(info->batch_size, SUPPORT_BATCH);
    assert_int_equal(info->world_size, 1);
    assert_int_equal(info->dataset_samples, SUPPORT_SAMPLES);
    assert_int_equal(info->fingerprint, 0xfeed);
    assert_int_equal(info->order_id, 0x1d);
    pair_done(&pair);
}

static void batches_come_in_order(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    for (uint64_t n = 0; n < 25; n++) {
        publish(&pair);
        struct penstock_batch batch = take(&pair);
        assert_int_equal(batch.epoch, n / SUPPORT_STEPS);
        assert_int_equal(batch.step, n % SUPPORT_STEPS);
        assert_int_equal(batch.sample_count, SUPPORT_BATCH);
        assert_int_equal(batch.indices[2], n * 10 + 2);
        assert_int_equal(((int64_t *)batch.data[1])[1], n * 1000 + 1);
        assert_int_equal(((unsigned char *)batch.data[0])[35], n);
        assert_int_equal(batch.valid[0], 1);
        assert_int_equal((uintptr_t)batch.data[0] % 64, 0);
        give(&pair, &batch);
    }
    pair_done(&pair);
}

static void slots_limit_the_reader(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    for (int i = 0; i < SUPPORT_SLOTS; i++)
        publish(&pair);
    assert_false(server_slot_free(pair.server, 0, pair.filled));
    assert_int_equal(server_trainer_backlog(pair.server, 0), SUPPORT_SLOTS);
    struct penstock_batch batch = take(&pair);
    assert_false(server_slot_free(pair.server, 0, pair.filled));
    give(&pair, &batch);
    assert_true(server_slot_free(pair.server, 0, pair.filled));
    assert_false(server_slot_free(pair.server, 0, pair.filled + 1));
    assert_int_equal(server_trainer_backlog(pair.server, 0), SUPPORT_SLOTS - 1);
    pair_done(&pair);
}

static void release_in_any_order(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_batch batch[SUPPORT_SLOTS];
    for (int i = 0; i < SUPPORT_SLOTS; i++) {
        publish(&pair);
        batch[i] = take(&pair);
    }
    give(&pair, &batch[2]);
    give(&pair, &batch[1]);
    assert_false(server_slot_free(pair.server, 0, pair.filled));
    assert_int_equal(((int64_t *)batch[0].data[1])[0], 0);
    give(&pair, &batch[0]);
    assert_true(server_slot_free(pair.server, 0, pair.filled + 2));
    assert_false(server_slot_free(pair.server, 0, pair.filled + 3));
    give(&pair, &batch[3]);
    assert_true(server_slot_free(pair.server, 0, pair.filled + 3));
    pair_done(&pair);
}

static void holding_all_slots_is_said_at_once(void **state)
{
    (void)state;
    struct pair pair = pair_new(2);
    publish(&pair);
    publish(&pair);
    struct penstock_batch first = take(&pair), second = take(&pair), third;
    uint64_t start = clock_now_ns();
    assert_int_equal(penstock_next(pair.client, &third, 3000), PENSTOCK_INVALID);
    assert_true(ms_since(start) < 1000);
    assert_non_null(strstr(penstock_last_error(pair.client), "epoch 0 step 0"));
    give(&pair, &second);
    assert_int_equal(penstock_next(pair.client, &third, 3000), PENSTOCK_INVALID);
    give(&pair, &first);
    publish(&pair);
    third = take(&pair);
    assert_int_equal(third.step, 2);
    assert_string_equal(penstock_last_error(pair.client), "");
    pair_done(&pair);
}

static void releasing_twice_is_refused(void **state)
{
    (void)state;
    struct pair pair = pair_new(1);
    publish(&pair);
    struct penstock_batch first = take(&pair);
    give(&pair, &first);
    assert_int_equal(penstock_release(pair.client, &first), PENSTOCK_INVALID);
    publish(&pair);
    struct penstock_batch second = take(&pair);
    assert_int_equal(second.slot, first.slot);
    assert_int_equal(penstock_release(pair.client, &first), PENSTOCK_INVALID);
    give(&pair, &second);
    struct penstock_batch wild = {.slot = 77};
    assert_int_equal(penstock_release(pair.client, &wild), PENSTOCK_INVALID);
    pair_done(&pair);
}

static void waiting_has_an_end(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_batch batch;
    assert_int_equal(penstock_next(pair.client, &batch, 0), PENSTOCK_TIMEOUT);
    uint64_t start = clock_now_ns(), cpu = clock_process_cpu_ns();
    assert_int_equal(penstock_next(pair.client, &batch, 80), PENSTOCK_TIMEOUT);
    assert_in_range(ms_since(start), 79, 20000);
    assert_true(clock_process_cpu_ns() - cpu < 40000000); /* asleep, not spinning */
    publish(&pair);
    assert_int_equal(penstock_next(pair.client, &batch, 0), PENSTOCK_OK);
    pair_done(&pair);
}

static void *next_without_limit(void *argument)
{
    struct penstock_batch batch;
    return (void *)(intptr_t)penstock_next(argument, &batch, -1);
}

static void waiting_without_limit_has_its_end_with_the_batch(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    pthread_t thread;
    void *status;
    assert_int_equal(pthread_create(&thread, NULL, next_without_limit, pair.client), 0);
    clock_sleep_ns(150000000);
    publish(&pair);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, PENSTOCK_OK);
    pair_done(&pair);
}

static void the_end_comes_after_the_last_batch(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    publish(&pair);
    publish(&pair);
    struct error ended = {.status = STATUS_ENDED, .message = "done"};
    server_finish(pair.server, &ended);
    server_free(pair.server); /* the reader leaves before its trainer has read everything */
    pair.server = NULL;
    for (int i = 0; i < 2; i++) {
        struct penstock_batch batch = take(&pair);
        assert_int_equal(batch.step, i);
    }
    struct penstock_batch batch;
    assert_int_equal(penstock_next(pair.client, &batch, -1), PENSTOCK_ENDED);
    assert_int_equal(penstock_next(pair.client, &batch, -1), PENSTOCK_ENDED);
    pair_done(&pair);
}

static void a_failure_comes_at_once_with_its_message(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    publish(&pair);
    struct error outcome;
    error_set(&outcome, STATUS_CORRUPT, "reader 1 on node h1: array 'images' chunk 0.3: short");
    server_finish(pair.server, &outcome);
    struct penstock_batch batch;
    assert_int_equal(penstock_next(pair.client, &batch, -1), PENSTOCK_CORRUPT);
    assert_string_equal(penstock_last_error(pair.client), outcome.message);
    assert_int_equal(penstock_next(pair.client, &batch, -1), PENSTOCK_CORRUPT);
    pair_done(&pair);
}

static void state_follows_the_batches(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    char text[256];
    assert_int_equal(penstock_state(pair.client, text, sizeof text), PENSTOCK_OK);
    assert_string_equal(text, "{\"version\":2,\"dataset\":\"000000000000feed\","
                              "\"order_id\":\"000000000000001d\",\"seed\":17,\"epoch\":0,"
                              "\"step\":0,\"global_batch\":3,\"row_length\":8,"
                              "\"window_rows\":64,\"shuffle\":true,\"last\":\"drop\"}");
    for (int i = 0; i < SUPPORT_STEPS; i++) {
        publish(&pair);
        struct penstock_batch batch = take(&pair);
        give(&pair, &batch);
    }
    assert_int_equal(penstock_state(pair.client, text, sizeof text), PENSTOCK_OK);
    assert_non_null(strstr(text, "\"epoch\":1,\"step\":0"));
    assert_int_equal(penstock_state(pair.client, text, 20), PENSTOCK_INVALID);

    penstock_close(pair.client);
    pair.client = NULL;
    bool active;
    assert_int_equal(server_progress(pair.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(pair.server, 0, NULL), SERVER_PEER_CLOSED);
    uint64_t epoch, step;
    server_trainer_goodbye(pair.server, 0, &epoch, &step);
    assert_int_equal(epoch, 1);
    assert_int_equal(step, 0);
    pair_done(&pair);
}

/* The control words as the trainer's process can reach them. */
static struct ring_control *control_of(struct pair *pair)
{
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    publish(pair);
    struct penstock_batch batch = take(pair);
    unsigned char *memory = (unsigned char *)batch.indices - layout.indices_offset -
                            layout.data_offset - batch.slot * layout.slot_stride;
    return (void *)(memory + layout.control_offset);
}

static void a_wild_tail_loses_that_trainer(void **state)
{
    (void)state;
    static const uint64_t wild[] = {2, UINT64_MAX, UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        struct pair pair = pair_new(SUPPORT_SLOTS);
        atomic_store(&control_of(&pair)->tail, wild[i]);
        assert_false(server_slot_free(pair.server, 0, 1));
        assert_int_equal(server_trainer_backlog(pair.server, 0), 0);
        bool active;
        assert_int_equal(server_progress(pair.server, &active, NULL), STATUS_OK);
        struct error error;
        assert_int_equal(server_trainer_state(pair.server, 0, &error), SERVER_PEER_LOST);
        assert_int_equal(error.status, STATUS_PROTOCOL);
        assert_non_null(strstr(error.message, "tail"));
        assert_true(server_slot_free(pair.server, 0, 1000)); /* an exchange under way goes on */
        publish(&pair);
        pair_done(&pair);
    }
}

static void a_wild_head_or_slot_stops_the_trainer(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_batch batch;
    atomic_store(&control_of(&pair)->head, 77);
    assert_int_equal(penstock_next(pair.client, &batch, 0), PENSTOCK_PROTOCOL);
    assert_int_equal(penstock_next(pair.client, &batch, 0), PENSTOCK_PROTOCOL);
    pair_done(&pair);

    static const struct slot_header wild[] = {
        {.sample_count = SUPPORT_BATCH + 1},
        {.sample_count = SUPPORT_BATCH, .step = SUPPORT_STEPS},
        {.sample_count = SUPPORT_BATCH, .first_position = 1},
    };
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        pair = pair_new(SUPPORT_SLOTS);
        *(struct slot_header *)server_slot(pair.server, 0, 0) = wild[i];
        server_publish(pair.server, 0);
        assert_int_equal(penstock_next(pair.client, &batch, 0), PENSTOCK_PROTOCOL);
        pair_done(&pair);
    }
}

/* A process that serves one trainer two batches and then sleeps until it is killed. */
static void serve_and_sleep(const char *run_dir)
{
    struct server *server = support_server(run_dir, 1, SUPPORT_SLOTS, 0);
    pump_until(server, 1);
    if (server_start(server, NULL) != STATUS_OK)
        _exit(1);
    publish_to(server, 0, 0);
    publish_to(server, 0, 1);
    for (;;)
        pause();
}

static void a_dead_reader_is_seen_at_once(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    pid_t reader = fork();
    if (reader == 0)
        serve_and_sleep(folder.path);
    struct penstock_options options = {.run_dir = folder.path, .world_size = 1, .timeout_ms = 5000};
    struct penstock *client;
    char message[PENSTOCK_MESSAGE_BYTES];
    if (penstock_connect(&options, &client, message) != PENSTOCK_OK)
        fail_msg("%s", message);
    struct penstock_batch batch, second;
    assert_int_equal(penstock_next(client, &batch, 5000), PENSTOCK_OK);
    assert_int_equal(penstock_next(client, &second, 5000), PENSTOCK_OK);
    assert_int_equal(penstock_release(client, &second), PENSTOCK_OK);
    kill(reader, SIGKILL);
    uint64_t start = clock_now_ns();
    assert_int_equal(penstock_next(client, &second, -1), PENSTOCK_LOST);
    assert_true(ms_since(start) < 2000);
    assert_int_equal(((int64_t *)batch.data[1])[1], 1); /* what is leased stays readable */
    assert_int_equal(penstock_release(client, &batch), PENSTOCK_OK);
    penstock_close(client);
    waitpid(reader, NULL, 0);
    server_free(
        support_server(folder.path, 1, 1, 0)); /* takes the dead one's cursor, and cleans up */
    run_folder_done(&folder);
}

static void consume_and_sleep(const char *run_dir)
{
    struct penstock_options options = {.run_dir = run_dir, .world_size = 1, .timeout_ms = 5000};
    struct penstock *client;
    struct penstock_batch batch;
    if (penstock_connect(&options, &client, NULL) != PENSTOCK_OK)
        _exit(1);
    while (penstock_next(client, &batch, -1) == PENSTOCK_OK)
        (void)penstock_release(client, &batch);
    _exit(1);
}

/* Rounds that are under way go on for a while; what they publish does not count. */
static void a_dead_trainer_is_seen_at_once(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    pid_t trainer = fork();
    if (trainer == 0)
        consume_and_sleep(folder.path);
    pump_until(server, 1);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(server, 0, NULL), SERVER_PEER_CONNECTED);
    publish_to(server, 0, 0);
    publish_to(server, 0, 1);
    for (int i = 0; i < 5000 && server_trainer_backlog(server, 0) > 0; i++)
        clock_sleep_ns(1000000);
    kill(trainer, SIGKILL);
    waitpid(trainer, NULL, 0);
    bool active;
    assert_int_equal(server_progress(server, &active, NULL), STATUS_OK);
    assert_true(active);
    struct error error;
    assert_int_equal(server_trainer_state(server, 0, &error), SERVER_PEER_LOST);
    assert_int_equal(error.status, STATUS_LOST);
    assert_non_null(strstr(error.message, "trainer 0"));
    for (uint64_t sequence = 2; sequence < 2 + 2 * SUPPORT_SLOTS; sequence++)
        publish_to(server, 0, sequence);
    assert_int_equal(server_trainer_cursor(server, 0), 2);
    server_free(server);
    run_folder_done(&folder);
}

/* A server that sleeps whenever it has nothing to do, as a reader does. */
struct serving {
    struct server *server;
    uint64_t count;
};

static void sleep_for_slot(struct server *server, uint64_t sequence)
{
    server_arm(server, sequence);
    if (!server_slot_free(server, 0, sequence)) {
        struct pollfd fds[8];
        size_t sockets;
        size_t count = server_pollfds(server, fds, 8, &sockets);
        int ready = poll(fds, count, 10000);
        if (ready <= 0)
            fail_msg("the server slept through a release");
        assert_int_equal(count, sockets + 1); /* the eventfd comes last */
    }
    server_disarm(server);
}

static void *serve_thread(void *argument)
{
    struct serving *serving = argument;
    for (uint64_t n = 0; n < serving->count; n++) {
        while (!server_slot_free(serving->server, 0, n))
            sleep_for_slot(serving->server, n);
        publish_to(serving->server, 0, n);
    }
    struct error ended = {.status = STATUS_ENDED};
    server_finish(serving->server, &ended);
    return NULL;
}

/* A mailbox of one batch for a thread that releases. */
struct releaser {
    struct penstock *client;
    struct penstock_batch batch;
    _Atomic int full; /* 2: no more */
};

static void *release_thread(void *argument)
{
    struct releaser *releaser = argument;
    for (;;) {
        int full = atomic_load(&releaser->full);
        if (full == 2)
            return NULL;
        if (full == 0) {
            sched_yield();
            continue;
        }
        if (penstock_release(releaser->client, &releaser->batch) != PENSTOCK_OK)
            fail_msg("a leased batch was not released");
        atomic_store(&releaser->full, 0);
    }
}

/* INVALID: the releasing threads still lease all slots. */
static enum penstock_status next_patiently(struct penstock *client, struct penstock_batch *batch)
{
    enum penstock_status status;
    while ((status = penstock_next(client, batch, 10000)) == PENSTOCK_INVALID)
        sched_yield();
    return status;
}

static bool is_woken(struct server *server)
{
    struct pollfd fds[8];
    size_t sockets;
    size_t count = server_pollfds(server, fds, 8, &sockets);
    return poll(fds + sockets, (nfds_t)(count - sockets), 0) > 0;
}

/* `releases`: after how many of a full ring the server is woken that sleeps for `sequence`. */
static void wakes_after(uint64_t sequence, int releases)
{
    struct pair pair = pair_new(SUPPORT_SLOTS);
    for (int i = 0; i < SUPPORT_SLOTS; i++)
        publish(&pair);
    server_arm(pair.server, sequence);
    for (int i = 1; i <= SUPPORT_SLOTS; i++) {
        struct penstock_batch batch = take(&pair);
        give(&pair, &batch);
        assert_int_equal(is_woken(pair.server), i >= releases);
    }
    server_disarm(pair.server);
    assert_false(is_woken(pair.server));
    pair_done(&pair);
}

static void a_server_sleeps_until_its_slot_is_free(void **state)
{
    (void)state;
    wakes_after(0, 1); /* free before */
    wakes_after(SUPPORT_SLOTS, 1);
    wakes_after(SUPPORT_SLOTS + 2, 3);
    wakes_after(SUPPORT_SLOTS + 9, SUPPORT_SLOTS); /* the ring is empty */
    wakes_after(UINT64_MAX, SUPPORT_SLOTS);
}

static void stress(uint32_t slots, uint64_t count)
{
    struct pair pair = pair_new(slots);
    struct serving serving = {.server = pair.server, .count = count};
    struct releaser releasers[2] = {{.client = pair.client}, {.client = pair.client}};
    pthread_t server_id, releaser_ids[2];
    pthread_create(&server_id, NULL, serve_thread, &serving);
    for (int i = 0; i < 2; i++)
        pthread_create(&releaser_ids[i], NULL, release_thread, &releasers[i]);

    for (uint64_t n = 0; n < count; n++) {
        struct penstock_batch batch;
        assert_int_equal(next_patiently(pair.client, &batch), PENSTOCK_OK);
        assert_int_equal(((int64_t *)batch.data[1])[2], n * 1000 + 2);
        struct releaser *mail = &releasers[n * 7 / 3 % 2];
        while (atomic_load(&mail->full) != 0)
            sched_yield();
        mail->batch = batch;
        atomic_store(&mail->full, 1);
    }
    struct penstock_batch none;
    assert_int_equal(next_patiently(pair.client, &none), PENSTOCK_ENDED);
    for (int i = 0; i < 2; i++) {
        while (atomic_load(&releasers[i].full) != 0)
            sched_yield();
        atomic_store(&releasers[i].full, 2);
        pthread_join(releaser_ids[i], NULL);
    }
    pthread_join(server_id, NULL);
    assert_int_equal(server_trainer_backlog(pair.server, 0), 0);
    pair_done(&pair);
}

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { LONG_STRESS = 12000 };
#else
enum { LONG_STRESS = 40000 };
#endif

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    stress(1, LONG_STRESS);
    stress(2, 4000);
    stress(5, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(service_is_described),
        cmocka_unit_test(batches_come_in_order),
        cmocka_unit_test(slots_limit_the_reader),
        cmocka_unit_test(release_in_any_order),
        cmocka_unit_test(holding_all_slots_is_said_at_once),
        cmocka_unit_test(releasing_twice_is_refused),
        cmocka_unit_test(waiting_has_an_end),
        cmocka_unit_test(waiting_without_limit_has_its_end_with_the_batch),
        cmocka_unit_test(the_end_comes_after_the_last_batch),
        cmocka_unit_test(a_failure_comes_at_once_with_its_message),
        cmocka_unit_test(state_follows_the_batches),
        cmocka_unit_test(a_wild_tail_loses_that_trainer),
        cmocka_unit_test(a_wild_head_or_slot_stops_the_trainer),
        cmocka_unit_test(a_dead_reader_is_seen_at_once),
        cmocka_unit_test(a_dead_trainer_is_seen_at_once),
        cmocka_unit_test(a_server_sleeps_until_its_slot_is_free),
        cmocka_unit_test(no_wake_up_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
