/* Sessions: a reader goes away and another one comes, a trainer goes and its like comes; forks,
 * threads and several connections. Server and client are turned by one thread where they can be. */
#include "delivery_support.h"

#include "delivery/handout.h"
#include "delivery/protocol.h"

#include <sys/wait.h>

/* What a server of these tests reads of a state: epoch and step. */
static enum status read_cursor(void *argument, uint32_t rank, const char *json, bool goes_on,
                               uint64_t *ret_cursor, struct error *err)
{
    (void)rank;
    (void)argument;
    (void)goes_on;
    const char *epoch = strstr(json, "\"epoch\":"), *step = strstr(json, "\"step\":");
    if (!epoch || !step)
        return error_set(err, STATUS_INVALID, "no state");
    *ret_cursor = strtoull(epoch + 8, NULL, 10) * SUPPORT_STEPS + strtoull(step + 7, NULL, 10);
    return STATUS_OK;
}

struct shape {
    uint32_t world_size, slots;
    uint64_t reconnect_ms, epochs;
    uint32_t window_rows;
    float constant; /* 0: no handout */
};

static const struct shape usual = {.world_size = 1,
                                   .slots = SUPPORT_SLOTS,
                                   .reconnect_ms = 5000,
                                   .epochs = 1000,
                                   .window_rows = 64};

static struct server *serve(const char *run_dir, struct shape shape)
{
    struct ring_layout layout = support_layout(shape.slots);
    struct ring_service service = support_service(shape.world_size);
    service.epochs = shape.epochs;
    service.order.window_rows = shape.window_rows;
    struct server_options options = {.run_dir = run_dir,
                                     .max_trainers = shape.world_size,
                                     .layout = &layout,
                                     .service = &service,
                                     .reconnect_ms = shape.reconnect_ms,
                                     .read_state = read_cursor};
    struct handout_source source = {.name = "c",
                                    .dtype = DTYPE_FLOAT32,
                                    .shape = &options.reconnect_ms,
                                    .data = &shape.constant,
                                    .data_bytes = sizeof shape.constant,
                                    .attributes = "{}"};
    int handout = -1;
    if (shape.constant > 0)
        assert_int_equal(handout_create(&source, 0, 1, &handout, NULL), STATUS_OK);
    options.handout = handout >= 0 ? &handout : NULL;
    struct server *server;
    struct error error;
    if (server_new(&options, &server, &error) || server_listen(server, &error))
        fail_msg("server: %s", error.message);
    if (handout >= 0)
        close(handout);
    return server;
}

/* A run folder and the client that is connected to its only server. */
struct scene {
    struct run_folder folder;
    struct server *server;
    struct penstock *client;
    uint64_t start, published; /* of the session under way */
};

static struct scene scene_new(struct shape shape)
{
    struct scene scene = {.folder = run_folder_new()};
    scene.server = serve(scene.folder.path, shape);
    struct dialing dialing;
    dial(&dialing, scene.folder.path, 0, 1);
    pump_until(scene.server, 1);
    assert_int_equal(server_start(scene.server, NULL), STATUS_OK);
    pthread_join(dialing.thread, NULL);
    if (dialing.status)
        fail_msg("penstock_connect: %s", dialing.message);
    scene.client = dialing.client;
    return scene;
}

static void scene_done(struct scene *scene)
{
    penstock_close(scene->client);
    server_free(scene->server);
    run_folder_done(&scene->folder);
}

static void publish_next(struct scene *scene)
{
    uint64_t cursor = scene->start + scene->published;
    unsigned char *slot = server_slot(scene->server, 0, scene->published);
    struct ring_layout layout = support_layout(1);
    *(struct slot_header *)slot = (struct slot_header){.epoch = cursor / SUPPORT_STEPS,
                                                       .step = cursor % SUPPORT_STEPS,
                                                       .sample_count = SUPPORT_BATCH};
    uint64_t *indices = (void *)(slot + layout.indices_offset);
    indices[0] = cursor;
    server_publish(scene->server, 0);
    scene->published++;
}

