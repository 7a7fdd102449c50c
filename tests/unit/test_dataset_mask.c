/* Bad chunks: masked and listed, or errors; and a dataset that changes while it is read. */
#include "base/clock.h"
#include "dataset/dataset.h"
#include "dataset/read/bad_log.h"
#include "zarr_fixture.h"

/* 20 samples in rows of 4: `a` in chunks of 4 by half a sample, `b` in chunks of 8, read along. */
static struct recipe a = {.path = "a",
                          .rank = 2,
                          .shape = {20, 6},
                          .chunks = {4, 3},
                          .dtype = DTYPE_INT16,
                          .fill = "7",
                          .codec = "{\"id\": \"zlib\", \"level\": 1}"};
static struct recipe b = {.path = "b",
                          .rank = 1,
                          .shape = {20},
                          .chunks = {8},
                          .dtype = DTYPE_INT32,
                          .codec = "{\"id\": \"zlib\", \"level\": 1}"};
enum { ROW = 4, A_BYTES = 12, B_BYTES = 4 };

struct opened {
    struct dataset *dataset;
    struct dataset_reader *reader;
    unsigned char *row;
    struct bad_log *log;
    unsigned char *items[2];
};

static struct opened open_row_store(const struct fixture *fixture, struct dataset_options options)
{
    struct opened opened = {0};
    struct zarr_array array;
    struct error err;
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    opened.items[0] = random_items(1, 20 * A_BYTES);
    opened.items[1] = random_items(2, 20 * B_BYTES);
    recipe_put(fixture, &a, opened.items[0], &array);
    recipe_put(fixture, &b, opened.items[1], &array);
    options.uri = fixture->path;
    assert_ok(dataset_open(&options, &opened.dataset, &err), &err);
    assert_ok(dataset_reader_new(opened.dataset, &opened.reader, &err), &err);
    opened.row = aligned_alloc(64, opened.dataset->row_bytes);
    memset(opened.row, 0xa5, opened.dataset->row_bytes);
    assert_ok(bad_log_new(&opened.log, &err), &err);
    dataset_log_bad(opened.dataset, opened.log);
    return opened;
}

static void close_row_store(struct opened *opened)
{
    dataset_reader_free(opened->reader);
    dataset_free(opened->dataset);
    bad_log_free(opened->log);
    free(opened->row);
    free(opened->items[0]);
    free(opened->items[1]);
}

static enum status read_row(struct opened *opened, uint64_t row, struct error *err)
{
    struct zarr_read_stats stats = {0};
    return dataset_read_row(opened->reader, row, opened->row, &stats, err);
}

/* Good samples hold what was written, bad ones zeros, in both fields; `bad` has a bit for each. */
static void expect_row(const struct opened *opened, uint64_t row, unsigned bad)
{
    static const unsigned char zeros[A_BYTES];
    const struct dataset *dataset = opened->dataset;
    for (uint64_t i = 0; i < ROW; i++) {
        bool is_bad = bad >> i & 1;
        uint64_t sample = row * ROW + i;
        assert_int_equal(opened->row[dataset->valid_offset + i], !is_bad);
        assert_memory_equal(opened->row + dataset->fields[0].row_offset + i * A_BYTES,
                            is_bad ? zeros : opened->items[0] + sample * A_BYTES, A_BYTES);
        assert_memory_equal(opened->row + dataset->fields[1].row_offset + i * B_BYTES,
                            is_bad ? zeros : opened->items[1] + sample * B_BYTES, B_BYTES);
    }
}

static void expect_listed(struct opened *opened, const char *array, const char *chunk,
                          uint64_t first, uint64_t count)
{
    struct bad_chunk bad;
    assert_true(bad_log_take(opened->log, &bad));
    assert_string_equal(bad.array, array);
    assert_string_equal(bad.chunk.text, chunk);
    assert_int_equal(bad.first_sample, first);
    assert_int_equal(bad.sample_count, count);
    assert_non_null(strstr(bad.cause.message, chunk));
}

