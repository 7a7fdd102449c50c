/* The file of a trainer's cursor: what is read of whole and broken ones, of other runs' and of
 * those whose trainer is not quite dead; and that a trainer goes on without one. */
#include "delivery_support.h"

#include "delivery/client/cursor_file.h"
#include "run/state.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define WAIT_NS UINT64_C(1000000000) /* how long a trainer's death is waited for */

enum { FILE_BYTES = 72 }; /* of struct content */

static char folder[] = "/tmp/penstock-test-XXXXXX";
static char prefix[64], path[72]; /* of rank 0 */

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(prefix, sizeof prefix, "%s/cursor-", folder);
    snprintf(path, sizeof path, "%s0", prefix);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static bool reads(uint64_t *ret_cursor)
{
    struct ring_service service;
    cursor_file_await(prefix, 0, clock_now_ns() + WAIT_NS);
    return cursor_file_read(prefix, 0, &service, ret_cursor);
}

static void expect_cursor(uint64_t expected)
{
    uint64_t cursor;
    assert_true(reads(&cursor));
    assert_int_equal(cursor, expected);
}

static void expect_nothing(void)
{
    uint64_t cursor = 99;
    assert_false(reads(&cursor));
    assert_int_equal(cursor, 99);
}

static struct cursor_file *make_file(uint64_t cursor)
{
    struct ring_service service = support_service(1);
    return cursor_file_open(prefix, 0, &service, cursor);
}

static void write_file(const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

static void what_was_noted_is_read(void **state)
{
    (void)state;
    expect_nothing();
    struct cursor_file *file = make_file(5);
    assert_non_null(file);
    cursor_file_note(file, 8);
    cursor_file_note(file, 7); /* a thread that was slower */
    cursor_file_close(file);
    struct ring_service service, expected = support_service(1);
    uint64_t cursor;
    assert_true(cursor_file_read(prefix, 0, &service, &cursor));
    assert_int_equal(cursor, 8);
    assert_memory_equal(&service.order, &expected.order, sizeof expected.order);
    assert_int_equal(service.steps_per_epoch, expected.steps_per_epoch);
    cursor_file_close(make_file(6)); /* who was told to go on before that */
    expect_cursor(6);
    file = make_file(6);
    cursor_file_remove(file);
    cursor_file_note(file, 9);
    cursor_file_close(file);
    expect_nothing();
}

static void broken_files_are_none(void **state)
{
    (void)state;
    unsigned char whole[FILE_BYTES], broken[FILE_BYTES];
    cursor_file_close(make_file(5));
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, whole, sizeof whole), sizeof whole);
    close(fd);
    for (size_t size = 0; size < FILE_BYTES; size++) {
        write_file(whole, size);
        expect_nothing();
    }
    for (size_t i = 0; i < 8; i++) { /* the magic number */
        memcpy(broken, whole, FILE_BYTES);
        broken[i] ^= 1;
        write_file(broken, FILE_BYTES);
        expect_nothing();
    }
    memcpy(broken, whole, FILE_BYTES);
    memset(broken + 56, 0, 8); /* steps per epoch: what a cursor is divided by */
    write_file(broken, FILE_BYTES);
    expect_nothing();
    memset(broken, 0xff, FILE_BYTES);
    write_file(broken, FILE_BYTES);
    expect_nothing();
    cursor_file_close(make_file(7)); /* the next trainer makes it a good one */
    expect_cursor(7);
}

static void links_and_directories_are_none(void **state)
{
    (void)state;
    char other[72];
    snprintf(other, sizeof other, "%s1", prefix);
    cursor_file_close(make_file(5));
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    expect_nothing();
    assert_null(make_file(5));
    unlink(path);
    unlink(other);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_nothing();
    assert_null(make_file(5));
    rmdir(path);
}

/* Also what every caller does with NULL. */
static void nothing_is_kept_where_nothing_can_be_written(void **state)
{
    (void)state;
    assert_int_equal(chmod(folder, 0555), 0);
    bool root = geteuid() == 0;
    assert_true(!root || seteuid(65534) == 0); /* root may write anywhere */
    struct cursor_file *file = make_file(5);
    assert_true(!root || seteuid(0) == 0);
    chmod(folder, 0700);
    assert_null(file);
    cursor_file_note(file, 8);
    cursor_file_remove(file);
    cursor_file_close(file);
    expect_nothing();
}

/* Forks a trainer that has noted step 5 when this returns; `go_on` is what it does then. What lives
 * on lives until the test closes *ret_lifeline. */
