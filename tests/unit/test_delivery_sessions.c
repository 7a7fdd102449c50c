/* Sessions of one server: a trainer fails, or has its last batch; and the next session begins. */
#include "delivery_scene.h"

/* Instead of a goodbye: the reader knows who, where and why, and nobody takes it for an end. */
static void a_trainer_says_that_it_failed(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    struct error error;
    struct penstock_batch none;
    bool active;
    for (uint64_t i = 0; i < 2; i++)
        publish_next(&scene);
    struct penstock_batch first = next(&scene, 0);
    release(&scene, &first);
    next(&scene, 1);
    assert_false(server_trainer_failed(scene.server, 0));
    penstock_fail(scene.client, "ValueError: boom\n  in two lines");
    penstock_fail(scene.client, "once more");
    penstock_leave(scene.client);
    assert_int_equal(penstock_next(scene.client, &none, 0), PENSTOCK_ENDED);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, 0, &error), SERVER_PEER_LOST);
    assert_true(server_trainer_failed(scene.server, 0));
    assert_int_equal(server_trainer_cursor(scene.server, 0), 1);
    assert_non_null(strstr(error.message, "trainer 0 (process "));
    assert_non_null(strstr(error.message, "failed at epoch 0 step 1: ValueError: boom"));
    assert_non_null(strstr(error.message, "  in two lines"));
    assert_null(strchr(error.message, '\n'));
    scene_done(&scene);

    scene = scene_new(usual);
    penstock_fail(scene.client, NULL);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, 0, &error), SERVER_PEER_LOST);
    assert_non_null(strstr(error.message, "it gave no reason"));
    scene_done(&scene);
}

/* A scene in which the client leases the last batch. */
static struct scene scene_at_the_end(struct shape shape, struct penstock_batch *ret_last)
{
    struct scene scene = scene_new(shape);
    bool active;
    for (uint64_t i = 0; i < SUPPORT_STEPS; i++) {
        publish_next(&scene);
        *ret_last = next(&scene, i);
        if (i + 1 < SUPPORT_STEPS)
            release(&scene, ret_last);
        assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
        assert_false(server_trainer_done(scene.server, 0));
    }
    return scene;
}

/* Who dies with its last batch in hand comes again for it: it is not done before it asks for more.
 */
static void the_last_batch_may_be_leased(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.epochs = 1;
    struct penstock_batch last, none;
    struct scene scene = scene_at_the_end(shape, &last);
    assert_int_equal(penstock_next(scene.client, &none, 0), PENSTOCK_TIMEOUT);
    bool active;
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_true(server_trainer_done(scene.server, 0));
    release(&scene, &last);
    struct error ended = {.status = STATUS_ENDED};
    server_finish(scene.server, &ended);
    expect_end(&scene, PENSTOCK_ENDED, "all epochs");
}

/* The last batch is released, but not all trainers have theirs: the end is not yet. */
static void the_last_batch_is_told(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.epochs = 1;
    struct penstock_batch last;
    struct scene scene = scene_at_the_end(shape, &last);
    bool active;
    release(&scene, &last);
    assert_true(server_trainer_done(scene.server, 0));
    change_reader(&scene, shape, 4, SUPPORT_STEPS);
    for (uint64_t i = 4; i < 4 + SUPPORT_SLOTS; i++)
        publish_next(&scene);
    struct penstock_batch none;
    assert_int_equal(penstock_next(scene.client, &none, 20), PENSTOCK_TIMEOUT);
    assert_true(server_slot_free(scene.server, 0, SUPPORT_SLOTS)); /* passed over */
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_true(server_trainer_done(scene.server, 0));
    struct error ended = {.status = STATUS_ENDED};
    server_finish(scene.server, &ended);
    expect_end(&scene, PENSTOCK_ENDED, "all epochs");
}

/* A server lets go of its trainers: who lives comes again, who said goodbye is not waited for, and
 * who comes too early waits. */