/* Turns the client until it has said hello to the server; returns the cursor that it asks for. */
static uint64_t come_back(struct scene *scene)
{
    struct penstock_batch batch;
    for (int i = 0; i < 2000 && server_trainer_count(scene->server) == 0; i++) {
        bool active;
        assert_int_equal(penstock_next(scene->client, &batch, i % 2), PENSTOCK_TIMEOUT);
        assert_non_null(strstr(penstock_last_error(scene->client), "not back yet"));
        assert_int_equal(server_progress(scene->server, &active, NULL), STATUS_OK);
    }
    assert_int_equal(server_trainer_count(scene->server), 1);
    uint64_t cursor;
    assert_int_equal(server_trainer_wish(scene->server, 0, &cursor), WISH_CONTINUE);
    return cursor;
}

static void begin(struct scene *scene, uint64_t start, uint64_t first)
{
    scene->start = start;
    scene->published = 0;
    server_set_start(scene->server, start);
    server_set_first(scene->server, 0, first);
    assert_int_equal(server_start(scene->server, NULL), STATUS_OK);
}

static struct penstock_batch next(struct scene *scene, uint64_t cursor)
{
    struct penstock_batch batch;
    if (penstock_next(scene->client, &batch, 2000))
        fail_msg("penstock_next: %s", penstock_last_error(scene->client));
    assert_int_equal(batch.epoch, cursor / SUPPORT_STEPS);
    assert_int_equal(batch.step, cursor % SUPPORT_STEPS);
    assert_int_equal(batch.indices[0], cursor);
    return batch;
}

static void release(struct scene *scene, const struct penstock_batch *batch)
{
    assert_int_equal(penstock_release(scene->client, batch), PENSTOCK_OK);
}

/* What a dead reader has published is taken, what is leased stays, and the next reader's batches
 * follow, whatever it starts with. */
static void a_trainer_goes_on_with_the_next_reader(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    for (int i = 0; i < 3; i++)
        publish_next(&scene);
    struct penstock_batch leased = next(&scene, 0);
    server_free(scene.server); /* as when it dies: without a word */
    struct penstock_batch second = next(&scene, 1), third = next(&scene, 2);
    release(&scene, &second);
    struct penstock_batch none;
    assert_int_equal(penstock_next(scene.client, &none, 30), PENSTOCK_TIMEOUT);

    scene.server = serve(scene.folder.path, usual);
    assert_int_equal(come_back(&scene), 3);
    begin(&scene, 1, 3); /* another trainer needs step 1 again */
    for (int i = 0; i < SUPPORT_SLOTS; i++)
        publish_next(&scene);
    struct penstock_batch fourth = next(&scene, 3), fifth = next(&scene, 4);
    assert_true(server_slot_free(scene.server, 0, SUPPORT_SLOTS + 1)); /* passed over: given back */
    assert_int_equal(leased.indices[0], 0);                            /* of the old ring */
    assert_int_equal(third.indices[0], 2);
    release(&scene, &fifth);
    release(&scene, &leased);
    assert_int_equal(penstock_release(scene.client, &leased), PENSTOCK_INVALID);
    release(&scene, &third);
    assert_int_equal(penstock_release(scene.client, &second), PENSTOCK_INVALID);
    release(&scene, &fourth);
    assert_true(server_slot_free(scene.server, 0, 2 * SUPPORT_SLOTS - 1));
    char text[256];
    assert_int_equal(penstock_state(scene.client, text, sizeof text), PENSTOCK_OK);
    assert_non_null(strstr(text, "\"epoch\":0,\"step\":5"));
    scene_done(&scene);
}

/* Loses the reader, and has the next one of that shape welcome the client. */
static void change_reader(struct scene *scene, struct shape shape, uint64_t start, uint64_t first)
{
    server_free(scene->server);
    scene->server = serve(scene->folder.path, shape);
    come_back(scene);
    begin(scene, start, first);
}

static void one_reader_after_another(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    struct penstock_batch leased[6];
    for (uint64_t i = 0; i < 6; i++) {
        publish_next(&scene);
        leased[i] = next(&scene, i);
        change_reader(&scene, usual, i > 0 ? i - 1 : 0, i + 1);
        while (scene.start + scene.published <= i)
            publish_next(&scene);
    }
    static const int order[] = {3, 0, 5, 1, 4, 2};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(leased[order[i]].indices[0], order[i]);
        release(&scene, &leased[order[i]]);
    }
    publish_next(&scene);
    next(&scene, 6);
    scene_done(&scene);
}

