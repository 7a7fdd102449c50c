/* The machine at hand: what is in a placement can be bound to, and the kernel agrees. */
#include "topology/topology.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct topology *load(void)
{
    struct topology *topology = NULL;
    struct error err;
    if (topology_load(NULL, NULL, &topology, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return topology;
}

/* Binds and reports what the kernel then says: the set that was asked for, exactly. */
static void *bind_and_compare(void *argument)
{
    const struct cpuset *cpuset = argument;
    cpu_set_t now;
    if (topology_bind_self(cpuset, NULL) != STATUS_OK || sched_getaffinity(0, sizeof now, &now))
        return "bind";
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if ((bool)CPU_ISSET(cpu, &now) != cpuset_has(cpuset, cpu))
            return "kernel has another set";
    return NULL;
}

static const char *try_bind(struct cpuset *cpuset)
{
    pthread_t thread;
    void *failure = "no thread";
    if (pthread_create(&thread, NULL, bind_and_compare, cpuset) == 0)
        pthread_join(thread, &failure);
    return failure;
}

static void test_every_seat_can_be_taken(void **state)
{
    (void)state;
    struct topology *topology = load();
    uint32_t cores = topology_core_count(topology);
    assert_in_range(cores, 1, CPU_SETSIZE);
    for (int bind = BIND_NONE; bind <= BIND_CORE; bind++) {
        for (uint32_t size = 1; size <= 3; size++) {
            struct placement placement;
            struct error err;
            if (topology_placement(topology, size - 1, size, 0, 0, (enum topology_bind)bind,
                                   &placement, &err) != STATUS_OK)
                fail_msg("%s", err.message);
            assert_null(try_bind(&placement.cpuset));
            for (uint32_t i = 0; i < placement.worker_count; i++)
                assert_null(try_bind(&placement.workers[i].cpuset));
        }
    }
    topology_free(topology);
}

/* Binds all threads of this process: sanitizers have one of their own. */
static void bind_process(const cpu_set_t *cpus)
{
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    struct dirent *entry;
    while ((entry = readdir(tasks)))
        if (atoi(entry->d_name) > 0)
            assert_int_equal(sched_setaffinity(atoi(entry->d_name), sizeof *cpus, cpus), 0);
    closedir(tasks);
}

/* A process that was given one cpu sees a machine of one core. */
static void test_affinity_restricts(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    unsigned last = 0;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &before))
            last = cpu;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    bind_process(&one);
    struct topology *topology = load();
    assert_int_equal(topology_core_count(topology), 1);
    struct placement placement;
    assert_int_equal(topology_placement(topology, 0, 1, 0, 0, BIND_NUMA, &placement, NULL),
                     STATUS_OK);
    assert_int_equal(placement.worker_count, 1);
    assert_true(cpuset_has(&placement.cpuset, last));
    topology_free(topology);
    bind_process(&before);
}

static void test_bind_refuses(void **state)
{
    (void)state;
    struct error err;
    struct cpuset set = {{0}};
    assert_int_equal(topology_bind_self(&set, &err), STATUS_IO);
    cpuset_add(&set, 4090);
    assert_int_equal(topology_bind_self(&set, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "bind to cpus 4090"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_seat_can_be_taken),
        cmocka_unit_test(test_affinity_restricts),
        cmocka_unit_test(test_bind_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
