/* Pages of rows of unequal lengths, in a row store: against a model, with NUMA nodes, and with one
 * row that is as large as all others together. */
#include "base/random.h"
#include "made_up_pool.h"
#include "read/row_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 1000, PAGE_BYTES = 192 };

/* Of each row. */
static uint32_t page_counts[ROWS];

static uint32_t count_of(const struct dataset *dataset, uint64_t row)
{
    (void)dataset;
    return page_counts[row];
}

static int compare_counts(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* As dataset_most_pages(), exactly. */
static uint64_t most_pages(uint64_t rows)
{
    uint32_t sorted[ROWS];
    uint64_t sum = 0;
    memcpy(sorted, page_counts, sizeof sorted);
    qsort(sorted, ROWS, sizeof sorted[0], compare_counts);
    for (uint64_t i = 0; i < rows && i < ROWS; i++)
        sum += sorted[i];
    return sum;
}

static struct row_paging paging_of(uint64_t page_count)
{
    return (struct row_paging){
        .count_of = count_of, .page_bytes = PAGE_BYTES, .page_count = page_count};
}

static struct row_store *make_store(struct pool *pool, uint32_t buffers, uint64_t page_count)
{
    const struct row_paging paging = paging_of(page_count);
    struct row_store *store;
    assert_int_equal(row_store_new(pool, 64, buffers, &store, NULL), STATUS_OK);
    assert_int_equal(row_store_add_pages(store, &paging, NULL), STATUS_OK);
    return store;
}

/* Writes the row's number, and that of the page, over all of its pages. */
static void fill(struct row_store *store, int32_t buffer)
{
    struct row_store_pages of;
    const struct dataset_pages *pages = row_store_pages(store, buffer, &of);
    uint64_t row = row_store_row(store, buffer);
    for (uint32_t page = 0; page < page_counts[row]; page++) {
        const uint64_t mark[] = {row, page};
        unsigned char *memory = pages->at(pages, page);
        assert_int_equal((uintptr_t)memory % 64, 0);
        for (size_t at = 0; at < PAGE_BYTES; at += sizeof mark)
            memcpy(memory + at, mark, sizeof mark);
    }
}

static void check(const struct row_store *store, int32_t buffer)
{
    struct row_store_pages of;
    const struct dataset_pages *pages = row_store_pages(store, buffer, &of);
    uint64_t row = row_store_row(store, buffer);
    for (uint32_t page = page_counts[row]; page-- > 0;) {
        const uint64_t mark[] = {row, page};
        const unsigned char *memory = pages->at(pages, page);
        for (size_t at = 0; at < PAGE_BYTES; at += sizeof mark)
            assert_memory_equal(memory + at, mark, sizeof mark);
    }
}

/* Lets go of a random row: given up, used, or failed. */
static void let_go(struct row_store *store, int32_t buffer, uint64_t how)
{
    switch (how) {
    case 0:
        row_store_drop(store, buffer);
        return;
    case 1:
        row_store_failed(store, buffer, &(struct error){.status = STATUS_IO});
        row_store_expect(store, buffer, 1);
        break;
    default:
        row_store_loaded(store, buffer);
        row_store_expect(store, buffer, 2);
        row_store_used(store, buffer, 1);
    }
    row_store_used(store, buffer, 1);
    assert_int_equal(row_store_collect(store), 1);
}

/* Rows come and go. A free buffer always finds its pages, even when all are full of the largest
 * rows. */
static void rows_come_and_go(uint32_t numa_count, uint32_t buffers, uint64_t seed)
{
    struct pool *pool = made_up_pool(numa_count, numa_count, 64, NULL);
    struct row_store *store = make_store(pool, buffers, most_pages(buffers));
    int32_t *held = calloc(buffers, sizeof *held);
    uint32_t count = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t number = random_u64(seed, 0, i),
                 row = number >> 32 & 3 ? number % ROWS : number % buffers;
        bool take = (number >> 40) % 5 < 3;
        if (take && count < buffers && row_store_find(store, row) == ROW_NONE) {
            int32_t buffer = row_store_claim(store, row, ROW_ANY_NUMA);
            assert_true(buffer != ROW_NONE);
            fill(store, buffer);
            held[count++] = buffer;
        } else if (!take && count > 0) {
            uint64_t at = (number >> 44) % count;
            check(store, held[at]);
            let_go(store, held[at], (number >> 10) % 3);
            held[at] = held[--count];
        }
    }
    while (count > 0) {
        check(store, held[--count]);
        row_store_drop(store, held[count]);
    }
    for (uint64_t row = 0; row < buffers; row++) /* the largest ones */
        assert_true((held[row] = row_store_claim(store, row, ROW_ANY_NUMA)) != ROW_NONE);
    for (uint64_t row = 0; row < buffers; row++)
        fill(store, held[row]);
    for (uint64_t row = 0; row < buffers; row++)
        check(store, held[row]);
    free(held);
    row_store_free(store);
    pool_free(pool);
}

/* The largest rows come first. */
static void unequal_rows(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (uint32_t row = 0; row < ROWS; row++)
            page_counts[row] = (uint32_t)(random_u64(seed, 1, row) % (seed == 0 ? 5 : 200));
        qsort(page_counts, ROWS, sizeof page_counts[0], compare_counts);
        rows_come_and_go(1, 7, seed);
        rows_come_and_go(3, 100, seed);
        rows_come_and_go(4, 2,
                         seed); /* fewer buffers than NUMA nodes, and other numbers of pages */
    }
}

