/* A trainer of any length of life sees every batch, and after each death goes on behind the last
 * one that was released, in order: random sequences of takes, releases in any order, deaths of the
 * trainer, deaths of its reader, and sessions that end for another's sake, against a model of two
 * numbers. What a job of readers does between sessions (mpi/job/session.c) is played here, for
 * one trainer. Deaths are sessions and servers that are freed without a word. */
#include "delivery_support.h"

#include "base/random.h"
#include "delivery/client/loader.h"

#include <unistd.h>

enum { EPOCHS = 2, END = EPOCHS * SUPPORT_STEPS, SEEDS = 50, TURNS = 120, MOST_LEASED = 64 };

struct world {
    struct run_folder folder;
    char files[80]; /* prefix of cursor files; "": none */
    uint64_t seed, drawn;
    struct server *server; /* NULL: dead */
    bool delivers;
    bool knows;                /* the server has heard the trainer's HELLO */
    uint64_t start, published; /* of the session under way */
    uint64_t left_off; /* cursor + 1, as readers have noted and a supervisor keeps; 0: nothing */
    struct loader *trainer; /* NULL: dead */
    struct loader_batch leased[MOST_LEASED];
    uint32_t leased_count;
    uint64_t next; /* the model: cursor of the batch that comes next */
    bool counts;   /* the trainer says itself up to where it is done: trained */
    uint64_t trained;
    char log[16384];
    size_t log_length;
};

static void note(struct world *world, char what)
{
    if (world->log_length + 1 < sizeof world->log)
        world->log[world->log_length++] = what;
}

static uint64_t draw(struct world *world, uint64_t bound)
{
    return random_u64(world->seed, 0, world->drawn++) % bound;
}

#define CHECK(world, good, ...)                                                 \
    do {                                                                        \
        if (!(good)) {                                                          \
            print_error(__VA_ARGS__);                                           \
            fail_msg(" (seed %" PRIu64 "%s, after %s)", (world)->seed,          \
                     (world)->files[0] ? "" : ", without files", (world)->log); \
        }                                                                       \
    } while (0)

static uint64_t cursor_of(const struct loader_batch *batch)
{
    return batch->header.epoch * SUPPORT_STEPS + batch->header.step;
}

/* The model: the cursor behind the last batch that was released, in order, and that the trainer is
 * done with. */
static uint64_t released(const struct world *world)
{
    uint64_t least = world->counts ? world->trained : world->next;
    for (uint32_t i = 0; i < world->leased_count; i++)
        if (cursor_of(&world->leased[i]) < least)
            least = cursor_of(&world->leased[i]);
    return least;
}

static enum status read_cursor(void *argument, uint32_t rank, const char *json, bool goes_on,
                               uint64_t *ret_cursor, struct error *err)
{
    (void)rank;
    (void)argument;
    (void)goes_on;
    (void)err;
    *ret_cursor = strtoull(strstr(json, "\"epoch\":") + 8, NULL, 10) * SUPPORT_STEPS +
                  strtoull(strstr(json, "\"step\":") + 7, NULL, 10);
    return STATUS_OK;
}

static void start_reader(struct world *world)
{
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    struct ring_service service = support_service(1);
    service.epochs = EPOCHS;
    struct server_options options = {.run_dir = world->folder.path,
                                     .max_trainers = 1,
                                     .layout = &layout,
                                     .service = &service,
                                     .reconnect_ms = 20000,
                                     .read_state = read_cursor};
    assert_int_equal(server_new(&options, &world->server, NULL), STATUS_OK);
    assert_int_equal(server_listen(world->server, NULL), STATUS_OK);
    note(world, 'R');
}

static void kill_reader(struct world *world)
{
    server_free(world->server);
    world->server = NULL;
    world->delivers = world->knows = false;
    note(world, 'r');
}

static void note_cursor(struct world *world, uint64_t cursor)
{
    if (world->left_off < cursor + 1)
        world->left_off = cursor + 1;
}

