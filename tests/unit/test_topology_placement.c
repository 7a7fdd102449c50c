/* Placement on made-up machines: who gets which cores, and which workers sit where. */
#include "test_cpus.h"
#include "topology/topology.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct topology *load(const char *description, const char *allowed)
{
    struct topology *topology = NULL;
    struct error err;
    if (topology_load(description, allowed, &topology, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return topology;
}

static struct placement cursor(const struct topology *topology, uint32_t rank, uint32_t size,
                               uint32_t trainers, uint32_t threads, enum topology_bind bind)
{
    struct placement placement;
    struct error err;
    if (topology_placement(topology, rank, size, trainers, threads, bind, &placement, &err) !=
        STATUS_OK)
        fail_msg("%s", err.message);
    return placement;
}

static void test_counts(void **state)
{
    (void)state;
    static const struct {
        const char *description, *allowed;
        uint32_t cores, nodes;
    } machines[] = {
        {"numa:2 core:4 pu:1", NULL, 8, 2},         {"numa:4 core:8 pu:2", NULL, 32, 4},
        {"numa:4 core:8 pu:2", "0-15", 8, 1},       {"numa:4 core:8 pu:2", "0,2,16-19", 4, 2},
        {"numa:4 core:8 pu:2", "1,3", 2, 1},        {"core:6 pu:2", NULL, 6, 1},
        {"pack:2 numa:2 core:3 pu:1", NULL, 12, 4}, {"numa:2 pu:4", NULL, 8, 2},
    };
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        struct topology *topology = load(machines[i].description, machines[i].allowed);
        assert_int_equal(topology_core_count(topology), machines[i].cores);
        assert_int_equal(topology_numa_count(topology), machines[i].nodes);
        topology_free(topology);
    }
}

static void test_bad_descriptions(void **state)
{
    (void)state;
    static const struct {
        const char *description, *allowed, *message;
    } cases[] = {
        {"numa:two", NULL, "numa:two"},           {"missing.xml", NULL, "missing.xml"},
        {"numa:2 core:4 pu:1", "64-80", "64-80"}, {"numa:2 core:4 pu:1", "", "''"},
        {"numa:2 core:4 pu:1", "all", "all"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct topology *topology = NULL;
        struct error err;
        assert_int_equal(topology_load(cases[i].description, cases[i].allowed, &topology, &err),
                         STATUS_INVALID);
        assert_non_null(strstr(err.message, cases[i].message));
        assert_null(topology);
    }
}

static void test_one_reader_has_all(void **state)
{
    (void)state;
    struct topology *topology = load("numa:2 core:4 pu:1", NULL);
    struct placement placement = cursor(topology, 0, 1, 0, 0, BIND_NUMA);
    assert_int_equal(placement.worker_count, 8);
    assert_int_equal(placement.numa_count, 2);
    assert_cpus(placement.cpuset, "0-7");
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(placement.workers[i].numa, i / 4);
        assert_cpus(placement.workers[i].cpuset, i < 4 ? "0-3" : "4-7");
    }
    topology_free(topology);
}

static void test_trainers_get_cores(void **state)
{
    (void)state;
    struct topology *topology = load("numa:2 core:8 pu:2", NULL);
    assert_int_equal(cursor(topology, 0, 2, 4, 0, BIND_NUMA).worker_count, 6);
    assert_int_equal(cursor(topology, 0, 2, 3, 0, BIND_NUMA).worker_count, 7);
    assert_int_equal(cursor(topology, 1, 2, 3, 0, BIND_NUMA).worker_count, 6);
    assert_int_equal(cursor(topology, 0, 2, 64, 0, BIND_NUMA).worker_count, 1);
    assert_int_equal(cursor(topology, 0, 2, 64, 5, BIND_NUMA).worker_count, 5);
    topology_free(topology);
    topology = load("numa:2 core:96 pu:1", NULL);
    assert_int_equal(cursor(topology, 0, 1, 0, 0, BIND_NUMA).worker_count, 64);
    topology_free(topology);
}

static void test_whole_nodes_when_there_are_enough(void **state)
{
    (void)state;
    struct topology *topology = load("numa:4 core:2 pu:2", NULL);
    assert_cpus(cursor(topology, 0, 2, 0, 0, BIND_NUMA).cpuset, "0-7");
    assert_cpus(cursor(topology, 1, 2, 0, 0, BIND_NUMA).cpuset, "8-15");
    struct placement third = cursor(topology, 2, 3, 0, 0, BIND_NUMA);
    assert_cpus(third.cpuset, "8-15");
    assert_int_equal(third.workers[0].numa_os_index, 2);
    assert_int_equal(third.workers[3].numa_os_index, 3);
    topology_free(topology);
    topology = load("numa:2 core:4 pu:1", "0-4"); /* nodes of 4 and of 1 core */
    assert_cpus(cursor(topology, 0, 2, 0, 0, BIND_NUMA).cpuset, "0-3");
    assert_cpus(cursor(topology, 1, 2, 0, 0, BIND_NUMA).cpuset, "4");
    topology_free(topology);
}

static void test_binding(void **state)
{
    (void)state;
    struct topology *topology = load("numa:2 core:4 pu:2", NULL);
    struct placement core = cursor(topology, 1, 2, 0, 0, BIND_CORE);
    assert_cpus(core.workers[0].cpuset, "8-9");
    assert_cpus(core.workers[3].cpuset, "14-15");
    struct placement none = cursor(topology, 0, 1, 0, 3, BIND_NONE);
    assert_int_equal(none.numa_count, 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_cpus(none.workers[i].cpuset, "0-15");
        assert_int_equal(none.workers[i].numa, 0);
    }
    struct placement one = cursor(topology, 0, 1, 0, 1, BIND_NUMA);
    assert_int_equal(one.numa_count, 1);
    assert_cpus(one.workers[0].cpuset, "0-7");
    topology_free(topology);
}

/* What holds for every machine, reader count and thread count. */
static void check_readers(const struct topology *topology, uint32_t size, uint32_t threads,
                          enum topology_bind bind)
{
    uint64_t all = 0;
    uint32_t cores = topology_core_count(topology);
    for (uint32_t rank = 0; rank < size; rank++) {
        struct placement placement = cursor(topology, rank, size, 2, threads, bind);
        uint64_t mine = placement.cpuset.words[0];
        assert_true(mine != 0);
        if (size <= cores)
            assert_true((all & mine) == 0);
        all |= mine;
        if (threads > 0)
            assert_int_equal(placement.worker_count, threads);
        uint32_t next_numa = 0;
        for (uint32_t i = 0; i < placement.worker_count; i++) {
            const struct placement_worker *worker = &placement.workers[i];
            uint64_t seat = worker->cpuset.words[0];
            assert_true(seat != 0 && (bind == BIND_NONE || (seat & ~mine) == 0));
            assert_true(worker->numa == next_numa || worker->numa + 1 == next_numa);
            next_numa = worker->numa + 1;
        }
        assert_int_equal(next_numa, placement.numa_count);
    }
    uint64_t machine = cursor(topology, 0, 1, 0, 1, BIND_NONE).cpuset.words[0];
    if (size <= cores)
        assert_true(all == machine);
}

static void test_readers_share_without_overlap(void **state)
{
    (void)state;
    static const char *const machines[][2] = {
        {"numa:2 core:4 pu:1", NULL},   {"numa:4 core:8 pu:2", NULL},
        {"numa:4 core:8 pu:2", "0-20"}, {"numa:4 core:8 pu:2", "3,17-18,33-47"},
        {"numa:3 core:5 pu:1", NULL},   {"core:1 pu:2", NULL},
    };
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        struct topology *topology = load(machines[m][0], machines[m][1]);
        for (uint32_t size = 1; size <= 5; size++)
            for (uint32_t threads = 0; threads <= 9; threads += 3)
                for (int bind = BIND_NONE; bind <= BIND_CORE; bind++)
                    check_readers(topology, size, threads, (enum topology_bind)bind);
        topology_free(topology);
    }
}

