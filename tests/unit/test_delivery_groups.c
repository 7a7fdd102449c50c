/* Trainers of a group share a ring: what each of them has, when a slot is free, and who may leave,
 * die, skip, or be somebody else than its launcher says. */
#include "delivery_group.h"

#include <signal.h>
#include <sys/wait.h>

static void each_is_told_its_place_and_part(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(SUPPORT_SLOTS);
    for (uint32_t rank = 0; rank < GROUP_RANKS; rank++) {
        const struct penstock_info *info = penstock_describe(scene.clients[rank]);
        const struct penstock_cut *cut = info->fields[0].cuts;
        assert_int_equal(info->rank, rank);
        assert_int_equal(info->group, rank / 2);
        assert_int_equal(info->group_count, 2);
        assert_int_equal(info->is_shared, 1);
        assert_int_equal(info->axis_count, 2);
        assert_string_equal(info->axes[0].name, "dp");
        assert_int_equal(info->axes[0].divides, 1);
        assert_int_equal(info->axes[0].coordinate, rank / 2);
        assert_int_equal(info->axes[1].divides, 0);
        assert_int_equal(info->axes[1].coordinate, rank % 2);
        assert_int_equal(info->field_count, 2 + rank % 2);
        assert_int_equal(info->fields[0].shape[0], 2);
        assert_int_equal(info->fields[0].sample_bytes, 8);
        assert_int_equal(info->fields[0].cut_count, 1);
        assert_int_equal(cut->axis, 0);
        assert_int_equal(cut->whole, 4);
        assert_int_equal(cut->begin, 2 * (rank % 2));
        assert_true(cut->second == UINT64_MAX);
        assert_int_equal(info->fields[1].cut_count, 0);
    }
    group_scene_done(&scene);
}

static void each_has_its_part_of_the_same_samples(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(SUPPORT_SLOTS);
    for (uint64_t cursor = 0; cursor < 25; cursor++)
        for (uint32_t group = 0; group < GROUP_RINGS; group++) {
            group_publish(&scene, group);
            group_use(&scene, 2 * group + 1, cursor);
            group_use(&scene, 2 * group, cursor);
        }
    group_scene_done(&scene);
}

static void a_slot_is_free_when_all_have_released(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(2);
    group_publish(&scene, 0);
    group_publish(&scene, 0);
    assert_false(group_free(&scene, 0));
    assert_true(group_free(&scene, 1)); /* another group's ring is its own */
    group_use(&scene, 0, 0);
    group_use(&scene, 0, 1);
    assert_false(group_free(&scene, 0));
    assert_int_equal(server_trainer_backlog(scene.server, group_trainer_of(&scene, 0)), 0);
    assert_int_equal(server_trainer_backlog(scene.server, group_trainer_of(&scene, 1)), 2);
    struct penstock_batch first = group_take(&scene, 1, 0);
    assert_false(group_free(&scene, 0));
    struct penstock_batch second = group_take(&scene, 1, 1);
    group_give(&scene, 1, &second); /* out of order */
    assert_false(group_free(&scene, 0));
    group_give(&scene, 1, &first);
    assert_true(group_free(&scene, 0));
    group_publish(&scene, 0);
    group_publish(&scene, 0);
    assert_false(group_free(&scene, 0));
    group_use(&scene, 1, 2);
    group_use(&scene, 0, 2);
    assert_true(group_free(&scene, 0));
    group_scene_done(&scene);
}

/* A reader that waits is woken by the release that makes the slot free, whoever's it is. */
static void the_last_release_wakes_the_reader(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(2);
    struct pollfd fds[2 * GROUP_RANKS + 1];
    size_t sockets, count;
    group_publish(&scene, 0);
    group_publish(&scene, 0);
    group_use(&scene, 1, 0);
    server_arm(scene.server, scene.filled[0]);
    count = server_pollfds(scene.server, fds, sizeof fds / sizeof fds[0], &sockets);
    assert_int_equal(poll(fds + sockets, count - sockets, 0), 0);
    group_use(&scene, 0, 0);
    assert_int_equal(poll(fds + sockets, count - sockets, 0), 1);
    server_disarm(scene.server);
    assert_int_equal(poll(fds + sockets, count - sockets, 0), 0);
    assert_true(group_free(&scene, 0));
    group_scene_done(&scene);
}

