/* demo-server: serves synthetic batches over the real delivery, without MPI and without a dataset,
 * for tests of clients: the Python package and penstock-trainer.
 *
 *     demo-server RUN_DIR [key=value ...]
 *
 *     trainers=1 batch=4 slots=3 samples=40 epochs=2
 *     last=pad|partial    what becomes of samples that do not fill a step
 *     fields=small|latents small: bits bfloat16 [4], image float32 [2, 3], label int64 [];
 *                         latents: latents float16 [20, 4, 32, 32], text float16 [512]
 *     fields=ragged       events float32 with column x int32, points bfloat16 [3], label int64
 *     fields=sequences    the same, with events of three steps
 *     fields=strings      label int64, name (strings of UTF-8) and raw (byte strings)
 *     less=N              a step has N samples fewer: some groups get one fewer than batch
 *     start=K             begin at step K of epoch 0; a single trainer's state goes before this
 *     fail=K              fail after K batches, die=K: exit without a word after K batches
 *     end=K               be told to stop after K batches
 *     reconnect=MS        trainers look for another server for so long
 *     constants=1         hands out "grid/height", float32 [2, 3], and "time", int64 [2]
 *     fields=grid         grid int32 [8, 6], label int64, tokens int32 [16]
 *     mesh=dp:2,tp:2 data=dp   of trainers; batch counts the samples of a group
 *     cut=FIELD:AXIS:OVER:ORDER:SPLIT   cuts a field's axis over axes of the mesh
 *     only=FIELD:AXIS:AT  for trainers there on an axis of the mesh
 *
 * Position p of epoch e holds index (p + 7 * e) % samples; every byte of a sample is (index + byte
 * offset) % 61, but label, which is the index itself, and ragged fields: lengths and items are
 * those of demo_ragged.c. Prints "ready" once it listens. It ends
 * when all trainers are gone. */
#include "base/clock.h"
#include "base/random.h"
#include "delivery/ring/handout.h"
#include "delivery/server/server.h"
#include "demo_groups.h"
#include "demo_ragged.h"
#include "plan/order/plan.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_POLLED = 256, POLL_MS = 50 };

struct demo {
    const char *run_dir;
    uint64_t trainers, batch, less, slots, samples, epochs, start, fail, die, end, reconnect;
    uint64_t constants;
    bool partial, latents, strings, grid;
    uint64_t ragged_steps; /* of events; 0: no ragged fields */
    struct ring_layout layout;
    struct ring_service service;
    struct demo_groups groups;
    struct server *server;
    uint64_t *published; /* of each ring: batches */
};

static _Noreturn void stop(const struct error *error)
{
    fprintf(stderr, "demo-server: %s\n", error->message);
    exit(EXIT_FAILURE);
}

static _Noreturn void usage(const char *argument)
{
    fprintf(stderr, "demo-server: '%s'? usage: demo-server RUN_DIR [key=value ...]\n", argument);
    exit(64);
}

static void parse_argument(struct demo *demo, const char *argument)
{
    const struct {
        const char *key;
        uint64_t *value;
    } numbers[] = {{"trainers=", &demo->trainers},
                   {"batch=", &demo->batch},
                   {"less=", &demo->less},
                   {"slots=", &demo->slots},
                   {"samples=", &demo->samples},
                   {"epochs=", &demo->epochs},
                   {"start=", &demo->start},
                   {"fail=", &demo->fail},
                   {"die=", &demo->die},
                   {"end=", &demo->end},
                   {"reconnect=", &demo->reconnect},
                   {"constants=", &demo->constants}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t length = strlen(numbers[i].key);
        if (strncmp(argument, numbers[i].key, length) == 0) {
            *numbers[i].value = strtoull(argument + length, NULL, 10);
            return;
        }
    }
    if (strcmp(argument, "last=pad") == 0)
        demo->partial = false;
    else if (strcmp(argument, "last=partial") == 0)
        demo->partial = true;
    else if (strcmp(argument, "fields=small") == 0)
        demo->latents = false;
    else if (strcmp(argument, "fields=latents") == 0)
        demo->latents = true;
    else if (strcmp(argument, "fields=ragged") == 0)
        demo->ragged_steps = 1;
    else if (strcmp(argument, "fields=sequences") == 0)
        demo->ragged_steps = 3;
    else if (strcmp(argument, "fields=strings") == 0)
        demo->strings = true;
    else if (strcmp(argument, "fields=grid") == 0)
        demo->grid = true;
    else if (!demo_groups_take(&demo->groups, argument))
        usage(argument);
}

