/* What a trainer's program sees of its connection besides batches: rings to register with a device,
 * statistics, and waiting for a release. */
#include "delivery_support.h"

/* What a watch was told. */
struct log {
    int attached, detaching;
    struct penstock_ring ring; /* the last one attached */
};

static void note_attached(void *user, const struct penstock_ring *ring)
{
    struct log *log = user;
    log->attached++;
    log->ring = *ring;
}

/* The memory is there until the call returns. */
static void note_detaching(void *user, const struct penstock_ring *ring)
{
    struct log *log = user;
    log->detaching++;
    assert_ptr_equal(ring->base, log->ring.base);
    assert_int_equal(ring->bytes, log->ring.bytes);
    assert_int_equal(ring->generation, log->ring.generation);
    ((volatile unsigned char *)ring->base)[ring->bytes - 1] = 1;
}

static struct penstock_ring_watch watch_of(struct log *log)
{
    return (struct penstock_ring_watch){note_attached, note_detaching, log};
}

static void a_ring_is_told_of_from_its_start_to_its_end(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct log log = {0};
    const struct penstock_ring_watch watch = watch_of(&log);
    assert_int_equal(penstock_watch_rings(pair.client, &watch), PENSTOCK_OK);
    assert_int_equal(log.attached, 1);
    assert_int_equal(log.ring.generation, 1);
    assert_int_equal(log.ring.bytes % (uint64_t)sysconf(_SC_PAGESIZE), 0);
    for (int i = 0; i < 2 * SUPPORT_SLOTS; i++) {
        publish(&pair);
        struct penstock_batch batch = take(&pair);
        const unsigned char *data = batch.data[1], *base = log.ring.base;
        assert_true(data > base && data < base + log.ring.bytes);
        give(&pair, &batch);
    }
    assert_int_equal(log.detaching, 0);
    pair_done(&pair);
    assert_int_equal(log.attached, 1);
    assert_int_equal(log.detaching, 1);
}

/* A pair whose client looks for another reader when this one is gone. */
static struct pair pair_new_lasting(uint32_t slots)
{
    struct pair pair = {.folder = run_folder_new()};
    struct ring_layout layout = support_layout(slots);
    struct ring_service service = support_service(1);
    struct server_options options = {.run_dir = pair.folder.path,
                                     .max_trainers = 1,
                                     .layout = &layout,
                                     .service = &service,
                                     .reconnect_ms = 20000};
    assert_int_equal(server_new(&options, &pair.server, NULL), STATUS_OK);
    assert_int_equal(server_listen(pair.server, NULL), STATUS_OK);
    pair_connect(&pair, 0);
    return pair;
}

/* What is registered stays in memory, and the next ring needs the memory: so a ring is told of when
 * its reader is gone, its batches are taken, and the last one is released; once. */
static void a_ring_is_told_of_before_the_next_one_is_there(void **state)
{
    (void)state;
    for (int leased = 0; leased <= 1; leased++) {
        struct pair pair = pair_new_lasting(SUPPORT_SLOTS);
        struct log log = {0};
        const struct penstock_ring_watch watch = watch_of(&log);
        struct penstock_batch first, batch, none;
        assert_int_equal(penstock_watch_rings(pair.client, &watch), PENSTOCK_OK);
        publish(&pair);
        publish(&pair);
        first = take(&pair);
        if (!leased)
            give(&pair, &first);
        server_free(pair.server);
        pair.server = NULL;
        batch = take(&pair); /* was published */
        give(&pair, &batch);
        assert_int_equal(log.detaching, 0);
        assert_int_equal(penstock_next(pair.client, &none, 20), PENSTOCK_TIMEOUT);
        assert_int_equal(log.detaching, !leased);
        if (leased)
            give(&pair, &first);
        assert_int_equal(log.detaching, 1);
        assert_int_equal(penstock_next(pair.client, &none, 20), PENSTOCK_TIMEOUT);
        pair_done(&pair);
        assert_int_equal(log.attached, 1);
        assert_int_equal(log.detaching, 1);
    }
}

static void rings_are_watched_once_and_before_the_first_batch(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS), late = pair_new(SUPPORT_SLOTS);
    struct log log = {0};
    const struct penstock_ring_watch watch = watch_of(&log);
    assert_int_equal(penstock_watch_rings(pair.client, &watch), PENSTOCK_OK);
    assert_int_equal(penstock_watch_rings(pair.client, &watch), PENSTOCK_INVALID);
    publish(&late);
    struct penstock_batch batch = take(&late);
    assert_int_equal(penstock_watch_rings(late.client, &watch), PENSTOCK_INVALID);
    give(&late, &batch);
    pair_done(&late);
    assert_int_equal(log.attached, 1);
    assert_int_equal(log.detaching, 0);
    pair_done(&pair);
}