static pid_t fork_trainer(void (*go_on)(struct cursor_file *file, int lifeline), int *ret_lifeline)
{
    int noted[2], lifeline[2];
    assert_int_equal(pipe(noted), 0);
    assert_int_equal(pipe(lifeline), 0);
    pid_t trainer = fork();
    assert_true(trainer >= 0);
    if (trainer == 0) {
        close(lifeline[1]);
        struct cursor_file *file = make_file(5);
        if (!file || write(noted[1], "", 1) != 1)
            _exit(1);
        go_on(file, lifeline[0]);
        _exit(0);
    }
    close(noted[1]);
    close(lifeline[0]);
    char byte;
    assert_int_equal(read(noted[0], &byte, 1), 1);
    close(noted[0]);
    *ret_lifeline = lifeline[1];
    return trainer;
}

static void die_slowly(struct cursor_file *file, int lifeline)
{
    (void)lifeline;
    clock_sleep_ns(200000000);
    cursor_file_note(file, 9);
}

static void a_trainer_that_dies_is_waited_for(void **state)
{
    (void)state;
    int lifeline;
    pid_t trainer = fork_trainer(die_slowly, &lifeline);
    expect_cursor(9);
    assert_int_equal(waitpid(trainer, NULL, 0), trainer);
    close(lifeline);
}

static void live_on(struct cursor_file *file, int lifeline)
{
    (void)file;
    char byte;
    ssize_t nothing = read(lifeline, &byte, 1);
    (void)nothing;
}

static void one_that_does_not_die_is_waited_for_no_longer(void **state)
{
    (void)state;
    int lifeline;
    pid_t trainer = fork_trainer(live_on, &lifeline);
    uint64_t start = clock_now_ns();
    expect_cursor(5);
    assert_true(clock_now_ns() - start >= WAIT_NS);
    assert_int_equal(waitpid(trainer, NULL, WNOHANG), 0);
    close(lifeline);
    assert_int_equal(waitpid(trainer, NULL, 0), trainer);
}

static void leave_a_child(struct cursor_file *file, int lifeline)
{
    pid_t child = fork();
    if (child == 0)
        live_on(file, lifeline);
}

/* It has the file open and mapped, but is not the trainer. */
static void the_child_of_a_dead_trainer_is_not_waited_for(void **state)
{
    (void)state;
    int lifeline;
    pid_t trainer = fork_trainer(leave_a_child, &lifeline);
    assert_int_equal(waitpid(trainer, NULL, 0), trainer);
    uint64_t start = clock_now_ns();
    expect_cursor(5);
    cursor_file_close(make_file(6));
    assert_true(clock_now_ns() - start < WAIT_NS);
    close(lifeline);
}

/* Judges states as a reader does, of a run of the dataset whose fingerprint `argument` points to.
 */
static enum status read_state(void *argument, uint32_t rank, const char *json, bool goes_on,
                              uint64_t *ret_cursor, struct error *err)
{
    (void)rank;
    (void)goes_on;
    struct ring_service service = support_service(1);
    service.order.fingerprint = *(const uint64_t *)argument;
    struct run_state state;
    enum status status = run_state_parse(json, strlen(json), &state, err);
    if (status == STATUS_OK)
        status = run_state_check(&state, &service, err);
    if (status == STATUS_OK)
        *ret_cursor = state.epoch * service.steps_per_epoch + state.step;
    return status;
}

/* A reader of such a run, and a trainer that finds this test's files in its environment. */
struct scene {
    struct run_folder folder;
    uint64_t fingerprint;
    struct server *server;
    struct dialing dialing; /* over */
};

/* Lets the trainer in, and starts where it wants to. */
static void scene_init(struct scene *scene, uint64_t fingerprint)
{
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    struct ring_service service = support_service(1);
    scene->folder = run_folder_new();
    scene->fingerprint = fingerprint;
    struct server_options options = {.run_dir = scene->folder.path,
                                     .max_trainers = 1,
                                     .layout = &layout,
                                     .service = &service,
                                     .read_state = read_state,
                                     .state_argument = &scene->fingerprint};
    assert_int_equal(server_new(&options, &scene->server, NULL), STATUS_OK);
    assert_int_equal(server_listen(scene->server, NULL), STATUS_OK);
    setenv("PENSTOCK_CURSORS", prefix, 1);
    dial(&scene->dialing, scene->folder.path, 0, 1);
    bool over = false, active;
    while (!over && server_trainer_count(scene->server) == 0) {
        enum status status = server_progress(scene->server, &active, NULL);
        assert_true(status == STATUS_OK || status == STATUS_REFUSED);
        clock_sleep_ns(1000000);
        over = pthread_tryjoin_np(scene->dialing.thread, NULL) == 0;
    }
    if (!over) {
        uint64_t start = 0;
        server_trainer_wish(scene->server, 0, &start);
        server_set_start(scene->server, start);
        assert_int_equal(server_start(scene->server, NULL), STATUS_OK);
        pthread_join(scene->dialing.thread, NULL);
    }
    unsetenv("PENSTOCK_CURSORS");
}