struct sleeper {
    pthread_t thread;
    struct penstock *client;
    enum penstock_status status;
};

static void *sleep_in_next(void *argument)
{
    struct sleeper *sleeper = argument;
    struct penstock_batch batch;
    sleeper->status = penstock_next(sleeper->client, &batch, 5000);
    return NULL;
}

static void one_slot_wakes_all(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(SUPPORT_SLOTS);
    struct sleeper sleepers[2];
    for (uint32_t i = 0; i < 2; i++) {
        sleepers[i] = (struct sleeper){.client = scene.clients[i]};
        pthread_create(&sleepers[i].thread, NULL, sleep_in_next, &sleepers[i]);
    }
    for (uint32_t i = 0; i < 2; i++)
        while (!server_trainer_ring(scene.server, group_trainer_of(&scene, i)).waiting)
            clock_sleep_ns(1000000);
    group_publish(&scene, 0);
    for (uint32_t i = 0; i < 2; i++) {
        pthread_join(sleepers[i].thread, NULL);
        assert_int_equal(sleepers[i].status, PENSTOCK_OK);
    }
    group_scene_done(&scene);
}

static void nobody_waits_for_one_that_said_goodbye(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(2);
    group_publish(&scene, 0);
    group_use(&scene, 1, 0);
    penstock_close(scene.clients[0]);
    scene.clients[0] = NULL;
    bool active;
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, group_trainer_of(&scene, 0), NULL),
                     SERVER_PEER_CLOSED);
    for (uint64_t cursor = 1; cursor < 10; cursor++) {
        group_publish(&scene, 0);
        group_use(&scene, 1, cursor);
    }
    penstock_close(scene.clients[1]);
    scene.clients[1] = NULL;
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    for (int i = 0; i < 10; i++)
        group_publish(&scene, 0); /* nobody is there: each slot is free */
    group_scene_done(&scene);
}

/* A trainer of this rank in a process of its own, which takes `takes` batches and releases all but
 * the last one, then waits to be killed. */
static pid_t start_trainer(const char *run_dir, int rank, int takes, int done)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct penstock_options options = {
        .run_dir = run_dir, .rank = rank, .world_size = GROUP_RANKS, .timeout_ms = 5000};
    struct penstock *client;
    struct penstock_batch batch;
    if (penstock_connect(&options, &client, NULL) != PENSTOCK_OK)
        _exit(1);
    for (int i = 0; i < takes; i++)
        if (penstock_next(client, &batch, 5000) != PENSTOCK_OK ||
            (i + 1 < takes && penstock_release(client, &batch) != PENSTOCK_OK))
            _exit(2);
    if (write(done, "", 1) != 1)
        _exit(3);
    sleep(30);
    _exit(4);
}

/* Kills a trainer, and lets the server see it. */
static void end_trainer(const struct group_scene *scene, pid_t child, uint32_t rank)
{
    uint32_t trainer = group_trainer_of(scene, rank);
    bool active;
    int end;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_true(WIFSIGNALED(end));
    for (int i = 0;
         i < 1000 && server_trainer_state(scene->server, trainer, NULL) != SERVER_PEER_LOST; i++) {
        assert_int_equal(server_progress(scene->server, &active, NULL), STATUS_OK);
        clock_sleep_ns(1000000);
    }
    assert_int_equal(server_trainer_state(scene->server, trainer, NULL), SERVER_PEER_LOST);
}