static void sessions_of_one_server(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.world_size = 2;
    struct scene scene = {.folder = run_folder_new()};
    scene.server = serve(scene.folder.path, shape);
    struct dialing dialing[3];
    for (int rank = 0; rank < 2; rank++) {
        dial(&dialing[rank], scene.folder.path, rank, 2);
        pump_until(scene.server, (uint32_t)rank + 1);
    }
    assert_int_equal(server_start(scene.server, NULL), STATUS_OK);
    for (int rank = 0; rank < 2; rank++) {
        pthread_join(dialing[rank].thread, NULL);
        assert_int_equal(dialing[rank].status, PENSTOCK_OK);
    }
    scene.client = dialing[0].client;
    penstock_close(dialing[1].client);
    bool active;
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_state(scene.server, 1, NULL), SERVER_PEER_CLOSED);
    assert_true(server_trainer_done(scene.server, 1));
    assert_false(server_trainer_returns(scene.server));
    dial(&dialing[2], scene.folder.path, 1, 2);
    for (int i = 0; i < 2000 && !server_trainer_returns(scene.server); i++) {
        assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
        clock_sleep_ns(1000000);
    }
    assert_true(server_trainer_returns(scene.server));

    server_restart(scene.server);
    assert_int_equal(server_trainer_count(scene.server), 1);
    assert_int_equal(server_trainer_rank(scene.server, 0), 1);
    uint64_t cursor;
    assert_int_equal(server_trainer_wish(scene.server, 0, &cursor), WISH_CONTINUE);
    assert_int_equal(cursor, usual.epochs * SUPPORT_STEPS); /* one that is gone needs nothing */
    assert_int_equal(server_trainer_cursor(scene.server, 0), cursor);
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_int_equal(server_trainer_wish(scene.server, 0, &cursor), WISH_FRESH); /* it is back */
    struct penstock_batch batch;
    for (int i = 0; i < 2000 && server_trainer_count(scene.server) < 2; i++) {
        assert_int_equal(penstock_next(scene.client, &batch, 1), PENSTOCK_TIMEOUT);
        assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    }
    start_delivery(scene.server, &dialing[2]);
    publish_to(scene.server, 0, 0);
    publish_to(scene.server, 1, 0);
    assert_int_equal(penstock_next(dialing[2].client, &batch, 2000), PENSTOCK_OK);
    assert_int_equal(penstock_next(scene.client, &batch, 2000), PENSTOCK_OK);
    penstock_close(dialing[2].client);
    scene_done(&scene);
}

/* After the end of a session a trainer goes on with what it has; where it stopped is known when it
 * is gone, for the one that comes instead. */
static void progress_between_sessions_is_seen(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    uint32_t rank = 77;
    uint64_t cursor = 77;
    bool active;
    for (int i = 0; i < 3; i++)
        publish_next(&scene);
    struct penstock_batch batch = next(&scene, 0);
    release(&scene, &batch);
    server_restart(scene.server);
    for (uint64_t i = 1; i < 3; i++) {
        batch = next(&scene, i);
        release(&scene, &batch);
    }
    assert_int_equal(server_progress(scene.server, &active, NULL), STATUS_OK);
    assert_false(server_take_parted(scene.server, &rank, &cursor));
    server_expect(scene.server, 0); /* it is said to be dead */
    assert_true(server_take_parted(scene.server, &rank, &cursor));
    assert_int_equal(rank, 0);
    assert_int_equal(cursor, 3);
    assert_false(server_take_parted(scene.server, &rank, &cursor));
    assert_int_equal(come_back(&scene), 3);
    scene_done(&scene);
}

static void fill_behind_a_lease(struct scene *scene)
{
    for (int i = 0; i < SUPPORT_SLOTS; i++)
        publish_next(scene);
    next(scene, 0); /* stays leased */
    assert_int_equal(penstock_skip(scene->client, 1, 0), PENSTOCK_OK);
}

/* Where epochs end, no slot is in reserve for a skip: a batch that is leased since before says so
 * at once. Endless ones wait for the other trainers' skips. */
static void a_lease_from_before_a_skip_is_told_at_once(void **state)
{
    (void)state;
    struct penstock_batch batch;
    struct shape endless = usual;
    endless.epochs = RING_ENDLESS_EPOCHS;
    struct scene scene = scene_new(usual);
    fill_behind_a_lease(&scene);
    uint64_t start = clock_now_ns();
    assert_int_equal(penstock_next(scene.client, &batch, 20000), PENSTOCK_INVALID);
    assert_true(clock_now_ns() - start < UINT64_C(10000000000));
    assert_non_null(strstr(penstock_last_error(scene.client), "epoch 0 step 0, is not released"));
    scene_done(&scene);
    scene = scene_new(endless);
    fill_behind_a_lease(&scene);
    assert_int_equal(penstock_next(scene.client, &batch, 100), PENSTOCK_TIMEOUT);
    scene_done(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_from_before_a_skip_is_told_at_once),
        cmocka_unit_test(a_trainer_says_that_it_failed),
        cmocka_unit_test(the_last_batch_may_be_leased),
        cmocka_unit_test(the_last_batch_is_told),
        cmocka_unit_test(sessions_of_one_server),
        cmocka_unit_test(progress_between_sessions_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