static void expect_end(struct scene *scene, enum penstock_status status, const char *text)
{
    struct penstock_batch batch;
    for (int i = 0; i < 2; i++) { /* it is final */
        assert_int_equal(penstock_next(scene->client, &batch, 2000), status);
        if (!strstr(penstock_last_error(scene->client), text))
            fail_msg("'%s' does not say '%s'", penstock_last_error(scene->client), text);
    }
    scene_done(scene);
}

static void a_service_that_is_another_is_refused(void **state)
{
    (void)state;
    struct shape slots = usual, epochs = usual, windows = usual, low = usual, high = usual;
    slots.slots++;
    epochs.epochs++;
    windows.window_rows++;
    low.constant = 1;
    high.constant = 2;
    struct scene scene = scene_new(usual);
    change_reader(&scene, slots, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "another delivery.slots");
    scene = scene_new(usual);
    change_reader(&scene, epochs, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "another number of steps or epochs");
    scene = scene_new(usual);
    change_reader(&scene, windows, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "order.window_rows was 64, this run has 65");
    scene = scene_new(low);
    change_reader(&scene, high, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "other constants or attributes");
    scene = scene_new(low);
    change_reader(&scene, usual, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "other constants or attributes");
}

static void constants_stay_where_they_are(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.constant = 3;
    struct scene scene = scene_new(shape);
    const struct penstock_info *info = penstock_describe(scene.client);
    assert_int_equal(info->constant_count, 1);
    const float *data = info->constants[0].data;
    change_reader(&scene, shape, 0, 0);
    publish_next(&scene);
    next(&scene, 0);
    assert_ptr_equal(info->constants[0].data, data);
    assert_memory_equal(data, &shape.constant, sizeof *data);
    scene_done(&scene);
}

static void a_gap_or_a_repetition_is_an_error(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    change_reader(&scene, usual, 1, 1); /* it would miss step 0 */
    expect_end(&scene, PENSTOCK_PROTOCOL, "not where it should");
    scene = scene_new(usual);
    change_reader(&scene, usual, 0, 0);
    scene.start = 2; /* what is published is not what was said */
    publish_next(&scene);
    expect_end(&scene, PENSTOCK_PROTOCOL, "came where that of epoch 0 step 0 should");
}

static void waiting_for_a_reader_has_an_end(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.reconnect_ms = 200;
    struct scene scene = scene_new(shape);
    server_free(scene.server);
    scene.server = NULL;
    uint64_t start = clock_now_ns();
    struct penstock_batch batch;
    assert_int_equal(penstock_next(scene.client, &batch, 50), PENSTOCK_TIMEOUT);
    assert_int_equal(penstock_next(scene.client, &batch, -1), PENSTOCK_LOST);
    assert_in_range((clock_now_ns() - start) / 1000000, 199, 20000);
    expect_end(&scene, PENSTOCK_LOST, "the reader on this node went away: no Penstock service");
}

struct waiting {
    struct penstock *client;
    int64_t timeout_ms;
    enum penstock_status status;
    _Atomic pid_t thread; /* its number; 0: it has not begun */
};

static void *wait_in_next(void *argument)
{
    struct waiting *waiting = argument;
    struct penstock_batch batch;
    waiting->thread = gettid();
    waiting->status = penstock_next(waiting->client, &batch, waiting->timeout_ms);
    return NULL;
}

/* The reader sees what another thread releases while penstock_next() waits for a ring. */
static void releases_are_seen_on_the_way_to_a_reader(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    struct penstock_batch leased[3];
    for (uint64_t i = 0; i < 3; i++) {
        publish_next(&scene);
        leased[i] = next(&scene, i);
    }
    server_free(scene.server);
    scene.server = serve(scene.folder.path, usual);
    struct waiting waiting = {.client = scene.client, .timeout_ms = 20000};
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_next, &waiting);
    pump_until(scene.server, 1);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 0);
    release(&scene, &leased[0]);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 1);
    begin(&scene, 3, 3);
    release(&scene, &leased[1]);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 2);
    release(&scene, &leased[2]);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 3);
    publish_next(&scene);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.status, PENSTOCK_OK);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 3);
    scene_done(&scene);
}