static void progress(struct world *world)
{
    bool active;
    uint32_t rank;
    uint64_t cursor;
    assert_int_equal(server_progress(world->server, &active, NULL), STATUS_OK);
    while (!world->delivers && server_take_parted(world->server, &rank, &cursor))
        note_cursor(world, cursor);
    world->knows |= server_trainer_count(world->server) > 0;
    if (!world->delivers && server_trainer_count(world->server) > 0 &&
        server_trainer_wish(world->server, 0, &cursor) == WISH_CONTINUE)
        note_cursor(world, server_trainer_cursor(world->server, 0));
}

/* The session ends; the trainer, if it lives, is to come again. */
static void end_session(struct world *world)
{
    uint64_t cursor = server_trainer_cursor(world->server, 0);
    CHECK(world, cursor == released(world), "the reader saw %" PRIu64 " released, not %" PRIu64,
          cursor, released(world));
    note_cursor(world, cursor);
    server_restart(world->server);
    world->delivers = false;
    note(world, 's');
}

static void end_trainer(struct world *world)
{
    loader_close(world->trainer);
    world->trainer = NULL;
    world->next = world->trained = released(world);
    world->leased_count = 0;
    note(world, 't');
}

static void kill_trainer(struct world *world)
{
    end_trainer(world);
    if (!world->server)
        return;
    progress(world);
    progress(world); /* its HELLO may have been heard only now */
    if (!world->delivers)
        return;
    assert_int_equal(server_trainer_state(world->server, 0, NULL), SERVER_PEER_LOST);
    end_session(world);
}

/* Who is there gets its ring. */
static void start_session(struct world *world)
{
    uint64_t first = 0;
    if (server_trainer_wish(world->server, 0, &first) == WISH_FRESH)
        first = world->left_off ? world->left_off - 1 : 0;
    else if (world->left_off > first + 1)
        first = world->left_off - 1;
    CHECK(world, first == world->next, "goes on at %" PRIu64 ", not at %" PRIu64, first,
          world->next);
    world->start = first - draw(world, first < 5 ? first + 1 : 5); /* for another's sake */
    world->published = 0;
    server_set_start(world->server, world->start);
    server_set_first(world->server, 0, first);
    assert_int_equal(server_start(world->server, NULL), STATUS_OK);
    world->delivers = true;
    world->left_off = 0;
    note(world, 'S');
}

struct opening {
    struct dial_options options;
    struct loader *loader;
    enum status status;
    struct error error;
};

static void *open_thread(void *argument)
{
    struct opening *opening = argument;
    bool connected;
    opening->status = loader_new(&opening->options, &opening->loader, &opening->error);
    if (opening->status == STATUS_OK)
        opening->status = loader_connect(opening->loader, UINT64_MAX, &connected, &opening->error);
    return NULL;
}

static void train(struct world *world, uint64_t cursor)
{
    world->trained = cursor;
    assert_int_equal(
        loader_trained(world->trainer, cursor / SUPPORT_STEPS, cursor % SUPPORT_STEPS, NULL),
        STATUS_OK);
    note(world, '=');
}

static void start_trainer(struct world *world)
{
    struct opening opening = {.options = {.run_dir = world->folder.path,
                                          .world_size = 1,
                                          .local_world_size = 1,
                                          .timeout_ms = 20000,
                                          .cursors = world->files[0] ? world->files : NULL}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_thread, &opening), 0);
    while (server_trainer_count(world->server) == 0) {
        progress(world);
        clock_sleep_ns(50000);
    }
    start_session(world);
    pthread_join(thread, NULL);
    CHECK(world, opening.status == STATUS_OK, "loader_connect: %s", opening.error.message);
    world->trainer = opening.loader;
    note(world, 'T');
    if (world->counts)
        train(world, world->next);
}

static void publish_batches(struct world *world, uint64_t count)
{
    for (; count > 0 && world->start + world->published < END &&
           server_slot_free(world->server, 0, world->published);
         count--) {
        uint64_t cursor = world->start + world->published;
        *(struct slot_header *)server_slot(world->server, 0, world->published++) =
            (struct slot_header){.epoch = cursor / SUPPORT_STEPS,
                                 .step = cursor % SUPPORT_STEPS,
                                 .sample_count = SUPPORT_BATCH};
        server_publish(world->server, 0);
    }
}