static void describe(struct demo *demo)
{
    struct ring_layout *layout = &demo->layout;
    struct error error;
    layout->slot_count = (uint32_t)demo->slots;
    layout->batch_size = (uint32_t)demo->batch;
    if (demo->strings) {
        demo_describe_strings(layout);
    } else if (demo->grid) {
        layout->field_count = 3;
        layout->fields[0] =
            (struct ring_field){.name = "grid", .dtype = DTYPE_INT32, .rank = 2, .shape = {8, 6}};
        layout->fields[1] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
        layout->fields[2] =
            (struct ring_field){.name = "tokens", .dtype = DTYPE_INT32, .rank = 1, .shape = {16}};
    } else if (demo->ragged_steps > 0) {
        demo_describe_ragged(layout, demo->ragged_steps);
    } else if (demo->latents) {
        layout->field_count = 2;
        layout->fields[0] = (struct ring_field){
            .name = "latents", .dtype = DTYPE_FLOAT16, .rank = 4, .shape = {20, 4, 32, 32}};
        layout->fields[1] =
            (struct ring_field){.name = "text", .dtype = DTYPE_FLOAT16, .rank = 1, .shape = {512}};
    } else {
        layout->field_count = 3;
        layout->fields[0] =
            (struct ring_field){.name = "bits", .dtype = DTYPE_BFLOAT16, .rank = 1, .shape = {4}};
        layout->fields[1] = (struct ring_field){
            .name = "image", .dtype = DTYPE_FLOAT32, .rank = 2, .shape = {2, 3}};
        layout->fields[2] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    }
    if (demo_groups_settle(&demo->groups, (uint32_t)demo->trainers, layout, &error) != STATUS_OK ||
        ring_layout_settle(layout, &error) != STATUS_OK)
        stop(&error);
    uint64_t global = demo->batch * mesh_group_count(&demo->groups.mesh) - demo->less;
    demo->service = (struct ring_service){.world_size = (uint32_t)demo->trainers,
                                          .mesh = demo->groups.mesh,
                                          .dataset_samples = demo->samples,
                                          .steps_per_epoch = (demo->samples + global - 1) / global,
                                          .epochs = demo->epochs,
                                          .start_step = demo->start,
                                          .order = {.id = 0xfedcba9876543210,
                                                    .fingerprint = 0x0123456789abcdef,
                                                    .seed = 17,
                                                    .global_batch = (uint32_t)global,
                                                    .row_length = 1,
                                                    .window_rows = 64,
                                                    .last = demo->partial ? PLAN_PARTIAL : PLAN_PAD,
                                                    .shuffle = 1}};
}

/* The demo's only check of a state is that it has a step; the epoch is 0 if there is none. */
static enum status read_state(void *argument, uint32_t rank, const char *json, bool goes_on,
                              uint64_t *ret_cursor, struct error *err)
{
    const struct demo *demo = argument;
    (void)rank;
    (void)goes_on;
    const char *epoch = strstr(json, "\"epoch\":"), *step = strstr(json, "\"step\":");
    if (!step)
        return error_set(err, STATUS_INVALID, "the state has no step");
    *ret_cursor = strtoull(step + strlen("\"step\":"), NULL, 10);
    if (epoch)
        *ret_cursor +=
            strtoull(epoch + strlen("\"epoch\":"), NULL, 10) * demo->service.steps_per_epoch;
    return STATUS_OK;
}

/* Runs the server until all trainers are there, then starts it. */
static void gather(struct demo *demo)
{
    struct error error;
    while (server_trainer_count(demo->server) < demo->trainers) {
        bool active;
        if (server_progress(demo->server, &active, &error) != STATUS_OK)
            fprintf(stderr, "demo-server: %s\n", error.message);
        struct pollfd fds[MAX_POLLED];
        size_t sockets;
        size_t count = server_pollfds(demo->server, fds, MAX_POLLED, &sockets);
        if (!active)
            poll(fds, (nfds_t)count, POLL_MS);
    }
    uint64_t cursor;
    if (server_trainer_wish(demo->server, 0, &cursor) != WISH_FRESH)
        demo->start = cursor;
    server_set_start(demo->server, demo->start);
    if (server_start(demo->server, &error) != STATUS_OK)
        stop(&error);
}

