/* Where trainers sit: near their GPUs, on cores that no worker has, and nowhere on a crowded node.
 */
#include "made_up_machine.h"
#include "test_cpus.h"

enum { MAX_READERS = 8 };

static struct placement cursor(const struct topology *topology,
                               const struct placement_request *request)
{
    struct placement placement;
    struct error err;
    if (topology_reader_placement(topology, request, &placement, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return placement;
}

/* Node 1 has the lower PCI addresses, and nothing is listed in their order. */
static const struct machine crossed = {.nodes = 2,
                                       .cores = 8,
                                       .threads = 1,
                                       .devices = {{0xc1, 0x0302, NVIDIA, 0},
                                                   {0x81, 0x0302, NVIDIA, 0},
                                                   {0x41, 0x0302, NVIDIA, 1},
                                                   {0x01, 0x0302, NVIDIA, 1},
                                                   {0x03, 0x0300, ASPEED, 0}}};

static void test_what_counts_as_gpu(void **state)
{
    (void)state;
    static const struct {
        struct device devices[MAX_DEVICES];
        uint32_t count;
    } cases[] = {
        {{{0}}, 0},
        {{{3, 0x0300, ASPEED, 0}, {4, 0x0380, VIRTIO, 0}}, 0},
        {{{0, 0x0300, INTEL, 0}, {0, 0x0380, INTEL, 0}}, 0},
        {{{1, 0x0300, NVIDIA, 0}, {1, 0x0403, NVIDIA, 0}, {2, 0x0680, NVIDIA, 0}}, 1},
        {{{9, 0x0380, INTEL, 0}, {8, 0x0300, INTEL, 1}, {0, 0x0300, INTEL, 0}}, 2},
        {{{9, 0x1200, AMD, 0}, {8, 0x0380, AMD, 1}, {7, 0x1200, 0x10ee, 0}}, 2},
        {{{9, 0x0302, 0x1ed5, 0}}, 1},
        {{{9, 0x0300, AMD, 0}, {8, 0x0302, NVIDIA, 0}, {7, 0x0302, NVIDIA, 1}}, 2},
        {{{1, 0x0300, AMD, 0}, {8, 0x0302, NVIDIA, 0}}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine machine = {.nodes = 2, .cores = 2, .threads = 1};
        memcpy(machine.devices, cases[i].devices, sizeof machine.devices);
        struct topology *topology = load(&machine, NULL);
        assert_int_equal(topology_gpu_count(topology), cases[i].count);
        topology_free(topology);
    }
    static const struct machine tie = {.nodes = 1,
                                       .cores = 4,
                                       .threads = 1,
                                       .devices = {{1, 0x0300, AMD, 0}, {8, 0x0302, NVIDIA, 0}}};
    struct topology *topology = load(&tie, NULL);
    struct placement placement = even_placement(topology, 0, 1, 1, 0, BIND_NUMA);
    assert_string_equal(placement.trainers[0].gpu, "0000:08:00.0");
    topology_free(topology);
}

static void test_each_near_its_gpu(void **state)
{
    (void)state;
    struct topology *topology = load(&crossed, NULL);
    assert_int_equal(topology_gpu_count(topology), 4);
    static const char *const gpus[] = {"0000:01:00.0", "0000:41:00.0", "0000:81:00.0",
                                       "0000:c1:00.0"};
    struct placement placement = even_placement(topology, 0, 1, 4, 6, BIND_NUMA);
    assert_int_equal(placement.seat_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_string_equal(placement.trainers[i].gpu, gpus[i]);
        assert_int_equal(placement.trainers[i].numa_os_index, i < 2);
        assert_cpus(placement.trainers[i].cpuset, i < 2 ? "11-15" : "3-7");
    }
    assert_cpus(placement.workers[0].cpuset, "0-2");
    assert_cpus(placement.workers[5].cpuset, "8-10");

    struct text text = {0};
    topology_describe(&placement, &text);
    assert_string_equal(text.data,
                        "   3 workers on NUMA node 0, cpus 0-2\n"
                        "   3 workers on NUMA node 1, cpus 8-10\n"
                        "   2 trainers on NUMA node 1, cpus 11-15, GPU 0000:01:00.0 0000:41:00.0\n"
                        "   2 trainers on NUMA node 0, cpus 3-7, GPU 0000:81:00.0 0000:c1:00.0\n");
    text_done(&text);

    placement = even_placement(topology, 0, 1, 4, 6, BIND_CORE);
    assert_cpus(placement.workers[4].cpuset, "9");
    assert_cpus(placement.trainers[0].cpuset, "11-12");
    assert_cpus(placement.trainers[1].cpuset, "13-15");
    topology_free(topology);
}

/* A reader takes the NUMA node where the GPUs of its trainers are. */
static void test_readers_follow_gpus(void **state)
{
    (void)state;
    struct topology *topology = load(&crossed, NULL);
    for (uint32_t reader = 0; reader < 2; reader++) {
        struct placement placement = even_placement(topology, reader, 2, 4, 0, BIND_NUMA);
        assert_cpus(placement.cpuset, reader ? "0-7" : "8-15");
        assert_int_equal(placement.worker_count, 6);
        assert_cpus(placement.workers[0].cpuset, reader ? "0-5" : "8-13");
        for (uint32_t i = 0; i < 2; i++)
            assert_cpus(placement.trainers[i].cpuset, reader ? "6-7" : "14-15");
    }
    topology_free(topology);
}

/* Four readers on four nodes whose GPUs come in another order. */
static void test_readers_follow_gpus_round_about(void **state)
{
    (void)state;
    static const struct machine machine = {.nodes = 4,
                                           .cores = 2,
                                           .threads = 2,
                                           .devices = {{0x10, 0x1200, AMD, 2},
                                                       {0x20, 0x1200, AMD, 0},
                                                       {0x30, 0x1200, AMD, 3},
                                                       {0x40, 0x1200, AMD, 1}}};
    static const char *const cpusets[] = {"8-11", "0-3", "12-15", "4-7"};
    static const char *const seats[] = {"10-11", "2-3", "14-15", "6-7"};
    struct topology *topology = load(&machine, NULL);
    for (uint32_t reader = 0; reader < 4; reader++) {
        struct placement placement = even_placement(topology, reader, 4, 4, 0, BIND_NUMA);
        assert_cpus(placement.cpuset, cpusets[reader]);
        assert_cpus(placement.trainers[0].cpuset, seats[reader]);
    }
    topology_free(topology);
}

/* The GPU of each of two trainers, as the last letters of its address; "-" if none is known. */
static void check_visible(const struct topology *topology, const char *visible, const char *first,
                          const char *second)
{
    const struct placement_group group = {.first = 0, .count = 2};
    struct placement_request request = {.reader_count = 1,
                                        .groups = &group,
                                        .node_trainers = 2,
                                        .bind = BIND_NUMA,
                                        .visible_gpus = visible};
    struct placement placement = cursor(topology, &request);
    const char *expected[] = {first, second};
    for (unsigned i = 0; i < 2; i++) {
        char bus[8] = "-";
        if (placement.trainers[i].gpu[0])
            assert_int_equal(sscanf(placement.trainers[i].gpu, "0000:%2[0-9a-f]", bus), 1);
        assert_string_equal(bus, expected[i]);
    }
}

static void test_visible_devices(void **state)
{
    (void)state;
    struct topology *topology = load(&crossed, NULL);
    check_visible(topology, NULL, "01", "41");
    check_visible(topology, "2,0", "81", "01");
    check_visible(topology, "3,2,1", "c1", "81");
    check_visible(topology, "3", "-", "-"); /* fewer than trainers */
    check_visible(topology, "1,-1,2", "-", "-");
    check_visible(topology, "1,4,2", "-", "-");
    check_visible(topology, "1,0,GPU-2", "41", "01");
    check_visible(topology, "", "-", "-");
    check_visible(topology, "GPU-8932f937,GPU-1", "-", "-");
    check_visible(topology, "0x1,2", "-", "-");
    check_visible(topology, "99999999999999999999,1", "-", "-");
    topology_free(topology);
}

/* A reader bound by its launcher has a placement by itself, and still knows which GPUs are its. */
static void test_later_local_ranks(void **state)
{
    (void)state;
    struct topology *topology = load(&crossed, "0-7");
    const struct placement_group group = {.first = 2, .count = 2};
    struct placement_request request = {
        .reader_count = 1, .groups = &group, .node_trainers = 4, .bind = BIND_NUMA};
    struct placement placement = cursor(topology, &request);
    assert_string_equal(placement.trainers[0].gpu, "0000:81:00.0");
    assert_cpus(placement.trainers[1].cpuset, "6-7");
    assert_int_equal(placement.worker_count, 6);
    topology_free(topology);
}

/* GPUs keep their numbers where their NUMA node may not be used, and others sit elsewhere. */
static void test_restricted(void **state)
{
    (void)state;
    struct topology *topology = load(&crossed, "2-5");
    assert_int_equal(topology_gpu_count(topology), 4);
    struct placement placement = even_placement(topology, 0, 1, 3, 0, BIND_NUMA);
    assert_int_equal(placement.worker_count, 1);
    assert_cpus(placement.workers[0].cpuset, "2");
    for (unsigned i = 0; i < 3; i++)
        assert_cpus(placement.trainers[i].cpuset, "3-5");
    assert_string_equal(placement.trainers[2].gpu, "0000:81:00.0");
    topology_free(topology);
    topology = load(&crossed, "6-9"); /* two cores of each node */
    placement = even_placement(topology, 0, 1, 3, 1, BIND_NUMA);
    assert_cpus(placement.trainers[0].cpuset, "8-9");
    assert_cpus(placement.trainers[1].cpuset, "8-9");
    assert_cpus(placement.trainers[2].cpuset, "7");
    assert_cpus(placement.workers[0].cpuset, "6");
    topology_free(topology);
}

/* GPUs without a NUMA node of their own, as virtual machines have them, or fewer than trainers. */
static void test_spread_without_gpus(void **state)
{
    (void)state;
    static const struct machine machines[] = {
        {.nodes = 2, .cores = 4, .threads = 2},
        {.nodes = 2, .cores = 4, .threads = 2, .devices = {{5, 0x0302, NVIDIA, 1}}},
        {.nodes = 2,
         .cores = 4,
         .threads = 2,
         .devices = {{5, 0x0302, NVIDIA, -1}, {6, 0x0302, NVIDIA, -1}}},
    };
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        struct topology *topology = load(&machines[m], NULL);
        struct placement placement = even_placement(topology, 0, 1, 2, 0, BIND_NUMA);
        assert_cpus(placement.trainers[0].cpuset, "6-7"); /* both threads of a core */
        assert_cpus(placement.trainers[1].cpuset, "14-15");
        assert_int_equal(placement.worker_count, 6);
        assert_cpus(placement.workers[2].cpuset, "0-5");
        assert_cpus(placement.workers[3].cpuset, "8-13");
        topology_free(topology);
    }
}

static void test_node_too_small_for_its_gpus(void **state)
{
    (void)state;
    static const struct machine machine = {
        .nodes = 2,
        .cores = 2,
        .threads = 1,
        .devices = {{1, 0x0302, NVIDIA, 1}, {2, 0x0302, NVIDIA, 1}, {3, 0x0302, NVIDIA, 1}}};
    struct topology *topology = load(&machine, NULL);
    struct placement placement = even_placement(topology, 0, 1, 3, 0, BIND_NUMA);
    assert_false(placement.crowded);
    assert_cpus(placement.trainers[0].cpuset, "2-3");
    assert_cpus(placement.trainers[1].cpuset, "2-3");
    assert_cpus(placement.trainers[2].cpuset, "1");
    assert_cpus(placement.workers[0].cpuset, "0");
    topology_free(topology);
    /* Nodes of 4 and of 1 core are divided otherwise when readers want 2 threads each. */
    static const struct machine uneven = {.nodes = 2, .cores = 4, .threads = 1};
    topology = load(&uneven, "0-4");
    assert_cpus(even_placement(topology, 0, 2, 1, 2, BIND_NUMA).workers[0].cpuset, "0-1");
    placement = even_placement(topology, 1, 2, 1, 2, BIND_NUMA);
    assert_false(placement.crowded);
    assert_cpus(placement.workers[0].cpuset, "2");
    assert_cpus(placement.trainers[0].cpuset, "3");
    assert_cpus(placement.workers[1].cpuset, "4");
    topology_free(topology);
}

static void test_crowded(void **state)
{
    (void)state;
    static const struct {
        unsigned cores;
        uint32_t readers, trainers, threads;
        bool crowded;
        const char *warning;
    } cases[] = {
        {2, 1, 1, 0, false, NULL},
        {1, 1, 0, 0, false, NULL},
        {1, 1, 1, 0, true, "1 reader with 1 worker thread and 1 trainer share 1 core:"},
        {4, 1, 9, 0, true, "1 reader with 1 worker thread and 9 trainers share 4 cores:"},
        {6, 2, 4, 4, true, "2 readers with 8 worker threads and 4 trainers share 6 cores:"},
        {6, 2, 4, 1, false, NULL},
        {2, 3, 0, 0, true, "3 readers with 3 worker threads and 0 trainers share 2 cores:"},
        {8, 1, 7, 0, false, NULL},
        {8, 1, 8, 0, true, "1 reader with 1 worker thread and 8 trainers share 8 cores:"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine machine = {.nodes = 1, .cores = cases[i].cores, .threads = 1};
        struct topology *topology = load(&machine, NULL);
        struct placement placement = even_placement(topology, 0, cases[i].readers,
                                                    cases[i].trainers, cases[i].threads, BIND_NUMA);
        struct text text = {0};
        topology_describe_crowd(&placement, &text);
        assert_int_equal(placement.crowded, cases[i].crowded);
        assert_int_equal(placement.seat_count, cases[i].crowded ? 0 : placement.trainer_count);
        if (cases[i].crowded)
            assert_int_equal(strncmp(text.data, cases[i].warning, strlen(cases[i].warning)), 0);
        else
            assert_null(text.data);
        text_done(&text);
        topology_free(topology);
    }
}

/* What holds for all readers of a node together. */
static void check_node(const struct topology *topology, uint32_t readers, uint32_t trainers,
                       uint32_t threads, enum topology_bind bind)
{
    static struct placement placements[MAX_READERS];
    uint32_t cores = topology_core_count(topology), seats = 0, workers = 0;
    uint64_t working = 0, training = 0;
    bool crowded = readers * (threads ? threads : 1) + trainers > cores;
    for (uint32_t reader = 0; reader < readers; reader++) {
        struct placement *placement = &placements[reader];
        *placement = even_placement(topology, reader, readers, trainers, threads, bind);
        assert_int_equal(placement->crowded, crowded);
        assert_int_equal(placement->all_readers, readers);
        assert_int_equal(placement->all_trainers, trainers);
        assert_int_equal(placement->all_cores, cores);
        for (uint32_t i = 0; i < placement->worker_count; i++)
            working |= placement->workers[i].cpuset.words[0];
        seats += placement->seat_count;
        workers += placement->worker_count;
    }
    assert_int_equal(placements[0].all_workers, workers);
    assert_int_equal(seats, crowded || bind == BIND_NONE ? 0 : trainers);
    if (!crowded && threads == 0)
        assert_int_equal(workers, cores - trainers);
    for (uint32_t reader = 0; reader < readers; reader++) {
        for (uint32_t i = 0; i < placements[reader].seat_count; i++) {
            uint64_t seat = placements[reader].trainers[i].cpuset.words[0];
            assert_true(seat != 0 && (seat & working) == 0);
            if (bind == BIND_CORE)
                assert_true((seat & training) == 0);
            training |= seat;
        }
    }
}

static void test_nobody_overlaps(void **state)
{
    (void)state;
    static const struct {
        struct machine machine;
        const char *allowed;
    } machines[] = {
        {{.nodes = 2, .cores = 4, .threads = 1}, NULL},
        {{.nodes = 4, .cores = 4, .threads = 2}, NULL},
        {{.nodes = 4, .cores = 4, .threads = 2}, "1,3-6,9-20,31"},
        {{.nodes = 3, .cores = 5, .threads = 1}, NULL},
        {{.nodes = 1, .cores = 1, .threads = 2}, NULL},
    };
    struct topology *topology = load(&crossed, NULL);
    for (size_t m = 0; m <= sizeof machines / sizeof machines[0]; m++) {
        for (uint32_t readers = 1; readers <= 5; readers++)
            for (uint32_t trainers = 0; trainers <= 9; trainers++)
                for (uint32_t threads = 0; threads <= 3; threads++)
                    for (int bind = BIND_NONE; bind <= BIND_CORE; bind++)
                        check_node(topology, readers, trainers, threads, (enum topology_bind)bind);
        topology_free(topology);
        if (m < sizeof machines / sizeof machines[0])
            topology = load(&machines[m].machine, machines[m].allowed);
    }
}

/* As many readers as NUMA nodes: each has one of them, and its trainers with it. */
static void test_reader_for_each_node(void **state)
{
    (void)state;
    for (unsigned nodes = 1; nodes <= 4; nodes++) {
        struct machine machine = {.nodes = nodes, .cores = 4, .threads = 2};
        struct topology *topology = load(&machine, NULL);
        for (uint32_t reader = 0; reader < nodes; reader++) {
            struct placement placement =
                even_placement(topology, reader, nodes, 2 * nodes, 0, BIND_NUMA);
            assert_true(placement.cpuset.words[0] == UINT64_C(0xff) << 8 * reader);
            assert_int_equal(placement.worker_count, 2);
            assert_int_equal(placement.numa_count, 1);
            assert_int_equal(placement.workers[0].numa_os_index, reader);
            assert_int_equal(placement.seat_count, 2);
            for (uint32_t i = 0; i < 2; i++)
                assert_int_equal(placement.trainers[i].numa_os_index, reader);
        }
        topology_free(topology);
    }
}

/* Rings: on the NUMA node of the seat, filled by workers there where this reader has any. */
static void test_homes(void **state)
{
    (void)state;
    struct topology *topology = load(&crossed, NULL);
    struct placement placement = even_placement(topology, 0, 1, 4, 6, BIND_NUMA);
    for (uint32_t i = 0; i < 4; i++) {
        struct placement_memory near = topology_memory_of(&placement, i);
        assert_int_equal(near.numa_os_index, i < 2); /* its GPU's */
        assert_int_equal(near.numa, i < 2);
        assert_true(near.is_near);
    }
    /* One worker, on node 0: the ring is on node 1 all the same. */
    placement = even_placement(topology, 0, 1, 4, 1, BIND_NUMA);
    struct placement_memory near = topology_memory_of(&placement, 0);
    assert_int_equal(near.numa_os_index, 1);
    assert_int_equal(near.numa, 0);
    assert_false(near.is_near);
    assert_true(topology_memory_of(&placement, 3).is_near);
    /* Without seats they are spread over what workers there are. */
    placement = even_placement(topology, 0, 1, 4, 15, BIND_NUMA);
    assert_true(placement.crowded);
    for (uint32_t i = 0; i < 4; i++) {
        near = topology_memory_of(&placement, i);
        assert_int_equal(near.numa, i / 2);
        assert_int_equal(near.numa_os_index, i / 2);
        assert_true(near.is_near);
    }
    assert_int_equal(topology_memory_of(&placement, 7).numa, 1); /* one of another reader's */
    placement = even_placement(topology, 0, 1, 4, 6, BIND_NONE);
    assert_int_equal(topology_memory_of(&placement, 3).numa, 0);
    topology_free(topology);
    /* Two readers, each with a node. */
    topology = load(&crossed, NULL);
    for (uint32_t reader = 0; reader < 2; reader++) {
        placement = even_placement(topology, reader, 2, 4, 0, BIND_NUMA);
        for (uint32_t i = 0; i < 2; i++) {
            near = topology_memory_of(&placement, i);
            assert_int_equal(near.numa_os_index, 1 - reader);
            assert_true(near.numa == 0 && near.is_near);
        }
    }
    topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_counts_as_gpu),
        cmocka_unit_test(test_each_near_its_gpu),
        cmocka_unit_test(test_readers_follow_gpus),
        cmocka_unit_test(test_readers_follow_gpus_round_about),
        cmocka_unit_test(test_visible_devices),
        cmocka_unit_test(test_later_local_ranks),
        cmocka_unit_test(test_restricted),
        cmocka_unit_test(test_spread_without_gpus),
        cmocka_unit_test(test_node_too_small_for_its_gpus),
        cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_nobody_overlaps),
        cmocka_unit_test(test_reader_for_each_node),
        cmocka_unit_test(test_homes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
