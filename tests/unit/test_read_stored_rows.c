/* Rows kept as stored: loaded through pool and row store from a real dataset with raw, compressed,
 * byte-swapped, straddling and missing chunks; what comes from memory is compared with what came
 * from the store. */
#include "read/stored_rows.h"

#include "base/clock.h"
#include "dataset/dataset.h"
#include "made_up_pool.h"
#include "read/row_store.h"
#include "zarr_fixture.h"

#include <unistd.h>

enum { ROW_LENGTH = 4, ROWS = 48, SAMPLES = ROW_LENGTH * ROWS - 3, BUFFERS = 12, WORKERS = 4 };

struct setting {
    struct fixture *fixture;
    struct dataset *dataset;
    struct pool *pool;
    struct row_store *store;
    struct stored_rows *stored;
    unsigned char *expected[ROWS]; /* row buffers, as read from the store */
};

static void put_array(const struct fixture *fixture, const struct recipe *recipe, uint64_t seed)
{
    struct zarr_array array;
    size_t size = dtype_bytes(recipe->dtype);
    for (int i = 0; i < recipe->rank; i++)
        size *= recipe->shape[i];
    unsigned char *items = random_items(seed, size);
    recipe_put(fixture, recipe, items, &array);
    free(items);
}

static void remove_chunk(const struct fixture *fixture, const char *key)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", fixture->path, key);
    assert_int_equal(unlink(path), 0);
}

/* Rows are those of "b", three chunks each; each chunk of "c" is part of two or three rows. */
static void put_dataset(const struct fixture *fixture)
{
    static const struct recipe recipes[] = {
        {.path = "a", .rank = 2, .shape = {SAMPLES, 3}, .chunks = {4, 3}, .dtype = DTYPE_UINT16},
        {.path = "b",
         .rank = 3,
         .shape = {SAMPLES, 5, 70},
         .chunks = {4, 2, 70},
         .dtype = DTYPE_FLOAT32,
         .codec = "{\"id\": \"zlib\", \"level\": 1}",
         .fill = "3"},
        {.path = "c",
         .rank = 2,
         .shape = {SAMPLES, 4},
         .chunks = {6, 4},
         .dtype = DTYPE_INT32,
         .is_big = true},
    };
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    for (uint64_t i = 0; i < 3; i++)
        put_array(fixture, &recipes[i], i);
    remove_chunk(fixture, "a/2.0");
    remove_chunk(fixture, "b/2.1.0");
    remove_chunk(fixture, "b/5.0.0");
    remove_chunk(fixture, "b/5.1.0");
    remove_chunk(fixture, "b/5.2.0");
    remove_chunk(fixture, "c/7.0");
}

static struct pool *make_pool(const struct dataset *dataset, uint32_t numa_count)
{
    struct placement placement = made_up_placement(numa_count, WORKERS);
    struct pool *pool = NULL;
    struct error err;
    assert_ok(pool_new(&placement, dataset, BUFFERS, NULL, &pool, &err), &err);
    return pool;
}

static void read_expected(struct setting *setting)
{
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct error err;
    assert_ok(dataset_reader_new(setting->dataset, &reader, &err), &err);
    for (uint64_t row = 0; row < ROWS; row++) {
        setting->expected[row] = aligned_alloc(64, setting->dataset->row_bytes);
        assert_ok(dataset_read_row(reader, row, setting->expected[row], &stats, &err), &err);
    }
    dataset_reader_free(reader);
}

static int setup(void **state)
{
    struct setting *setting = calloc(1, sizeof *setting);
    void *fixture;
    struct error err;
    fixture_setup(&fixture);
    setting->fixture = fixture;
    put_dataset(setting->fixture);
    struct dataset_options options = {.uri = setting->fixture->path};
    assert_ok(dataset_open(&options, &setting->dataset, &err), &err);
    assert_int_equal(setting->dataset->row_count, ROWS);
    assert_int_equal(setting->dataset->held_bytes, 0);
    read_expected(setting);
    setting->pool = make_pool(setting->dataset, 2);
    assert_ok(
        row_store_new(setting->pool, setting->dataset->row_bytes, BUFFERS, &setting->store, &err),
        &err);
    *state = setting;
    return 0;
}

static int teardown(void **state)
{
    struct setting *setting = *state;
    void *fixture = setting->fixture;
    pool_free(setting->pool);
    row_store_free(setting->store);
    stored_rows_free(setting->stored);
    dataset_free(setting->dataset);
    for (int row = 0; row < ROWS; row++)
        free(setting->expected[row]);
    free(setting);
    fixture_teardown(&fixture);
    return 0;
}

