/* A reader goes away and another one comes: what its trainer goes on with, and what it refuses. */
#include "delivery_scene.h"

/* What a dead reader has published is taken, what is leased stays, and the next reader's batches
 * follow, whatever it starts with. */
static void a_trainer_goes_on_with_the_next_reader(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    for (int i = 0; i < 3; i++)
        publish_next(&scene);
    struct penstock_batch leased = next(&scene, 0);
    server_free(scene.server); /* as when it dies: without a word */
    struct penstock_batch second = next(&scene, 1), third = next(&scene, 2);
    release(&scene, &second);
    struct penstock_batch none;
    assert_int_equal(penstock_next(scene.client, &none, 30), PENSTOCK_TIMEOUT);

    scene.server = serve(scene.folder.path, usual);
    assert_int_equal(come_back(&scene), 3);
    begin(&scene, 1, 3); /* another trainer needs step 1 again */
    for (int i = 0; i < SUPPORT_SLOTS; i++)
        publish_next(&scene);
    struct penstock_batch fourth = next(&scene, 3), fifth = next(&scene, 4);
    assert_true(server_slot_free(scene.server, 0, SUPPORT_SLOTS + 1)); /* passed over: given back */
    assert_int_equal(leased.indices[0], 0);                            /* of the old ring */
    assert_int_equal(third.indices[0], 2);
    release(&scene, &fifth);
    release(&scene, &leased);
    assert_int_equal(penstock_release(scene.client, &leased), PENSTOCK_INVALID);
    release(&scene, &third);
    assert_int_equal(penstock_release(scene.client, &second), PENSTOCK_INVALID);
    release(&scene, &fourth);
    assert_true(server_slot_free(scene.server, 0, 2 * SUPPORT_SLOTS - 1));
    char text[256];
    assert_int_equal(penstock_state(scene.client, text, sizeof text), PENSTOCK_OK);
    assert_non_null(strstr(text, "\"epoch\":0,\"step\":5"));
    scene_done(&scene);
}

static void one_reader_after_another(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    struct penstock_batch leased[6];
    for (uint64_t i = 0; i < 6; i++) {
        publish_next(&scene);
        leased[i] = next(&scene, i);
        change_reader(&scene, usual, i > 0 ? i - 1 : 0, i + 1);
        while (scene.start + scene.published <= i)
            publish_next(&scene);
    }
    static const int order[] = {3, 0, 5, 1, 4, 2};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(leased[order[i]].indices[0], order[i]);
        release(&scene, &leased[order[i]]);
    }
    publish_next(&scene);
    next(&scene, 6);
    scene_done(&scene);
}

static void a_service_that_is_another_is_refused(void **state)
{
    (void)state;
    struct shape slots = usual, epochs = usual, windows = usual, low = usual, high = usual;
    slots.slots++;
    epochs.epochs++;
    windows.window_rows++;
    low.constant = 1;
    high.constant = 2;
    struct scene scene = scene_new(usual);
    change_reader(&scene, slots, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "another delivery.slots");
    scene = scene_new(usual);
    change_reader(&scene, epochs, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "another number of steps or epochs");
    scene = scene_new(usual);
    change_reader(&scene, windows, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "order.window_rows was 64, this run has 65");
    scene = scene_new(low);
    change_reader(&scene, high, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "other constants or attributes");
    scene = scene_new(low);
    change_reader(&scene, usual, 0, 0);
    expect_end(&scene, PENSTOCK_REFUSED, "other constants or attributes");
}

static void constants_stay_where_they_are(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.constant = 3;
    struct scene scene = scene_new(shape);
    const struct penstock_info *info = penstock_describe(scene.client);
    assert_int_equal(info->constant_count, 1);
    const float *data = info->constants[0].data;
    change_reader(&scene, shape, 0, 0);
    publish_next(&scene);
    next(&scene, 0);
    assert_ptr_equal(info->constants[0].data, data);
    assert_memory_equal(data, &shape.constant, sizeof *data);
    scene_done(&scene);
}

static void a_gap_or_a_repetition_is_an_error(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    change_reader(&scene, usual, 1, 1); /* it would miss step 0 */
    expect_end(&scene, PENSTOCK_PROTOCOL, "not where it should");
    scene = scene_new(usual);
    change_reader(&scene, usual, 0, 0);
    scene.start = 2; /* what is published is not what was said */
    publish_next(&scene);
    expect_end(&scene, PENSTOCK_PROTOCOL, "came where that of epoch 0 step 0 should");
}