/* The trainer gets and releases the batch of that cursor, and takes its leave. */
static void deliver(struct scene *scene, uint64_t cursor)
{
    struct penstock *client = scene->dialing.client;
    if (scene->dialing.status != PENSTOCK_OK)
        fail_msg("penstock_connect: %s", scene->dialing.message);
    struct slot_header *slot = (void *)server_slot(scene->server, 0, 0);
    *slot = (struct slot_header){.epoch = cursor / SUPPORT_STEPS,
                                 .step = cursor % SUPPORT_STEPS,
                                 .sample_count = SUPPORT_BATCH};
    server_publish(scene->server, 0);
    struct penstock_batch batch;
    assert_int_equal(penstock_next(client, &batch, 2000), PENSTOCK_OK);
    assert_int_equal(batch.epoch * SUPPORT_STEPS + batch.step, cursor);
    assert_int_equal(penstock_release(client, &batch), PENSTOCK_OK);
}

static void scene_done(struct scene *scene)
{
    penstock_close(scene->dialing.client);
    server_free(scene->server);
    run_folder_done(&scene->folder);
}

/* The content alone: the trainer, this process, has it locked. */
static uint64_t noted(void)
{
    uint64_t content[FILE_BYTES / 8];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, content, sizeof content), sizeof content);
    close(fd);
    return content[8];
}

static void a_trainer_goes_on_where_the_one_before_it_was(void **state)
{
    (void)state;
    struct scene scene;
    cursor_file_close(make_file(23));
    scene_init(&scene, support_service(1).order.fingerprint);
    deliver(&scene, 23);
    assert_int_equal(noted(), 24);
    scene_done(&scene);
    expect_nothing(); /* it said goodbye */
}

static void a_broken_file_is_a_fresh_start(void **state)
{
    (void)state;
    struct scene scene;
    write_file("penspl", 6);
    scene_init(&scene, support_service(1).order.fingerprint);
    deliver(&scene, 0);
    assert_int_equal(noted(), 1);
    scene_done(&scene);
}

static void the_cursor_of_another_run_is_refused_by_name(void **state)
{
    (void)state;
    struct scene scene;
    cursor_file_close(make_file(23));
    scene_init(&scene, 0xbeef);
    assert_int_equal(scene.dialing.status, PENSTOCK_REFUSED);
    char words[128];
    snprintf(words, sizeof words, "the cursor in '%s': trainer 0: ", path);
    assert_non_null(strstr(scene.dialing.message, words));
    assert_non_null(strstr(scene.dialing.message, "000000000000feed"));
    scene_done(&scene);
    expect_cursor(23);
}

static void a_trainer_goes_on_without_a_file(void **state)
{
    (void)state;
    struct scene scene;
    snprintf(prefix, sizeof prefix, "%s/no/such/cursor-", folder);
    scene_init(&scene, support_service(1).order.fingerprint);
    deliver(&scene, 0);
    scene_done(&scene);
}

int main(void)
{
    unsetenv("PENSTOCK_RUN_DIR");
    unsetenv("PENSTOCK_STATE");
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
        TEST(what_was_noted_is_read),
        TEST(broken_files_are_none),
        TEST(links_and_directories_are_none),
        TEST(nothing_is_kept_where_nothing_can_be_written),
        TEST(a_trainer_that_dies_is_waited_for),
        TEST(one_that_does_not_die_is_waited_for_no_longer),
        TEST(the_child_of_a_dead_trainer_is_not_waited_for),
        TEST(a_trainer_goes_on_where_the_one_before_it_was),
        TEST(a_broken_file_is_a_fresh_start),
        TEST(the_cursor_of_another_run_is_refused_by_name),
        TEST(a_trainer_goes_on_without_a_file),
#undef TEST
    };
    return cmocka_run_group_tests_name("delivery.cursor_file", tests, NULL, NULL);
}