/* An arena for the rows of the dataset that is `percent` of what they all take. */
static void make_stored(struct setting *setting, unsigned percent)
{
    struct dataset_stored_row row;
    struct error err;
    assert_ok(dataset_stored_row_bytes(setting->dataset, &row, &err), &err);
    uint64_t bytes = stored_rows_row_cost(row.mean_bytes) * ROWS * percent / 100;
    assert_ok(stored_rows_new(setting->pool, bytes, row.mean_bytes, ROWS, &setting->stored, &err),
              &err);
    row_store_use_stored(setting->store, setting->stored);
}

static void check_row(const struct setting *setting, int32_t buffer)
{
    const struct dataset *dataset = setting->dataset;
    uint64_t row = row_store_row(setting->store, buffer);
    for (size_t i = 0; i < dataset->field_count; i++)
        assert_memory_equal(row_store_data(setting->store, buffer) + dataset->fields[i].row_offset,
                            setting->expected[row] + dataset->fields[i].row_offset,
                            dataset_row_frames(dataset, row) * dataset->fields[i].sample_bytes);
}

static void wait_for(const struct setting *setting, int32_t buffer)
{
    while (row_store_state(setting->store, buffer) == ROW_LOADING)
        clock_sleep_ns(20000);
}

/* Starts loading the row; its buffer. */
static int32_t start_load(struct setting *setting, uint64_t row)
{
    int32_t buffer = row_store_claim(setting->store, row, ROW_ANY_NUMA);
    assert_int_not_equal(buffer, ROW_NONE);
    assert_true(row_store_load(setting->store, buffer));
    return buffer;
}

static void finish_load(struct setting *setting, int32_t buffer)
{
    wait_for(setting, buffer);
    if (row_store_state(setting->store, buffer) != ROW_READY)
        fail_msg("%s", row_store_error(setting->store, buffer)->message);
    check_row(setting, buffer);
    row_store_drop(setting->store, buffer);
}

static void load_all(struct setting *setting)
{
    for (uint64_t first = 0; first < ROWS; first += BUFFERS) {
        int32_t buffers[BUFFERS];
        for (uint64_t i = 0; i < BUFFERS; i++)
            buffers[i] = start_load(setting, first + i);
        for (uint64_t i = 0; i < BUFFERS; i++)
            finish_load(setting, buffers[i]);
    }
}

static struct pool_stats pool_stats_now(const struct setting *setting)
{
    struct pool_stats stats;
    assert_true(pool_drain(setting->pool, 60000));
    pool_stats(setting->pool, &stats);
    return stats;
}

static struct stored_rows_stats stats_now(const struct setting *setting)
{
    struct stored_rows_stats stats;
    stored_rows_stats(setting->stored, &stats);
    return stats;
}

