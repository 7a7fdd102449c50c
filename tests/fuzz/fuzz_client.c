/* Fuzz target for the trainer's side of delivery: libpenstock against a reader that says and writes
 * anything. The input is a script. First the handshake, which a thread plays:
 *
 *     0  WAIT, or a message of any type        2  a WELCOME; what is in it, and with it, may be
 *     1  bytes, with any descriptors              spoilt (enum spoilt); the handshake ends
 *                                              3  hangs up; the handshake ends
 *
 * and then at most 64 steps:
 *
 *     0  the trainer asks for a batch          4  the reader sends a message
 *     1  it releases one                       5  it sends bytes
 *     2  the reader publishes                  6  it hangs up
 *     3  it scribbles in the ring              7  the trainer says goodbye
 *
 * Whatever the reader does, a batch lies in its slot, and no descriptor is left. */
#include "fuzz_ring.h"

#include "base/clock.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/rundir.h"
#include "delivery/ring/wakeup.h"
#include "delivery/server/ring_memory.h"
#include "penstock.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { MOST_STEPS = 64, MOST_MESSAGES = 8, CONNECT_MS = 20 };

/* Where the library looks for its reader; made once. */
static struct {
    char run_dir[96];
    int dir, lock, listener;
} scene;

enum spoilt {
    SPOILT_NOTHING,
    SPOILT_HEADER, /* scribbled in */
    SPOILT_SEALS,
    SPOILT_MEMORY,  /* a pipe instead */
    SPOILT_SIZE,    /* sealed, but longer than its header says */
    SPOILT_PUBLISH, /* a pipe instead of an eventfd */
    SPOILT_RELEASE, /* a file instead of an eventfd */
    SPOILT_BLOCKING,
    SPOILT_KINDS
};

struct reader {
    struct input input;
    int socket; /* -1: hung up */
    struct ring ring;
    int events[2];
    enum spoilt spoilt;
    bool scribbled; /* in the header, so that nothing is known about it */
};

static void leave_scene(void)
{
    rundir_leave(scene.dir, 0);
    rmdir(scene.run_dir);
    fuzz_folder_remove();
}

static void take_scene(void)
{
    snprintf(scene.run_dir, sizeof scene.run_dir, "%s/run", fuzz_folder());
    CHECK(rundir_open(scene.run_dir, true, &scene.dir, NULL) == STATUS_OK);
    CHECK(rundir_claim(scene.dir, 0, NULL, &scene.lock, NULL) == STATUS_OK);
    CHECK(rundir_bind(scene.dir, 0, &scene.listener, NULL) == STATUS_OK);
    CHECK(listen(scene.listener, 16) == 0);
    CHECK(setenv("PENSTOCK_READER", "0", 1) == 0);
    atexit(leave_scene);
}

static void hang_up(struct reader *reader)
{
    if (reader->socket >= 0)
        close(reader->socket);
    reader->socket = -1;
}

static void say(struct reader *reader)
{
    struct protocol_message message = fuzz_protocol(&reader->input);
    const int fds[PACKET_MAX_FDS] = {reader->ring.memfd, reader->events[0], reader->events[1]};
    if (message.type == 0)
        message.type = PROTOCOL_WAIT;
    if (message.type == PROTOCOL_WAIT && message.wait.reconnect_ms <= PROTOCOL_MOST_RECONNECT_MS)
        message.wait.reconnect_ms %= CONNECT_MS; /* a trainer does wait so long */
    if (message.type == PROTOCOL_WELCOME)        /* a whole one comes from welcome() alone */
        return;
    enum status status = protocol_send(reader->socket, &message, fds, NULL);
    (void)status; /* the trainer may have hung up, or there is no such type */
}

static void say_bytes(struct reader *reader)
{
    size_t size, fd_count = take_byte(&reader->input) % (PACKET_MAX_FDS + 1);
    const uint8_t *bytes = take_bytes(&reader->input, take_byte(&reader->input), &size);
    const int fds[PACKET_MAX_FDS] = {reader->events[0], reader->events[0], reader->events[1],
                                     reader->events[1]};
    enum status status = packet_send(reader->socket, bytes, size, fds, fd_count, 0, NULL);
    (void)status;
}

