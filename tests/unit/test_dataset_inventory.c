/* Inventories of a dataset and of copies of it: what is the same, and what differs. */
#include "dataset/open/inventory.h"

#include "dataset/dataset.h"
#include "store/kind/store_internal.h"
#include "zarr_fixture.h"

#include <unistd.h>

enum { SAMPLES = 20, CHUNK = 2 };

static void put_dataset(const struct fixture *fixture)
{
    const struct recipe recipes[] = {
        {.path = "a", .format = ZARR_V3, .rank = 2, .shape = {SAMPLES, 3}, .chunks = {CHUNK, 3}},
        {.path = "words", .format = ZARR_V3, .rank = 2, .shape = {5, 7}, .chunks = {2, 7}},
        {.path = "which", .format = ZARR_V3, .rank = 1, .shape = {SAMPLES}, .chunks = {SAMPLES}}};
    unsigned char items[SAMPLES * 3] = {0};
    struct zarr_array array;
    fixture_put(fixture, "zarr.json", "{\"zarr_format\": 3, \"node_type\": \"group\"}");
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        struct recipe recipe = recipes[i];
        recipe.dtype = DTYPE_UINT8;
        recipe_put(fixture, &recipe, items, &array);
    }
}

static struct dataset *open_dataset(const char *uri)
{
    static const struct dataset_field_spec fields[] = {
        {.name = "a", .array = "a"},
        {.name = "b", .array = "a"},
        {.name = "w", .array = "words", .index = "which"}};
    const struct dataset_options options = {
        .uri = uri, .fields = fields, .field_count = 3, .hold_limit_bytes = 1 << 20};
    struct dataset *dataset;
    struct error err;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    return dataset;
}

/* Complete: with documents and stock. */
static struct inventory take(const struct dataset *dataset)
{
    struct inventory inventory;
    struct error err;
    assert_ok(inventory_init(&inventory, dataset, &err), &err);
    assert_ok(inventory_stamp(&inventory, NULL, &err), &err);
    assert_ok(inventory_read_documents(&inventory, NULL, &err), &err);
    assert_ok(inventory_list(&inventory, NULL, &err), &err);
    assert_int_equal(inventory.count, 3);
    return inventory;
}

static struct inventory take_at(const char *uri)
{
    struct dataset *dataset = open_dataset(uri);
    struct inventory inventory = take(dataset);
    for (size_t i = 0; i < inventory.count; i++) { /* of the dataset */
        inventory.arrays[i].array = NULL;
        inventory.arrays[i].uri = inventory.arrays[i].path = NULL;
    }
    dataset_free(dataset);
    return inventory;
}

/* In the fixture's folder. */
static void run_command(const struct fixture *fixture, const char *words)
{
    char command[300];
    snprintf(command, sizeof command, "cd '%s' && %s", fixture->path, words);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c): the test's own words
}

static const char *copy_of(const struct fixture *fixture)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/copy.zarr", fixture->path);
    return path;
}

/* A copy has other folders, with the same in them, by name too. */
static void copies_are_the_same(void **state)
{
    const struct fixture *fixture = *state;
    put_dataset(fixture);
    struct inventory first = take_at(fixture->path), again = take_at(fixture->path);
    assert_int_equal(first.stamp, again.stamp);
    run_command(fixture, "mkdir copy.zarr && cp -a zarr.json a words which copy.zarr");
    struct inventory copy = take_at(copy_of(fixture));
    for (size_t i = 0; i < first.count; i++) {
        assert_int_not_equal(first.arrays[i].stamp, copy.arrays[i].stamp);
        assert_int_equal(first.arrays[i].document, copy.arrays[i].document);
        assert_int_equal(first.arrays[i].stock, copy.arrays[i].stock);
        assert_int_equal(first.arrays[i].value_count, first.arrays[i].total);
    }
    /* One chunk for another: as many as before. */
    run_command(fixture, "cd copy.zarr/a/c && rm -r 3");
    struct inventory less = take_at(copy_of(fixture));
    assert_int_equal(less.arrays[0].value_count, SAMPLES / CHUNK - 1);
    assert_int_not_equal(less.arrays[0].stock, first.arrays[0].stock);
    assert_int_equal(less.arrays[1].stock, first.arrays[1].stock);
    run_command(fixture, "cd copy.zarr && sed -i 's/uint8/int8/' words/zarr.json");
    struct inventory other = take_at(copy_of(fixture));
    assert_int_equal(other.arrays[0].document, first.arrays[0].document);
    assert_int_not_equal(other.arrays[1].document, first.arrays[1].document);
    inventory_done(&first), inventory_done(&again), inventory_done(&copy);
    inventory_done(&less), inventory_done(&other);
}