static void fill_sample(const struct demo *demo, unsigned char *slot, uint32_t at, uint64_t index)
{
    for (uint32_t f = 0; f < demo->layout.field_count; f++) {
        const struct ring_field *field = &demo->layout.fields[f];
        unsigned char sample[20 * 4 * 32 * 32 * 2]; /* of the largest field */
        if (strcmp(field->name, "label") == 0)
            memcpy(sample, &index, sizeof index);
        else
            for (uint64_t byte = 0; byte < field->sample_bytes; byte++)
                sample[byte] = (unsigned char)((index + byte) % 61);
        demo_groups_put(&demo->layout, f, at, sample, slot);
    }
}

/* Fills batch number `sequence` of a ring and publishes it. */
static void publish(struct demo *demo, uint32_t ring, uint64_t sequence)
{
    const struct ring_service *service = &demo->service;
    uint64_t group = server_ring_group(demo->server, ring);
    uint64_t groups = mesh_group_count(&service->mesh);
    uint64_t step = (sequence + demo->start) % service->steps_per_epoch;
    uint64_t epoch = (sequence + demo->start) / service->steps_per_epoch;
    uint64_t begin = step * service->order.global_batch;
    uint64_t size = service->order.global_batch;
    if (demo->partial && demo->samples - begin < size)
        size = demo->samples - begin;
    uint64_t first = group * size / groups, end = (group + 1) * size / groups;

    unsigned char *slot = server_slot(demo->server, ring, sequence);
    uint64_t *indices = (void *)(slot + demo->layout.indices_offset);
    uint64_t *keys = (void *)(slot + demo->layout.keys_offset);
    *(struct slot_header *)slot = (struct slot_header){.epoch = epoch,
                                                       .step = step,
                                                       .sample_count = (uint32_t)(end - first),
                                                       .first_position = (uint32_t)first};
    for (uint32_t i = 0; i < end - first; i++) {
        uint64_t position = begin + first + i;
        indices[i] = (position + 7 * epoch) % demo->samples;
        keys[i] = random_u64(service->order.seed, epoch, indices[i]);
        slot[demo->layout.valid_offset + i] = position < demo->samples;
        if (demo->ragged_steps == 0 && !demo->strings)
            fill_sample(demo, slot, i, indices[i]);
    }
    if (demo->ragged_steps > 0)
        demo_fill_ragged(&demo->layout, demo->ragged_steps, slot, indices, (uint32_t)(end - first));
    if (demo->strings)
        demo_fill_strings(&demo->layout, slot, indices, (uint32_t)(end - first));
    server_publish(demo->server, ring);
}

/* Publishes whatever has a free slot; returns whether anything had. */
static bool serve_once(struct demo *demo, uint64_t total, uint64_t *left)
{
    bool active = false;
    *left = 0;
    for (uint32_t r = 0; r < server_ring_count(demo->server); r++) {
        uint64_t sequence = demo->published[r];
        if (sequence < total && server_slot_free(demo->server, r, sequence)) {
            publish(demo, r, sequence);
            demo->published[r]++;
            active = true;
        }
        *left += total - demo->published[r];
    }
    return active;
}

static void sleep_a_little(struct demo *demo, int ms)
{
    struct pollfd fds[MAX_POLLED];
    size_t sockets;
    size_t count = server_pollfds(demo->server, fds, MAX_POLLED, &sockets);
    poll(fds, (nfds_t)count, ms);
}

static void serve(struct demo *demo)
{
    uint64_t total = demo->service.steps_per_epoch * demo->epochs - demo->start;
    uint64_t planned = total;
    if (demo->fail && demo->fail < total)
        total = demo->fail;
    if (demo->end && demo->end < total)
        total = demo->end;
    if (demo->die && demo->die < total)
        total = demo->die;
    for (uint64_t left = 1; left > 0;) {
        bool heard;
        enum status status = server_progress(demo->server, &heard, NULL);
        (void)status; /* late comers are told by the server */
        if (serve_once(demo, total, &left) || heard)
            continue;
        server_arm(demo->server, 0);
        if (!serve_once(demo, total, &left))
            sleep_a_little(demo, POLL_MS);
        server_disarm(demo->server);
    }
    if (demo->die && total < planned)
        _exit(3);
    struct error outcome;
    error_set(&outcome, STATUS_ENDED, "all epochs are consumed");
    if (demo->fail && total < planned)
        error_set(&outcome, STATUS_CORRUPT,
                  "reader 0 on node demo: array 'image' chunk 3.0: made to fail");
    server_finish(demo->server, &outcome);
}