/* Milliseconds beyond what nanoseconds can count are no limit. */
static void the_longest_timeout_waits(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = serve(folder.path, usual);
    struct dialing dialing;
    dial_for(&dialing, folder.path, 0, 1, INT64_MAX);
    pump_until(server, 1);
    clock_sleep_ns(30000000);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    pthread_join(dialing.thread, NULL);
    if (dialing.status)
        fail_msg("penstock_connect: %s", dialing.message);
    const int64_t longest[] = {INT64_MAX, INT64_MAX / 1000000, INT64_MIN};
    for (uint64_t i = 0; i < 3; i++) {
        struct waiting waiting = {.client = dialing.client, .timeout_ms = longest[i]};
        pthread_t thread;
        pthread_create(&thread, NULL, wait_in_next, &waiting);
        clock_sleep_ns(30000000);
        publish_to(server, 0, i);
        pthread_join(thread, NULL);
        assert_int_equal(waiting.status, PENSTOCK_OK);
    }
    penstock_close(dialing.client);
    server_free(server);
    run_folder_done(&folder);
}

/* Instead of a goodbye: the reader knows who, where and why, and nobody takes it for an end. */
static void a_trainer_says_that_it_failed(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    struct error error;
    struct penstock_batch none;
    bool active;
    for (uint64_t i = 0; i < 2; i++)
        publish_next(&scene);
    struct penstock_batch first = next(&scene, 0);
    release(&scene, &first);
    next(&scene, 1);
    assert_false(server_trainer_failed(scene.server, 0));
    penstock_fail(scene.client, "ValueError: boom\n  in two lines");
    penstock_fail(scene.client, "once more");
    penstock_leave(scene.client);
    assert_int_equal(penstock_next(scene.client, &none, 0), PENSTOCK_ENDED);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, 0, &error), SERVER_PEER_LOST);
    assert_true(server_trainer_failed(scene.server, 0));
    assert_int_equal(server_trainer_cursor(scene.server, 0), 1);
    assert_non_null(strstr(error.message, "trainer 0 (process "));
    assert_non_null(strstr(error.message, "failed at epoch 0 step 1: ValueError: boom"));
    assert_non_null(strstr(error.message, "  in two lines"));
    assert_null(strchr(error.message, '\n'));
    scene_done(&scene);

    scene = scene_new(usual);
    penstock_fail(scene.client, NULL);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, 0, &error), SERVER_PEER_LOST);
    assert_non_null(strstr(error.message, "it gave no reason"));
    scene_done(&scene);
}

/* A scene in which the client leases the last batch. */
static struct scene scene_at_the_end(struct shape shape, struct penstock_batch *ret_last)
{
    struct scene scene = scene_new(shape);
    bool active;
    for (uint64_t i = 0; i < SUPPORT_STEPS; i++) {
        publish_next(&scene);
        *ret_last = next(&scene, i);
        if (i + 1 < SUPPORT_STEPS)
            release(&scene, ret_last);
        assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
        assert_false(server_trainer_done(scene.server, 0));
    }
    return scene;
}

/* Who dies with its last batch in hand comes again for it: it is not done before it asks for more.
 */
static void the_last_batch_may_be_leased(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.epochs = 1;
    struct penstock_batch last, none;
    struct scene scene = scene_at_the_end(shape, &last);
    assert_int_equal(penstock_next(scene.client, &none, 0), PENSTOCK_TIMEOUT);
    bool active;
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_true(server_trainer_done(scene.server, 0));
    release(&scene, &last);
    struct error ended = {.status = STATUS_ENDED};
    server_finish(scene.server, &ended);
    expect_end(&scene, PENSTOCK_ENDED, "all epochs");
}