/* Also how a trainer that has lost its reader looks for the next one. */
static void take_one(struct world *world)
{
    struct loader_batch batch;
    struct error error;
    enum status status = loader_next(world->trainer, 0, &batch, &error);
    CHECK(world, status == STATUS_OK || status == STATUS_TIMEOUT || status == STATUS_INVALID,
          "next: %s", error.message);
    if (status != STATUS_OK)
        return;
    CHECK(world, cursor_of(&batch) == world->next, "got %" PRIu64 ", not %" PRIu64,
          cursor_of(&batch), world->next);
    world->next++;
    assert_true(world->leased_count < MOST_LEASED);
    world->leased[world->leased_count++] = batch;
    note(world, '+');
}

static void release_at(struct world *world, uint64_t at)
{
    const struct loader_batch *batch = &world->leased[at];
    assert_int_equal(
        loader_release(world->trainer, batch->slot, batch->header.epoch, batch->header.step, NULL),
        STATUS_OK);
    world->leased[at] = world->leased[--world->leased_count];
    note(world, '-');
}

static void release_one(struct world *world)
{
    release_at(world, draw(world, world->leased_count));
}

/* A trainer that lives looks for the reader, and may have said hello then. */
static void look_for_reader(struct world *world)
{
    for (int i = 0; i < 4 && server_trainer_count(world->server) == 0; i++) {
        take_one(world);
        progress(world);
    }
}

/* The trainer is with the reader, or is on its way there. */
static void come_together(struct world *world)
{
    if (!world->trainer) {
        start_trainer(world);
        return;
    }
    look_for_reader(world);
    if (server_trainer_count(world->server) > 0 && draw(world, 2))
        start_session(world);
}

/* Whether somebody would remember where a trainer that dies now has been. */
static bool may_die(const struct world *world)
{
    return world->trainer && (world->files[0] || world->knows);
}

static void turn(struct world *world)
{
    enum { TAKE = 40, RELEASE = 70, READER = 80, TRAINER = 90, SESSION = 94, ALL = 100 };
    uint64_t what = draw(world, ALL);
    if (what < TAKE && world->trainer) {
        if (world->delivers)
            publish_batches(world, draw(world, SUPPORT_SLOTS + 1));
        take_one(world);
    } else if (what < RELEASE) {
        if (world->counts && world->trainer && draw(world, 2))
            train(world, world->trained + draw(world, world->next - world->trained + 1));
        else if (world->leased_count > 0)
            release_one(world);
    } else if (what < READER) {
        if (world->server)
            kill_reader(world);
    } else if (what < TRAINER) {
        if (may_die(world))
            kill_trainer(world);
    } else if (what < SESSION && world->delivers) {
        end_session(world);
    }
    if (!world->server && draw(world, 3) == 0)
        start_reader(world);
    if (world->server && draw(world, 2))
        progress(world);
    if (world->server && !world->delivers && draw(world, 2))
        come_together(world);
}

static struct world world_new(uint64_t seed, bool files)
{
    struct world world = {.folder = run_folder_new(), .seed = seed, .counts = seed % 2};
    if (files)
        snprintf(world.files, sizeof world.files, "%s-cursor-", world.folder.path);
    start_reader(&world);
    start_trainer(&world);
    return world;
}

/* All that is left is had, and nobody is in the way of the end. */
static void world_done(struct world *world)
{
    for (int i = 0; i < 2000 && (!world->trainer || released(world) < END); i++) {
        if (!world->server)
            start_reader(world);
        progress(world);
        if (!world->delivers)
            come_together(world);
        if (world->delivers)
            publish_batches(world, draw(world, SUPPORT_SLOTS + 1));
        take_one(world);
        while (world->leased_count > 0)
            release_one(world);
        if (world->counts && world->trainer)
            train(world, world->next);
    }
    CHECK(world, released(world) == END, "it came no further than %" PRIu64, released(world));
    loader_leave(world->trainer);
    loader_close(world->trainer);
    server_free(world->server);
    char path[96];
    snprintf(path, sizeof path, "%s0", world->files);
    unlink(path);
    run_folder_done(&world->folder);
}