static void remove_chunks(const struct setting *setting)
{
    for (const char *array = "abc"; *array; array++) {
        char path[160];
        snprintf(path, sizeof path, "%s/%c", setting->fixture->path, *array);
        nftw(path, fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static void test_second_time_without_the_store(void **state)
{
    struct setting *setting = *state;
    make_stored(setting, 100);
    for (uint64_t row = 0; row < ROWS; row++) {
        assert_true(stored_rows_keep(setting->stored, row));
        assert_false(stored_rows_has(setting->stored, row));
    }
    load_all(setting);
    struct pool_stats first = pool_stats_now(setting);
    assert_int_equal(first.read.memory_chunk_count, 0);
    assert_true(first.read.missing_chunk_count >= 6 && first.read.stored_bytes > 0);
    for (uint64_t row = 0; row < ROWS; row++)
        assert_true(stored_rows_has(setting->stored, row));
    remove_chunks(setting);
    load_all(setting);
    load_all(setting);
    struct pool_stats last = pool_stats_now(setting);
    assert_int_equal(last.read.stored_bytes, first.read.stored_bytes);
    assert_int_equal(last.read.memory_bytes, 2 * first.read.stored_bytes);
    assert_int_equal(last.read.memory_chunk_count, 2 * first.read.chunk_count);
    assert_int_equal(last.read.chunk_count, 3 * first.read.chunk_count);
    assert_int_equal(last.read.missing_chunk_count, 3 * first.read.missing_chunk_count);
    struct stored_rows_stats stats = stats_now(setting);
    assert_int_equal(stats.recorded_rows, ROWS);
    assert_int_equal(stats.played_count, 2 * ROWS);
    assert_int_equal(stats.full_count, 0);
    assert_true(stats.used_bytes > first.read.stored_bytes);
}

static void test_rows_that_nobody_asked_for(void **state)
{
    struct setting *setting = *state;
    make_stored(setting, 100);
    load_all(setting);
    assert_int_equal(stats_now(setting).used_bytes, 0);
    row_store_use_stored(setting->store, NULL);
    assert_true(stored_rows_keep(setting->stored, 0));
    load_all(setting);
    assert_false(stored_rows_has(setting->stored, 0));
}

/* What does not fit is read again. */
static void test_full_arena(void **state)
{
    struct setting *setting = *state;
    make_stored(setting, 40);
    for (uint64_t row = 0; row < ROWS; row++)
        stored_rows_keep(setting->stored, row);
    load_all(setting);
    uint64_t recorded = 0;
    for (uint64_t row = 0; row < ROWS; row++)
        recorded += stored_rows_has(setting->stored, row);
    struct stored_rows_stats stats = stats_now(setting);
    assert_in_range(recorded, ROWS / 4, ROWS / 2);
    assert_int_equal(stats.recorded_rows, recorded);
    assert_true(stats.full_count > 0);
    for (uint64_t before = 0; before < stats_now(setting).recorded_rows;) {
        before = stats_now(setting).recorded_rows;
        load_all(setting);
    }
    stats = stats_now(setting);
    load_all(setting);
    assert_true(stats_now(setting).full_count > stats.full_count);
    assert_int_equal(stats_now(setting).used_bytes, stats.used_bytes); /* nothing is lost */
}

/* More rows are asked for than there are entries. */
static void test_too_many_asked_for(void **state)
{
    struct setting *setting = *state;
    struct error err;
    assert_ok(stored_rows_new(setting->pool, 1 << 20, 1000, 3, &setting->stored, &err), &err);
    for (uint64_t row = 0; row < 3; row++) {
        assert_true(stored_rows_keep(setting->stored, row));
        assert_true(stored_rows_keep(setting->stored, row));
    }
    assert_false(stored_rows_keep(setting->stored, 3));
    assert_true(stored_rows_keep(setting->stored, 2));
}

static void test_failed_loads_are_not_recorded(void **state)
{
    struct setting *setting = *state;
    struct error err;
    char stored[4096];
    size_t size;
    make_stored(setting, 100);
    assert_ok(store_get(setting->fixture->store, "b/4.2.0", stored, sizeof stored, &size, &err),
              &err);
    assert_ok(store_put(setting->fixture->store, "b/4.2.0", stored, size / 2, &err), &err);
    stored_rows_keep(setting->stored, 4);
    int32_t buffer = start_load(setting, 4);
    wait_for(setting, buffer);
    assert_int_equal(row_store_state(setting->store, buffer), ROW_FAILED);
    row_store_drop(setting->store, buffer);
    assert_false(stored_rows_has(setting->stored, 4));
    assert_int_equal(stats_now(setting).used_bytes, 0);
    assert_ok(store_put(setting->fixture->store, "b/4.2.0", stored, size, &err), &err);
    finish_load(setting, start_load(setting, 4));
    assert_true(stored_rows_has(setting->stored, 4));
}

/* Random asking and loading in an arena for a third of the rows. The model knows what may be
 * recorded; a full arena decides what is. */
static void test_random_use(void **state)
{
    struct setting *setting = *state;
    bool asked[ROWS] = {false}, loaded[ROWS] = {false};
    int32_t under_way[BUFFERS];
    uint32_t count = 0;
    make_stored(setting, 33);
    for (uint64_t i = 0; i < 6000; i++) {
        uint64_t row = random_u64(1, 1, i) % ROWS, what = random_u64(1, 2, i) % 8;
        if (what < 2) {
            asked[row] = stored_rows_keep(setting->stored, row);
        } else if (count < BUFFERS && row_store_find(setting->store, row) == ROW_NONE) {
            loaded[row] = asked[row];
            under_way[count++] = start_load(setting, row);
        } else if (count > 0) {
            uint64_t which = random_u64(1, 3, i) % count;
            finish_load(setting, under_way[which]);
            under_way[which] = under_way[--count];
        }
        assert_false(stored_rows_has(setting->stored, row) && !loaded[row]);
    }
    while (count > 0)
        finish_load(setting, under_way[--count]);
    struct stored_rows_stats stats = stats_now(setting);
    assert_true(stats.played_count > 300 && stats.full_count > 100);
    uint64_t recorded = 0;
    for (uint64_t row = 0; row < ROWS; row++)
        recorded += stored_rows_has(setting->stored, row);
    assert_int_equal(stats.recorded_rows, recorded);
}

/* Answers of any size, across page ends and NUMA nodes. */
static void test_tapes_of_any_size(void **state)
{
    struct setting *setting = *state;
    struct stored_rows_pass pass;
    struct error err;
    static unsigned char bytes[40000], out[40000];
    uint64_t sum = 0;
    size_t size = 0, lent_count = 0;
    enum { ANSWERS = 400 };
    assert_ok(stored_rows_new(setting->pool, 4 << 20, 100, 1, &setting->stored, &err), &err);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)random_u64(3, 0, i);
    stored_rows_keep(setting->stored, 5);
    stored_rows_start(setting->stored, stored_rows_find(setting->stored, 5), 1, &pass);
    assert_null(pass.tape.play);
    for (uint64_t i = 0; i < ANSWERS; i++) {
        size = i % 50 == 49 ? 40000 : random_u64(3, 1, i) % 520;
        bool none = i % 7 == 3 || i % 7 == 5;
        pass.tape.record(&pass.tape, i % 7 == 5 ? STATUS_CORRUPT : STATUS_OK,
                         none ? NULL : bytes + sizeof bytes - size, none ? 0 : size);
        sum += none ? 0 : size;
    }
    stored_rows_end(&pass, true);
    assert_in_range(stats_now(setting).used_bytes, sum, sum + 4 * ANSWERS + 256);
    stored_rows_start(setting->stored, stored_rows_find(setting->stored, 5), 0, &pass);
    for (uint64_t i = 0; i < ANSWERS; i++) {
        size_t expected = i % 50 == 49 ? 40000 : random_u64(3, 1, i) % 520;
        const void *lent = NULL;
        enum status status =
            pass.tape.play(&pass.tape, out, sizeof out, i % 2 ? &lent : NULL, &size, &err);
        assert_int_equal(status, i % 7 == 3   ? STATUS_NOT_FOUND
                                 : i % 7 == 5 ? STATUS_CORRUPT
                                              : STATUS_OK);
        if (status == STATUS_OK) {
            assert_int_equal(size, expected);
            assert_memory_equal(lent ? lent : out, bytes + sizeof bytes - size, size);
            lent_count += lent != NULL;
        }
    }
    assert_true(lent_count > ANSWERS / 4);
    assert_int_equal(pass.tape.play(&pass.tape, out, sizeof out, NULL, &size, &err),
                     STATUS_CORRUPT);
    stored_rows_end(&pass, false);
    stored_rows_start(setting->stored, stored_rows_find(setting->stored, 5), 0, &pass);
    assert_int_equal(pass.tape.play(&pass.tape, out, 1, NULL, &size, &err), STATUS_CORRUPT);
    stored_rows_end(&pass, false);
}

static void test_memory_is_what_was_asked_for(void **state)
{
    struct setting *setting = *state;
    struct error err;
    static const uint64_t means[] = {0, 1, 300, 70000, 5000000, UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof means / sizeof means[0]; i++) {
        enum { MEMORY = 24 << 20 };
        struct stored_rows *stored = NULL;
        uint64_t cost = stored_rows_row_cost(means[i]);
        enum status status =
            stored_rows_new(setting->pool, MEMORY, means[i], UINT64_MAX, &stored, &err);
        if (cost > MEMORY) {
            assert_int_equal(status, STATUS_INVALID);
            assert_non_null(strstr(err.message, "there is no room for even one"));
            continue;
        }
        assert_int_equal(status, STATUS_OK);
        struct stored_rows_stats stats;
        stored_rows_stats(stored, &stats);
        assert_true(stats.arena_bytes < MEMORY);
        assert_true(stats.arena_bytes >= MEMORY / cost * means[i]);
        stored_rows_free(stored);
    }
    stored_rows_free(NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_second_time_without_the_store),
        TEST(test_rows_that_nobody_asked_for),
        TEST(test_full_arena),
        TEST(test_too_many_asked_for),
        TEST(test_failed_loads_are_not_recorded),
        TEST(test_random_use),
        TEST(test_tapes_of_any_size),
        TEST(test_memory_is_what_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
