/* Fuzz target for the reader's side of delivery: what trainers send, and what they write into their
 * rings and pages. The input is a script of at most 64 steps; a byte says what is done, those
 * behind it how:
 *
 *     0  a connection more                         5  the reader publishes where a slot is free
 *     1  one of them sends a message               6  a trainer scribbles in its ring
 *     2  it sends bytes                            7  a trainer releases what there is
 *     3  it hangs up                               8  the reader starts delivery
 *     4  it takes what the reader has sent         9  the reader tells of an end or a failure
 *    10  a trainer says where it is               11  the reader begins another session
 *
 * After each the reader looks at everything. Whatever was done, its numbers stay possible, and
 * nothing is left: no descriptor, no file. */
#include "fuzz_ring.h"

#include "delivery/ring/cursor_page.h"
#include "delivery/ring/fdpass.h"
#include "delivery/ring/rundir.h"
#include "delivery/ring/wakeup.h"
#include "delivery/server/server.h"

#include <stdbool.h>
#include <sys/stat.h>

enum { CONNECTIONS = 4, TRAINERS = 3, MOST_STEPS = 64 };

static const uint64_t end_cursor = (uint64_t)FUZZ_RING_EPOCHS * FUZZ_RING_STEPS;

/* A trainer's end, of whatever manners. */
struct caller {
    int socket; /* -1: none */
    struct cursor_page page;
    struct ring ring;
    int events[2];
};

struct stage {
    char run_dir[96];
    struct server *server;
    struct caller callers[CONNECTIONS];
    uint64_t published[TRAINERS];
    bool started, finished;
};

static void hang_up(struct caller *caller)
{
    ring_done(&caller->ring);
    cursor_page_done(&caller->page);
    for (int i = 0; i < 2; i++)
        if (caller->events[i] >= 0)
            close(caller->events[i]);
    if (caller->socket >= 0)
        close(caller->socket);
    *caller = (struct caller){.socket = -1, .ring = {.memfd = -1}, .events = {-1, -1}};
}

static void call(struct stage *stage)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        if (stage->callers[i].socket >= 0)
            continue;
        int dir;
        CHECK(rundir_open(stage->run_dir, false, &dir, NULL) == STATUS_OK);
        CHECK(rundir_connect(dir, 0, &stage->callers[i].socket, NULL) == STATUS_OK);
        CHECK(cursor_page_new(&stage->callers[i].page, NULL) == STATUS_OK);
        close(dir);
        return;
    }
}

static void send_message(struct caller *caller, struct input *input)
{
    struct protocol_message message = fuzz_protocol(input);
    const int fds[PACKET_MAX_FDS] = {caller->page.memfd, caller->socket, caller->socket};
    enum status status = protocol_send(caller->socket, &message, fds, NULL);
    (void)status; /* the reader may have hung up, or there is no such type */
}

static void send_bytes(struct caller *caller, struct input *input)
{
    size_t size, fd_count = take_byte(input) % (PACKET_MAX_FDS + 1);
    const uint8_t *bytes = take_bytes(input, take_byte(input), &size);
    const int fds[PACKET_MAX_FDS] = {caller->socket, caller->socket, caller->socket,
                                     caller->socket};
    enum status status = packet_send(caller->socket, bytes, size, fds, fd_count, 0, NULL);
    (void)status;
}

/* Takes a ring if one comes. */
static void listen_to_reader(struct caller *caller)
{
    struct protocol_message message;
    struct ring_header header;
    struct ring_member member;
    int fds[WELCOME_FDS];
    enum status status = protocol_receive(caller->socket, &message, fds, NULL);
    CHECK(status == STATUS_OK || status == STATUS_TIMEOUT || status == STATUS_LOST);
    if (status != STATUS_OK || message.type != PROTOCOL_WELCOME)
        return;
    CHECK(caller->ring.memfd < 0);
    CHECK(ring_open(fds[0], message.welcome.member, &caller->ring, &header, &member, NULL) ==
          STATUS_OK);
    memcpy(caller->events, fds + 1, sizeof caller->events);
}

static void release(struct caller *caller)
{
    atomic_store(&caller->ring.control->tail, atomic_load(&caller->ring.control->head));
    wakeup_signal(caller->events[1]);
}

static void publish(struct stage *stage)
{
    for (uint32_t t = 0; stage->started && t < server_trainer_count(stage->server); t++) {
        uint64_t *sequence = &stage->published[t];
        if (!server_slot_free(stage->server, t, *sequence))
            continue;
        struct slot_header slot = {.epoch = *sequence / FUZZ_RING_STEPS,
                                   .step = *sequence % FUZZ_RING_STEPS,
                                   .sample_count = FUZZ_RING_BATCH};
        memcpy(server_slot(stage->server, t, (*sequence)++), &slot, sizeof slot);
        server_publish(stage->server, t);
    }
}

static void start(struct stage *stage)
{
    uint64_t cursor;
    if (stage->started || stage->finished || server_trainer_count(stage->server) == 0)
        return;
    stage->started = true;
    memset(stage->published, 0, sizeof stage->published);
    for (uint32_t t = 0; t < server_trainer_count(stage->server); t++)
        if (server_trainer_wish(stage->server, t, &cursor) != WISH_FRESH)
            server_set_first(stage->server, t, cursor);
    CHECK(server_start(stage->server, NULL) == STATUS_OK);
}

