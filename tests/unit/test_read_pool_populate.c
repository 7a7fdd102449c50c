/* Memory that the pool's workers fill with pages: by whom, all of it, and on which NUMA node. */
#include "base/clock.h"
#include "base/memory.h"
#include "made_up_pool.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { HUGE_PAGE = 2 << 20, MOST_PIECES = 64, OWNER = 99 };

struct record {
    _Atomic uint32_t count;
    struct pool_memory pieces[MOST_PIECES];
    uint32_t numa[MOST_PIECES]; /* of who filled it */
    int failure;
};

static int record_piece(void *argument, const struct pool_worker *worker,
                        const struct pool_memory *piece)
{
    struct record *record = argument;
    uint32_t i = record->count++;
    record->pieces[i] = *piece;
    record->numa[i] = worker ? worker->numa : OWNER;
    return record->failure;
}

/* That of a memory every byte was filled once, each piece from a huge page on. */
static void check_record(const struct record *record, const struct pool_memory *memory)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < record->count; i++) {
        const struct pool_memory *piece = &record->pieces[i];
        if (piece->start < memory->start || piece->start >= memory->start + memory->bytes)
            continue;
        assert_int_equal((piece->start - memory->start) % HUGE_PAGE, 0);
        assert_true(piece->start + piece->bytes <= memory->start + memory->bytes);
        assert_int_equal(piece->numa, memory->numa);
        bytes += piece->bytes;
        for (uint32_t k = 0; k < i; k++)
            assert_ptr_not_equal(record->pieces[k].start, piece->start);
    }
    assert_int_equal(bytes, memory->bytes);
}

/* Who fills what: workers of the memory's NUMA node; the owner, while these are held up. */
static void test_memory_is_filled_by_its_numa_node(void **state)
{
    (void)state;
    const size_t addresses = (size_t)2040 * HUGE_PAGE; /* with nothing behind them */
    unsigned char *base =
        mmap(NULL, addresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    struct pool_memory memory[] = {{base + HUGE_PAGE, 300 * HUGE_PAGE - 4096, 1},
                                   {base + UINT64_C(1000) * HUGE_PAGE, 4096, 0},
                                   {NULL, 0, 1},
                                   {base + UINT64_C(2000) * HUGE_PAGE, 40 * HUGE_PAGE, 0}};
    struct pool *pool = made_up_pool(2, 5, 4, NULL);
    static struct record record;
    assert_int_equal(pool_populate(pool, memory, 4, record_piece, &record), 0);
    for (int m = 0; m < 4; m++)
        check_record(&record, &memory[m]);
    uint32_t by_owner = 0;
    for (uint32_t i = 0; i < record.count; i++) {
        by_owner += record.numa[i] == OWNER; /* a machine so busy that nobody came for 20 ms */
        assert_true(record.numa[i] == record.pieces[i].numa || record.numa[i] == OWNER);
    }
    assert_true(by_owner < record.count);
    pool_free(pool);

    pool = made_up_pool(2, 2, 4, NULL);
    struct gate gate = {0};
    occupy(pool, &gate);
    record.count = 0;
    assert_int_equal(pool_populate(pool, memory, 4, record_piece, &record), 0);
    for (int m = 0; m < 4; m++)
        check_record(&record, &memory[m]);
    for (uint32_t i = 0; i < record.count; i++)
        assert_true(record.numa[i] == OWNER || record.pieces[i].numa == 1);
    /* It does not wait for each of 60 pieces that a worker may come. */
    struct pool_memory large = {base + HUGE_PAGE, 960 * (size_t)HUGE_PAGE, 0};
    record.count = 0;
    uint64_t start_ns = clock_now_ns();
    assert_int_equal(pool_populate(pool, &large, 1, record_piece, &record), 0);
    assert_true(clock_now_ns() - start_ns < 600000000);
    check_record(&record, &large);
    gate.open = true;
    record.count = 0;
    record.failure = ENOMEM;
    assert_int_equal(pool_populate(pool, memory, 4, record_piece, &record), ENOMEM);
    pool_free(pool);
    munmap(base, addresses);
}

static void test_pages_are_there(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 5, 4, NULL);
    struct pool_memory memory[3] = {{.numa = 1}, {.numa = 0}, {.numa = 1}};
    for (int m = 0; m < 2; m++) {
        void *start;
        memory[m].bytes = 7 * HUGE_PAGE;
        assert_int_equal(memory_map(memory[m].bytes, "test", &start, NULL), STATUS_OK);
        memory[m].start = start;
    }
    assert_int_equal(pool_populate(pool, memory, 3, NULL, NULL), 0);
    for (int m = 0; m < 2; m++) {
        unsigned char resident[7 * 512];
        assert_int_equal(mincore(memory[m].start, memory[m].bytes, resident), 0);
        for (size_t page = 0; page < sizeof resident; page++)
            assert_true(resident[page] & 1);
    }
    memory_unmap(memory[0].start, memory[0].bytes);
    assert_int_equal(pool_populate(pool, memory, 1, NULL, NULL), ENOMEM); /* not mapped any more */
    memory_unmap(memory[1].start, memory[1].bytes);
    pool_free(pool);
}

/* On machines with several nodes: the kernel says where the pages lie. */
static void test_memory_lies_on_its_node(void **state)
{
    (void)state;
    enum { PAGES = 1024 };
    static struct placement placement;
    struct topology *topology = NULL;
    struct pool *pool = NULL;
    assert_int_equal(topology_load(NULL, NULL, &topology, NULL), STATUS_OK);
    uint32_t cores = topology_core_count(topology);
    assert_int_equal(topology_placement(topology, 0, 1, 0, cores, BIND_NUMA, &placement, NULL), 0);
    topology_free(topology);
    if (placement.numa_count < 2) {
        print_message("one NUMA node: where pages lie is not checked\n");
        skip();
    }
    assert_int_equal(pool_new(&placement, NULL, 4, NULL, &pool, NULL), STATUS_OK);
    for (uint32_t i = 0; i < placement.worker_count; i++) {
        void *pages[PAGES], *start;
        int nodes[PAGES];
        assert_int_equal(memory_map(PAGES * 4096, "test", &start, NULL), STATUS_OK);
        struct pool_memory memory = {start, PAGES * 4096, placement.workers[i].numa};
        assert_int_equal(pool_populate(pool, &memory, 1, NULL, NULL), 0);
        for (int page = 0; page < PAGES; page++)
            pages[page] = memory.start + page * 4096;
        if (syscall(SYS_move_pages, 0, PAGES, pages, NULL, nodes, 0) == 0)
            for (int page = 0; page < PAGES; page++)
                assert_int_equal(nodes[page], placement.workers[i].numa_os_index);
        memory_unmap(start, memory.bytes);
    }
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_filled_by_its_numa_node),
        cmocka_unit_test(test_pages_are_there),
        cmocka_unit_test(test_memory_lies_on_its_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
