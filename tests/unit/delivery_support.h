/* What the delivery tests share: a run directory, a small ring, and a server with one client in one
 * process. */
#ifndef PENSTOCK_TESTS_DELIVERY_SUPPORT_H
#define PENSTOCK_TESTS_DELIVERY_SUPPORT_H

#include "base/clock.h"
#include "delivery/ring/cursor_page.h"
#include "delivery/server/server.h"
#include "penstock.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SUPPORT_BATCH = 3, SUPPORT_SLOTS = 4, SUPPORT_STEPS = 10, SUPPORT_SAMPLES = 1000 };

struct run_folder {
    char path[64]; /* of a run directory that does not exist yet */
};

static inline struct run_folder run_folder_new(void)
{
    struct run_folder folder;
    char parent[] = "/tmp/penstock-test-XXXXXX";
    assert_non_null(mkdtemp(parent));
    snprintf(folder.path, sizeof folder.path, "%s/run", parent);
    return folder;
}

/* The server removes the run directory, this its parent: a test that leaves something behind fails.
 */
static inline void run_folder_done(const struct run_folder *folder)
{
    char parent[sizeof folder->path];
    snprintf(parent, sizeof parent, "%s", folder->path);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(rmdir(parent), 0);
}

/* Two fields: "image" float16 [2, 3] and "label" int64 scalar. */
static inline struct ring_layout support_layout(uint32_t slots)
{
    struct ring_layout layout = {
        .field_count = 2, .slot_count = slots, .batch_size = SUPPORT_BATCH, .member_count = 1};
    layout.fields[0] =
        (struct ring_field){.name = "image", .dtype = DTYPE_FLOAT16, .rank = 2, .shape = {2, 3}};
    layout.fields[1] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    assert_int_equal(ring_layout_settle(&layout, NULL), STATUS_OK);
    return layout;
}

static inline struct ring_service support_service(uint32_t world_size)
{
    return (struct ring_service){.world_size = world_size,
                                 .mesh = {.rank_count = world_size},
                                 .dataset_samples = SUPPORT_SAMPLES,
                                 .steps_per_epoch = SUPPORT_STEPS,
                                 .epochs = 1000000,
                                 .order = {.id = 0x1d,
                                           .fingerprint = 0xfeed,
                                           .seed = 17,
                                           .global_batch = world_size * SUPPORT_BATCH,
                                           .row_length = 8,
                                           .window_rows = 64,
                                           .shuffle = 1}};
}

/* One that does not listen yet. */
static inline struct server *support_unopened(const char *run_dir, uint32_t world_size,
                                              uint32_t slots, uint32_t reader)
{
    struct ring_layout layout = support_layout(slots);
    struct ring_service service = support_service(world_size);
    struct server_options options = {.run_dir = run_dir,
                                     .reader = reader,
                                     .max_trainers = world_size,
                                     .layout = &layout,
                                     .service = &service};
    struct server *server;
    struct error error;
    if (server_new(&options, &server, &error) != STATUS_OK)
        fail_msg("server_new: %s", error.message);
    return server;
}

static inline struct server *support_server(const char *run_dir, uint32_t world_size,
                                            uint32_t slots, uint32_t reader)
{
    struct server *server = support_unopened(run_dir, world_size, slots, reader);
    assert_int_equal(server_listen(server, NULL), STATUS_OK);
    return server;
}

/* What a trainer says first, sent by hand; its page stays at cursor 0. */
static inline void support_hello(int socket, uint32_t rank, uint32_t world_size)
{
    struct protocol_message message = {.type = PROTOCOL_HELLO,
                                       .hello = {.rank = rank, .world_size = world_size}};
    struct cursor_page page;
    assert_int_equal(cursor_page_new(&page, NULL), STATUS_OK);
    assert_int_equal(protocol_send(socket, &message, &page.memfd, NULL), STATUS_OK);
    cursor_page_done(&page);
}

/* A penstock_connect() in a thread of its own. */
struct dialing {
    pthread_t thread;
    struct penstock_options options;
    struct penstock *client; /* NULL: failed */
    enum penstock_status status;
    char message[PENSTOCK_MESSAGE_BYTES];
};

static inline void *dial_thread(void *argument)
{
    struct dialing *dialing = argument;
    dialing->status = penstock_connect(&dialing->options, &dialing->client, dialing->message);
    return NULL;
}

static inline void dial_with(struct dialing *dialing, const struct penstock_options *options)
{
    *dialing = (struct dialing){.options = *options};
    assert_int_equal(pthread_create(&dialing->thread, NULL, dial_thread, dialing), 0);
}