static void start_again(struct stage *stage)
{
    if (!stage->started || stage->finished)
        return;
    stage->started = false;
    server_restart(stage->server);
}

static void finish(struct stage *stage, bool ended)
{
    struct error outcome;
    if (stage->finished)
        return;
    stage->finished = true;
    error_set(&outcome, ended ? STATUS_ENDED : STATUS_IO, "so it is");
    server_finish(stage->server, &outcome);
}

static void step(struct stage *stage, struct input *input)
{
    uint8_t what = take_byte(input);
    struct caller *caller = &stage->callers[what / 16 % CONNECTIONS];
    bool has_ring = caller->ring.memory;
    what %= 16;
    if (what == 0)
        call(stage);
    else if (what == 1 && caller->socket >= 0)
        send_message(caller, input);
    else if (what == 2 && caller->socket >= 0)
        send_bytes(caller, input);
    else if (what == 3)
        hang_up(caller);
    else if (what == 4 && caller->socket >= 0)
        listen_to_reader(caller);
    else if (what == 5)
        publish(stage);
    else if (what == 6 && has_ring)
        fuzz_ring_scribble(&caller->ring, input);
    else if (what == 7 && has_ring)
        release(caller);
    else if (what == 8)
        start(stage);
    else if (what == 9)
        finish(stage, take_byte(input) % 2);
    else if (what == 10 && caller->page.cursor)
        atomic_store(caller->page.cursor, take_number(input, 8));
    else if (what == 11)
        start_again(stage);
}

static void check_trainer(const struct stage *stage, uint32_t t)
{
    struct error err = {0};
    uint64_t backlog = server_trainer_backlog(stage->server, t);
    enum server_peer state = server_trainer_state(stage->server, t, &err);
    CHECK(server_trainer_rank(stage->server, t) < TRAINERS);
    CHECK(backlog <= FUZZ_RING_SLOTS);
    CHECK(server_trainer_cursor(stage->server, t) <= end_cursor);
    CHECK(state == SERVER_PEER_CONNECTED || backlog == 0);
    CHECK((state == SERVER_PEER_LOST) == (err.status != STATUS_OK));
}

static void look(struct stage *stage)
{
    struct pollfd polled[64];
    size_t sockets;
    struct error err;
    uint32_t rank;
    uint64_t cursor;
    bool active;
    server_arm(stage->server, 5);
    server_disarm(stage->server);
    enum status status = server_progress(stage->server, &active, &err);
    CHECK(status == STATUS_OK || (err.status == (int32_t)status && err.message[0]));
    CHECK(server_pollfds(stage->server, polled, 64, &sockets) < 64);
    server_announce(stage->server, server_trainer_count(stage->server), TRAINERS);
    CHECK(server_trainer_count(stage->server) <= TRAINERS);
    for (uint32_t t = 0; t < server_trainer_count(stage->server); t++)
        check_trainer(stage, t);
    while (!stage->started && server_take_parted(stage->server, &rank, &cursor))
        CHECK(rank < TRAINERS && cursor <= end_cursor);
}

/* A state is a number here. */
static enum status read_cursor(void *argument, uint32_t rank, const char *json, bool goes_on,
                               uint64_t *ret_cursor, struct error *err)
{
    (void)rank;
    (void)argument;
    (void)goes_on;
    (void)err;
    *ret_cursor = strtoull(json, NULL, 10) % (end_cursor + 1);
    return STATUS_OK;
}

static void open_stage(struct stage *stage)
{
    struct ring_layout layout = fuzz_ring_layout();
    struct ring_service service = fuzz_ring_service(TRAINERS);
    struct server_options options = {.run_dir = stage->run_dir,
                                     .max_trainers = TRAINERS,
                                     .layout = &layout,
                                     .service = &service,
                                     .read_state = read_cursor};
    struct error err;
    snprintf(stage->run_dir, sizeof stage->run_dir, "%s/run", fuzz_folder());
    if (server_new(&options, &stage->server, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    CHECK(server_listen(stage->server, NULL) == STATUS_OK);
    for (int i = 0; i < CONNECTIONS; i++)
        stage->callers[i] =
            (struct caller){.socket = -1, .ring = {.memfd = -1}, .events = {-1, -1}};
}

static void close_stage(struct stage *stage)
{
    struct stat info;
    server_free(stage->server);
    for (int i = 0; i < CONNECTIONS; i++)
        hang_up(&stage->callers[i]);
    CHECK(stat(stage->run_dir, &info) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool prepared;
    if (!prepared)
        atexit(fuzz_folder_remove);
    prepared = true;
    int before = lowest_free_fd();
    struct input input = {data, size};
    struct stage stage = {0};
    open_stage(&stage);
    for (int i = 0; i < MOST_STEPS && input.left > 0; i++) {
        step(&stage, &input);
        look(&stage);
    }
    close_stage(&stage);
    CHECK(lowest_free_fd() == before);
    return 0;
}
