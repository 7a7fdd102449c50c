/* A dataset with a disk cache: the second run asks the store for nothing, and nothing outdated or
 * damaged is used. And what rows take in the store. */
#include "dataset/dataset.h"

#include "store/cache/disk_cache.h"
#include "zarr_fixture.h"

#include <fcntl.h>
#include <unistd.h>

enum { SAMPLES = 90, ROW_LENGTH = 8, ROWS = 12 };

static const struct recipe recipes[] = {
    {.path = "images",
     .rank = 3,
     .shape = {SAMPLES, 6, 9},
     .chunks = {ROW_LENGTH, 4, 9},
     .dtype = DTYPE_FLOAT32,
     .codec = "{\"id\": \"zlib\", \"level\": 1}"},
    {.path = "labels", .rank = 1, .shape = {SAMPLES}, .chunks = {ROW_LENGTH}, .dtype = DTYPE_INT64},
    {.path = "words", .rank = 2, .shape = {5, 7}, .chunks = {2, 7}, .dtype = DTYPE_INT32},
};

static size_t recipe_bytes(const struct recipe *recipe)
{
    size_t size = dtype_bytes(recipe->dtype);
    for (int i = 0; i < recipe->rank; i++)
        size *= recipe->shape[i];
    return size;
}

/* "text" is words[which[i]], held; chunk 4 of images is not stored. */
static void put_dataset(const struct fixture *fixture, uint64_t seed)
{
    struct recipe which = {
        .path = "which", .rank = 1, .shape = {SAMPLES}, .chunks = {40}, .dtype = DTYPE_INT32};
    int32_t indices[SAMPLES];
    struct zarr_array array;
    char path[160];
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    for (uint64_t i = 0; i < 3; i++) {
        unsigned char *items = random_items(seed + i, recipe_bytes(&recipes[i]));
        recipe_put(fixture, &recipes[i], items, &array);
        free(items);
    }
    for (int i = 0; i < SAMPLES; i++)
        indices[i] = i % 5;
    recipe_put(fixture, &which, indices, &array);
    snprintf(path, sizeof path, "%s/images/4.0.0", fixture->path);
    assert_int_equal(unlink(path), 0);
}

static const struct dataset_field_spec fields[] = {
    {.name = "images", .array = "images"},
    {.name = "labels", .array = "labels"},
    {.name = "text", .array = "words", .index = "which"}};

static const char *cache_dir(const struct fixture *fixture)
{
    static char path[80];
    snprintf(path, sizeof path, "%s.cache", fixture->path);
    return path;
}

static int teardown(void **state)
{
    nftw(cache_dir(*state), fixture_remove, 16, FTW_DEPTH | FTW_PHYS);
    return fixture_teardown(state);
}

static struct dataset *open_dataset(const struct fixture *fixture, size_t field_count, bool cached)
{
    struct dataset_options options = {.uri = fixture->path,
                                      .fields = fields,
                                      .field_count = field_count,
                                      .hold_limit_bytes = 1 << 20,
                                      .cache_dir = cached ? cache_dir(fixture) : "",
                                      .cache_dir_bytes = 1 << 30};
    struct dataset *dataset;
    struct error err;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(dataset->row_count, ROWS);
    assert_int_equal(dataset_disk_cache(dataset) != NULL, cached);
    return dataset;
}

/* All samples of all fields, one after another; freed by the caller. */
static unsigned char *read_all(struct dataset *dataset, struct zarr_read_stats *ret_stats)
{
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct error err;
    unsigned char *row = aligned_alloc(64, dataset->row_bytes);
    unsigned char *held = aligned_alloc(64, dataset->held_bytes + 64);
    unsigned char *all = malloc(SAMPLES * dataset->sample_bytes), *to = all;
    assert_ok(dataset_hold(dataset, held, &err), &err);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (uint64_t r = 0; r < ROWS; r++) {
        assert_ok(dataset_read_row(reader, r, row, &stats, &err), &err);
        for (uint64_t k = 0; k < dataset_row_frames(dataset, r); k++)
            for (size_t f = 0; f < dataset->field_count; f++) {
                const struct dataset_field *field = &dataset->fields[f];
                const void *sample = field->source == FIELD_ROW
                                         ? row + field->row_offset + k * field->sample_bytes
                                         : dataset_held_sample(dataset, f, r * ROW_LENGTH + k);
                memcpy(to, sample, field->sample_bytes);
                to += field->sample_bytes;
            }
    }
    dataset_reader_free(reader);
    free(held);
    free(row);
    *ret_stats = stats;
    return all;
}

/* Reads the dataset and compares; what that took. */
static struct zarr_read_stats check_all(struct dataset *dataset, const unsigned char *expected)
{
    struct zarr_read_stats stats;
    unsigned char *all = read_all(dataset, &stats);
    assert_memory_equal(all, expected, SAMPLES * dataset->sample_bytes);
    free(all);
    return stats;
}