static void test_masked(void **state)
{
    struct opened opened = open_row_store(*state, (struct dataset_options){.mask = true});
    struct bad_chunk none;
    struct error err;
    fixture_put(*state, "a/1.1", "nonsense"); /* half of the samples of row 1 */
    fixture_put(*state, "b/1", "nonsense");   /* of rows 2 and 3 */
    for (int epoch = 0; epoch < 2; epoch++) {
        assert_ok(read_row(&opened, 0, &err), &err);
        expect_row(&opened, 0, 0);
        assert_ok(read_row(&opened, 1, &err), &err);
        expect_row(&opened, 1, 15);
        assert_false(dataset_reader_may_try_again(opened.reader));
        expect_listed(&opened, "a", "1.1", 4, 4);
        assert_ok(read_row(&opened, 3, &err), &err);
        expect_row(&opened, 3, 15);
        expect_listed(&opened, "b", "1", 12, 4);
        assert_ok(read_row(&opened, 4, &err), &err);
        expect_row(&opened, 4, 0);
        assert_false(bad_log_take(opened.log, &none));
    }
    assert_int_equal(opened.dataset->record_bytes, 16 + 16 + 16);
    close_row_store(&opened);
}

static void test_nowhere_to_list(void **state)
{
    struct opened opened = open_row_store(*state, (struct dataset_options){.mask = true});
    struct bad_chunk bad = {0};
    struct error err;
    fixture_put(*state, "a/1.1", "nonsense");
    while (bad_log_add(opened.log, &bad)) /* full */
        continue;
    assert_int_equal(read_row(&opened, 1, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "more bad chunks at once"));
    dataset_log_bad(opened.dataset, NULL);
    assert_int_equal(read_row(&opened, 1, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "array 'a' chunk 1.1: "));
    close_row_store(&opened);
}

static void test_missing(void **state)
{
    struct opened opened = open_row_store(*state, (struct dataset_options){.mask = true});
    struct fixture *fixture = *state;
    char path[128];
    struct error err;
    snprintf(path, sizeof path, "%s/a/2.0", fixture->path);
    assert_int_equal(remove(path), 0);
    assert_ok(read_row(&opened, 2, &err), &err);
    assert_int_equal(opened.row[opened.dataset->valid_offset], 1);
    assert_int_equal(opened.row[opened.dataset->fields[0].row_offset], 7);
    close_row_store(&opened);

    opened = open_row_store(*state, (struct dataset_options){.missing_is_bad = true});
    assert_int_equal(remove(path), 0);
    assert_int_equal(read_row(&opened, 2, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "array 'a' chunk 2.0: the store has no 'a/2.0': "
                                        "restore it, or take missing chunks for"));
    close_row_store(&opened);
}

/* Another dataset at the same path: neither its bytes nor its holes are taken for the old one's.
 */
static void test_changed(void **state)
{
    for (int hole = 0; hole < 2; hole++) {
        struct opened opened = open_row_store(*state, (struct dataset_options){.mask = true});
        struct fixture *fixture = *state;
        struct zarr_array array;
        struct error err;
        char path[128];
        struct recipe other = a;
        other.shape[0] = 24;
        clock_sleep_ns(30000000); /* times of files move on a few times in this */
        recipe_put_metadata(fixture, &other, &array);
        snprintf(path, sizeof path, "%s/a/1.0", fixture->path);
        assert_int_equal(remove(path), 0);
        if (!hole)
            fixture_put(fixture, "a/1.0", "nonsense");
        assert_int_equal(read_row(&opened, 1, &err), STATUS_INVALID);
        assert_non_null(strstr(err.message, "the dataset was changed during the run: the metadata "
                                            "of array 'a' was written anew"));
        close_row_store(&opened);
    }
}

#define in_store(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_store(test_masked),
        in_store(test_nowhere_to_list),
        in_store(test_missing),
        in_store(test_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
