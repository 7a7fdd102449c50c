/* Threads of the program's own: their name, their signals, and waiting for their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

struct seen {
    pthread_mutex_t mutex; /* held by the test while the thread is to live */
    sigset_t blocked;
};

static void *look(void *argument)
{
    struct seen *seen = argument;
    pthread_sigmask(SIG_SETMASK, NULL, &seen->blocked);
    pthread_mutex_lock(&seen->mutex);
    pthread_mutex_unlock(&seen->mutex);
    return NULL;
}

static void blocks_signals_and_has_its_name(void **state)
{
    struct seen seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    char name[16] = "";
    sigset_t before, after;
    pthread_t thread;
    (void)state;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    pthread_mutex_lock(&seen.mutex);
    assert_true(thread_start("of-this-test", look, &seen, &thread));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int number = 1; number < NSIG; number++)
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    assert_int_equal(pthread_getname_np(thread, name, sizeof name), 0);
    assert_string_equal(name, "of-this-test");
    assert_false(thread_join_within(thread, 1000000));
    pthread_mutex_unlock(&seen.mutex);
    assert_true(thread_join_within(thread, UINT64_C(60000000000)));
    assert_int_equal(sigismember(&seen.blocked, SIGTERM), 1);
    assert_int_equal(sigismember(&seen.blocked, SIGINT), 1);
}

static void deadline_is_of_the_clock_that_conditions_have(void **state)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    struct timespec now, until = thread_deadline(1999999999);
    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_in_range(until.tv_nsec, 0, 999999999);
    assert_in_range(until.tv_sec - now.tv_sec, 1, 3);
    thread_cond_init(&condition);
    pthread_mutex_lock(&mutex);
    until = thread_deadline(1000000);
    while (pthread_cond_timedwait(&condition, &mutex, &until) == 0) {
    }
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&condition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_signals_and_has_its_name),
        cmocka_unit_test(deadline_is_of_the_clock_that_conditions_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