/* The samples as they are without a cache. */
static unsigned char *read_without(const struct fixture *fixture, size_t field_count,
                                   struct zarr_read_stats *ret_stats)
{
    struct dataset *dataset = open_dataset(fixture, field_count, false);
    unsigned char *all = read_all(dataset, ret_stats);
    dataset_free(dataset);
    return all;
}

static void remove_chunks(const struct fixture *fixture)
{
    static const char *const arrays[] = {"images", "labels", "words", "which"};
    for (size_t i = 0; i < 4; i++) {
        char path[160];
        for (int c = 0; c < ROWS * 2; c++) {
            snprintf(path, sizeof path, "%s/%s/%d.%d.0", fixture->path, arrays[i], c / 2, c % 2);
            unlink(path);
            snprintf(path, sizeof path, "%s/%s/%d", fixture->path, arrays[i], c);
            unlink(path);
            snprintf(path, sizeof path, "%s/%s/%d.0", fixture->path, arrays[i], c);
            unlink(path);
        }
    }
}

static void test_second_run_asks_the_store_for_nothing(void **state)
{
    const struct fixture *fixture = *state;
    struct zarr_read_stats without;
    struct error err;
    void *packed;
    size_t size;
    put_dataset(fixture, 1);
    unsigned char *expected = read_without(fixture, 3, &without);
    assert_int_equal(without.disk_chunk_count, 0);
    assert_int_equal(without.missing_chunk_count, 1);

    struct dataset *dataset = open_dataset(fixture, 3, true);
    struct zarr_read_stats first = check_all(dataset, expected);
    assert_int_equal(first.stored_bytes, without.stored_bytes);
    assert_int_equal(first.disk_bytes, 0);
    assert_ok(dataset_pack(dataset, &packed, &size, &err), &err);
    struct zarr_read_stats again = check_all(dataset, expected);
    assert_int_equal(again.stored_bytes, 0);
    assert_int_equal(again.disk_bytes, first.stored_bytes);
    dataset_free(dataset);

    struct dataset *later = open_dataset(fixture, 3, true);
    remove_chunks(fixture);
    struct zarr_read_stats second = check_all(later, expected);
    assert_int_equal(second.stored_bytes, 0);
    assert_int_equal(second.disk_bytes, first.stored_bytes);
    assert_int_equal(second.disk_chunk_count, first.chunk_count - 1);
    assert_int_equal(second.missing_chunk_count, 1);

    struct dataset *copy = NULL; /* as on another rank */
    assert_ok(dataset_unpack(packed, size, NULL, &copy, &err), &err);
    assert_int_equal(check_all(copy, expected).stored_bytes, 0);
    dataset_free(copy);
    dataset_free(later);
    free(packed);
    free(expected);
}

/* Other fields of the same dataset use the same chunks. */
static void test_runs_with_other_fields_share(void **state)
{
    const struct fixture *fixture = *state;
    struct zarr_read_stats stats;
    put_dataset(fixture, 1);
    struct dataset *dataset = open_dataset(fixture, 1, true);
    free(read_all(dataset, &stats));
    dataset_free(dataset);
    unsigned char *expected = read_without(fixture, 2, &stats);
    dataset = open_dataset(fixture, 2, true);
    stats = check_all(dataset, expected);
    assert_int_equal(stats.stored_bytes, SAMPLES * 8); /* the labels */
    assert_int_equal(stats.disk_chunk_count, 2 * ROWS - 1);
    dataset_free(dataset);
    free(expected);
}

/* A dataset that was written anew with the same shapes. */
static void test_outdated_chunks_are_not_used(void **state)
{
    const struct fixture *fixture = *state;
    struct zarr_read_stats stats;
    char path[160];
    struct stat before, after;
    put_dataset(fixture, 1);
    struct dataset *dataset = open_dataset(fixture, 3, true);
    unsigned char *old = read_all(dataset, &stats);
    dataset_free(dataset);
    snprintf(path, sizeof path, "%s/images/.zarray", fixture->path);
    assert_int_equal(stat(path, &before), 0);
    usleep(20000); /* coarse clocks of file systems */
    put_dataset(fixture, 2);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    unsigned char *expected = read_without(fixture, 3, &stats);
    assert_memory_not_equal(old, expected, SAMPLES * 8);
    dataset = open_dataset(fixture, 3, true);
    stats = check_all(dataset, expected);
    assert_int_equal(stats.disk_bytes, 0);
    assert_int_equal(check_all(dataset, expected).stored_bytes, 0);
    dataset_free(dataset);
    free(expected);
    free(old);
}

static int damage_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)walk;
    if (type == FTW_F && info->st_size > 64 && !strstr(path, "table")) {
        int fd = open(path, O_RDWR);
        char byte = 0;
        assert_int_equal(pread(fd, &byte, 1, info->st_size - 1), 1);
        byte ^= 64;
        assert_int_equal(pwrite(fd, &byte, 1, info->st_size - 1), 1);
        close(fd);
    }
    return 0;
}