/* Memory with the ring's header and `bytes` more, sealed or not. */
static int copy_ring(const struct ring *ring, bool sealed, off_t more)
{
    int memfd = memfd_create("penstock-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memfd >= 0 && ftruncate(memfd, (off_t)ring->bytes + more) == 0);
    CHECK(pwrite(memfd, ring->memory, sizeof(struct ring_header), 0) ==
          (ssize_t)sizeof(struct ring_header));
    if (sealed)
        CHECK(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    return memfd;
}

/* What is sent instead of descriptor `ret_index` of a WELCOME; -1: nothing. */
static int spoil(struct reader *reader, int *ret_index)
{
    int ends[2];
    switch (reader->spoilt) {
    case SPOILT_SEALS:
        *ret_index = 0;
        return copy_ring(&reader->ring, false, 0);
    case SPOILT_SIZE:
        *ret_index = 0;
        return copy_ring(&reader->ring, true, 4096);
    case SPOILT_MEMORY:
    case SPOILT_PUBLISH:
        *ret_index = reader->spoilt == SPOILT_PUBLISH;
        CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
        close(ends[1]);
        return ends[0];
    case SPOILT_RELEASE:
        *ret_index = 2;
        return memfd_create("penstock-fuzz", MFD_CLOEXEC);
    case SPOILT_BLOCKING:
        *ret_index = 1;
        return eventfd(0, EFD_CLOEXEC);
    default:
        return -1;
    }
}

static void welcome(struct reader *reader)
{
    struct protocol_message message = {.type = PROTOCOL_WELCOME};
    reader->spoilt = take_byte(&reader->input) % SPOILT_KINDS;
    for (int i = take_byte(&reader->input) % 4; reader->spoilt == SPOILT_HEADER && i >= 0; i--)
        fuzz_ring_scribble(&reader->ring, &reader->input);
    int fds[WELCOME_FDS] = {reader->ring.memfd, reader->events[0], reader->events[1]}, index;
    int other = spoil(reader, &index);
    if (other >= 0)
        fds[index] = other;
    enum status status = protocol_send(reader->socket, &message, fds, NULL);
    (void)status;
    if (other >= 0)
        close(other);
}

static void *shake_hands(void *argument)
{
    struct reader *reader = argument;
    struct pollfd polled = {.fd = scene.listener, .events = POLLIN};
    if (poll(&polled, 1, CONNECT_MS) == 1)
        reader->socket = accept4(scene.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (int i = 0; i < MOST_MESSAGES && reader->socket >= 0; i++) {
        uint8_t what = take_byte(&reader->input) % 4;
        if (what == 0)
            say(reader);
        else if (what == 1)
            say_bytes(reader);
        else if (what == 2) {
            welcome(reader);
            return NULL;
        } else
            break;
    }
    hang_up(reader);
    return NULL;
}

static void publish(struct reader *reader)
{
    uint64_t head = atomic_load(&reader->ring.control->head);
    struct slot_header slot = {.epoch = head / FUZZ_RING_STEPS,
                               .step = head % FUZZ_RING_STEPS,
                               .sample_count = FUZZ_RING_BATCH};
    memcpy(ring_slot(&reader->ring, head), &slot, sizeof slot);
    ring_publish(reader->ring.control, head + 1, reader->events[0]);
}

/* Reads all of a batch. */
static void check_batch(const struct penstock *penstock, const struct penstock_batch *batch)
{
    const struct penstock_info *info = penstock_describe(penstock);
    unsigned char sum = 0;
    CHECK(batch->sample_count <= info->batch_size && batch->step < info->steps_per_epoch);
    for (uint32_t i = 0; i < batch->sample_count; i++)
        sum ^= (unsigned char)(batch->indices[i] ^ batch->keys[i] ^ batch->valid[i]);
    for (uint32_t f = 0; f < info->field_count; f++)
        for (uint64_t b = 0; b < penstock_item_count(info, batch, f) * info->fields[f].sample_bytes;
             b++)
            sum ^= ((unsigned char *)batch->data[f])[b];
    __asm__ volatile("" : : "r"(sum)); /* it is read, whatever it is */
}

static void play(struct reader *reader, struct penstock *penstock)
{
    struct penstock_batch batch = {0};
    char state[PENSTOCK_STATE_BYTES];
    for (int i = 0; i < MOST_STEPS && reader->input.left > 0; i++) {
        uint8_t what = take_byte(&reader->input) % 8;
        if (what == 0 && penstock_next(penstock, &batch, 0) == PENSTOCK_OK)
            check_batch(penstock, &batch);
        else if (what == 1)
            (void)penstock_release(penstock, &batch);
        else if (what == 2)
            publish(reader);
        else if (what == 3)
            fuzz_ring_scribble(&reader->ring, &reader->input);
        else if (what == 4 && reader->socket >= 0)
            say(reader);
        else if (what == 5 && reader->socket >= 0)
            say_bytes(reader);
        else if (what == 6)
            hang_up(reader);
        else if (what == 7)
            penstock_leave(penstock);
        CHECK(penstock_state(penstock, state, sizeof state) == PENSTOCK_OK);
    }
}

static void open_reader(struct reader *reader, const uint8_t *data, size_t size)
{
    struct ring_layout layout = fuzz_ring_layout();
    struct ring_service service = fuzz_ring_service(1);
    const struct ring_member member = {.is_there = 1, .fields = UINT64_MAX};
    *reader = (struct reader){.input = {data, size}, .socket = -1};
    CHECK(ring_memory_create(&layout, &service, &member, 1, NULL, NULL, &reader->ring, NULL) ==
          STATUS_OK);
    for (int i = 0; i < 2; i++)
        CHECK(wakeup_new(&reader->events[i], NULL) == STATUS_OK);
}

static void close_reader(struct reader *reader)
{
    hang_up(reader);
    ring_done(&reader->ring);
    for (int i = 0; i < 2; i++)
        close(reader->events[i]);
}

/* Whoever still waits in the listener's backlog. */
static void turn_away_others(void)
{
    for (int fd; (fd = accept4(scene.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;)
        close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!scene.listener)
        take_scene();
    int before = lowest_free_fd();
    struct penstock_options options = {
        .run_dir = scene.run_dir, .world_size = 1, .timeout_ms = CONNECT_MS};
    struct penstock *penstock = NULL;
    char message[PENSTOCK_MESSAGE_BYTES] = "";
    struct reader reader;
    pthread_t thread;
    open_reader(&reader, data, size);
    CHECK(pthread_create(&thread, NULL, shake_hands, &reader) == 0);
    enum penstock_status status = penstock_connect(&options, &penstock, message);
    pthread_join(thread, NULL);
    if (status != PENSTOCK_OK) {
        CHECK(message[0]);
    } else {
        CHECK(reader.spoilt == SPOILT_NOTHING || reader.spoilt == SPOILT_HEADER);
        play(&reader, penstock);
        penstock_close(penstock);
    }
    close_reader(&reader);
    turn_away_others();
    CHECK(lowest_free_fd() == before);
    return 0;
}