static void waiting_for_a_reader_has_an_end(void **state)
{
    (void)state;
    struct shape shape = usual;
    shape.reconnect_ms = 200;
    struct scene scene = scene_new(shape);
    server_free(scene.server);
    scene.server = NULL;
    uint64_t start = clock_now_ns();
    struct penstock_batch batch;
    assert_int_equal(penstock_next(scene.client, &batch, 50), PENSTOCK_TIMEOUT);
    assert_int_equal(penstock_next(scene.client, &batch, -1), PENSTOCK_LOST);
    assert_in_range((clock_now_ns() - start) / 1000000, 199, 20000);
    expect_end(&scene, PENSTOCK_LOST, "the reader on this node went away: no Penstock service");
}

/* The reader sees what another thread releases while penstock_next() waits for a ring. */
static void releases_are_seen_on_the_way_to_a_reader(void **state)
{
    (void)state;
    struct scene scene = scene_new(usual);
    struct penstock_batch leased[3];
    for (uint64_t i = 0; i < 3; i++) {
        publish_next(&scene);
        leased[i] = next(&scene, i);
    }
    server_free(scene.server);
    scene.server = serve(scene.folder.path, usual);
    struct waiting waiting = {.client = scene.client, .timeout_ms = 20000};
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_next, &waiting);
    pump_until(scene.server, 1);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 0);
    release(&scene, &leased[0]);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 1);
    begin(&scene, 3, 3);
    release(&scene, &leased[1]);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 2);
    release(&scene, &leased[2]);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 3);
    publish_next(&scene);
    pthread_join(thread, NULL);
    assert_int_equal(waiting.status, PENSTOCK_OK);
    assert_int_equal(server_trainer_cursor(scene.server, 0), 3);
    scene_done(&scene);
}

static void a_state_is_told(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = serve(folder.path, usual);
    struct dialing dialing = {.options = {.run_dir = folder.path,
                                          .world_size = 1,
                                          .timeout_ms = 5000,
                                          .state = "{\"epoch\":2,\"step\":3}"}};
    pthread_create(&dialing.thread, NULL, dial_thread, &dialing);
    pump_until(server, 1);
    uint64_t wished;
    assert_int_equal(server_trainer_wish(server, 0, &wished), WISH_STATE);
    assert_int_equal(wished, 2 * SUPPORT_STEPS + 3);
    server_set_start(server, 2 * SUPPORT_STEPS);
    server_set_first(server, 0, wished);
    start_delivery(server, &dialing);
    assert_int_equal(penstock_describe(dialing.client)->start_epoch, 2);
    assert_int_equal(penstock_describe(dialing.client)->start_step, 3);
    penstock_close(dialing.client);
    server_free(server);

    server = serve(folder.path, usual);
    dialing.options.state = "{}";
    pthread_create(&dialing.thread, NULL, dial_thread, &dialing);
    struct error error;
    enum status status = STATUS_OK;
    bool active;
    for (int i = 0; i < 2000 && status == STATUS_OK; i++) {
        status = server_progress(server, &active, &error);
        clock_sleep_ns(1000000);
    }
    pthread_join(dialing.thread, NULL);
    assert_int_equal(status, STATUS_REFUSED);
    assert_int_equal(dialing.status, PENSTOCK_REFUSED);
    assert_string_equal(dialing.message, "trainer 0: no state");
    server_free(server);

    char message[PENSTOCK_MESSAGE_BYTES];
    static char huge[4000];
    memset(huge, '{', sizeof huge - 1);
    dialing.options.state = huge;
    assert_int_equal(penstock_connect(&dialing.options, &dialing.client, message),
                     PENSTOCK_INVALID);
    assert_non_null(strstr(message, "the state has 3999 bytes"));
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_goes_on_with_the_next_reader),
        cmocka_unit_test(one_reader_after_another),
        cmocka_unit_test(a_service_that_is_another_is_refused),
        cmocka_unit_test(constants_stay_where_they_are),
        cmocka_unit_test(a_gap_or_a_repetition_is_an_error),
        cmocka_unit_test(waiting_for_a_reader_has_an_end),
        cmocka_unit_test(releases_are_seen_on_the_way_to_a_reader),
        cmocka_unit_test(a_state_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
