/* The worker pool: every task runs once, on its NUMA node, in its turn, and the owner is told. */
#include "read/pool.h"

#include "base/clock.h"
#include "made_up_pool.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The owner sees when nobody is left for what is urgent. */
static void test_behind_while_all_are_in_normal_tasks(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 16, NULL);
    struct gate gate = {0}, other = {0};
    assert_false(pool_is_behind(pool));
    occupy(pool, &gate);
    assert_false(pool_is_behind(pool));
    assert_true(pool_submit(pool, 1, POOL_NORMAL, wait_at_gate, &other, 0, 0));
    while (other.inside == 0)
        clock_sleep_ns(100000);
    assert_true(pool_is_behind(pool));
    other.open = gate.open = true;
    assert_true(pool_drain(pool, 60000));
    assert_false(pool_is_behind(pool));
    pool_free(pool);
}

enum { LOG_CAPACITY = 4096 };
struct log {
    _Atomic uint32_t taken, count;
    uint64_t begins[LOG_CAPACITY];
};

static void log_begin(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker, (void)end;
    struct log *log = argument;
    log->begins[log->taken++] = begin;
    log->count++;
}

/* An urgent task does not wait for a normal one to end: the worker stays at the gate until the
 * urgent task is over. */
static void test_the_owner_helps_where_all_are_held_up(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 8, NULL);
    struct gate gate = {0};
    struct log log = {0};
    struct pool_stats stats;
    assert_int_equal(pool_help(pool, 0), 0);
    occupy(pool, &gate);
    assert_int_equal(pool_help(pool, 0), 0); /* nothing is urgent */
    assert_true(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 100, 0));
    for (uint64_t i = 0; i < 3; i++)
        assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, i, 0));
    assert_true(pool_has_urgent(pool));
    assert_int_equal(pool_help(pool, UINT64_C(3600) * 1000000000), 0); /* not held up for long */
    assert_int_equal(log.count, 0);
    assert_int_equal(pool_help(pool, 0), 3);
    assert_int_equal(log.count, 3);
    assert_false(pool_has_urgent(pool));
    assert_false(gate.open);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(log.begins[i], i);
    pool_stats(pool, &stats);
    assert_true(stats.busy_ns > 0); /* the owner's: the worker's task has not ended */
    gate.open = true;
    while (log.count < 4)
        clock_sleep_ns(100000);
    pool_free(pool);
}

/* Where one worker is not held up, it does the work. */
static void test_the_owner_does_not_help_a_free_worker(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 8, NULL);
    struct gate gate = {0};
    struct log log = {0};
    occupy(pool, &gate);
    assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, 0, 0));
    assert_int_equal(pool_help(pool, 0), 0);
    while (log.count < 1)
        clock_sleep_ns(100000);
    gate.open = true;
    pool_free(pool);
}

static void *open_gate(void *argument)
{
    struct gate *gate = argument;
    clock_sleep_ns(20000000);
    gate->open = true;
    return NULL;
}

static void test_urgent_goes_first_and_order_holds(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 8, NULL);
    struct gate gate = {0};
    struct log log = {0};
    occupy(pool, &gate);
    for (uint64_t i = 0; i < 8; i++)
        assert_true(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 100 + i, 0));
    for (uint64_t i = 0; i < 8; i++)
        assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, i, 0));
    gate.open = true;
    while (log.count < 16)
        clock_sleep_ns(100000);
    for (uint64_t i = 0; i < 8; i++) {
        assert_int_equal(log.begins[i], i);
        assert_int_equal(log.begins[8 + i], 100 + i);
    }
    pool_free(pool);
}

static void test_a_first_task_goes_before_urgent_ones(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 3, NULL);
    struct gate gate = {0}, other = {0};
    struct log log = {0};
    occupy(pool, &gate);
    for (uint64_t i = 1; i < 3; i++)
        assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, i, 0));
    assert_true(pool_submit_first(pool, 0, log_begin, &log));
    assert_false(pool_submit_first(pool, 0, log_begin, &log)); /* the queue is full */
    gate.open = true;
    while (log.count < 3)
        clock_sleep_ns(100000);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(log.begins[i], i);
    assert_true(pool_submit_first(pool, 0, wait_at_gate, &other)); /* at the end of the memory */
    while (other.inside == 0)
        clock_sleep_ns(100000);
    other.open = true;
    pool_free(pool);
}

/* Of two workers neither reads: the first that is free does, although a copy waits. */
static void test_one_of_several_reads_first(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 2, 8, NULL);
    struct gate gates[2] = {{0}};
    struct log log = {0};
    for (int i = 0; i < 2; i++) {
        assert_true(pool_submit(pool, 0, POOL_URGENT, wait_at_gate, &gates[i], 0, 0));
        while (gates[i].inside == 0)
            clock_sleep_ns(100000);
    }
    assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, 0, 0));
    assert_true(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 100, 0));
    gates[0].open = true;
    while (log.count < 2)
        clock_sleep_ns(100000);
    assert_int_equal(log.begins[0], 100);
    assert_int_equal(log.begins[1], 0);
    gates[1].open = true;
    pool_free(pool);
}

