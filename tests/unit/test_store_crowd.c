/* Many fetches of a store behind a network at once: the limit that threads share, and the end. */
#include "remote_server.h"

/* A crowd of fetches, each started anew as often as is left to do; who calls done() is noted. */
struct crowd {
    const struct store *store;
    pthread_mutex_t mutex;
    pthread_cond_t all_done;
    unsigned to_start, left, failed; /* under `mutex` */
    pthread_t callers[8];            /* under `mutex` */
    unsigned caller_count, calls[8]; /* under `mutex` */
};

static void crowd_done(struct fetch *fetch)
{
    struct crowd *crowd = fetch->argument;
    unsigned i = 0;
    pthread_mutex_lock(&crowd->mutex);
    while (i < crowd->caller_count && !pthread_equal(crowd->callers[i], pthread_self()))
        i++;
    if (i == crowd->caller_count && i < 8)
        crowd->callers[crowd->caller_count++] = pthread_self();
    crowd->calls[i]++;
    crowd->failed += fetch->status != STATUS_OK || fetch->got != 4;
    bool again = crowd->to_start > 0 && fetch->status == STATUS_OK;
    crowd->to_start -= again;
    crowd->left -= !again;
    if (crowd->left == 0)
        pthread_cond_signal(&crowd->all_done);
    pthread_mutex_unlock(&crowd->mutex);
    fetch->key = "crowd";
    if (again)
        fetch_start(crowd->store, fetch);
}

enum { CROWD = 40 };

static void start_crowd(struct crowd *crowd, struct fetch *fetches, char (*buffers)[8],
                        unsigned at_first, unsigned total)
{
    crowd->to_start = total - at_first;
    crowd->left = at_first;
    for (unsigned i = 0; i < at_first; i++) {
        fetches[i] = (struct fetch){.kind = FETCH_WHOLE,
                                    .key = "crowd",
                                    .buffer = buffers[i],
                                    .capacity = 8,
                                    .done = crowd_done,
                                    .argument = crowd};
        fetch_start(crowd->store, &fetches[i]);
    }
}

static void wait_for_crowd(struct crowd *crowd)
{
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->left > 0)
        pthread_cond_wait(&crowd->all_done, &crowd->mutex);
    pthread_mutex_unlock(&crowd->mutex);
    assert_int_equal(crowd->failed, 0);
    assert_int_equal(crowd->to_start, 0);
}

/* The limit is of all threads together, all of it is used, and threads have equal shares. */
static void test_threads_share_the_limit(void **state)
{
    static const struct {
        uint32_t requests, threads;
    } cases[] = {{12, 1}, {12, 2}, {12, 4}, {5, 4}, {1, 3}, {7, 3}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        uint32_t requests = cases[c].requests, threads = cases[c].threads;
        struct store *store = open_with(requests, threads);
        struct crowd crowd = {.store = store,
                              .mutex = PTHREAD_MUTEX_INITIALIZER,
                              .all_done = PTHREAD_COND_INITIALIZER};
        struct fetch fetches[CROWD];
        char buffers[CROWD][8];
        unsigned before = server.connections, total = 50 * requests;
        server.most_at_once = 0;
        server.wanted_at_once = requests;
        start_crowd(&crowd, fetches, buffers, CROWD, total < 2 * CROWD ? 2 * CROWD : total);
        wait_for_crowd(&crowd);
        assert_int_equal(server.most_at_once, requests);
        assert_in_range(server.connections - before, requests, 2 * requests);
        unsigned share = (requests + threads - 1) / threads;
        assert_in_range(crowd.caller_count, (requests + share - 1) / share, threads);
        store_free(store);
    }
}

/* No fetch waits for another below the limit, whichever thread was woken for it. */
static void test_a_few_fetches_go_at_once(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 30; turn++) {
        uint32_t threads = 2 + turn % 3;
        struct store *store = open_with(0, threads);
        struct crowd crowd = {.store = store,
                              .mutex = PTHREAD_MUTEX_INITIALIZER,
                              .all_done = PTHREAD_COND_INITIALIZER};
        struct fetch fetches[CROWD];
        char buffers[CROWD][8];
        server.most_at_once = 0;
        server.wanted_at_once = threads;
        start_crowd(&crowd, fetches, buffers, threads, threads);
        wait_for_crowd(&crowd);
        assert_int_equal(server.most_at_once, threads);
        store_free(store);
    }
}

/* Whatever is under way, and on which thread: all of it ends with the store. */
static void test_the_end_of_many_threads(void **state)
{
    (void)state;
    server.wanted_at_once = 0;
    for (uint32_t turn = 0; turn < 20; turn++) {
        struct store *store = open_with(turn % 2 ? 3 : 0, 1 + turn % 4);
        struct crowd crowd = {.store = store,
                              .mutex = PTHREAD_MUTEX_INITIALIZER,
                              .all_done = PTHREAD_COND_INITIALIZER};
        struct fetch fetches[CROWD];
        char buffers[CROWD][8];
        start_crowd(&crowd, fetches, buffers, CROWD, 1000000);
        clock_sleep_ns(turn * UINT64_C(1000000));
        fetch_stop(store);
        assert_int_equal(crowd.left, 0);
        assert_int_equal(crowd.failed, CROWD);
        store_free(store);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_the_limit),
        cmocka_unit_test(test_a_few_fetches_go_at_once),
        cmocka_unit_test(test_the_end_of_many_threads),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
