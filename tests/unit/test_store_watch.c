/* Reads that are watched, and tried again; through a store that fails on purpose where that is
 * built in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "store/kind/watch.h"
#include "store/store.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static struct store_watch *watch;

static int set_up(void **state)
{
    (void)state;
    struct store *store;
    snprintf(folder, sizeof folder, "/tmp/penstock-watch-XXXXXX");
    if (!mkdtemp(folder) || store_watch_new(&watch, NULL) != STATUS_OK ||
        store_create(folder, false, &store, NULL) != STATUS_OK)
        return -1;
    char value[1000];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 200; i++) {
        char key[16];
        snprintf(key, sizeof key, "a/%d", i);
        if (store_put(store, key, value, sizeof value, NULL) != STATUS_OK)
            return -1;
    }
    store_free(store);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[96];
    unsetenv("PENSTOCK_FAULTS");
    store_watch_free(watch);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void test_oldest(void **state)
{
    (void)state;
    struct store_watch_call call;
    assert_false(store_watch_oldest(watch, &call));
    int first = store_watch_begin(watch, "/data", "a/1");
    clock_sleep_ns(2000000);
    int second = store_watch_begin(watch, "/data", "");
    assert_true(store_watch_oldest(watch, &call));
    assert_string_equal(call.path, "/data/a/1");
    assert_true(call.age_ns >= 2000000);
    uint64_t number = call.number;
    store_watch_end(watch, first);
    assert_true(store_watch_oldest(watch, &call));
    assert_string_equal(call.path, "/data");
    assert_true(call.number != number);
    store_watch_end(watch, second);
    assert_false(store_watch_oldest(watch, &call));
}

struct caller {
    pthread_t thread;
    pthread_barrier_t *all_under_way;
    int first, last; /* numbers of the thread's calls */
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    caller->first = store_watch_begin(watch, "/data", "k");
    pthread_barrier_wait(caller->all_under_way);
    store_watch_end(watch, caller->first);
    for (int i = 0; i < 100; i++) {
        caller->last = store_watch_begin(watch, "/data", "k");
        store_watch_end(watch, caller->last);
    }
    return NULL;
}

/* A thread keeps its entry of the table, and no other thread has that entry. */
static void test_threads_have_entries_of_their_own(void **state)
{
    (void)state;
    enum { THREADS = 16 };
    struct caller callers[THREADS];
    pthread_barrier_t all_under_way;
    pthread_barrier_init(&all_under_way, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        callers[i].all_under_way = &all_under_way;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_int_equal(callers[i].last, callers[i].first);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(callers[i].first, callers[j].first);
    }
    pthread_barrier_destroy(&all_under_way);
}

/* Texts are borrowed, and read by whoever looks. */
static void test_a_text_is_made_when_somebody_looks(void **state)
{
    (void)state;
    char key[] = "a/1";
    struct store_watch_call found;
    int call = store_watch_begin(watch, "/data", key);
    key[2] = '2';
    assert_true(store_watch_oldest(watch, &found));
    assert_string_equal(found.path, "/data/a/2");
    store_watch_end(watch, call);
}

static _Atomic bool is_over;

static void *make_calls(void *argument)
{
    (void)argument;
    while (!is_over) {
        char *key = strdup("a/1");
        int call = store_watch_begin(watch, "/data", key);
        store_watch_end(watch, call);
        memset(key, 'x', 3);
        free(key);
    }
    return NULL;
}

/* Whoever looks sees whole texts of calls under way, and nothing of those that have ended. */
static void test_looking_while_calls_end(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct store_watch_call found;
    is_over = false;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_calls, NULL), 0);
    for (int i = 0; i < 500; i++)
        if (store_watch_oldest(watch, &found))
            assert_string_equal(found.path, "/data/a/1");
    is_over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(store_watch_oldest(watch, &found));
}

/* More calls than there is room for go unwatched, and nothing else. */
static void test_full(void **state)
{
    (void)state;
    enum { MANY = 1100 };
    static int calls[MANY];
    struct store_watch_call call;
    for (int i = 0; i < MANY; i++)
        calls[i] = store_watch_begin(watch, "/data", "k");
    for (int i = 0; i < MANY; i++)
        store_watch_end(watch, calls[i]);
    assert_false(store_watch_oldest(watch, &call));
}

