/* Which NICs each reader of a node uses: on machines of 1, 2, 4 and 8, and those that are not
 * dealt.
 */
#include "topology/nics.h"

#include "made_up_machine.h"

static const char fabric[] = "fe80:0000:0000:0000";

#define INFINIBAND(name, node)                \
    {                                         \
        name, node, "4", "0x1f", fabric, 31.5 \
    }
#define DOWN(name, node)                     \
    {                                        \
        name, node, "1", "0x0", fabric, 31.5 \
    }
#define ETHERNET(name, node)                 \
    {                                        \
        name, node, "4", "0x0", fabric, 31.5 \
    }

static void assert_nics(const struct topology *topology, uint32_t reader, uint32_t count,
                        const char *expected)
{
    struct text devices = {0};
    struct error err;
    if (topology_deal_nics(topology, reader, count, &devices, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    if (strcmp(devices.data ? devices.data : "", expected) != 0)
        fail_msg("reader %u of %u uses '%s', not '%s'", reader, count,
                 devices.data ? devices.data : "", expected);
    text_done(&devices);
}

/* One line of a table for each number of readers: what the readers use, with a space between. */
static void assert_deals(const struct machine *machine, uint32_t count, const char *expected)
{
    struct topology *topology = load(machine, NULL);
    char words[256], *rest = words;
    snprintf(words, sizeof words, "%s", expected);
    for (uint32_t reader = 0; reader < count; reader++)
        assert_nics(topology, reader, count, count > 1 && *expected ? strsep(&rest, " ") : "");
    topology_free(topology);
}

static const struct machine one = {
    .nodes = 2, .cores = 8, .threads = 2, .nics = {INFINIBAND("mlx5_0", 0)}};
static const struct machine two = {.nodes = 2,
                                   .cores = 8,
                                   .threads = 2,
                                   .nics = {INFINIBAND("mlx5_0", 0), INFINIBAND("mlx5_1", 1)}};
/* Of node 1 first: hwloc's order is not the nodes'. */
static const struct machine four = {.nodes = 2,
                                    .cores = 8,
                                    .threads = 1,
                                    .nics = {INFINIBAND("mlx5_0", 1), INFINIBAND("mlx5_1", 0),
                                             INFINIBAND("mlx5_2", 1), INFINIBAND("mlx5_3", 0)}};
/* Four NUMA nodes in each of two packages, and NICs on every second node. */
static const struct machine eight = {.nodes = 8,
                                     .cores = 4,
                                     .threads = 1,
                                     .nodes_a_package = 4,
                                     .nics = {INFINIBAND("mlx5_0", 1), INFINIBAND("mlx5_1", 1),
                                              INFINIBAND("mlx5_2", 3), INFINIBAND("mlx5_3", 3),
                                              INFINIBAND("mlx5_4", 5), INFINIBAND("mlx5_5", 5),
                                              INFINIBAND("mlx5_6", 7), INFINIBAND("mlx5_7", 7)}};

static void test_counts(void **state)
{
    (void)state;
    assert_deals(&one, 1, "");
    assert_deals(&one, 4, "");
    assert_deals(&two, 1, "");
    assert_deals(&two, 2, "mlx5_0:1 mlx5_1:1");
    assert_deals(&two, 4, "mlx5_0:1 mlx5_0:1 mlx5_1:1 mlx5_1:1");
    assert_deals(&two, 3, "mlx5_0:1 mlx5_1:1 mlx5_1:1"); /* the second has cores of both nodes */
    assert_deals(&four, 1, "");
    assert_deals(&four, 2, "mlx5_1:1,mlx5_3:1 mlx5_0:1,mlx5_2:1");
    assert_deals(&four, 4, "mlx5_1:1 mlx5_3:1 mlx5_0:1 mlx5_2:1");
    assert_deals(&four, 8,
                 "mlx5_1:1 mlx5_3:1 mlx5_1:1 mlx5_3:1 mlx5_0:1 mlx5_2:1 mlx5_0:1 mlx5_2:1");
    assert_deals(&eight, 2,
                 "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1");
    assert_deals(&eight, 4,
                 "mlx5_0:1,mlx5_1:1 mlx5_2:1,mlx5_3:1 mlx5_4:1,mlx5_5:1 mlx5_6:1,mlx5_7:1");
    struct machine few = eight;
    few.nics[0] = (struct made_nic)INFINIBAND("mlx5_0", 6);
    few.nics[1] = (struct made_nic)INFINIBAND("mlx5_1", 1);
    few.nics[2].name = NULL;
    assert_deals(&few, 8,
                 "mlx5_1:1 mlx5_1:1 mlx5_1:1 mlx5_1:1 mlx5_0:1 mlx5_0:1 mlx5_0:1 mlx5_0:1");
    /* Those on a node without NICs have one of their own package. */
    assert_deals(&eight, 8,
                 "mlx5_1:1 mlx5_0:1 mlx5_3:1 mlx5_2:1 mlx5_5:1 mlx5_4:1 mlx5_7:1 mlx5_6:1");
}

/* With any number of readers each NIC is used once before any twice, and by as many as any other.
 */
static void test_once_before_twice(void **state)
{
    (void)state;
    const struct machine *const machines[] = {&two, &four, &eight};
    for (size_t m = 0; m < 3; m++) {
        struct topology *topology = load(machines[m], NULL);
        uint32_t nics = topology_nic_count(topology);
        assert_int_equal(nics, 2u << m);
        for (uint32_t count = 2; count <= 20; count++) {
            unsigned uses[8] = {0}, least = UINT32_MAX, most = 0;
            for (uint32_t reader = 0; reader < count; reader++) {
                struct text devices = {0};
                struct error err;
                assert_int_equal(topology_deal_nics(topology, reader, count, &devices, &err),
                                 STATUS_OK);
                for (const char *at = devices.data; (at = strstr(at, "mlx5_")); at += 5)
                    uses[at[5] - '0']++;
                text_done(&devices);
            }
            for (uint32_t i = 0; i < nics; i++) {
                least = uses[i] < least ? uses[i] : least;
                most = uses[i] > most ? uses[i] : most;
            }
            assert_true(most <= least + 1);
            assert_true(most == 1 || count > nics);
        }
        topology_free(topology);
    }
}

/* Readers whose trainers' GPUs are on the other node are there, too. */
static void test_readers_follow_gpus(void **state)
{
    (void)state;
    struct machine crossed = two;
    crossed.devices[0] = (struct device){0x81, 0x0302, NVIDIA, 0};
    crossed.devices[1] = (struct device){0x01, 0x0302, NVIDIA, 1};
    assert_deals(&crossed, 2, "mlx5_1:1 mlx5_0:1");
}

/* A node's only NICs are far from half of the readers. */
static void test_far(void **state)
{
    (void)state;
    static const struct machine far = {.nodes = 2,
                                       .cores = 8,
                                       .threads = 1,
                                       .nics = {INFINIBAND("mlx5_0", 1), INFINIBAND("mlx5_1", 1),
                                                INFINIBAND("mlx5_2", 1), INFINIBAND("mlx5_3", 1)}};
    assert_deals(&far, 2, "mlx5_1:1 mlx5_0:1,mlx5_2:1");
    static const struct machine unknown = {
        .nodes = 2,
        .cores = 8,
        .threads = 1,
        .nics = {INFINIBAND("mlx5_0", -1), INFINIBAND("mlx5_1", -1)}};
    assert_deals(&unknown, 2, "mlx5_0:1 mlx5_1:1");
}

static void test_what_is_not_dealt(void **state)
{
    (void)state;
    static const struct {
        struct made_nic nics[MAX_DEVICES];
        uint32_t dealt;
        const char *shown;
    } cases[] = {
        {{{0}}, 0, ""},
        {{ETHERNET("mlx5_0", 0), ETHERNET("mlx5_1", 1)},
         0,
         "Ethernet mlx5_0:1 (NUMA node 0), mlx5_1:1 (NUMA node 1)"},
        {{DOWN("mlx5_0", 0), INFINIBAND("mlx5_1", 1), INFINIBAND("mlx5_2", -1)},
         2,
         "Ethernet mlx5_0 not active (NUMA node 0), InfiniBand mlx5_1:1 (NUMA node 1), mlx5_2:1"},
        {{INFINIBAND("mlx5_0", 0), INFINIBAND("mlx5_1", 1), ETHERNET("mlx5_bond_0", 0)},
         2,
         "InfiniBand mlx5_0:1 (NUMA node 0), Ethernet mlx5_bond_0:1 (NUMA node 0), InfiniBand "
         "mlx5_1:1 (NUMA node 1)"},
        {{INFINIBAND("mlx5_0", 0), {"mlx5_1", 1, "4", "0x2", "fec0:0000:0000:0001", 31.5}},
         0,
         "InfiniBand mlx5_0:1 (NUMA node 0), mlx5_1:1 (NUMA node 1)"},
        {{INFINIBAND("mlx5_0", 0), {"mlx5_1", 1, "4", "0x2", fabric, 15.75}},
         1,
         "InfiniBand mlx5_0:1 (NUMA node 0), mlx5_1:1 (NUMA node 1)"},
        {{{"cxi0", 0, NULL, NULL, NULL, 0}, {"hsn1", 1, NULL, NULL, NULL, 0}},
         0,
         "Slingshot cxi0 (NUMA node 0), hsn1 (NUMA node 1)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct machine machine = {.nodes = 2, .cores = 2, .threads = 1};
        memcpy(machine.nics, cases[i].nics, sizeof machine.nics);
        struct topology *topology = load(&machine, NULL);
        struct text shown = {0};
        assert_int_equal(topology_nic_count(topology), cases[i].dealt);
        topology_describe_nics(topology, &shown);
        assert_string_equal(shown.data ? shown.data : "", cases[i].shown);
        if (cases[i].dealt < 2)
            assert_nics(topology, 0, 2, "");
        text_done(&shown);
        topology_free(topology);
    }
}

/* Where not all of the machine may be used, those NICs come first that are near to what may. */
static void test_part_of_a_machine(void **state)
{
    (void)state;
    struct topology *topology = load(&four, "8-15");
    assert_nics(topology, 0, 2, "mlx5_0:1");
    assert_nics(topology, 1, 2, "mlx5_2:1");
    topology_free(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_once_before_twice),
        cmocka_unit_test(test_readers_follow_gpus),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_what_is_not_dealt),
        cmocka_unit_test(test_part_of_a_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