static void test_full_queue_refuses(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 3, NULL);
    struct gate gate = {0};
    struct log log = {0};
    occupy(pool, &gate);
    for (int i = 0; i < 3; i++)
        assert_true(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 0, 0));
    assert_false(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 0, 0));
    assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, 0, 0));
    assert_true(pool_submit(pool, 1, POOL_NORMAL, log_begin, &log, 0, 0));
    gate.open = true;
    while (log.count < 5)
        clock_sleep_ns(100000);
    assert_true(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 0, 0));
    pool_free(pool);
}

static void test_settle_leaves_normal_tasks(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 2, 4, NULL);
    struct gate reading = {0}, copying = {0};
    struct log log = {0};
    occupy(pool, &reading);
    assert_true(pool_submit(pool, 0, POOL_URGENT, wait_at_gate, &copying, 0, 0));
    while (copying.inside == 0)
        clock_sleep_ns(100000);
    assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, 1, 0));
    assert_true(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 2, 0));
    pthread_t opener;
    assert_int_equal(pthread_create(&opener, NULL, open_gate, &copying), 0);
    pool_settle(pool);
    assert_true(copying.open);
    assert_false(reading.open);
    pthread_join(opener, NULL);
    reading.open = true;
    while (log.count == 0)
        clock_sleep_ns(100000);
    assert_int_equal(log.begins[0], 2);
    assert_int_equal(log.count, 1);
    pool_free(pool);
}

static void test_drain_forgets_what_waits(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 4, NULL);
    struct gate gate = {0};
    struct log log = {0};
    occupy(pool, &gate);
    for (int i = 0; i < 4; i++)
        assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, 0, 0));
    pthread_t opener;
    assert_int_equal(pthread_create(&opener, NULL, open_gate, &gate), 0);
    assert_true(pool_drain(pool, 60000));
    assert_true(gate.open);
    pthread_join(opener, NULL);
    struct pool_stats stats;
    pool_stats(pool, &stats);
    assert_true(stats.busy_ns > 0);
    assert_int_equal(log.count, 0);
    assert_true(pool_submit(pool, 0, POOL_NORMAL, log_begin, &log, 7, 0));
    while (log.count == 0)
        clock_sleep_ns(100000);
    assert_int_equal(log.begins[0], 7);
    pool_free(pool);
}

/* Every (NUMA node, number) once: normal tasks by workers of their NUMA node. */
enum { STRESS_NUMA_NODES = 3, STRESS_TASKS = 20000 };
struct stress {
    _Atomic uint8_t runs[STRESS_NUMA_NODES][STRESS_TASKS];
    _Atomic uint32_t wrong_numa;
    _Atomic uint32_t done;
};

static void stress_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    struct stress *stress = argument;
    if (worker->numa != end && begin % 3)
        stress->wrong_numa++;
    stress->runs[end][begin]++;
    worker->stats.copy_bytes += begin;
    worker->stats.copy_ns++;
    stress->done++;
}

/* Sleeps until a worker is done with something; fails when nobody wakes us. */
static void sleep_unless(struct waker *waker, const struct stress *stress, uint32_t seen)
{
    waker_arm(waker);
    if (stress->done == seen) {
        struct pollfd fd = {.fd = waker_fd(waker), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 10000), 1);
    }
    waker_disarm(waker);
}

static void test_stress(void **state)
{
    (void)state;
    static struct stress stress;
    struct waker waker;
    assert_int_equal(waker_init(&waker, NULL), STATUS_OK);
    struct pool *pool = made_up_pool(STRESS_NUMA_NODES, 7, 16, &waker);
    assert_int_equal(pool_worker_count(pool), 7);
    uint64_t next[STRESS_NUMA_NODES] = {0};
    struct pool_stats stats;
    for (uint64_t submitted = 0; submitted < STRESS_NUMA_NODES * STRESS_TASKS;) {
        uint32_t seen = stress.done;
        uint64_t before = submitted;
        for (uint32_t n = 0; n < STRESS_NUMA_NODES; n++)
            while (next[n] < STRESS_TASKS &&
                   pool_submit(pool, n, next[n] % 3 ? POOL_NORMAL : POOL_URGENT, stress_task,
                               &stress, next[n], n))
                next[n]++, submitted++;
        pool_stats(pool, &stats);
        if (submitted == before)
            sleep_unless(&waker, &stress, seen);
    }
    while (stress.done < STRESS_NUMA_NODES * STRESS_TASKS)
        sleep_unless(&waker, &stress, stress.done);
    for (uint32_t n = 0; n < STRESS_NUMA_NODES; n++)
        for (uint32_t i = 0; i < STRESS_TASKS; i++)
            assert_int_equal(stress.runs[n][i], 1);
    assert_int_equal(stress.wrong_numa, 0);
    assert_true(pool_drain(pool, 60000));
    pool_stats(pool, &stats);
    uint64_t sum = (uint64_t)STRESS_TASKS * (STRESS_TASKS - 1) / 2;
    assert_int_equal(stats.copy_bytes, STRESS_NUMA_NODES * sum);
    assert_int_equal(stats.copy_ns, STRESS_NUMA_NODES * STRESS_TASKS);
    pool_free(pool);
    waker_done(&waker);
}