static void await_goodbyes(struct demo *demo)
{
    for (;;) {
        bool active, connected = false;
        enum status status = server_progress(demo->server, &active, NULL);
        (void)status;
        for (uint32_t t = 0; t < demo->trainers; t++)
            connected |= server_trainer_state(demo->server, t, NULL) == SERVER_PEER_CONNECTED;
        if (!connected)
            return;
        sleep_a_little(demo, POLL_MS);
    }
}

static void tell(const struct demo *demo)
{
    for (uint32_t t = 0; t < demo->trainers; t++) {
        struct error error;
        uint64_t epoch, step;
        uint32_t rank = server_trainer_rank(demo->server, t);
        server_trainer_goodbye(demo->server, t, &epoch, &step);
        if (server_trainer_state(demo->server, t, &error) == SERVER_PEER_LOST)
            printf("%s\n", error.message);
        else
            printf("trainer %" PRIu32 " said goodbye at epoch %" PRIu64 " step %" PRIu64 "\n", rank,
                   epoch, step);
    }
}

/* -1: there are no constants. */
static int make_handout(const struct demo *demo)
{
    static const float heights[] = {0, 1, 2, 3, 4, 5};
    static const int64_t times[] = {INT64_C(1) << 40, -1};
    static const uint64_t shape[] = {2, 3};
    struct handout_source sources[RING_MAX_FIELDS + 2] = {0};
    uint32_t fields = demo->layout.field_count;
    int memfd = -1;
    struct error error;
    if (!demo->constants && !demo->strings)
        return -1;
    for (uint32_t f = 0; f < fields; f++)
        sources[f] = (struct handout_source){
            .name = demo->layout.fields[f].name, .shape = shape, .attributes = "{}"};
    if (demo->strings) {
        sources[1].attributes = "{\"encoding\":\"utf-8\"}";
        sources[3].attributes = "{\"encoding\":\"bytes\"}";
    }
    sources[fields] = (struct handout_source){.name = "grid/height",
                                              .dtype = DTYPE_FLOAT32,
                                              .rank = 2,
                                              .shape = shape,
                                              .data = heights,
                                              .data_bytes = sizeof heights,
                                              .attributes = "{\"units\":\"m\"}"};
    sources[fields + 1] = (struct handout_source){.name = "time",
                                                  .dtype = DTYPE_INT64,
                                                  .rank = 1,
                                                  .shape = shape,
                                                  .data = times,
                                                  .data_bytes = sizeof times,
                                                  .attributes = "{}"};
    if (handout_create(sources, fields, 2, &memfd, &error) != STATUS_OK)
        stop(&error);
    return memfd;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        usage("");
    struct demo demo = {
        .run_dir = argv[1], .trainers = 1, .batch = 4, .slots = 3, .samples = 40, .epochs = 2};
    for (int i = 2; i < argc; i++)
        parse_argument(&demo, argv[i]);
    describe(&demo);
    struct error error;
    int handout = make_handout(&demo);
    struct server_options options = {.run_dir = demo.run_dir,
                                     .max_trainers = (uint32_t)demo.trainers,
                                     .layout = &demo.layout,
                                     .service = &demo.service,
                                     .handout = handout < 0 ? NULL : &handout,
                                     .reconnect_ms = demo.reconnect,
                                     .read_state = read_state,
                                     .state_argument = &demo,
                                     .describe = demo_groups_describe,
                                     .describe_argument = &demo.groups};
    if (server_new(&options, &demo.server, &error) != STATUS_OK ||
        server_listen(demo.server, &error) != STATUS_OK)
        stop(&error);
    demo.published = calloc(demo.trainers + 1, sizeof *demo.published);
    if (!demo.published)
        abort();
    puts("ready");
    fflush(stdout);
    gather(&demo);
    serve(&demo);
    await_goodbyes(&demo);
    tell(&demo);
    server_free(demo.server);
    free(demo.published);
    return EXIT_SUCCESS;
}