/* Archives tell contents: one that was written anew with other bytes differs. */
static void archives_tell_contents(void **state)
{
    const struct fixture *fixture = *state;
    if (system("command -v zip >/dev/null") != 0) // NOLINT(cert-env33-c)
        skip();
    put_dataset(fixture);
    run_command(fixture, "zip -qr copy.zip zarr.json a words which");
    char path[100];
    snprintf(path, sizeof path, "%s/copy.zip", fixture->path);
    struct inventory first = take_at(path), again = take_at(path);
    assert_int_equal(first.stamp, again.stamp);
    assert_int_equal(first.arrays[0].value_count, SAMPLES / CHUNK);
    run_command(fixture, "printf abcdef >a/c/3/0 && zip -q copy.zip a/c/3/0");
    struct inventory other = take_at(path);
    assert_int_not_equal(other.stamp, first.stamp);
    assert_int_equal(other.arrays[0].value_count, SAMPLES / CHUNK);
    assert_int_not_equal(other.arrays[0].stock, first.arrays[0].stock);
    assert_int_equal(other.arrays[1].stock, first.arrays[1].stock);
    inventory_done(&first), inventory_done(&again), inventory_done(&other);
}

static void marks_are_what_is_there(void **state)
{
    const struct fixture *fixture = *state;
    _Atomic unsigned char bits[2] = {0};
    struct error err;
    put_dataset(fixture);
    run_command(fixture, "cd a/c && rm -r 3 9");
    struct dataset *dataset = open_dataset(fixture->path);
    struct inventory inventory = take(dataset);
    assert_ok(inventory_mark(&inventory, 0, 0, 10, bits, NULL, &err), &err);
    assert_int_equal(bits[0], 0xff & ~8);
    assert_int_equal(bits[1], 1);
    bits[0] = 0;
    assert_ok(inventory_mark(&inventory, 0, 3, 4, bits, NULL, &err), &err);
    assert_int_equal(bits[0], 0xe);
    char key[INVENTORY_KEY_BYTES];
    inventory_value_key(&inventory.arrays[0], 3, key);
    assert_string_equal(key, "a/c/3/0");
    inventory_done(&inventory);
    dataset_free(dataset);
}

/* The last chunk alone will do; none will not; and the first array that has none is named. */
static void some_chunk_is_required(void **state)
{
    const struct fixture *fixture = *state;
    struct inventory inventory;
    struct error err;
    put_dataset(fixture);
    struct dataset *dataset = open_dataset(fixture->path);
    assert_ok(inventory_init(&inventory, dataset, &err), &err);
    run_command(fixture, "cd a/c && rm -r [0-8]");
    assert_ok(inventory_require(&inventory, NULL, &err), &err);
    run_command(fixture, "rm -r a/c/9 which/c/0");
    assert_int_equal(inventory_require(&inventory, NULL, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "field 'a': array 'a' of the store '/tmp/"));
    assert_non_null(strstr(err.message, "errors.missing_chunk: fill"));
    inventory_done(&inventory);
    dataset_free(dataset);
}

static _Atomic unsigned asked[1000];

static enum status note_asked(const struct store *store, const char *key, size_t limit,
                              char **ret_text, size_t *ret_size, struct error *err)
{
    unsigned number;
    (void)store, (void)limit;
    if (sscanf(key, "%u/zarr.json", &number) != 1)
        return error_set(err, STATUS_INVALID, "an odd key: '%s'", key);
    asked[number]++;
    *ret_text = strdup("{}");
    *ret_size = 2;
    return *ret_text ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory");
}

static void fetch_nothing(const struct store *store, struct fetch *fetch)
{
    (void)store, (void)fetch;
}

/* A server is asked for a few documents of a thousand, from the first array on. */
static void few_remote_documents_are_read(void **state)
{
    static const struct store_operations operations = {.get_text = note_asked,
                                                       .fetch = fetch_nothing};
    const struct store store = {.operations = &operations, .uri = (char *)"remote"};
    static const unsigned counts[] = {3, 64, 65, 100, 1000};
    static struct zarr_array zarr_arrays[1000];
    static struct inventory_array arrays[1000];
    struct error err;
    (void)state;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        struct inventory inventory = {
            .arrays = arrays, .count = counts[c], .remote_count = counts[c]};
        unsigned sum = 0, gap = 0, widest = (counts[c] + 63) / 64;
        for (unsigned i = 0; i < counts[c]; i++) {
            zarr_arrays[i].format = ZARR_V3;
            zarr_arrays[i].key_path_bytes = (size_t)sprintf(zarr_arrays[i].path, "%u", i);
            arrays[i] = (struct inventory_array){.store = &store, .array = &zarr_arrays[i]};
            asked[i] = 0;
        }
        assert_ok(inventory_read_documents(&inventory, NULL, &err), &err);
        assert_int_equal(asked[0], 1);
        for (unsigned i = 0; i < counts[c]; i++) {
            assert_in_range(asked[i], 0, 1);
            assert_int_equal(asked[i], arrays[i].document != 0);
            sum += asked[i];
            gap = asked[i] ? 0 : gap + 1;
            assert_in_range(gap, 0, widest - 1);
        }
        assert_int_equal(sum, counts[c] < 64 ? counts[c] : 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_are_the_same, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(archives_tell_contents, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(marks_are_what_is_there, fixture_setup, fixture_teardown),
        cmocka_unit_test(few_remote_documents_are_read),
        cmocka_unit_test_setup_teardown(some_chunk_is_required, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