struct helper {
    struct gate gate;
    _Atomic uint32_t numa; /* of who ran the task, plus one */
};

static void note_numa(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin, (void)end;
    ((struct helper *)argument)->numa = worker->numa + 1;
}

static uint32_t who_ran(struct helper *helper)
{
    while (helper->numa == 0)
        clock_sleep_ns(100000);
    return helper->numa - 1;
}

/* An urgent task whose NUMA node is busy is run elsewhere; a normal one waits. */
static void test_others_take_over(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 8, NULL);
    struct helper busy = {0}, waits = {0};
    occupy(pool, &busy.gate);
    assert_true(pool_submit(pool, 0, POOL_NORMAL, note_numa, &waits, 0, 0));
    assert_true(pool_submit(pool, 0, POOL_URGENT, note_numa, &busy, 0, 0));
    assert_int_equal(who_ran(&busy), 1);
    assert_int_equal(waits.numa, 0);
    busy.gate.open = true;
    assert_int_equal(who_ran(&waits), 0);
    pool_free(pool);
}

/* Of two NUMA nodes the one whose worker sleeps, as long as nothing waits for that worker. */
static void test_the_idlest_numa_node(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 8, NULL);
    struct gate gates[2] = {{0}};
    while (pool_idlest_numa(pool) != 0) /* both sleep before long */
        clock_sleep_ns(100000);
    occupy(pool, &gates[0]);
    while (pool_idlest_numa(pool) != 1)
        clock_sleep_ns(100000);
    assert_true(pool_submit(pool, 1, POOL_URGENT, wait_at_gate, &gates[1], 0, 0));
    while (gates[1].inside == 0)
        clock_sleep_ns(100000);
    struct log log = {0};
    assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, 0, 0));
    assert_int_equal(pool_idlest_numa(pool), 1); /* none sleeps, and on 0 a task waits */
    gates[0].open = gates[1].open = true;
    while (log.count < 1)
        clock_sleep_ns(100000);
    pool_free(pool);
}

/* A worker that comes free helps before it reads ahead. */
static void test_help_goes_before_normal(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 8, NULL);
    struct gate first = {0}, second = {0};
    struct log log = {0};
    occupy(pool, &first);
    assert_true(pool_submit(pool, 1, POOL_NORMAL, wait_at_gate, &second, 0, 0));
    while (second.inside == 0)
        clock_sleep_ns(100000);
    assert_true(pool_submit(pool, 1, POOL_NORMAL, log_begin, &log, 7, 0));
    for (uint64_t i = 0; i < 3; i++)
        assert_true(pool_submit(pool, 0, POOL_URGENT, log_begin, &log, i, 0));
    second.open = true;
    while (log.count < 4)
        clock_sleep_ns(100000);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(log.begins[i], i);
    assert_int_equal(log.begins[3], 7);
    first.open = true;
    pool_free(pool);
}

static void run_slowly(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker, (void)begin, (void)end;
    struct gate *gate = argument;
    gate->inside++;
    clock_sleep_ns(50000);
    gate->inside--;
}

/* When it returns, nothing runs, whoever took it over. */
static void test_drain_waits_for_helpers(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(3, 5, 16, NULL);
    struct gate gate = {0};
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 12; i++)
            (void)!pool_submit(pool, (uint32_t)round % 3, POOL_URGENT, run_slowly, &gate, 0, 0);
        assert_true(pool_drain(pool, 60000));
        assert_int_equal(gate.inside, 0);
    }
    pool_free(pool);
}

struct roll {
    _Atomic uint32_t calls[8];       /* by worker */
    _Atomic uint32_t parts[4];       /* by NUMA node: bit i for part i */
    _Atomic uint32_t part_counts[4]; /* by NUMA node */
};

static void answer_roll(struct pool_worker *worker, void *argument, uint64_t i, uint64_t n)
{
    struct roll *roll = argument;
    roll->calls[worker->index]++;
    roll->parts[worker->numa] |= 1u << i;
    roll->part_counts[worker->numa] = (uint32_t)n;
}

