/* For tests of sessions: a server, whose shape varies, and the client that is connected to it.
 * Server and client are turned by one thread where they can be. */
#ifndef PENSTOCK_TESTS_DELIVERY_SCENE_H
#define PENSTOCK_TESTS_DELIVERY_SCENE_H

#include "delivery_support.h"

#include "delivery/ring/handout.h"
#include "delivery/ring/protocol.h"

/* What a server of these tests reads of a state: epoch and step. */
static inline enum status read_cursor(void *argument, uint32_t rank, const char *json, bool goes_on,
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

static inline struct server *serve(const char *run_dir, struct shape shape)
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
    if (server_new(&options, &server, &error) != STATUS_OK ||
        server_listen(server, &error) != STATUS_OK)
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

static inline struct scene scene_new(struct shape shape)
{
    struct scene scene = {.folder = run_folder_new()};
    scene.server = serve(scene.folder.path, shape);
    struct dialing dialing;
    dial(&dialing, scene.folder.path, 0, 1);
    pump_until(scene.server, 1);
    start_delivery(scene.server, &dialing);
    scene.client = dialing.client;
    return scene;
}

static inline void scene_done(struct scene *scene)
{
    penstock_close(scene->client);
    server_free(scene->server);
    run_folder_done(&scene->folder);
}

static inline void publish_next(struct scene *scene)
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
static inline uint64_t come_back(struct scene *scene)
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

static inline void begin(struct scene *scene, uint64_t start, uint64_t first)
{
    scene->start = start;
    scene->published = 0;
    server_set_start(scene->server, start);
    server_set_first(scene->server, 0, first);
    assert_int_equal(server_start(scene->server, NULL), STATUS_OK);
}

static inline struct penstock_batch next(struct scene *scene, uint64_t cursor)
{
    struct penstock_batch batch;
    if (penstock_next(scene->client, &batch, 2000) != PENSTOCK_OK)
        fail_msg("penstock_next: %s", penstock_last_error(scene->client));
    assert_int_equal(batch.epoch, cursor / SUPPORT_STEPS);
    assert_int_equal(batch.step, cursor % SUPPORT_STEPS);
    assert_int_equal(batch.indices[0], cursor);
    return batch;
}

static inline void release(struct scene *scene, const struct penstock_batch *batch)
{
    assert_int_equal(penstock_release(scene->client, batch), PENSTOCK_OK);
}

/* Loses the reader, and has the next one of that shape welcome the client. */
static inline void change_reader(struct scene *scene, struct shape shape, uint64_t start,
                                 uint64_t first)
{
    server_free(scene->server);
    scene->server = serve(scene->folder.path, shape);
    come_back(scene);
    begin(scene, start, first);
}

static inline void expect_end(struct scene *scene, enum penstock_status status, const char *text)
{
    struct penstock_batch batch;
    for (int i = 0; i < 2; i++) { /* it is final */
        assert_int_equal(penstock_next(scene->client, &batch, 2000), status);
        if (!strstr(penstock_last_error(scene->client), text))
            fail_msg("'%s' does not say '%s'", penstock_last_error(scene->client), text);
    }
    scene_done(scene);
}

struct waiting {
    struct penstock *client;
    int64_t timeout_ms;
    enum penstock_status status;
    _Atomic pid_t thread; /* its number; 0: it has not begun */
};

static inline void *wait_in_next(void *argument)
{
    struct waiting *waiting = argument;
    struct penstock_batch batch;
    waiting->thread = gettid();
    waiting->status = penstock_next(waiting->client, &batch, waiting->timeout_ms);
    return NULL;
}

#endif