static struct store *open_with(uint32_t retries)
{
    struct store_options options = {.retries = retries, .watch = watch};
    struct store *store;
    struct error err;
    if (store_open_with(folder, &options, &store, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return store;
}

static void test_absent_is_not_retried(void **state)
{
    (void)state;
    struct store *store = open_with(5);
    struct error err, last;
    char buffer[8];
    size_t size;
    assert_int_equal(store_get(store, "a/none", buffer, 8, &size, &err), STATUS_NOT_FOUND);
    assert_int_equal(store_get(store, "a/1", buffer, 8, &size, &err), STATUS_CORRUPT);
    assert_int_equal(store_watch_retries(watch, &last), 0);
    store_free(store);
}

static bool faults_are_built_in(void)
{
    struct store *store;
    struct error err;
    setenv("PENSTOCK_FAULTS", "seed=1", 1);
    enum status status = store_open(folder, &store, &err);
    if (status == STATUS_OK)
        store_free(store);
    else if (status != STATUS_UNSUPPORTED || !strstr(err.message, "PENSTOCK_FAULTS"))
        fail_msg("%s", err.message);
    return status == STATUS_OK;
}

static void test_transient_errors(void **state)
{
    (void)state;
    if (!faults_are_built_in())
        skip();
    setenv("PENSTOCK_FAULTS", "seed=5,error=0.1", 1);
    struct store *store = open_with(4), *impatient = open_with(0);
    struct error err, last;
    char buffer[1000], key[16];
    size_t size;
    int failed = 0;
    for (int i = 0; i < 60; i++) {
        snprintf(key, sizeof key, "a/%d", i);
        assert_int_equal(store_get(store, key, buffer, 1000, &size, &err), STATUS_OK);
        assert_int_equal(size, 1000);
        failed += store_get(impatient, key, buffer, 1000, &size, &err) == STATUS_IO;
    }
    assert_in_range(failed, 1, 30);
    assert_in_range(store_watch_retries(watch, &last), 1, 30);
    assert_non_null(strstr(last.message, "Input/output error"));
    store_free(store);
    store_free(impatient);
}

static void test_lasting_error(void **state)
{
    (void)state;
    if (!faults_are_built_in())
        skip();
    setenv("PENSTOCK_FAULTS", "broken=1", 1);
    struct store *store = open_with(2);
    struct error err;
    char buffer[1000];
    size_t size;
    uint64_t start = clock_now_ns();
    assert_int_equal(store_get(store, "a/7", buffer, 1000, &size, &err), STATUS_IO);
    uint64_t took = clock_now_ns() - start; /* pauses of 0.1 s and 0.4 s, half at least */
    assert_true(took > 250000000);
    assert_non_null(strstr(err.message, "tried 3 times: "));
    store_free(store);
}

/* The same keys are corrupt each time, about as many as asked for, and never the metadata. */
static void test_corrupt_keys(void **state)
{
    (void)state;
    if (!faults_are_built_in())
        skip();
    setenv("PENSTOCK_FAULTS", "seed=9,corrupt=0.25", 1);
    struct store *stores[2] = {open_with(0), open_with(0)};
    char buffer[1000], key[16];
    size_t size;
    int corrupt = 0;
    for (int i = 0; i < 200; i++) {
        int found[2];
        for (int s = 0; s < 2; s++) {
            snprintf(key, sizeof key, "a/%d", i);
            assert_int_equal(store_get(stores[s], key, buffer, 1000, &size, NULL), STATUS_OK);
            found[s] = buffer[0] != 'v';
        }
        assert_int_equal(found[0], found[1]);
        corrupt += found[0];
    }
    assert_in_range(corrupt, 25, 80);
    store_free(stores[0]);
    store_free(stores[1]);
}

static void test_foreign_spec(void **state)
{
    (void)state;
    if (!faults_are_built_in())
        skip();
    const char *specs[] = {"errors=1", "error=", "error=x", "seed=", "error=0.1;short=1", "hang"};
    struct store *store;
    struct error err;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        setenv("PENSTOCK_FAULTS", specs[i], 1);
        assert_int_equal(store_open(folder, &store, &err), STATUS_INVALID);
        assert_non_null(strstr(err.message, "PENSTOCK_FAULTS"));
    }
}

/* A thread that has others to serve may not wait for a store: that ends the program, there and
 * then, and other threads go on. */
static void test_waiting_is_forbidden(void **state)
{
    (void)state;
    struct store *store;
    char value[8];
    size_t size;
    unsetenv("PENSTOCK_FAULTS");
    assert_int_equal(store_open(folder, &store, NULL), STATUS_OK);
    for (int forbidden = 0; forbidden <= 1; forbidden++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const struct rlimit no_core = {0};
            setrlimit(RLIMIT_CORE, &no_core);
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr))
                _exit(2);
            store_forbid_waiting(forbidden);
            (void)!store_get(store, "nothing", value, sizeof value, &size, NULL);
            _exit(0);
        }
        int ended = 0;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(WIFSIGNALED(ended) ? WTERMSIG(ended) : 0, forbidden ? SIGABRT : 0);
    }
    store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_oldest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_have_entries_of_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_text_is_made_when_somebody_looks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_looking_while_calls_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_absent_is_not_retried, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_transient_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lasting_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_corrupt_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_foreign_spec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_is_forbidden, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