/* Ranks 0 to 2 are clients of this process, and rank 3 is a process that takes two batches. */
static struct group_scene scene_with_a_process(pid_t *ret_child, int done[2])
{
    struct group_scene scene = {.folder = run_folder_new()};
    assert_int_equal(pipe(done), 0);
    scene.server = group_server(scene.folder.path, SUPPORT_SLOTS, 5000);
    *ret_child = start_trainer(scene.folder.path, 3, 2, done[1]);
    pump_until(scene.server, 1);
    group_connect(&scene, 3);
    return scene;
}

static void one_that_dies_goes_on_behind_its_last_release(void **state)
{
    (void)state;
    pid_t child;
    int done[2];
    char byte;
    struct group_scene scene = scene_with_a_process(&child, done);
    for (uint64_t cursor = 0; cursor < 3; cursor++) {
        group_publish(&scene, 1);
        group_use(&scene, 2, cursor);
    }
    assert_int_equal(read(done[0], &byte, 1), 1);
    end_trainer(&scene, child, 3);
    assert_int_equal(server_trainer_cursor(scene.server, group_trainer_of(&scene, 3)), 1);
    assert_int_equal(server_trainer_cursor(scene.server, group_trainer_of(&scene, 2)), 3);

    server_restart(scene.server); /* all come again: rank 3 as another process */
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct penstock_batch batch;
        enum penstock_status status = PENSTOCK_TIMEOUT;
        while (server_trainer_count(scene.server) <= rank && status == PENSTOCK_TIMEOUT) {
            bool active;
            status = penstock_next(scene.clients[rank], &batch, 1);
            assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
        }
        assert_int_equal(status, PENSTOCK_TIMEOUT);
    }
    struct dialing dialing;
    dial(&dialing, scene.folder.path, 3, GROUP_RANKS);
    pump_until(scene.server, GROUP_RANKS);
    scene.start = 1;
    scene.filled[0] = scene.filled[1] = 0;
    server_set_start(scene.server, 1);
    server_set_first(scene.server, group_trainer_of(&scene, 2), 3);
    start_delivery(scene.server, &dialing);
    scene.clients[3] = dialing.client;
    group_publish(&scene, 1);
    group_use(&scene, 3, 1);
    group_publish(&scene, 1);
    group_use(&scene, 3, 2);
    group_publish(&scene, 1);
    group_use(&scene, 2, 3); /* it has passed over 1 and 2, which it had before */
    group_use(&scene, 3, 3);
    assert_true(server_slot_free(scene.server, group_ring_of(&scene, 1), 3 + SUPPORT_SLOTS - 1));
    group_scene_done(&scene);
    close(done[0]);
    close(done[1]);
}

/* The permissions of the mapping that an address is in, "r--s". */
static void permissions_of(const void *address, char ret_text[5])
{
    char line[512];
    unsigned long long begin, end;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    ret_text[0] = '\0';
    while (fgets(line, sizeof line, maps)) {
        char text[5];
        if (sscanf(line, "%llx-%llx %4s", &begin, &end, text) == 3 && (uintptr_t)address >= begin &&
            (uintptr_t)address < end)
            memcpy(ret_text, text, sizeof text);
    }
    fclose(maps);
}

static void who_writes_to_what_others_have_gets_a_signal(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(SUPPORT_SLOTS);
    char text[5];
    group_publish(&scene, 0);
    struct penstock_batch mine = group_take(&scene, 0, 0);
    permissions_of(mine.data[0], text);
    assert_string_equal(text, "r--s");
    permissions_of(mine.indices, text);
    assert_string_equal(text, "r--s");
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        ((float *)mine.data[0])[0] = 77;
        _exit(0);
    }
    int end;
    assert_int_equal(waitpid(child, &end, 0), child);
    assert_true(WIFSIGNALED(end) || WEXITSTATUS(end) != 0); /* a sanitizer exits */
    group_use(&scene, 1, 0);
    group_give(&scene, 0, &mine);
    group_scene_done(&scene);
}