/* The last batch is released, but not all trainers have theirs: the end is not yet. */
static void the_last_batch_is_told(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.epochs = 1;
    struct penstock_batch last;
    struct scene scene = scene_at_the_end(shape, &last);
    bool active;
    release(&scene, &last);
    assert_true(server_trainer_done(scene.server, 0));
    change_reader(&scene, shape, 4, SUPPORT_STEPS);
    for (uint64_t i = 4; i < 4 + SUPPORT_SLOTS; i++)
        publish_next(&scene);
    struct penstock_batch none;
    assert_int_equal(penstock_next(scene.client, &none, 20), PENSTOCK_TIMEOUT);
    assert_true(server_slot_free(scene.server, 0, SUPPORT_SLOTS)); /* passed over */
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_true(server_trainer_done(scene.server, 0));
    struct error ended = {.status = STATUS_ENDED};
    server_finish(scene.server, &ended);
    expect_end(&scene, PENSTOCK_ENDED, "all epochs");
}

/* A server lets go of its trainers: who lives comes again, who said goodbye is not waited for, and
 * who comes too early waits. */
static void sessions_of_one_server(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.world_size = 2;
    struct scene scene = {.folder = run_folder_new()};
    scene.server = serve(scene.folder.path, shape);
    struct dialing dialing[3];
    for (int rank = 0; rank < 2; rank++) {
        dial(&dialing[rank], scene.folder.path, rank, 2);
        pump_until(scene.server, (uint32_t)rank + 1);
    }
    assert_int_equal(server_start(scene.server, NULL), STATUS_OK);
    for (int rank = 0; rank < 2; rank++) {
        pthread_join(dialing[rank].thread, NULL);
        assert_int_equal(dialing[rank].status, PENSTOCK_OK);
    }
    scene.client = dialing[0].client;
    penstock_close(dialing[1].client);
    bool active;
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, 1, NULL), SERVER_PEER_CLOSED);
    assert_true(server_trainer_done(scene.server, 1));
    assert_false(server_trainer_returns(scene.server));
    dial(&dialing[2], scene.folder.path, 1, 2);
    for (int i = 0; i < 2000 && !server_trainer_returns(scene.server); i++) {
        assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
        clock_sleep_ns(1000000);
    }
    assert_true(server_trainer_returns(scene.server));

    server_restart(scene.server);
    assert_int_equal(server_trainer_count(scene.server), 1);
    assert_int_equal(server_trainer_rank(scene.server, 0), 1);
    uint64_t cursor;
    assert_int_equal(server_trainer_wish(scene.server, 0, &cursor), WISH_CONTINUE);
    assert_int_equal(cursor, usual.epochs * SUPPORT_STEPS); /* one that is gone needs nothing */
    assert_int_equal(server_trainer_cursor(scene.server, 0), cursor);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_wish(scene.server, 0, &cursor), WISH_FRESH); /* it is back */
    struct penstock_batch batch;
    for (int i = 0; i < 2000 && server_trainer_count(scene.server) < 2; i++) {
        assert_int_equal(penstock_next(scene.client, &batch, 1), PENSTOCK_TIMEOUT);
        assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    }
    assert_int_equal(server_start(scene.server, NULL), STATUS_OK);
    pthread_join(dialing[2].thread, NULL);
    assert_int_equal(dialing[2].status, PENSTOCK_OK);
    publish_to(scene.server, 0, 0);
    publish_to(scene.server, 1, 0);
    assert_int_equal(penstock_next(dialing[2].client, &batch, 2000), PENSTOCK_OK);
    assert_int_equal(penstock_next(scene.client, &batch, 2000), PENSTOCK_OK);
    penstock_close(dialing[2].client);
    scene_done(&scene);
}

/* A forked child's own words come back as its exit code. */
/* After the end of a session a trainer goes on with what it has; where it stopped is known when it
 * is gone, for the one that comes instead. */
static void progress_between_sessions_is_seen(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    uint32_t rank = 77;
    uint64_t cursor = 77;
    bool active;
    for (int i = 0; i < 3; i++)
        publish_next(&scene);
    struct penstock_batch batch = next(&scene, 0);
    release(&scene, &batch);
    server_restart(scene.server);
    for (uint64_t i = 1; i < 3; i++) {
        batch = next(&scene, i);
        release(&scene, &batch);
    }
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_false(server_take_parted(scene.server, &rank, &cursor));
    server_expect(scene.server, 0); /* it is said to be dead */
    assert_true(server_take_parted(scene.server, &rank, &cursor));
    assert_int_equal(rank, 0);
    assert_int_equal(cursor, 3);
    assert_false(server_take_parted(scene.server, &rank, &cursor));
    assert_int_equal(come_back(&scene), 3);
    scene_done(&scene);
}

