/* Cpusets that are not ranges: the bitmap itself, and machines that number their cpus alternately,
 * one socket's even, the other's odd. */
#include "made_up_machine.h"
#include "test_cpus.h"

static void test_lists(void **state)
{
    (void)state;
    static const char *const same[] = {"0",           "4095",   "0-1",       "0-3,8",
                                       "0,2",         "1,3,6",  "0-54:2",    "0-54:2,57-111:2",
                                       "63-64",       "0-4095", "0-4094:2",  "0,2,16-19",
                                       "3-9:3,20-21", "0-1,3",  "1-4093:31", "5,4095"};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        struct cpuset set;
        assert_int_equal(cpuset_parse(same[i], &set, NULL), STATUS_OK);
        assert_cpus(set, same[i]);
    }
    struct cpuset set, other;
    assert_int_equal(cpuset_parse("8,0-3,2-4", &set, NULL), STATUS_OK);
    assert_cpus(set, "0-4,8");
    assert_int_equal(cpuset_parse("0-3:7", &set, NULL), STATUS_OK);
    assert_cpus(set, "0");
    assert_int_equal(cpuset_parse("4-7", &other, NULL), STATUS_OK);
    assert_false(cpuset_intersects(&set, &other));
    cpuset_unite(&set, &other);
    assert_cpus(set, "0,4-7");
    assert_true(cpuset_intersects(&set, &other) && !cpuset_equal(&set, &other));
    assert_true(cpuset_has(&set, 7) && !cpuset_has(&set, 8) && !cpuset_has(&set, 4096));
    assert_cpus((struct cpuset){{0}}, "");
}

