/* The row store: against a model in one thread, and under many workers. */
#include "read/row_store.h"

#include "base/clock.h"
#include "base/random.h"
#include "made_up_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct row_store *make_store(struct pool *pool, size_t row_bytes, uint32_t buffer_count)
{
    struct row_store *store = NULL;
    struct error err;
    if (row_store_new(pool, row_bytes, buffer_count, &store, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return store;
}

static void test_life_of_a_row(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store = make_store(pool, 64, 2);
    assert_int_equal(row_store_find(store, 9), ROW_NONE);
    int32_t buffer = row_store_claim(store, 9, ROW_ANY_NUMA);
    assert_int_equal(row_store_state(store, buffer), ROW_LOADING);
    assert_int_equal(row_store_find(store, 9), buffer);
    assert_int_equal(row_store_row(store, buffer), 9);
    row_store_loaded(store, buffer);
    assert_int_equal(row_store_state(store, buffer), ROW_READY);
    assert_int_equal(row_store_collect(store), 0); /* nothing was expected yet */
    assert_int_equal(row_store_find(store, 9), buffer);

    row_store_expect(store, buffer, 3);
    row_store_used(store, buffer, 1);
    assert_int_equal(row_store_collect(store), 0);
    row_store_used(store, buffer, 2);
    row_store_expect(store, buffer, 1); /* wanted again before anybody collected */
    assert_int_equal(row_store_collect(store), 0);
    row_store_used(store, buffer, 1);
    assert_int_equal(row_store_collect(store), 1);
    assert_int_equal(row_store_collect(store), 0);
    assert_int_equal(row_store_find(store, 9), ROW_NONE);
    assert_int_equal(row_store_free_count(store), 2);
    row_store_free(store);
    pool_free(pool);
}

static void test_kept_rows_stay(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store = make_store(pool, 64, 2);
    int32_t kept = row_store_claim(store, 1, ROW_ANY_NUMA),
            other = row_store_claim(store, 2, ROW_ANY_NUMA);
    assert_int_equal(row_store_claim(store, 3, ROW_ANY_NUMA), ROW_NONE);
    row_store_keep(store, kept);
    for (int epoch = 0; epoch < 3; epoch++) {
        if (epoch == 0)
            row_store_loaded(store, kept);
        row_store_expect(store, kept, 5);
        row_store_used(store, kept, 5);
        assert_int_equal(row_store_collect(store), 0);
        assert_int_equal(row_store_find(store, 1), kept);
    }
    row_store_loaded(store, other);
    row_store_expect(store, other, 1);
    row_store_used(store, other, 1);
    assert_int_equal(row_store_collect(store), 1);
    row_store_drop(store, kept);
    assert_int_equal(row_store_find(store, 1), ROW_NONE);
    assert_int_equal(row_store_free_count(store), 2);
    /* A new row in the same buffer is not kept. */
    int32_t next = row_store_claim(store, 4, ROW_ANY_NUMA);
    row_store_loaded(store, next);
    row_store_expect(store, next, 1);
    row_store_used(store, next, 1);
    assert_int_equal(row_store_collect(store), 1);
    row_store_free(store);
    pool_free(pool);
}

static bool is_there(const struct row_store *store, uint64_t row)
{
    return row_store_find(store, row) != ROW_NONE;
}

/* What becomes of rows when all uses are forgotten: kept ones stay, those on their way come. */
static void test_forgotten_uses(void **state)
{
    (void)state;
    enum { KEPT, READY, FAILED, COMING, COMING_KEPT, WANTED, ROWS };
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store = make_store(pool, 64, ROWS);
    int32_t buffers[ROWS];
    for (uint64_t row = 0; row < ROWS; row++) {
        buffers[row] = row_store_claim(store, row, ROW_ANY_NUMA);
        row_store_expect(store, buffers[row], 3);
    }
    row_store_keep(store, buffers[KEPT]);
    row_store_keep(store, buffers[COMING_KEPT]);
    row_store_loaded(store, buffers[KEPT]);
    row_store_loaded(store, buffers[READY]);
    row_store_failed(store, buffers[FAILED], &(struct error){.status = STATUS_IO});
    row_store_forget_uses(store);
    assert_int_equal(row_store_collect(store), 0);
    assert_true(is_there(store, KEPT));
    assert_false(is_there(store, READY));
    assert_false(is_there(store, FAILED));

    row_store_expect(store, buffers[WANTED], 1);
    for (int row = COMING; row <= WANTED; row++)
        row_store_loaded(store, buffers[row]);
    assert_int_equal(row_store_collect(store), 1);
    assert_false(is_there(store, COMING));
    assert_true(is_there(store, COMING_KEPT));
    assert_true(is_there(store, WANTED));
    row_store_used(store, buffers[WANTED], 1);
    assert_int_equal(row_store_collect(store), 1);
    row_store_expect(store, buffers[KEPT], 2);
    row_store_used(store, buffers[KEPT], 2);
    assert_int_equal(row_store_collect(store), 0);
    assert_int_equal(row_store_free_count(store), ROWS - 2);
    row_store_free(store);
    pool_free(pool);
}

/* A row that lacks samples is used by those that expect it, and read anew by the next. */
static void test_incomplete_rows(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store = make_store(pool, 64, 1);
    for (int time = 0; time < 2; time++) {
        int32_t buffer = row_store_claim(store, 1, ROW_ANY_NUMA);
        assert_true(buffer != ROW_NONE);
        row_store_expect(store, buffer, 2);
        row_store_keep(store, buffer);
        assert_false(row_store_is_whole(store, buffer));
        if (time == 0)
            row_store_loaded_incomplete(store, buffer);
        else
            row_store_loaded(store, buffer);
        assert_int_equal(row_store_state(store, buffer), ROW_READY);
        assert_int_equal(row_store_is_whole(store, buffer), time == 1);
        assert_int_equal(row_store_collect(store), 0);
        row_store_used(store, buffer, 2);
        assert_int_equal(row_store_collect(store), time == 0);
    }
    assert_true(is_there(store, 1));
    row_store_free(store);
    pool_free(pool);
}

static void test_failed_rows(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store = make_store(pool, 64, 1);
    int32_t buffer = row_store_claim(store, 1, ROW_ANY_NUMA);
    row_store_expect(store, buffer, 4);
    struct error err;
    error_set(&err, STATUS_CORRUPT, "array 'a' chunk 1: broken");
    row_store_failed(store, buffer, &err);
    error_clear(&err);
    assert_int_equal(row_store_state(store, buffer), ROW_FAILED);
    assert_int_equal(row_store_error(store, buffer)->status, STATUS_CORRUPT);
    assert_string_equal(row_store_error(store, buffer)->message, "array 'a' chunk 1: broken");
    assert_int_equal(row_store_collect(store), 0);
    row_store_drop(store, buffer);
    assert_int_equal(row_store_state(store, buffer), ROW_FREE);
    buffer = row_store_claim(store, 1, ROW_ANY_NUMA);
    assert_true(buffer != ROW_NONE);
    row_store_failed(store, buffer, &(struct error){.status = STATUS_IO});
    row_store_free(store); /* with an error still held */
    pool_free(pool);
}

/* Where a row is used, as long as other workers have two rows each. */
static void test_rows_lie_where_they_are_used(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(3, 3, 64, NULL);
    struct row_store *store = make_store(pool, 4096, 60);
    uint32_t per_numa[3] = {0};
    uint64_t row = 0;
    for (; row < 6; row++) /* all are wanted on NUMA node 1 */
        per_numa[row_store_numa(store, row_store_claim(store, row, 1))]++;
    for (int n = 0; n < 3; n++)
        assert_int_equal(per_numa[n], 2);
    for (; row < 6 + 18; row++)
        assert_int_equal(row_store_numa(store, row_store_claim(store, row, 1)), 1);
    for (; row < 60; row++) /* it is full, and others have room */
        assert_int_not_equal(row_store_numa(store, row_store_claim(store, row, 1)), 1);
    assert_int_equal(row_store_claim(store, row, 1), ROW_NONE);
    row_store_free(store);
    pool_free(pool);
}

static void test_numa_nodes(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(3, 3, 64, NULL);
    struct row_store *store = make_store(pool, 4096, 8);
    uint32_t per_numa[3] = {0};
    for (uint64_t row = 0; row < 8; row++) {
        int32_t buffer = row_store_claim(store, row, ROW_ANY_NUMA);
        uint32_t numa = row_store_numa(store, buffer);
        if (row < 6) /* evenly while all have room */
            assert_int_equal(per_numa[numa], row / 3);
        per_numa[numa]++;
        assert_int_equal((uintptr_t)row_store_data(store, buffer) % 64, 0);
        memset(row_store_data(store, buffer), (int)row, 4096);
    }
    for (int n = 0; n < 3; n++)
        assert_in_range(per_numa[n], 2, 3);
    for (uint64_t row = 0; row < 8; row++) {
        const unsigned char *data = row_store_data(store, row_store_find(store, row));
        assert_int_equal(data[0], row);
        assert_int_equal(data[4095], row);
    }
    row_store_free(store);
    store = make_store(pool, 64, 2); /* fewer buffers than NUMA nodes */
    assert_true(row_store_claim(store, 1, ROW_ANY_NUMA) != ROW_NONE);
    assert_true(row_store_claim(store, 2, ROW_ANY_NUMA) != ROW_NONE);
    assert_int_equal(row_store_claim(store, 3, ROW_ANY_NUMA), ROW_NONE);
    row_store_free(store);
    pool_free(pool);
}

static void test_sizes_refused(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(1, 1, 64, NULL);
    struct row_store *store = NULL;
    struct error err;
    assert_int_equal(row_store_new(pool, 64, 0, &store, &err), STATUS_INVALID);
    assert_int_equal(row_store_new(pool, 100, 1, &store, &err), STATUS_INVALID);
    assert_int_equal(row_store_new(pool, (size_t)1 << 50, 4, &store, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "4 of 4 row buffers of "));
    assert_null(store);
    row_store_free(NULL);
    pool_free(pool);
}

/* Random operations; after each, everything that can be asked agrees with a plain model. */
enum { MODEL_ROWS = 40, MODEL_BUFFERS = 13, MODEL_STEPS = 60000 };

struct model_row {
    int32_t buffer;
    uint64_t pending;
    bool expected, kept, failed, loading;
};

static void model_step(struct row_store *store, struct model_row *row, uint64_t number,
                       uint64_t bits, uint32_t *held)
{
    uint64_t count = 1 + (bits >> 32) % 5;
    if (row->buffer == ROW_NONE) {
        row->buffer = row_store_claim(store, number, ROW_ANY_NUMA);
        assert_int_equal(row->buffer == ROW_NONE, *held == MODEL_BUFFERS);
        *held += row->buffer != ROW_NONE;
        row->loading = true;
        return;
    }
    switch (bits % 8) {
    case 0:
        if (row->loading && (bits >> 12) % 8 == 0)
            row_store_failed(store, row->buffer, &(struct error){.status = STATUS_IO});
        else if (row->loading)
            row_store_loaded(store, row->buffer);
        row->failed |= row->loading && (bits >> 12) % 8 == 0;
        row->loading = false;
        break;
    case 1:
        if (bits % 4096 == 1) {
            row_store_keep(store, row->buffer);
            row->kept = true;
        }
        break;
    case 2:
        if (row->failed || (bits >> 8) % 32 == 0) {
            row_store_drop(store, row->buffer);
            *row = (struct model_row){.buffer = ROW_NONE};
            --*held;
        }
        break;
    case 3:
        row_store_expect(store, row->buffer, count);
        row->pending += count;
        row->expected = true;
        break;
    default:
        count = count < row->pending ? count : row->pending;
        if (!row->loading && !row->failed && count > 0) {
            row_store_used(store, row->buffer, count);
            row->pending -= count;
        }
    }
}

static uint32_t model_collect(struct model_row *rows)
{
    uint32_t freed = 0;
    for (int i = 0; i < MODEL_ROWS; i++) {
        struct model_row *row = &rows[i];
        if (row->buffer == ROW_NONE || row->kept || !row->expected || row->pending > 0)
            continue;
        *row = (struct model_row){.buffer = ROW_NONE};
        freed++;
    }
    return freed;
}

static void check_model(const struct row_store *store, const struct model_row *rows, uint32_t held)
{
    assert_int_equal(row_store_free_count(store), MODEL_BUFFERS - held);
    for (uint64_t i = 0; i < MODEL_ROWS; i++) {
        assert_int_equal(row_store_find(store, i), rows[i].buffer);
        if (rows[i].buffer == ROW_NONE)
            continue;
        enum row_state expected = rows[i].loading  ? ROW_LOADING
                                  : rows[i].failed ? ROW_FAILED
                                                   : ROW_READY;
        assert_int_equal(row_store_state(store, rows[i].buffer), expected);
        assert_int_equal(row_store_row(store, rows[i].buffer), i);
    }
}

static void test_against_model(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 2, 64, NULL);
    struct row_store *store = make_store(pool, 64, MODEL_BUFFERS);
    struct model_row rows[MODEL_ROWS];
    for (int i = 0; i < MODEL_ROWS; i++)
        rows[i] = (struct model_row){.buffer = ROW_NONE};
    uint32_t held = 0, freed_in_all = 0;
    for (uint64_t step = 0; step < MODEL_STEPS; step++) {
        uint64_t bits = random_u64(7, 1, step);
        uint64_t number = random_below(random_u64(7, 2, step), MODEL_ROWS);
        model_step(store, &rows[number], number, bits, &held);
        if (bits % 11 == 0) {
            uint32_t freed = model_collect(rows);
            assert_int_equal(row_store_collect(store), freed);
            held -= freed;
            freed_in_all += freed;
        }
        check_model(store, rows, held);
    }
    assert_true(freed_in_all > 500);
    row_store_free(store);
    pool_free(pool);
}

/* Many workers fill, read and let go of rows while the owner claims and collects: every use must
 * find the row's own bytes, and in the end every buffer is free, but for rows that are kept. */
enum {
    STRESS_BUFFERS = 24,
    STRESS_LOADS = 12000,
    STRESS_ROWS = 60,
    STRESS_KEPT = 12,
    STRESS_BYTES = 1024
};

struct stress {
    struct row_store *store;
    _Atomic uint64_t wrong;
    _Atomic uint64_t uses;
};

/* Some rows are to be kept, and some of these do not stay. */
static bool is_kept(uint64_t row)
{
    return row < STRESS_KEPT;
}

static bool is_incomplete(uint64_t row)
{
    return row % 3 == 1;
}

static void fill_row(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker, (void)end;
    struct stress *stress = argument;
    uint64_t *words = (uint64_t *)(void *)row_store_data(stress->store, (int32_t)begin);
    uint64_t row = row_store_row(stress->store, (int32_t)begin);
    for (size_t i = 0; i < STRESS_BYTES / sizeof *words; i++)
        words[i] = row * 1000 + i;
    if (is_incomplete(row))
        row_store_loaded_incomplete(stress->store, (int32_t)begin);
    else
        row_store_loaded(stress->store, (int32_t)begin);
}

/* Uses the row `count` = end times, one by one. */
static void use_row(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker;
    struct stress *stress = argument;
    const uint64_t *words =
        (const uint64_t *)(const void *)row_store_data(stress->store, (int32_t)begin);
    uint64_t row = row_store_row(stress->store, (int32_t)begin);
    for (uint64_t use = 0; use < end; use++) {
        for (size_t i = 0; i < STRESS_BYTES / sizeof *words; i++)
            stress->wrong += words[i] != row * 1000 + i;
        stress->uses++;
        row_store_used(stress->store, (int32_t)begin, 1);
    }
}

static void submit(struct pool *pool, struct stress *stress, enum pool_priority priority,
                   pool_function *function, int32_t buffer, uint64_t end)
{
    uint32_t numa = row_store_numa(stress->store, buffer);
    while (!pool_submit(pool, numa, priority, function, stress, (uint64_t)buffer, end))
        clock_sleep_ns(20000);
}

static int32_t claim(struct row_store *store, uint64_t row)
{
    int32_t buffer;
    while ((buffer = row_store_claim(store, row, ROW_ANY_NUMA)) == ROW_NONE)
        if (row_store_collect(store) == 0)
            clock_sleep_ns(20000);
    return buffer;
}

static void test_stress(void **state)
{
    (void)state;
    struct pool *pool = made_up_pool(2, 6, 64, NULL);
    struct stress stress = {.store = make_store(pool, STRESS_BYTES, STRESS_BUFFERS)};
    uint64_t expected = 0, found = 0;
    bool stays[STRESS_KEPT] = {0};
    for (uint64_t i = 0; i < STRESS_LOADS; i++) {
        uint64_t row = random_below(random_u64(3, 0, i), STRESS_ROWS);
        uint64_t users = 1 + random_u64(3, 1, i) % 3, uses = 1 + random_u64(3, 2, i) % 4;
        int32_t buffer = row_store_find(stress.store, row);
        if (buffer != ROW_NONE) {
            found++; /* perhaps with its last use running just now */
        } else {
            buffer = claim(stress.store, row);
            submit(pool, &stress, POOL_URGENT, fill_row, buffer, 0);
        }
        row_store_expect(stress.store, buffer, users * uses);
        expected += users * uses;
        if (is_kept(row)) {
            row_store_keep(stress.store, buffer);
            stays[row] = !is_incomplete(row);
        }
        while (row_store_state(stress.store, buffer) != ROW_READY)
            clock_sleep_ns(5000);
        for (uint64_t user = 0; user < users; user++)
            submit(pool, &stress, user % 2 ? POOL_NORMAL : POOL_URGENT, use_row, buffer, uses);
        if (i % 7 == 0)
            row_store_collect(stress.store);
    }
    uint32_t kept = 0;
    for (uint64_t row = 0; row < STRESS_KEPT; row++)
        kept += stays[row];
    assert_true(kept > 0);
    while (row_store_free_count(stress.store) < STRESS_BUFFERS - kept)
        if (row_store_collect(stress.store) == 0)
            clock_sleep_ns(20000);
    while (stress.uses < expected) /* those of kept rows, whose buffers are not freed */
        clock_sleep_ns(20000);
    assert_int_equal(row_store_free_count(stress.store), STRESS_BUFFERS - kept);
    assert_int_equal(row_store_kept_count(stress.store), kept);
    assert_int_equal(stress.wrong, 0);
    assert_int_equal(stress.uses, expected);
    assert_true(found > STRESS_LOADS / 100);
    pool_free(pool);
    row_store_free(stress.store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life_of_a_row),
        cmocka_unit_test(test_kept_rows_stay),
        cmocka_unit_test(test_forgotten_uses),
        cmocka_unit_test(test_incomplete_rows),
        cmocka_unit_test(test_failed_rows),
        cmocka_unit_test(test_numa_nodes),
        cmocka_unit_test(test_rows_lie_where_they_are_used),
        cmocka_unit_test(test_sizes_refused),
        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_stress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