static int use_in_child(struct penstock *client, struct penstock_batch *leased)
{
    struct penstock_batch batch;
    if (penstock_next(client, &batch, 0) != PENSTOCK_INVALID ||
        !strstr(penstock_last_error(client), "was forked by the one that connected"))
        return 1;
    if (penstock_release(client, leased) != PENSTOCK_INVALID)
        return 2;
    penstock_leave(client);
    penstock_close(client);
    return 0;
}

static void a_forked_process_is_told(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    publish_next(&scene);
    struct penstock_batch leased = next(&scene, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(scene.client, &leased));
    int end = -1;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_int_equal(end, 0);
    bool active;
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, 0, NULL), SERVER_PEER_CONNECTED);
    assert_false(server_slot_free(scene.server, 0, SUPPORT_SLOTS)); /* the child released nothing */
    release(&scene, &leased);
    publish_next(&scene);
    next(&scene, 1);
    scene_done(&scene);
}

/* A trainer that dies while a process that it forked has its socket still. */
static void a_dead_parent_is_seen_although_its_child_lives(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = serve(folder.path, usual);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t trainer = fork();
    if (trainer == 0) {
        struct penstock_options options = {
            .run_dir = folder.path, .world_size = 1, .timeout_ms = 5000};
        struct penstock *client;
        if (penstock_connect(&options, &client, NULL))
            _exit(1);
        pid_t child = fork();
        if (child == 0) {
            close(ready[0]);
            sleep(30);
            _exit(0);
        }
        _exit(write(ready[1], &child, sizeof child) != sizeof child);
    }
    close(ready[1]);
    pump_until(server, 1);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    pid_t grandchild;
    assert_int_equal(read(ready[0], &grandchild, sizeof grandchild), sizeof grandchild);
    int end = -1;
    assert_int_equal(waitpid(trainer, &end, 0), trainer);
    assert_int_equal(end, 0);
    bool active;
    for (int i = 0; i < 300 && server_trainer_state(server, 0, NULL) == SERVER_PEER_CONNECTED;
         i++) {
        assert_int_equal(server_progress(server, &active, NULL), STATUS_OK);
        clock_sleep_ns(10000000);
    }
    assert_int_equal(server_trainer_state(server, 0, NULL), SERVER_PEER_LOST);
    kill(grandchild, SIGKILL);
    close(ready[0]);
    server_free(server);
    run_folder_done(&folder);
}

static bool is_asleep(pid_t thread)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state == 'S';
}

static void end_from_outside(bool lost, void end(struct penstock *client))
{
    struct scene scene = scene_new(usual);
    if (lost) {
        server_free(scene.server);
        scene.server = NULL;
    }
    struct waiting waiting = {.client = scene.client, .timeout_ms = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_next, &waiting);
    for (int i = 0; i < 2000 && !(waiting.thread && is_asleep(waiting.thread)); i++)
        clock_sleep_ns(5000000);
    uint64_t start = clock_now_ns();
    end(scene.client);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.status, PENSTOCK_ENDED);
    assert_true(clock_now_ns() - start < 4000000000);
    if (end == penstock_close)
        scene.client = NULL;
    scene_done(&scene);
}

static void another_thread_may_end_it(void **state)
{
    (void)state;
    end_from_outside(false, penstock_close);
    end_from_outside(false, penstock_leave);
    end_from_outside(true, penstock_close);
    end_from_outside(true, penstock_leave);
}