static struct penstock_stats stats_of(const struct pair *pair)
{
    struct penstock_stats stats;
    penstock_stats(pair->client, &stats, sizeof stats);
    return stats;
}

static void statistics_say_what_happened_and_what_is_there(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_batch batch[2], none;
    for (int i = 0; i < 3; i++)
        publish(&pair);
    batch[0] = take(&pair);
    batch[1] = take(&pair);
    struct penstock_stats stats = stats_of(&pair);
    assert_int_equal(stats.batches, 2);
    assert_int_equal(stats.samples, 2 * SUPPORT_BATCH);
    assert_int_equal(stats.bytes, 2 * SUPPORT_BATCH * (12 + 8));
    assert_int_equal(stats.ready, 1);
    assert_int_equal(stats.leased, 2);
    assert_int_equal(stats.waits, 0);
    assert_int_equal(stats.wait_ns, 0);
    give(&pair, &batch[0]);
    give(&pair, &batch[1]);
    batch[0] = take(&pair);
    give(&pair, &batch[0]);
    assert_int_equal(penstock_next(pair.client, &none, 20), PENSTOCK_TIMEOUT);
    stats = stats_of(&pair);
    assert_int_equal(stats.waits, 1);
    assert_true(stats.wait_ns >= 15000000);
    assert_int_equal(stats.ready, 0);
    assert_int_equal(stats.leased, 0);
    assert_int_equal(stats.reconnects, 0);
    pair_done(&pair);
}

/* A program that was built with fewer members gets those alone. */
static void a_smaller_struct_is_not_overrun(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_stats stats;
    memset(&stats, 0x5a, sizeof stats);
    penstock_stats(pair.client, &stats, offsetof(struct penstock_stats, bytes));
    assert_int_equal(stats.samples, 0);
    assert_int_equal(stats.bytes, UINT64_C(0x5a5a5a5a5a5a5a5a));
    pair_done(&pair);
}

/* A turn that ends early loses nothing, and giving up is no goodbye. */
static void a_connection_is_made_in_turns(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    const struct penstock_options options = {
        .run_dir = folder.path, .world_size = 1, .timeout_ms = 20000};
    char message[PENSTOCK_MESSAGE_BYTES];
    int32_t connected = 1;
    struct pair pair = {.folder = folder};
    assert_int_equal(penstock_connect_begin(&options, &pair.client, message), PENSTOCK_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(penstock_connect_continue(pair.client, 1, &connected, message),
                         PENSTOCK_OK);
    assert_false(connected);
    penstock_close(pair.client);
    pair.server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    for (int turn = 0; turn < 2; turn++) { /* the first one gives up once it is heard */
        assert_int_equal(penstock_connect_begin(&options, &pair.client, message), PENSTOCK_OK);
        for (int i = 0; i < 1000 && server_trainer_count(pair.server) == 0; i++) {
            bool active;
            assert_int_equal(penstock_connect_continue(pair.client, 1, &connected, message),
                             PENSTOCK_OK);
            assert_int_equal(server_progress(pair.server, &active, NULL), STATUS_OK);
        }
        assert_false(connected);
        if (turn == 0) {
            penstock_close(pair.client);
            pump_until(pair.server, 0);
        }
    }
    assert_int_equal(server_start(pair.server, NULL), STATUS_OK);
    assert_int_equal(penstock_connect_continue(pair.client, 20000, &connected, message),
                     PENSTOCK_OK);
    assert_true(connected);
    publish(&pair);
    struct penstock_batch batch = take(&pair);
    give(&pair, &batch);
    pair_done(&pair);
}

static void *take_too(void *argument)
{
    struct penstock *client = argument;
    struct penstock_batch batch;
    while (penstock_next(client, &batch, 0) != PENSTOCK_INVALID)
        clock_sleep_ns(1000000); /* the other one does not wait yet */
    return (void *)penstock_last_error(client);
}

static void a_second_thread_is_refused(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_batch batch;
    pthread_t thread;
    void *reason = NULL;
    assert_int_equal(pthread_create(&thread, NULL, take_too, pair.client), 0);
    while (!reason) {
        enum penstock_status status = penstock_next(pair.client, &batch, 200);
        if (status == PENSTOCK_TIMEOUT && pthread_tryjoin_np(thread, &reason) == 0)
            break;
        assert_true(status == PENSTOCK_TIMEOUT || status == PENSTOCK_INVALID);
    }
    assert_non_null(strstr(reason, "another thread is in penstock_next()"));
    publish(&pair);
    batch = take(&pair);
    give(&pair, &batch);
    pair_done(&pair);
}

struct releaser {
    struct pair *pair;
    struct penstock_batch *batch;
};

/* Once the other thread waits, releases its oldest batch, and publishes another one. */
static void *release_later(void *argument)
{
    struct releaser *releaser = argument;
    while (stats_of(releaser->pair).waits == 0)
        clock_sleep_ns(1000000);
    clock_sleep_ns(50000000); /* it sleeps by now, most of the time */
    give(releaser->pair, releaser->batch);
    publish(releaser->pair);
    return NULL;
}

static void next_waits_for_a_release(void **state)
{
    (void)state;
    struct pair pair = pair_new_waiting(2, 1);
    publish(&pair);
    publish(&pair);
    struct penstock_batch first = take(&pair), second = take(&pair), third;
    assert_int_equal(penstock_next(pair.client, &third, 20), PENSTOCK_TIMEOUT);
    struct pair again = pair_new_waiting(2, 1);
    publish(&again);
    publish(&again);
    struct penstock_batch oldest = take(&again), newest = take(&again);
    struct releaser releaser = {.pair = &again, .batch = &oldest};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, release_later, &releaser), 0);
    uint64_t start = clock_now_ns();
    assert_int_equal(penstock_next(again.client, &third, 20000), PENSTOCK_OK);
    assert_true(clock_now_ns() - start < UINT64_C(15000000000)); /* not at the timeout */
    assert_int_equal(third.step, 2);
    pthread_join(thread, NULL);
    give(&again, &newest);
    give(&again, &third);
    pair_done(&again);
    give(&pair, &second);
    give(&pair, &first);
    pair_done(&pair);
}

