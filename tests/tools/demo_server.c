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
 *     start=K             begin at step K of epoch 0; a single trainer's state goes before this
 *     fail=K              fail after K batches, die=K: exit without a word after K batches
 *     end=K               be told to stop after K batches
 *     reconnect=MS        trainers look for another server for so long
 *     constants=1         hands out "grid/height", float32 [2, 3], and "time", int64 [2]
 *
 * Position p of epoch e holds index (p + 7 * e) % samples; every byte of a sample is (index + byte
 * offset) % 61, but label, which is the index itself, and ragged fields: lengths and items are
 * those of event_length(), point_length() and fill_step(). Prints "ready" once it listens. It ends
 * when all trainers are gone. */
#include "base/clock.h"
#include "base/random.h"
#include "delivery/ring/handout.h"
#include "delivery/server/server.h"
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
    uint64_t trainers, batch, slots, samples, epochs, start, fail, die, end, reconnect, constants;
    bool partial, latents, strings;
    uint64_t ragged_steps; /* of events; 0: no ragged fields */
    struct ring_layout layout;
    struct ring_service service;
    struct server *server;
    uint64_t *published; /* [trainers] batches */
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
    else
        usage(argument);
}

enum { MOST_EVENTS = 400, MOST_STRING_BYTES = 16 };

/* Empty samples, short ones, and a giant one. */
static uint64_t event_length(uint64_t index, uint64_t step)
{
    return index == 3 ? MOST_EVENTS : index % 5 == 0 ? 0 : (index * 7 + step * 3) % 11;
}

static uint64_t point_length(uint64_t index)
{
    return index % 4;
}

static void describe_ragged(struct demo *demo)
{
    struct ring_layout *layout = &demo->layout;
    bool sequences = demo->ragged_steps > 1;
    uint64_t most = demo->batch * demo->ragged_steps * MOST_EVENTS;
    layout->field_count = 6;
    layout->fields[0] = (struct ring_field){.name = "events",
                                            .dtype = DTYPE_FLOAT32,
                                            .kind = RING_ITEMS,
                                            .capacity = most,
                                            .offsets_field = 1};
    layout->fields[1] = (struct ring_field){
        .name = "events.offsets", .dtype = DTYPE_INT64, .rank = sequences, .kind = RING_OFFSETS};
    layout->fields[1].shape[0] = sequences ? demo->ragged_steps : 0;
    layout->fields[2] = layout->fields[0];
    snprintf(layout->fields[2].name, RING_NAME_BYTES, "events.x");
    layout->fields[2].dtype = DTYPE_INT32;
    layout->fields[3] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    layout->fields[4] = (struct ring_field){.name = "points",
                                            .dtype = DTYPE_BFLOAT16,
                                            .rank = 1,
                                            .shape = {3},
                                            .kind = RING_ITEMS,
                                            .capacity = demo->batch * 3,
                                            .offsets_field = 5};
    layout->fields[5] =
        (struct ring_field){.name = "points.offsets", .dtype = DTYPE_INT64, .kind = RING_OFFSETS};
}

static void describe_strings(struct demo *demo)
{
    struct ring_layout *layout = &demo->layout;
    layout->field_count = 5;
    layout->fields[0] = (struct ring_field){.name = "label", .dtype = DTYPE_INT64};
    for (uint32_t f = 1; f < 5; f += 2) {
        struct ring_field *field = &layout->fields[f];
        *field = (struct ring_field){.dtype = DTYPE_UINT8,
                                     .kind = RING_ITEMS,
                                     .capacity = demo->batch * MOST_STRING_BYTES,
                                     .offsets_field = f + 1};
        snprintf(field->name, RING_NAME_BYTES, "%s", f == 1 ? "name" : "raw");
        field[1] = (struct ring_field){.dtype = DTYPE_INT64, .kind = RING_OFFSETS};
        snprintf(field[1].name, RING_NAME_BYTES, "%s.offsets", f == 1 ? "name" : "raw");
    }
}

