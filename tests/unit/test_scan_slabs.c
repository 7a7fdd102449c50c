/* Cutting arrays into slabs: every sample in one slab, seams where they may be, memory kept. */
#include "scan/slabs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Walks through all slabs; returns how many groups there are. */
static uint64_t check(const struct slabs_demand *demand, uint64_t limit_bytes)
{
    struct slabs slabs = slabs_cut(demand, limit_bytes);
    uint64_t next = 0, groups = 0;
    for (uint64_t i = 0; i < slabs.count; i++) {
        uint64_t begin, end;
        bool first = slabs_range(&slabs, i, &begin, &end);
        assert_int_equal(begin, next);
        assert_true(begin < end);
        assert_int_equal(begin % demand->granule, 0);
        assert_true((end - begin) * demand->sample_bytes <= limit_bytes);
        assert_true(!first || begin % demand->period == 0);
        groups += first;
        next = end;
    }
    assert_int_equal(next, demand->sample_count);
    return groups;
}

static void test_all_shapes(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 2, 7, 64, 100, 1000}, granules[] = {1, 2, 8, 12};
    static const uint64_t multiples[] = {1, 2, 5}, wanted[] = {1, 300, 4096};
    for (size_t a = 0; a < sizeof counts / sizeof counts[0]; a++)
        for (size_t b = 0; b < sizeof granules / sizeof granules[0]; b++)
            for (size_t c = 0; c < sizeof multiples / sizeof multiples[0]; c++)
                for (size_t d = 0; d < sizeof wanted / sizeof wanted[0]; d++) {
                    struct slabs_demand demand = {
                        .sample_count = counts[a],
                        .sample_bytes = 10,
                        .period = granules[b] * multiples[c],
                        .granule = granules[b],
                        .wanted_bytes = wanted[d],
                    };
                    uint64_t least = slabs_least_bytes(&demand);
                    check(&demand, least);
                    check(&demand, least + 75);
                    check(&demand, slabs_whole_bytes(&demand));
                    check(&demand, 100000);
                }
}

/* With room for a period no group is cut; with less it is, and with plenty periods are joined. */
static void test_groups(void **state)
{
    (void)state;
    struct slabs_demand demand = {
        .sample_count = 100, .sample_bytes = 10, .period = 20, .granule = 4, .wanted_bytes = 1};
    assert_int_equal(slabs_whole_bytes(&demand), 200);
    assert_int_equal(slabs_least_bytes(&demand), 40);
    assert_int_equal(slabs_cut(&demand, 200).count, 5);
    assert_int_equal(slabs_cut(&demand, 199).slab_length, 16);
    assert_int_equal(slabs_cut(&demand, 199).count, 10);
    assert_int_equal(check(&demand, 199), 5);
    demand.wanted_bytes = 600;
    assert_int_equal(slabs_cut(&demand, 1000).count, 2);
    assert_int_equal(slabs_cut(&demand, 410).count, 3);
}

static void test_common_multiple(void **state)
{
    (void)state;
    assert_int_equal(common_multiple(12, 8), 24);
    assert_int_equal(common_multiple(7, 1), 7);
    assert_true(common_multiple(UINT64_MAX - 1, UINT64_MAX - 2) == UINT64_MAX);
}

static void test_memory_is_shared(void **state)
{
    (void)state;
    uint32_t threads = 8;
    uint64_t share;
    struct error err;
    assert_int_equal(share_memory(1000, 100, 10, &threads, &share, NULL), STATUS_OK);
    assert_int_equal(threads, 8);
    assert_int_equal(share, 125);
    assert_int_equal(share_memory(1000, 300, 10, &threads, &share, NULL), STATUS_OK);
    assert_int_equal(threads, 3);
    assert_int_equal(share_memory(1000, 5000, 10, &threads, &share, NULL), STATUS_OK);
    assert_int_equal(threads, 1);
    assert_int_equal(share, 1000);
    assert_int_equal(share_memory(1000, UINT64_MAX, 1001, &threads, &share, &err),
                     STATUS_NO_MEMORY);
    assert_non_null(err.message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_shapes),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_common_multiple),
        cmocka_unit_test(test_memory_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
