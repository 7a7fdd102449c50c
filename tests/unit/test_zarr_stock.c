/* Which values of an array a store has: by the names in folders, whatever keys look like. */
#include "zarr/chunk/stock.h"

#include "store/kind/store_internal.h"
#include "zarr_sharded.h"

#include <sys/stat.h>
#include <unistd.h>

static enum status count_values(uint64_t number, uint64_t content, void *argument,
                                struct error *err)
{
    unsigned *counts = argument;
    (void)err;
    assert_int_equal(content, 0);
    counts[number]++;
    return STATUS_OK;
}

static void list(const struct fixture *fixture, const struct zarr_array *array, unsigned *counts)
{
    enum { PARTS = 3 };
    struct error err;
    for (uint32_t part = 0; part < PARTS; part++)
        assert_ok(zarr_list_stock(fixture->store, array, part, PARTS, count_values, counts, &err),
                  &err);
}

static void make_folder(const struct fixture *fixture, const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", fixture->path, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void names_are_numbers(void **state)
{
    const struct fixture *fixture = *state;
    const struct recipe recipes[] = {
        {.path = "flat"},
        {.path = "deep", .separator = '/'},
        {.path = "", .separator = '/'},
        {.path = "x/v3", .format = ZARR_V3},
        {.path = "v3flat", .format = ZARR_V3, .separator = '.'},
    };
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++) {
        struct recipe recipe = recipes[i];
        struct zarr_array array;
        unsigned counts[5 * 12] = {0};
        char key[ZARR_KEY_BYTES];
        recipe.rank = 2;
        recipe.shape[0] = 9, recipe.shape[1] = 23;
        recipe.chunks[0] = recipe.chunks[1] = 2;
        recipe.dtype = DTYPE_UINT8;
        recipe_put_metadata(fixture, &recipe, &array);
        assert_int_equal(zarr_value_count(&array), 5 * 12);
        assert_false(zarr_has_stock(fixture->store, &array));
        list(fixture, &array, counts);
        for (uint64_t number = 1; number < 5 * 12; number += 7) {
            zarr_value_key(&array, number, key);
            fixture_put(fixture, key, "x");
        }
        assert_true(zarr_has_stock(fixture->store, &array));
        list(fixture, &array, counts);
        for (uint64_t number = 0; number < 5 * 12; number++)
            assert_int_equal(counts[number], number % 7 == 1);
    }
}

/* Names that no key has, and a folder and a link where chunks should be, which reading tells of. */
static void odd_names(void **state)
{
    const struct fixture *fixture = *state;
    struct recipe recipe = {.path = "a",
                            .rank = 2,
                            .shape = {90, 3},
                            .chunks = {1, 3},
                            .dtype = DTYPE_UINT8,
                            .separator = '.'};
    static const char *const strays[] = {"a/00.0",  "a/1",    "a/1.0.0", "a/90.0", "a/1.1",
                                         "a/c.0.0", "a/1.0x", "a/.0",    "a/1.",   "a/-1.0"};
    struct zarr_array array;
    unsigned counts[90] = {0};
    char path[200];
    recipe_put_metadata(fixture, &recipe, &array);
    for (size_t i = 0; i < sizeof strays / sizeof strays[0]; i++)
        fixture_put(fixture, strays[i], "x");
    assert_false(zarr_has_stock(fixture->store, &array));
    make_folder(fixture, "a/7.0");
    snprintf(path, sizeof path, "%s/a/8.0", fixture->path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_true(zarr_has_stock(fixture->store, &array));
    list(fixture, &array, counts);
    for (int i = 0; i < 90; i++)
        assert_int_equal(counts[i], i == 7 || i == 8);
}

/* A store without listings, which is asked for single values, and has none. */
struct mute_store {
    struct store store;
    unsigned *asked; /* [numbers of values]: how often each was asked for */
};

static enum status note_asked(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    unsigned number;
    (void)ret_info;
    assert_int_equal(sscanf(key, "a/%u", &number), 1);
    ((const struct mute_store *)store)->asked[number]++;
    return error_set(err, STATUS_NOT_FOUND, "nothing");
}

static enum status list_nothing(const struct store *store, const char *prefix, store_visit *visit,
                                void *argument, struct error *err)
{
    (void)store, (void)prefix, (void)visit, (void)argument;
    return error_set(err, STATUS_UNSUPPORTED, "no listings");
}

/* From the first value to the last one, with gaps that are alike. */
static void looks_are_spread_evenly(void **state)
{
    static const struct store_operations operations = {.stat = note_asked, .list = list_nothing};
    static const uint64_t counts[] = {1, 2, 64, 65, 90, 126, 127, 1000};
    const struct fixture *fixture = *state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct recipe recipe = {
            .path = "a", .rank = 1, .shape = {counts[i]}, .chunks = {1}, .dtype = DTYPE_UINT8};
        unsigned asked[1000] = {0}, looks = 0;
        struct mute_store mute = {{.operations = &operations, .uri = (char *)"mute"}, asked};
        struct zarr_array array;
        uint64_t last = 0, widest = (counts[i] + 62) / 63;
        recipe_put_metadata(fixture, &recipe, &array);
        assert_false(zarr_has_stock(&mute.store, &array));
        for (uint64_t number = 0; number < counts[i]; number++)
            if (asked[number]) {
                assert_int_equal(asked[number], 1);
                assert_in_range(number - last, number > 0, widest);
                last = number;
                looks++;
            }
        assert_int_equal(asked[0], 1);
        assert_int_equal(last, counts[i] - 1);
        assert_int_equal(looks, counts[i] < 64 ? counts[i] : 64);
    }
}

static void shards_count(void **state)
{
    struct sharded sharded = {.fixture = *state};
    struct text document = {0};
    unsigned counts[SHARDS] = {0};
    char key[ZARR_KEY_BYTES];
    struct error err;
    write_document("end", "", &document);
    assert_ok(zarr_array_parse(ZARR_V3, "s", document.data, document.length, &sharded.array, &err),
              &err);
    text_done(&document);
    assert_int_equal(zarr_value_count(&sharded.array), SHARDS);
    zarr_value_key(&sharded.array, 2, key);
    assert_string_equal(key, "s/c/2/0");
    fixture_put(sharded.fixture, key, "x");
    list(sharded.fixture, &sharded.array, counts);
    assert_int_equal(counts[0] + counts[1], 0);
    assert_int_equal(counts[2], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_are_numbers, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(odd_names, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(looks_are_spread_evenly, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(shards_count, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