/* 20 ms and more in the fourth bucket or a later one, whatever the machine does meanwhile. */
static void a_reader_sees_how_long_its_trainer_waits(void **state)
{
    (void)state;
    struct pair pair = pair_new(SUPPORT_SLOTS);
    struct penstock_batch batch, none;
    publish(&pair);
    publish(&pair);
    batch = take(&pair);
    struct server_ring_view view = server_trainer_ring(pair.server, 0);
    assert_int_equal(view.slots, SUPPORT_SLOTS);
    assert_int_equal(view.ready_slots, 1);
    assert_int_equal(view.leased_slots, 1);
    assert_int_equal(view.waits.buckets[0], 1);
    assert_int_equal(view.waits.wait_ns, 0);
    assert_int_equal(view.waits.released_ms, 0);
    give(&pair, &batch);
    batch = take(&pair);
    give(&pair, &batch);
    assert_int_equal(penstock_next(pair.client, &none, 20), PENSTOCK_TIMEOUT);
    publish(&pair);
    batch = take(&pair);
    view = server_trainer_ring(pair.server, 0);
    assert_int_equal(view.ready_slots, 0);
    assert_int_equal(view.leased_slots, 1);
    assert_false(view.waiting);
    assert_true(view.waits.wait_ns >= 15000000);
    assert_true(view.waits.released_ms > UINT64_C(1600000000000));
    uint32_t count = 0, late = 0;
    for (int b = 0; b < RING_WAIT_BUCKETS; b++) {
        count += view.waits.buckets[b];
        late += b >= 3 ? view.waits.buckets[b] : 0;
    }
    assert_int_equal(count, 3);
    assert_int_equal(late, 1);
    give(&pair, &batch);
    pair_done(&pair);
}

/* The numbers are the trainer's: nonsense is shown, and breaks nothing. */
static void wild_waits_break_nothing(void **state)
{
    (void)state;
    struct ring_waits waits;
    memset(&waits, 0xff, sizeof waits);
    waits_note_batch(&waits, UINT64_MAX);
    waits_note_taken(&waits, UINT64_C(1) << 32);
    struct waits_seen seen = waits_read(&waits);
    assert_int_equal(seen.buckets[RING_WAIT_BUCKETS - 1], 0);
    assert_int_equal(seen.taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_told_of_from_its_start_to_its_end),
        cmocka_unit_test(a_ring_is_told_of_before_the_next_one_is_there),
        cmocka_unit_test(rings_are_watched_once_and_before_the_first_batch),
        cmocka_unit_test(statistics_say_what_happened_and_what_is_there),
        cmocka_unit_test(a_connection_is_made_in_turns),
        cmocka_unit_test(a_second_thread_is_refused),
        cmocka_unit_test(a_smaller_struct_is_not_overrun),
        cmocka_unit_test(next_waits_for_a_release),
        cmocka_unit_test(a_reader_sees_how_long_its_trainer_waits),
        cmocka_unit_test(wild_waits_break_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