static void test_damaged_chunks_are_read_from_the_store(void **state)
{
    const struct fixture *fixture = *state;
    struct zarr_read_stats stats;
    struct disk_cache_stats cache_stats;
    put_dataset(fixture, 1);
    unsigned char *expected = read_without(fixture, 2, &stats);
    struct dataset *dataset = open_dataset(fixture, 2, true);
    struct zarr_read_stats first = check_all(dataset, expected);
    assert_int_equal(nftw(cache_dir(fixture), damage_one, 16, FTW_PHYS), 0);
    stats = check_all(dataset, expected);
    assert_int_equal(stats.stored_bytes, first.stored_bytes);
    assert_int_equal(stats.disk_bytes, 0);
    assert_int_equal(check_all(dataset, expected).stored_bytes, 0);
    disk_cache_stats(dataset_disk_cache(dataset), &cache_stats);
    assert_int_equal(cache_stats.corrupt_count, 3 * ROWS - 1);
    dataset_free(dataset);
    free(expected);
}

/* A chunk that does not decode is an error each time, not kept. */
static void test_chunks_that_do_not_decode_are_not_kept(void **state)
{
    const struct fixture *fixture = *state;
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct disk_cache_stats cache_stats;
    struct error err;
    put_dataset(fixture, 1);
    fixture_put(fixture, "images/3.0.0", "this is not zlib");
    fixture_put(fixture, "labels/5", "too short");
    struct dataset *dataset = open_dataset(fixture, 2, true);
    unsigned char *row = aligned_alloc(64, dataset->row_bytes);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    assert_int_equal(dataset_read_row(reader, 3, row, &stats, &err), STATUS_CORRUPT);
    assert_int_equal(dataset_read_row(reader, 5, row, &stats, &err), STATUS_CORRUPT);
    assert_int_equal(dataset_read_row(reader, 3, row, &stats, &err), STATUS_CORRUPT);
    disk_cache_stats(dataset_disk_cache(dataset), &cache_stats);
    assert_int_equal(cache_stats.written_count, 2); /* the images of row 5 */
    dataset_reader_free(reader);
    dataset_free(dataset);
    free(row);
}

static void test_a_cache_that_cannot_be_used(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_options options = {.uri = fixture->path, .cache_dir = "/proc/self/penstock"};
    struct dataset *dataset = NULL;
    struct error err;
    put_dataset(fixture, 1);
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_IO);
    assert_string_equal(err.message,
                        "disk cache '/proc/self/penstock': create it: No such file or directory");
    assert_null(dataset);
}

static void test_what_rows_take(void **state)
{
    const struct fixture *fixture = *state;
    struct zarr_read_stats stats;
    struct dataset_stored_row row;
    struct error err;
    put_dataset(fixture, 1);
    free(read_without(fixture, 2, &stats));
    struct dataset *dataset = open_dataset(fixture, 2, false);
    assert_ok(dataset_stored_row_bytes(dataset, &row, &err), &err);
    assert_int_equal(row.row_count, ROWS);
    assert_int_equal(row.mean_bytes, stats.stored_bytes / ROWS);
    assert_in_range(row.max_bytes, row.mean_bytes, 2 * row.mean_bytes);
    remove_chunks(fixture);
    assert_ok(dataset_stored_row_bytes(dataset, &row, &err), &err);
    assert_int_equal(row.mean_bytes, 0);
    assert_int_equal(row.max_bytes, 0);
    dataset_free(dataset);
}

/* Many chunks a row, many rows: few of them are asked for, and the answer is near. */
static void test_what_rows_of_many_chunks_take(void **state)
{
    const struct fixture *fixture = *state;
    const struct recipe recipe = {
        .path = "x", .rank = 2, .shape = {40, 700}, .chunks = {2, 7}, .dtype = DTYPE_UINT8};
    struct dataset_options options = {.uri = fixture->path};
    struct dataset_stored_row row;
    struct dataset *dataset;
    struct zarr_array array;
    struct error err;
    unsigned char *items = random_items(1, 40 * 700);
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    recipe_put(fixture, &recipe, items, &array);
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_ok(dataset_stored_row_bytes(dataset, &row, &err), &err);
    assert_int_equal(row.row_count, 8);
    assert_int_equal(row.mean_bytes, 2 * 700);
    assert_int_equal(row.max_bytes, 2 * 700);
    dataset_free(dataset);
    free(items);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_second_run_asks_the_store_for_nothing),
        TEST(test_runs_with_other_fields_share),
        TEST(test_outdated_chunks_are_not_used),
        TEST(test_damaged_chunks_are_read_from_the_store),
        TEST(test_chunks_that_do_not_decode_are_not_kept),
        TEST(test_a_cache_that_cannot_be_used),
        TEST(test_what_rows_take),
        TEST(test_what_rows_of_many_chunks_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