/* 1 row of 10,000 pages and 999 of 10: with all rows in memory the mean row decides. */
static void one_giant_row(void **state)
{
    (void)state;
    for (uint32_t row = 0; row < ROWS; row++)
        page_counts[row] = row == 0 ? 10000 : 10;
    assert_int_equal(most_pages(100), 10000 + 99 * 10);
    rows_come_and_go(2, 100, 5);
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store = make_store(pool, ROWS, most_pages(ROWS));
    for (uint64_t row = 0; row < ROWS; row++)
        assert_true(row_store_claim(store, row, ROW_ANY_NUMA) != ROW_NONE);
    row_store_free(store);
    pool_free(pool);
}

/* Without enough pages nothing is claimed, and nothing is lost. */
static void too_few_pages(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 64, NULL);
    for (uint32_t row = 0; row < ROWS; row++)
        page_counts[row] = (uint32_t)row;
    struct row_store *store = make_store(pool, 4, 10);
    int32_t six = row_store_claim(store, 6, ROW_ANY_NUMA),
            none = row_store_claim(store, 0, ROW_ANY_NUMA);
    assert_true(six != ROW_NONE && none != ROW_NONE);
    assert_int_equal(row_store_claim(store, 5, ROW_ANY_NUMA), ROW_NONE);
    assert_int_equal(row_store_find(store, 5), ROW_NONE);
    assert_int_equal(row_store_free_count(store), 2);
    int32_t four = row_store_claim(store, 4, ROW_ANY_NUMA);
    assert_true(four != ROW_NONE);
    assert_int_equal(row_store_claim(store, 1, ROW_ANY_NUMA), ROW_NONE);
    row_store_drop(store, six);
    assert_true(row_store_claim(store, 5, ROW_ANY_NUMA) != ROW_NONE);
    assert_true(row_store_claim(store, 1, ROW_ANY_NUMA) != ROW_NONE);
    row_store_free(store);
    pool_free(pool);
}

static void kept_rows_keep_their_pages(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    for (uint32_t row = 0; row < ROWS; row++)
        page_counts[row] = 3;
    struct row_store *store = make_store(pool, 2, 6);
    int32_t kept = row_store_claim(store, 8, ROW_ANY_NUMA),
            failed = row_store_claim(store, 9, ROW_ANY_NUMA);
    fill(store, kept);
    fill(store, failed);
    row_store_keep(store, kept);
    row_store_loaded(store, kept);
    row_store_failed(store, failed, &(struct error){.status = STATUS_IO});
    row_store_forget_uses(store);
    for (uint64_t row = 10; row < 20; row++) {
        int32_t other = row_store_claim(store, row, ROW_ANY_NUMA);
        assert_true(other != ROW_NONE);
        fill(store, other);
        check(store, kept);
        row_store_drop(store, other);
    }
    row_store_free(store);
    pool_free(pool);
}

static void fill_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker, (void)end;
    fill(argument, (int32_t)begin);
    row_store_loaded(argument, (int32_t)begin);
}

static void check_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker, (void)end;
    check(argument, (int32_t)begin);
    row_store_used(argument, (int32_t)begin, 1);
}

/* Workers fill and check pages while the owner takes and frees others. */
static void many_workers(void **state)
{
    (void)state;
    enum { BUFFERS = 12, LOADS = 4000 };
    for (uint32_t row = 0; row < ROWS; row++)
        page_counts[row] = row == 0 ? 500 : row % 40;
    struct pool *pool = made_up_pool(2, 4, 64, NULL);
    struct row_store *store = make_store(pool, BUFFERS, most_pages(BUFFERS));
    bool checked[BUFFERS] = {false};
    for (uint64_t loads = 0; loads < LOADS || row_store_free_count(store) < BUFFERS;) {
        uint64_t row = random_u64(9, 9, loads) % ROWS * (loads % 7 > 0);
        int32_t buffer = ROW_NONE;
        if (loads < LOADS && row_store_find(store, row) == ROW_NONE) {
            bool full = row_store_free_count(store) == 0;
            buffer = row_store_claim(store, row, ROW_ANY_NUMA);
            assert_true(full == (buffer == ROW_NONE));
        }
        loads += loads < LOADS && (buffer != ROW_NONE || row_store_find(store, row) != ROW_NONE);
        if (buffer != ROW_NONE) {
            checked[buffer] = false;
            row_store_expect(store, buffer, 1);
            assert_true(pool_submit(pool, row_store_numa(store, buffer), POOL_NORMAL, fill_task,
                                    store, (uint64_t)buffer, 0));
        }
        for (int32_t b = 0; b < BUFFERS; b++)
            if (!checked[b] && row_store_state(store, b) == ROW_READY)
                checked[b] = pool_submit(pool, (uint32_t)b % 2, POOL_URGENT, check_task, store,
                                         (uint64_t)b, 0);
        row_store_collect(store);
    }
    pool_free(pool);
    row_store_free(store);
}

static void sizes_refused(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store;
    struct error err;
    struct row_store_pages of;
    assert_int_equal(row_store_new(pool, 64, 2, &store, NULL), STATUS_OK);
    assert_null(row_store_pages(store, 0, &of));
    struct row_paging paging = paging_of((uint64_t)INT32_MAX + 1);
    assert_int_equal(row_store_add_pages(store, &paging, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "2147483648 pages of 192 bytes"));
    paging = paging_of(INT32_MAX);
    paging.page_bytes = (size_t)1 << 40;
    assert_int_equal(row_store_add_pages(store, &paging, &err), STATUS_INVALID);
    paging.page_count = 1 << 20;
    assert_int_equal(row_store_add_pages(store, &paging, &err), STATUS_NO_MEMORY);
    row_store_free(store);
    pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unequal_rows),  cmocka_unit_test(one_giant_row),
        cmocka_unit_test(too_few_pages), cmocka_unit_test(kept_rows_keep_their_pages),
        cmocka_unit_test(many_workers),  cmocka_unit_test(sizes_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
