/* Who wakes whom in a worker pool: workers one another for tasks, and the owner for their ends. */
#include "read/pool.h"

#include "base/clock.h"
#include "base/waker.h"
#include "made_up_pool.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <cmocka.h>

/* All workers sleep: as many tasks are soon under way, though few workers are woken at once. Where
 * one NUMA node has all tasks, the workers of another wake one another, too. */
static void test_workers_wake_one_another(void **state)
{
    (void)state;
    for (uint32_t numa_count = 1; numa_count <= 2; numa_count++) {
        struct pool *pool = made_up_pool(numa_count, 8, 8, NULL);
        struct gate gate = {0};
        clock_sleep_ns(10000000); /* they sleep by now, most likely */
        for (uint32_t i = 0; i < 8; i++)
            assert_true(pool_submit(pool, 0, POOL_URGENT, wait_at_gate, &gate, 0, 0));
        for (int i = 0; i < 20000 && gate.inside < 8; i++)
            clock_sleep_ns(1000000);
        assert_int_equal(gate.inside, 8);
        gate.open = true;
        pool_free(pool);
    }
}

static void spin_at_gate(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker, (void)begin, (void)end;
    struct gate *gate = argument;
    gate->inside++;
    while (!gate->open)
        ;
}

/* A worker that ends a short task tells the owner with the next one; or now, if there is no next
 * one after all. */
static void test_a_worker_that_goes_to_sleep_tells_the_owner(void **state)
{
    (void)state;
    struct waker waker;
    struct gate busy = {0}, gate = {0};
    assert_int_equal(waker_init(&waker, NULL), STATUS_OK);
    struct pool *pool = made_up_pool(1, 1, 8, &waker);
    struct pollfd fd = {.fd = waker_fd(&waker), .events = POLLIN};
    occupy(pool, &busy);
    for (uint64_t i = 0; i < 8; i++)
        assert_true(pool_submit(pool, 0, POOL_NORMAL, spin_at_gate, &gate, 0, 0));
    busy.open = true;
    while (gate.inside == 0)
        ;
    waker_arm(&waker);
    assert_false(pool_drain(pool, 0)); /* the other seven are forgotten */
    gate.open = true;
    assert_int_equal(poll(&fd, 1, 10000), 1);
    pool_free(pool);
    waker_done(&waker);
}

static void pass_quietly(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)end;
    ((struct gate *)argument)->inside++;
    worker->quiet = begin;
}

/* The owner is not woken for a task that says that another one will tell. */
static void test_a_quiet_task_does_not_tell_the_owner(void **state)
{
    (void)state;
    struct waker waker;
    struct gate gate = {0};
    assert_int_equal(waker_init(&waker, NULL), STATUS_OK);
    struct pool *pool = made_up_pool(1, 1, 8, &waker);
    struct pollfd fd = {.fd = waker_fd(&waker), .events = POLLIN};
    waker_arm(&waker);
    assert_true(pool_submit(pool, 0, POOL_URGENT, pass_quietly, &gate, true, 0));
    while (gate.inside == 0)
        clock_sleep_ns(100000);
    assert_int_equal(poll(&fd, 1, 50), 0);
    assert_true(pool_submit(pool, 0, POOL_URGENT, pass_quietly, &gate, false, 0));
    assert_int_equal(poll(&fd, 1, 10000), 1);
    pool_free(pool);
    waker_done(&waker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers_wake_one_another),
        cmocka_unit_test(test_a_worker_that_goes_to_sleep_tells_the_owner),
        cmocka_unit_test(test_a_quiet_task_does_not_tell_the_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