static void without_a_mesh_batches_may_be_written(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    char text[5];
    publish(&pair);
    struct penstock_batch batch = take(&pair);
    permissions_of(batch.data[0], text);
    assert_string_equal(text, "rw-s");
    assert_int_equal(penstock_describe(pair.client)->is_shared, 0);
    assert_int_equal(penstock_describe(pair.client)->axis_count, 0);
    give(&pair, &batch);
    pair_done(&pair);
}

/* A skip of one alone is passed over by its trainer; of all, by the reader. */
static void some_skip(void **state)
{
    (void)state;
    struct group_scene scene = group_scene_new(2);
    uint32_t zero = group_trainer_of(&scene, 0), one = group_trainer_of(&scene, 1);
    uint64_t from, to;
    bool active;
    assert_int_equal(penstock_skip(scene.clients[0], 0, 3), PENSTOCK_OK);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_true(server_take_skip(scene.server, zero, &from, &to));
    assert_int_equal(to, 3);
    assert_int_equal(server_trainer_wanted(scene.server, one), 0);
    group_publish(&scene, 0);
    group_publish(&scene, 0);
    struct penstock_batch none;
    assert_int_equal(penstock_next(scene.clients[0], &none, 0), PENSTOCK_TIMEOUT);
    assert_false(group_free(&scene, 0)); /* rank 1 has not had them */
    group_use(&scene, 1, 0);
    group_use(&scene, 1, 1);
    assert_true(group_free(&scene, 0));
    for (uint32_t rank = 0; rank < GROUP_RANKS; rank++)
        assert_int_equal(penstock_skip(scene.clients[rank], 0, 7), PENSTOCK_OK);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_wanted(scene.server, one), 7);
    server_skip(scene.server, 7);
    scene.start = 7;
    scene.filled[0] = scene.filled[1] = 0;
    group_publish(&scene, 0);
    group_use(&scene, 1, 7);
    group_use(&scene, 0, 7);
    group_publish(&scene, 1);
    group_use(&scene, 2, 7);
    group_use(&scene, 3, 7);
    group_scene_done(&scene);
}

static void dial_at(struct dialing *dialing, const char *run_dir, int rank, const char *coordinates)
{
    dial_with(dialing, &(struct penstock_options){.run_dir = run_dir,
                                                  .rank = rank,
                                                  .world_size = GROUP_RANKS,
                                                  .timeout_ms = 5000,
                                                  .coordinates = coordinates});
}

static void coordinates_say_which_rank_it_is(void **state)
{
    (void)state;
    static const char *const told[GROUP_RANKS] = {"tp=1,dp=1", "dp=0,tp=1", "dp=0,tp=0",
                                                  "tp=0,dp=1"};
    static const uint32_t expected[GROUP_RANKS] = {3, 1, 0, 2};
    struct group_scene scene = {.folder = run_folder_new()};
    struct dialing dialing[GROUP_RANKS];
    scene.server = group_server(scene.folder.path, SUPPORT_SLOTS, 0);
    for (int i = 0; i < GROUP_RANKS; i++)
        dial_at(&dialing[i], scene.folder.path, i, told[i]);
    pump_until(scene.server, GROUP_RANKS);
    assert_int_equal(server_start(scene.server, NULL), STATUS_OK);
    for (int i = 0; i < GROUP_RANKS; i++) {
        pthread_join(dialing[i].thread, NULL);
        assert_int_equal(dialing[i].status, PENSTOCK_OK);
        assert_int_equal(penstock_describe(dialing[i].client)->rank, expected[i]);
        scene.clients[expected[i]] = dialing[i].client;
    }
    group_publish(&scene, 1);
    group_use(&scene, 2, 0);
    group_use(&scene, 3, 0);
    group_scene_done(&scene);
}