static void describe(struct demo *demo)
{
    struct ring_layout *layout = &demo->layout;
    layout->slot_count = (uint32_t)demo->slots;
    layout->batch_size = (uint32_t)demo->batch;
    if (demo->strings) {
        describe_strings(demo);
    } else if (demo->ragged_steps > 0) {
        describe_ragged(demo);
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
    uint64_t global = demo->batch * demo->trainers;
    demo->service = (struct ring_service){.world_size = (uint32_t)demo->trainers,
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
        unsigned char *data = slot + field->slot_offset + at * field->sample_bytes;
        if (strcmp(field->name, "label") == 0)
            memcpy(data, &index, sizeof index);
        else
            for (uint64_t byte = 0; byte < field->sample_bytes; byte++)
                data[byte] = (unsigned char)((index + byte) % 61);
    }
}

/* Item number j of a step has the value 1000 * step + index + j / 2, and x index % 7 + j. */
static void fill_step(float *values, int32_t *x, uint64_t index, uint64_t step)
{
    for (uint64_t j = 0; j < event_length(index, step); j++) {
        values[j] = (float)(1000 * step + index) + (float)j / 2;
        x[j] = (int32_t)(index % 7 + j);
    }
}

/* Points have the bits index + place. */
static void fill_ragged(const struct demo *demo, unsigned char *slot, const uint64_t *indices,
                        uint32_t count)
{
    const struct ring_field *fields = demo->layout.fields;
    float *values = (void *)(slot + fields[0].slot_offset);
    int64_t *offsets = (void *)(slot + fields[1].slot_offset);
    int32_t *x = (void *)(slot + fields[2].slot_offset);
    int64_t *labels = (void *)(slot + fields[3].slot_offset);
    uint16_t *points = (void *)(slot + fields[4].slot_offset);
    int64_t *point_offsets = (void *)(slot + fields[5].slot_offset);
    int64_t end = 0, point_end = 0;
    *offsets++ = *point_offsets++ = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint64_t step = 0; step < demo->ragged_steps; step++) {
            fill_step(values + end, x + end, indices[i], step);
            end += (int64_t)event_length(indices[i], step);
            *offsets++ = end;
        }
        for (uint64_t k = 0; k < 3 * point_length(indices[i]); k++)
            points[3 * point_end + (int64_t)k] = (uint16_t)(indices[i] + k);
        point_end += (int64_t)point_length(indices[i]);
        *point_offsets++ = point_end;
        labels[i] = (int64_t)indices[i];
    }
}

/* A sample has the name "s" and index % 7 times e with an acute accent, but each fifth sample none;
 * and index % 3 raw bytes of 255. */
static void fill_strings(const struct demo *demo, unsigned char *slot, const uint64_t *indices,
                         uint32_t count)
{
    const struct ring_field *fields = demo->layout.fields;
    int64_t *labels = (void *)(slot + fields[0].slot_offset);
    unsigned char *names = slot + fields[1].slot_offset, *raw = slot + fields[3].slot_offset;
    int64_t *name_offsets = (void *)(slot + fields[2].slot_offset);
    int64_t *raw_offsets = (void *)(slot + fields[4].slot_offset);
    name_offsets[0] = raw_offsets[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        char name[MOST_STRING_BYTES];
        size_t length = indices[i] % 5 > 0;
        memcpy(name, "s", 1);
        for (uint64_t k = 0; length > 0 && k < indices[i] % 7; k++, length += 2)
            memcpy(name + length, "\xc3\xa9", 2);
        memcpy(names + name_offsets[i], name, length);
        memset(raw + raw_offsets[i], 255, indices[i] % 3);
        name_offsets[i + 1] = name_offsets[i] + (int64_t)length;
        raw_offsets[i + 1] = raw_offsets[i] + (int64_t)(indices[i] % 3);
        labels[i] = (int64_t)indices[i];
    }
}

/* Fills batch number `sequence` of a trainer and publishes it. */
static void publish(struct demo *demo, uint32_t trainer, uint64_t sequence)
{
    const struct ring_service *service = &demo->service;
    uint64_t rank = server_trainer_rank(demo->server, trainer), world = service->world_size;
    uint64_t step = (sequence + demo->start) % service->steps_per_epoch;
    uint64_t epoch = (sequence + demo->start) / service->steps_per_epoch;
    uint64_t begin = step * service->order.global_batch;
    uint64_t size = service->order.global_batch;
    if (demo->partial && demo->samples - begin < size)
        size = demo->samples - begin;
    uint64_t first = rank * size / world, end = (rank + 1) * size / world;

    unsigned char *slot = server_slot(demo->server, trainer, sequence);
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
        fill_ragged(demo, slot, indices, (uint32_t)(end - first));
    if (demo->strings)
        fill_strings(demo, slot, indices, (uint32_t)(end - first));
    server_publish(demo->server, trainer);
}

/* Publishes whatever has a free slot; returns whether anything had. */
static bool serve_once(struct demo *demo, uint64_t total, uint64_t *left)
{
    bool active = false;
    *left = 0;
    for (uint32_t t = 0; t < demo->trainers; t++) {
        uint64_t sequence = demo->published[t];
        if (sequence < total && server_slot_free(demo->server, t, sequence)) {
            publish(demo, t, sequence);
            demo->published[t]++;
            active = true;
        }
        *left += total - demo->published[t];
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
        sources[f] = (struct handout_source){.name = "", .shape = shape, .attributes = "{}"};
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
    if (ring_layout_settle(&demo.layout, &error) != STATUS_OK)
        stop(&error);
    int handout = make_handout(&demo);
    struct server_options options = {.run_dir = demo.run_dir,
                                     .max_trainers = (uint32_t)demo.trainers,
                                     .layout = &demo.layout,
                                     .service = &demo.service,
                                     .handout = handout < 0 ? NULL : &handout,
                                     .reconnect_ms = demo.reconnect,
                                     .read_state = read_state,
                                     .state_argument = &demo};
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
