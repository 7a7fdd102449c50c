/* Rows from a dataset on disk through the pool into the row store: a small Zarr array written by
 * hand. */
#include "read/row_store.h"

#include "base/clock.h"
#include "made_up_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* uint16 [SAMPLES, ITEMS] in chunks of ROW_LENGTH samples, item i of sample s is 100 s + i; chunk
 * MISSING_ROW is not stored and chunk SHORT_ROW is cut off. */
enum { SAMPLES = 29, ITEMS = 3, ROW_LENGTH = 4, ROWS = 8, MISSING_ROW = 2, SHORT_ROW = 5 };

static char root[] = "/tmp/penstock-test-read-XXXXXX";

static void put_file(const char *name, const void *data, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int write_dataset(void **state)
{
    (void)state;
    static const char group[] = "{\"zarr_format\": 2}";
    static const char array[] =
        "{\"zarr_format\": 2, \"shape\": [29, 3], \"chunks\": [4, 3], \"dtype\": \"<u2\", "
        "\"compressor\": null, \"fill_value\": 7, \"order\": \"C\", \"filters\": null}";
    char path[256];
    if (!mkdtemp(root))
        return -1;
    snprintf(path, sizeof path, "%s/x", root);
    if (mkdir(path, 0700) != 0)
        return -1;
    put_file(".zgroup", group, strlen(group));
    put_file("x/.zarray", array, strlen(array));
    for (int row = 0; row < ROWS; row++) {
        unsigned char chunk[ROW_LENGTH * ITEMS * 2];
        for (int k = 0; k < ROW_LENGTH * ITEMS; k++) {
            int value = 100 * (row * ROW_LENGTH + k / ITEMS) + k % ITEMS;
            chunk[2 * k] = (unsigned char)value;
            chunk[2 * k + 1] = (unsigned char)(value >> 8);
        }
        char name[32];
        snprintf(name, sizeof name, "x/%d.0", row);
        if (row != MISSING_ROW)
            put_file(name, chunk, row == SHORT_ROW ? sizeof chunk - 1 : sizeof chunk);
    }
    return 0;
}

static int remove_dataset(void **state)
{
    (void)state;
    char path[256];
    for (int row = 0; row < ROWS; row++) {
        snprintf(path, sizeof path, "%s/x/%d.0", root, row);
        unlink(path);
    }
    static const char *const rest[] = {"x/.zarray", "x", ".zgroup", "."};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", root, rest[i]);
        (void)(unlink(path) && rmdir(path));
    }
    return rmdir(root);
}

static struct dataset *open_dataset(void)
{
    struct dataset_options options = {.uri = root};
    struct dataset *dataset = NULL;
    struct error err;
    if (dataset_open(&options, &dataset, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return dataset;
}

static struct pool *make_pool(const struct dataset *dataset)
{
    struct placement placement = made_up_placement(1, 3);
    struct pool *pool = NULL;
    struct error err;
    if (pool_new(&placement, dataset, ROWS, NULL, &pool, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return pool;
}

static void check_row(const struct dataset *dataset, const struct row_store *store, int32_t buffer)
{
    uint64_t row = row_store_row(store, buffer);
    uint16_t items[ROW_LENGTH * ITEMS];
    memcpy(items, row_store_data(store, buffer) + dataset->fields[0].row_offset, sizeof items);
    for (uint64_t k = 0; k < dataset_row_frames(dataset, row) * ITEMS; k++) {
        uint64_t expected = 100 * (row * ROW_LENGTH + k / ITEMS) + k % ITEMS;
        assert_int_equal(items[k], row == MISSING_ROW ? 7 : expected);
    }
}

static void test_rows_arrive(void **state)
{
    (void)state;
    struct dataset *dataset = open_dataset();
    assert_int_equal(dataset->row_count, ROWS);
    struct pool *pool = make_pool(dataset);
    struct row_store *store = NULL;
    assert_int_equal(row_store_new(pool, dataset->row_bytes, ROWS, &store, NULL), STATUS_OK);
    for (uint64_t row = 0; row < ROWS; row++)
        assert_true(row_store_load(store, row_store_claim(store, row, ROW_ANY_NUMA)));
    for (uint64_t row = 0; row < ROWS; row++) {
        int32_t buffer = row_store_find(store, row);
        while (row_store_state(store, buffer) == ROW_LOADING)
            clock_sleep_ns(100000);
        if (row == SHORT_ROW) {
            assert_int_equal(row_store_state(store, buffer), ROW_FAILED);
            assert_int_equal(row_store_error(store, buffer)->status, STATUS_CORRUPT);
            assert_non_null(strstr(row_store_error(store, buffer)->message, "array 'x' chunk 5.0"));
        } else {
            assert_int_equal(row_store_state(store, buffer), ROW_READY);
            check_row(dataset, store, buffer);
        }
    }
    assert_true(pool_drain(pool, 60000));
    struct pool_stats stats;
    pool_stats(pool, &stats);
    assert_int_equal(stats.read.missing_chunk_count, 1);
    assert_true(stats.read.decoded_bytes >= (ROWS - 2) * ROW_LENGTH * ITEMS * 2);
    assert_true(stats.busy_ns > 0);
    pool_free(pool);
    row_store_free(store);
    dataset_free(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_arrive)};
    return cmocka_run_group_tests(tests, write_dataset, remove_dataset);
}