/* Refused at once, in words that both the trainer and the service say. */
static void refuse(struct server *server, const char *run_dir, int rank, const char *coordinates,
                   const char *said)
{
    struct dialing dialing;
    struct error err = {0};
    bool active;
    dial_at(&dialing, run_dir, rank, coordinates);
    enum status status = STATUS_OK;
    for (int i = 0; i < 5000 && status == STATUS_OK; i++) {
        status = server_progress(server, &active, &err);
        if (!active)
            clock_sleep_ns(1000000);
    }
    pthread_join(dialing.thread, NULL);
    assert_int_equal(status, STATUS_REFUSED);
    assert_int_equal(dialing.status, PENSTOCK_REFUSED);
    if (!strstr(dialing.message, said) || !strstr(err.message, said))
        fail_msg("'%s' and '%s' do not say '%s'", dialing.message, err.message, said);
}

static void coordinates_that_do_not_fit(void **state)
{
    (void)state;
    struct group_scene scene = {.folder = run_folder_new()};
    const char *path = scene.folder.path;
    struct dialing dialing;
    scene.server = group_server(path, SUPPORT_SLOTS, 0);
    refuse(
        scene.server, path, 1, "tp=0",
        "trainer 1: it tells that it is at tp=0, and by delivery.mesh it is rank 1 (dp 0, tp 1): "
        "tell all axes, or none");
    refuse(scene.server, path, 0, "pp=0", "it tells 'pp=0', and delivery.mesh has no such axis");
    refuse(scene.server, path, 0, "tp=2,dp=0", "axis 'tp' of delivery.mesh has coordinates 0 to 1");
    dial_at(&dialing, path, 0, "dp=1,tp=1");
    pump_until(scene.server, 1);
    refuse(scene.server, path, 1, "dp=1,tp=1", "trainer rank 3 is taken by process");
    server_finish(scene.server, &(struct error){.status = STATUS_ENDED});
    pthread_join(dialing.thread, NULL);
    server_free(scene.server);
    run_folder_done(&scene.folder);
}

static void more_members_than_the_ring_is_made_for(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    struct ring_service service = support_service(2);
    struct mesh mesh;
    assert_int_equal(mesh_parse("dp:1,tp:2", "dp", 2, &mesh, NULL), STATUS_OK);
    service.mesh = mesh;
    struct server_options options = {
        .run_dir = folder.path, .max_trainers = 2, .layout = &layout, .service = &service};
    struct server *server;
    struct dialing dialing[2];
    struct error err;
    assert_int_equal(server_new(&options, &server, NULL), STATUS_OK);
    assert_int_equal(server_listen(server, NULL), STATUS_OK);
    for (int rank = 0; rank < 2; rank++)
        dial(&dialing[rank], folder.path, rank, 2);
    pump_until(server, 2);
    assert_int_equal(server_start(server, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "group 0 has 2 trainers here, and the ring is made for 1"));
    server_finish(server, &err);
    for (int rank = 0; rank < 2; rank++) {
        pthread_join(dialing[rank].thread, NULL);
        assert_int_equal(dialing[rank].status, PENSTOCK_INVALID);
    }
    server_free(server);
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_told_its_place_and_part),
        cmocka_unit_test(each_has_its_part_of_the_same_samples),
        cmocka_unit_test(a_slot_is_free_when_all_have_released),
        cmocka_unit_test(the_last_release_wakes_the_reader),
        cmocka_unit_test(one_slot_wakes_all),
        cmocka_unit_test(nobody_waits_for_one_that_said_goodbye),
        cmocka_unit_test(one_that_dies_goes_on_behind_its_last_release),
        cmocka_unit_test(who_writes_to_what_others_have_gets_a_signal),
        cmocka_unit_test(without_a_mesh_batches_may_be_written),
        cmocka_unit_test(some_skip),
        cmocka_unit_test(coordinates_say_which_rank_it_is),
        cmocka_unit_test(coordinates_that_do_not_fit),
        cmocka_unit_test(more_members_than_the_ring_is_made_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
