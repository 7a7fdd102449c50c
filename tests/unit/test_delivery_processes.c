/* Trainers' processes: forks, threads that wait or end it all, and several connections. */
#include "delivery_scene.h"

#include <sys/wait.h>

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
    start_delivery(server, &dialing);
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

/* A forked child's own words come back as its exit code. */
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
        if (penstock_connect(&options, &client, NULL) != PENSTOCK_OK)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_timeout_waits),
        cmocka_unit_test(a_forked_process_is_told),
        cmocka_unit_test(a_dead_parent_is_seen_although_its_child_lives),
        cmocka_unit_test(another_thread_may_end_it),
        cmocka_unit_test(two_connections_of_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