static inline void dial_for(struct dialing *dialing, const char *run_dir, int rank, int world_size,
                            int64_t timeout_ms)
{
    dial_with(dialing, &(struct penstock_options){.run_dir = run_dir,
                                                  .rank = rank,
                                                  .world_size = world_size,
                                                  .timeout_ms = timeout_ms});
}

static inline void dial(struct dialing *dialing, const char *run_dir, int rank, int world_size)
{
    dial_for(dialing, run_dir, rank, world_size, 5000);
}

/* Runs the server until `count` trainers are there; refusals on the way are not expected. */
static inline void pump_until(struct server *server, uint32_t count)
{
    for (int i = 0; i < 5000 && server_trainer_count(server) != count; i++) {
        bool active;
        struct error error;
        if (server_progress(server, &active, &error) != STATUS_OK)
            fail_msg("server_progress: %s", error.message);
        if (!active)
            clock_sleep_ns(1000000);
    }
    assert_int_equal(server_trainer_count(server), count);
}

/* Starts delivery to trainers that are there, of which `dialing` is one: it connects. */
static inline void start_delivery(struct server *server, struct dialing *dialing)
{
    assert_int_equal(server_start(server, NULL), STATUS_OK);
    pthread_join(dialing->thread, NULL);
    if (dialing->status != PENSTOCK_OK)
        fail_msg("penstock_connect: %s", dialing->message);
}

/* A server and its only trainer, rank 0 of 1, delivery started. */
struct pair {
    struct run_folder folder;
    struct server *server;
    struct penstock *client;
    uint64_t filled; /* batches published by publish() */
};

/* The client of a server that already listens, in the pair's folder; with wait_for_release
 * (penstock.h), or as usual. */
static inline void pair_connect(struct pair *pair, int32_t wait_for_release)
{
    struct dialing dialing;
    dial_with(&dialing, &(struct penstock_options){.run_dir = pair->folder.path,
                                                   .world_size = 1,
                                                   .timeout_ms = 5000,
                                                   .wait_for_release = wait_for_release});
    pump_until(pair->server, 1);
    start_delivery(pair->server, &dialing);
    pair->client = dialing.client;
}

static inline struct pair pair_new_waiting(uint32_t slots, int32_t wait_for_release)
{
    struct pair pair = {.folder = run_folder_new()};
    pair.server = support_server(pair.folder.path, 1, slots, 0);
    pair_connect(&pair, wait_for_release);
    return pair;
}

static inline struct pair pair_new(uint32_t slots)
{
    return pair_new_waiting(slots, 0);
}

static inline void pair_done(struct pair *pair)
{
    penstock_close(pair->client);
    server_free(pair->server);
    run_folder_done(&pair->folder);
}

/* Fills and publishes the next batch of `trainer`; its labels are 1000 * sequence + sample. */
static inline void publish_to(struct server *server, uint32_t trainer, uint64_t sequence)
{
    struct ring_layout layout = support_layout(1);
    unsigned char *slot = server_slot(server, trainer, sequence);
    uint32_t rank = server_trainer_rank(server, trainer);
    *(struct slot_header *)slot = (struct slot_header){.epoch = sequence / SUPPORT_STEPS,
                                                       .step = sequence % SUPPORT_STEPS,
                                                       .sample_count = SUPPORT_BATCH,
                                                       .first_position = rank * SUPPORT_BATCH};
    uint64_t *indices = (void *)(slot + layout.indices_offset);
    int64_t *labels = (void *)(slot + layout.fields[1].slot_offset);
    memset(slot + layout.fields[0].slot_offset, (int)sequence & 0xff, SUPPORT_BATCH * 12);
    memset(slot + layout.valid_offset, 1, SUPPORT_BATCH);
    for (uint32_t i = 0; i < SUPPORT_BATCH; i++) {
        indices[i] = sequence * 10 + i;
        labels[i] = (int64_t)(sequence * 1000 + i);
    }
    server_publish(server, trainer);
}

static inline void publish(struct pair *pair)
{
    assert_true(server_slot_free(pair->server, 0, pair->filled));
    publish_to(pair->server, 0, pair->filled++);
}

static inline struct penstock_batch take(struct pair *pair)
{
    struct penstock_batch batch;
    if (penstock_next(pair->client, &batch, 2000) != PENSTOCK_OK)
        fail_msg("penstock_next: %s", penstock_last_error(pair->client));
    return batch;
}

static inline void give(struct pair *pair, const struct penstock_batch *batch)
{
    assert_int_equal(penstock_release(pair->client, batch), PENSTOCK_OK);
}

#endif