static void any_sequence(bool files)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct world world = world_new(seed, files);
        for (int i = 0; i < TURNS; i++)
            turn(&world);
        world_done(&world);
    }
}

static void any_sequence_of_deaths(void **state)
{
    (void)state;
    any_sequence(true);
}

static void any_sequence_in_which_somebody_lives(void **state)
{
    (void)state;
    any_sequence(false);
}

/* Takes three batches, loses the reader, and has said hello to the next one. */
static struct world on_the_way_with_three(bool files)
{
    struct world world = world_new(0, files);
    while (world.leased_count < 3) {
        publish_batches(&world, 1);
        take_one(&world);
    }
    kill_reader(&world);
    start_reader(&world);
    while (!world.knows)
        look_for_reader(&world);
    return world;
}

/* The same, and is with the next one. */
static struct world holding_three(bool files)
{
    struct world world = on_the_way_with_three(files);
    while (!world.delivers)
        come_together(&world);
    assert_int_equal(released(&world), 0);
    return world;
}

/* Leased when the reader went, lost with the trainer: they come again. */
static void leased_batches_outlive_two_deaths(void **state)
{
    (void)state;
    for (int files = 0; files < 2; files++) {
        struct world world = holding_three(files);
        kill_trainer(&world);
        start_trainer(&world);
        assert_int_equal(world.next, 0);
        world_done(&world);
    }
}

/* The same with the next reader's batches released, and the reader dying first. */
static void later_releases_are_not_earlier_ones(void **state)
{
    (void)state;
    struct world world = holding_three(true);
    while (world.leased_count < 4) {
        publish_batches(&world, 1);
        take_one(&world);
    }
    release_at(&world, 3);
    kill_reader(&world);
    kill_trainer(&world);
    assert_int_equal(world.next, 0);
    start_reader(&world);
    start_trainer(&world);
    world_done(&world);
}

/* Released between HELLO and the new ring, lost with the trainer before there is one: what was
 * released does not come again. `welcomed`: the ring was sent, and not yet taken. */
static void released_on_the_way(bool files, bool welcomed)
{
    struct world world = on_the_way_with_three(files);
    if (welcomed)
        start_session(&world);
    release_at(&world, 1);
    assert_int_equal(released(&world), 0);
    release_at(&world, 0);
    assert_int_equal(released(&world), 2);
    kill_trainer(&world);
    assert_int_equal(world.next, 2);
    start_trainer(&world);
    world_done(&world);
}

static void what_is_released_before_the_welcome_does_not_come_again(void **state)
{
    (void)state;
    released_on_the_way(true, false);
    released_on_the_way(false, false);
}

static void what_is_released_before_the_ring_is_taken_does_not_come_again(void **state)
{
    (void)state;
    released_on_the_way(true, true);
    released_on_the_way(false, true);
}

/* The session ends, and readers have noted where the trainer is; it goes on for a moment, and dies
 * before the server has let go of it. */
static void what_is_released_at_a_sessions_end_does_not_come_again(void **state)
{
    (void)state;
    struct world world = world_new(0, false);
    publish_batches(&world, 2);
    take_one(&world);
    take_one(&world);
    release_at(&world, 0);
    note_cursor(&world, server_trainer_cursor(world.server, 0));
    release_at(&world, 0);
    end_trainer(&world);
    server_restart(world.server);
    world.delivers = false;
    assert_int_equal(world.next, 2);
    start_trainer(&world);
    world_done(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leased_batches_outlive_two_deaths),
        cmocka_unit_test(later_releases_are_not_earlier_ones),
        cmocka_unit_test(what_is_released_before_the_welcome_does_not_come_again),
        cmocka_unit_test(what_is_released_before_the_ring_is_taken_does_not_come_again),
        cmocka_unit_test(what_is_released_at_a_sessions_end_does_not_come_again),
        cmocka_unit_test(any_sequence_of_deaths),
        cmocka_unit_test(any_sequence_in_which_somebody_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