static void two_connections_of_one_process(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.world_size = 2;
    struct run_folder folder = run_folder_new();
    struct server *server = serve(folder.path, shape);
    struct dialing dialing[2];
    for (int rank = 0; rank < 2; rank++) {
        dial(&dialing[rank], folder.path, rank, 2);
        pump_until(server, (uint32_t)rank + 1);
    }
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    struct penstock_batch batch[2];
    for (uint32_t rank = 0; rank < 2; rank++) {
        pthread_join(dialing[rank].thread, NULL);
        assert_int_equal(dialing[rank].status, PENSTOCK_OK);
        publish_to(server, rank, 0);
        assert_int_equal(penstock_next(dialing[rank].client, &batch[rank], 2000), PENSTOCK_OK);
        assert_int_equal(batch[rank].first_position, rank * SUPPORT_BATCH);
    }
    penstock_close(dialing[0].client);
    publish_to(server, 1, 1);
    assert_int_equal(penstock_release(dialing[1].client, &batch[1]), PENSTOCK_OK);
    assert_int_equal(penstock_next(dialing[1].client, &batch[1], 2000), PENSTOCK_OK);
    assert_int_equal(batch[1].step, 1);
    penstock_close(dialing[1].client);
    server_free(server);
    run_folder_done(&folder);
}

static void a_state_is_told(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = serve(folder.path, usual);
    struct dialing dialing = {.options = {.run_dir = folder.path,
                                          .world_size = 1,
                                          .timeout_ms = 5000,
                                          .state = "{\"epoch\":2,\"step\":3}"}};
    pthread_create(&dialing.thread, NULL, dial_thread, &dialing);
    pump_until(server, 1);
    uint64_t wished;
    assert_int_equal(server_trainer_wish(server, 0, &wished), WISH_STATE);
    assert_int_equal(wished, 2 * SUPPORT_STEPS + 3);
    server_set_start(server, 2 * SUPPORT_STEPS);
    server_set_first(server, 0, wished);
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    pthread_join(dialing.thread, NULL);
    assert_int_equal(dialing.status, PENSTOCK_OK);
    assert_int_equal(penstock_describe(dialing.client)->start_epoch, 2);
    assert_int_equal(penstock_describe(dialing.client)->start_step, 3);
    penstock_close(dialing.client);
    server_free(server);

    server = serve(folder.path, usual);
    dialing.options.state = "{}";
    pthread_create(&dialing.thread, NULL, dial_thread, &dialing);
    struct error error;
    enum status status = STATUS_OK;
    bool active;
    for (int i = 0; i < 2000 && !status; i++) {
        status = server_progress(server, &active, &error);
        clock_sleep_ns(1000000);
    }
    pthread_join(dialing.thread, NULL);
    assert_int_equal(status, STATUS_REFUSED);
    assert_int_equal(dialing.status, PENSTOCK_REFUSED);
    assert_string_equal(dialing.message, "trainer 0: no state");
    server_free(server);

    char message[PENSTOCK_MESSAGE_BYTES];
    static char huge[4000];
    memset(huge, '{', sizeof huge - 1);
    dialing.options.state = huge;
    assert_int_equal(penstock_connect(&dialing.options, &dialing.client, message),
                     PENSTOCK_INVALID);
    assert_non_null(strstr(message, "the state has 3999 bytes"));
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_goes_on_with_the_next_reader),
        cmocka_unit_test(one_reader_after_another),
        cmocka_unit_test(a_service_that_is_another_is_refused),
        cmocka_unit_test(constants_stay_where_they_are),
        cmocka_unit_test(a_gap_or_a_repetition_is_an_error),
        cmocka_unit_test(waiting_for_a_reader_has_an_end),
        cmocka_unit_test(releases_are_seen_on_the_way_to_a_reader),
        cmocka_unit_test(the_longest_timeout_waits),
        cmocka_unit_test(a_trainer_says_that_it_failed),
        cmocka_unit_test(the_last_batch_may_be_leased),
        cmocka_unit_test(the_last_batch_is_told),
        cmocka_unit_test(sessions_of_one_server),
        cmocka_unit_test(progress_between_sessions_is_seen),
        cmocka_unit_test(a_forked_process_is_told),
        cmocka_unit_test(a_dead_parent_is_seen_although_its_child_lives),
        cmocka_unit_test(another_thread_may_end_it),
        cmocka_unit_test(two_connections_of_one_process),
        cmocka_unit_test(a_state_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