static void test_no_lists(void **state)
{
    (void)state;
    static const char *const lists[] = {"",
                                        "all",
                                        "0-",
                                        "-1",
                                        "1-0",
                                        "0,",
                                        ",1",
                                        "0-3:",
                                        "0-3:0",
                                        "0x1",
                                        "1 2",
                                        "0-3:-1",
                                        "0:2",
                                        "+1",
                                        "1-2-3",
                                        "0-3:1:1",
                                        "2-4:18446744073709551615"};
    struct cpuset set;
    struct error err;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        assert_int_equal(cpuset_parse(lists[i], &set, &err), STATUS_INVALID);
    assert_int_equal(cpuset_parse("0,4096", &set, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cpu 4096; cpus below 4096"));
    assert_int_equal(cpuset_parse("99999999999999999999", &set, &err), STATUS_UNSUPPORTED);
}

/* What any set prints is read as that set. */
static void test_random_sets(void **state)
{
    (void)state;
    srand(5);
    for (int round = 0; round < 200; round++) {
        struct cpuset set = {{0}}, again;
        uint32_t limit = round % 2 ? 64 : CPUSET_MAX_CPUS;
        for (int i = 0; i <= round; i++)
            cpuset_add(&set, (uint32_t)rand() % limit);
        struct text list = {0};
        cpuset_print(&set, &list);
        assert_int_equal(cpuset_parse(list.data, &again, NULL), STATUS_OK);
        assert_true(cpuset_equal(&set, &again));
        text_done(&list);
    }
}

/* A socket's GPUs are four of eight. */
static const struct device eight_gpus[MAX_DEVICES] = {
    {0x10, 0x0302, NVIDIA, 0}, {0x20, 0x0302, NVIDIA, 0}, {0x30, 0x0302, NVIDIA, 0},
    {0x40, 0x0302, NVIDIA, 0}, {0x90, 0x0302, NVIDIA, 1}, {0xa0, 0x0302, NVIDIA, 1},
    {0xb0, 0x0302, NVIDIA, 1}, {0xc0, 0x0302, NVIDIA, 1}};

static struct topology *load_sockets(unsigned cores)
{
    struct machine machine = {.nodes = 2, .cores = cores, .threads = 2, .alternate = true};
    memcpy(machine.devices, eight_gpus, sizeof machine.devices);
    return load(&machine, NULL);
}

/* All cpus of a set are even, or all are odd, as those of their socket. */
static void check_socket(const struct cpuset *cpus, uint32_t node)
{
    assert_true(cpuset_next(cpus, 0) < CPUSET_MAX_CPUS);
    for (uint32_t cpu = cpuset_next(cpus, 0); cpu < CPUSET_MAX_CPUS;
         cpu = cpuset_next(cpus, cpu + 1))
        assert_int_equal(cpu % 2, node);
}

static uint32_t count_cpus(const struct cpuset *cpus)
{
    uint32_t count = 0;
    for (uint32_t cpu = cpuset_next(cpus, 0); cpu < CPUSET_MAX_CPUS;
         cpu = cpuset_next(cpus, cpu + 1))
        count++;
    return count;
}

static void check_reader(const struct topology *topology, uint32_t reader, uint32_t readers,
                         enum topology_bind bind, struct cpuset *taken)
{
    struct placement placement = even_placement(topology, reader, readers, 8, 0, bind);
    uint32_t cores = topology_core_count(topology);
    uint32_t expected = (cores - 8) / readers;
    assert_int_equal(placement.worker_count, expected < 64 ? expected : 64);
    assert_int_equal(placement.numa_count, 2 / readers);
    assert_int_equal(count_cpus(&placement.cpuset), 2 * cores / readers);
    struct cpuset workers = {{0}};
    for (uint32_t i = 0; i < placement.worker_count; i++) {
        check_socket(&placement.workers[i].cpuset, placement.workers[i].numa_os_index);
        cpuset_unite(&workers, &placement.workers[i].cpuset);
    }
    assert_int_equal(placement.seat_count, 8 / readers);
    for (uint32_t i = 0; i < placement.seat_count; i++) {
        const struct placement_trainer *trainer = &placement.trainers[i];
        uint32_t gpu = reader * 8 / readers + i;
        assert_int_equal(trainer->numa_os_index, gpu / 4);
        check_socket(&trainer->cpuset, gpu / 4);
        assert_false(cpuset_intersects(&workers, &trainer->cpuset));
        if (bind == BIND_CORE)
            assert_false(cpuset_intersects(taken, &trainer->cpuset));
        cpuset_unite(taken, &trainer->cpuset);
    }
    assert_false(cpuset_intersects(taken, &workers) && bind == BIND_CORE);
    cpuset_unite(taken, &workers);
}

static void test_even_and_odd_sockets(void **state)
{
    (void)state;
    static const unsigned cores[] = {28, 56, 96};
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++) {
        struct topology *topology = load_sockets(cores[i]);
        assert_int_equal(topology_core_count(topology), 2 * cores[i]);
        assert_int_equal(topology_numa_count(topology), 2);
        for (int bind = BIND_NUMA; bind <= BIND_CORE; bind++)
            for (uint32_t readers = 1; readers <= 2; readers++) {
                struct cpuset taken = {{0}}, all = topology_cpus(topology);
                for (uint32_t reader = 0; reader < readers; reader++)
                    check_reader(topology, reader, readers, (enum topology_bind)bind, &taken);
                if (cores[i] == 28)
                    assert_true(cpuset_equal(&taken, &all));
            }
        topology_free(topology);
    }
}

static void test_described_in_short(void **state)
{
    (void)state;
    struct topology *topology = load_sockets(28);
    struct placement placement = even_placement(topology, 1, 2, 8, 0, BIND_NUMA);
    struct text text = {0};
    topology_describe(&placement, &text);
    assert_string_equal(text.data,
                        "  24 workers on NUMA node 1, cpus 1-47:2,57-103:2\n"
                        "   4 trainers on NUMA node 1, cpus 49-55:2,105-111:2, GPU 0000:90:00.0 "
                        "0000:a0:00.0 0000:b0:00.0 0000:c0:00.0\n");
    text_done(&text);
    topology_free(topology);
}

/* Every other cpu of 2,048, and what no bitmap of ours holds. */
static void test_limit(void **state)
{
    (void)state;
    struct topology *topology = NULL;
    struct error err;
    assert_int_equal(topology_load("numa:1 pu:2048", "0-2046:2", &topology, &err), STATUS_OK);
    assert_int_equal(topology_core_count(topology), 1024);
    assert_cpus(even_placement(topology, 0, 1, 0, 0, BIND_NUMA).cpuset, "0-2046:2");
    topology_free(topology);
    struct machine machine = {.nodes = 1, .cores = 2, .threads = 1, .first_cpu = 4094};
    topology = load(&machine, NULL);
    assert_cpus(even_placement(topology, 0, 1, 1, 0, BIND_NUMA).cpuset, "4094-4095");
    topology_free(topology);
    topology = NULL;
    assert_int_equal(topology_load("numa:1 pu:4097", NULL, &topology, &err), STATUS_UNSUPPORTED);
    assert_non_null(strstr(err.message, "cpu 4096; cpus below 4096 are supported"));
    assert_null(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_no_lists),
        cmocka_unit_test(test_random_sets),
        cmocka_unit_test(test_even_and_odd_sockets),
        cmocka_unit_test(test_described_in_short),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