static void test_limits(void **state)
{
    (void)state;
    struct topology *topology = load("numa:2 core:4 pu:1", NULL);
    struct placement placement = {.worker_count = 77};
    struct error err;
    assert_int_equal(topology_placement(topology, 2, 2, 0, 0, BIND_NUMA, &placement, &err),
                     STATUS_INVALID);
    assert_int_equal(topology_placement(topology, 0, 1, 0, TOPOLOGY_MAX_WORKERS + 1, BIND_NUMA,
                                        &placement, &err),
                     STATUS_INVALID);
    assert_int_equal(placement.worker_count, 77);
    placement = cursor(topology, 0, 1, 0, TOPOLOGY_MAX_WORKERS, BIND_CORE);
    assert_int_equal(placement.worker_count, TOPOLOGY_MAX_WORKERS);
    topology_free(topology);
}

static void test_describe(void **state)
{
    (void)state;
    struct topology *topology = load("numa:2 core:4 pu:1", NULL);
    struct placement placement = cursor(topology, 0, 1, 3, 0, BIND_NUMA);
    struct text text = {0};
    topology_describe(&placement, &text);
    topology_describe_crowd(&placement, &text);
    assert_string_equal(text.data, "   2 workers on NUMA node 0, cpus 0-1\n"
                                   "   3 workers on NUMA node 1, cpus 4-6\n"
                                   "   2 trainers on NUMA node 0, cpus 2-3\n"
                                   "   1 trainer on NUMA node 1, cpus 7\n");
    text_done(&text);
    placement = cursor(topology, 0, 2, 1, 3, BIND_CORE);
    topology_describe(&placement, &text);
    assert_string_equal(text.data, "   3 workers on NUMA node 0, a core each of cpus 0-2\n");
    text_done(&text);
    placement = cursor(topology, 0, 1, 2, 7, BIND_CORE);
    topology_describe(&placement, &text);
    topology_describe_crowd(&placement, &text);
    assert_string_equal(
        text.data,
        "   4 workers on NUMA node 0, a core each of cpus 0-3\n"
        "   3 workers on NUMA node 1, a core each of cpus 4-6\n"
        "   2 trainers on any cpu\n"
        "1 reader with 7 worker threads and 2 trainers share 8 cores: they take turns; lower "
        "readers.threads or the trainers of a node");
    text_done(&text);
    topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_bad_descriptions),
        cmocka_unit_test(test_one_reader_has_all),
        cmocka_unit_test(test_trainers_get_cores),
        cmocka_unit_test(test_whole_nodes_when_there_are_enough),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_readers_share_without_overlap),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_describe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