static void test_run_on_all(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 5, 4, NULL); /* 3 and 2 workers */
    struct roll roll = {0};
    pool_run_on_workers(pool, answer_roll, &roll);
    for (int i = 0; i < 5; i++)
        assert_int_equal(roll.calls[i], 1);
    assert_int_equal(roll.parts[0], 7);
    assert_int_equal(roll.part_counts[0], 3);
    assert_int_equal(roll.parts[1], 3);
    assert_int_equal(roll.part_counts[1], 2);
    pool_free(pool);
}

struct seats {
    const struct placement *placement;
    _Atomic uint32_t right;
};

/* A worker's affinity, as the kernel has it, is its seat. */
static void check_seat(struct pool_worker *worker, void *argument, uint64_t i, uint64_t n)
{
    (void)i, (void)n;
    struct seats *seats = argument;
    struct cpuset now = {{0}};
    if (sched_getaffinity(0, sizeof now.words, (void *)now.words) == 0 &&
        cpuset_equal(&now, &seats->placement->workers[worker->index].cpuset))
        seats->right++;
}

static void test_workers_sit_at_their_placement(void **state)
{
    (void)state;
    struct topology *topology = NULL;
    struct placement placement;
    assert_int_equal(topology_load(NULL, NULL, &topology, NULL), STATUS_OK);
    uint32_t cores = topology_core_count(topology);
    assert_int_equal(topology_placement(topology, 0, 1, 0, cores, BIND_CORE, &placement, NULL),
                     STATUS_OK);
    topology_free(topology);
    struct pool *pool = NULL;
    assert_int_equal(pool_new(&placement, NULL, 4, NULL, &pool, NULL), STATUS_OK);
    struct seats seats = {.placement = pool_placement(pool)};
    pool_run_on_workers(pool, check_seat, &seats);
    assert_int_equal(seats.right, cores);
    pool_free(pool);
}

static void note_signal_mask(struct pool_worker *worker, void *argument, uint64_t i, uint64_t n)
{
    (void)worker, (void)i, (void)n;
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *(_Atomic bool *)argument = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT);
}

static void test_signals_stay_with_the_owner(void **state)
{
    (void)state;
    sigset_t mask;
    _Atomic bool blocked = false;
    struct pool *pool = made_up_pool(1, 1, 1, NULL);
    pool_run_on_workers(pool, note_signal_mask, &blocked);
    assert_true(blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGTERM));
    pool_free(pool);
}

static void test_start_failure_names_the_worker(void **state)
{
    (void)state;
    struct placement placement = made_up_placement(1, 3);
    placement.workers[1].cpuset = (struct cpuset){{0}};
    cpuset_add(&placement.workers[1].cpuset, 4090);
    struct pool *pool = NULL;
    struct error err;
    assert_int_equal(pool_new(&placement, NULL, 4, NULL, &pool, &err), STATUS_IO);
    assert_null(pool);
    assert_non_null(strstr(err.message, "worker thread 1 of 3: bind to cpus 4090"));
    assert_int_equal(pool_new(&placement, NULL, 4, NULL, &pool, NULL), STATUS_IO);
}

static void test_free_with_work_queued(void **state)
{
    (void)state;
    struct log log = {0};
    for (int i = 0; i < 50; i++) {
        struct pool *pool = made_up_pool(2, 4, 32, NULL);
        for (int k = 0; k < 32; k++)
            (void)!pool_submit(pool, k % 2, POOL_NORMAL, log_begin, &log, 0, 0);
        pool_free(pool);
    }
    pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urgent_goes_first_and_order_holds),
        cmocka_unit_test(test_a_first_task_goes_before_urgent_ones),
        cmocka_unit_test(test_one_of_several_reads_first),
        cmocka_unit_test(test_full_queue_refuses),
        cmocka_unit_test(test_settle_leaves_normal_tasks),
        cmocka_unit_test(test_behind_while_all_are_in_normal_tasks),
        cmocka_unit_test(test_the_owner_helps_where_all_are_held_up),
        cmocka_unit_test(test_the_owner_does_not_help_a_free_worker),
        cmocka_unit_test(test_drain_forgets_what_waits),
        cmocka_unit_test(test_stress),
        cmocka_unit_test(test_others_take_over),
        cmocka_unit_test(test_the_idlest_numa_node),
        cmocka_unit_test(test_help_goes_before_normal),
        cmocka_unit_test(test_drain_waits_for_helpers),
        cmocka_unit_test(test_run_on_all),
        cmocka_unit_test(test_workers_sit_at_their_placement),
        cmocka_unit_test(test_signals_stay_with_the_owner),
        cmocka_unit_test(test_start_failure_names_the_worker),
        cmocka_unit_test(test_free_with_work_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
