/* Datasets that are refused: fields, arrays and indices that cannot be, and a chunk that is
 * damaged; each with a message that says where. */
#include "dataset_joined.h"

static void test_refused_specs(void **state)
{
    static const struct {
        struct dataset_field_spec fields[2];
        size_t count;
        enum status status;
        const char *message;
    } cases[] = {
        {{{.name = "x", .array = "frame"}},
         1,
         STATUS_NOT_FOUND,
         "field 'x': there is no array 'frame'; there are 'frames', 'join', 'labels', 'text'"},
        {{{.name = "x", .array = "frames"}, {.name = "x", .array = "labels"}},
         2,
         STATUS_INVALID,
         "two fields are named 'x'"},
        {{{.name = "", .array = "frames"}}, 1, STATUS_INVALID, "name is empty"},
        {{{.name = "a\nb", .array = "frames"}}, 1, STATUS_INVALID, "control character"},
        {{{.name = "x", .array = "frames"}, {.name = "y", .array = "text"}},
         2,
         STATUS_INVALID,
         "'x' (array 'frames') has 21, 'y' (array 'text') has 6"},
        {{{.name = "x", .array = "frames"}, {.name = "y", .array = "text", .index = "text"}},
         2,
         STATUS_INVALID,
         "index array 'text' must be one-dimensional and of integers; it is 2-dimensional and of "
         "float32"},
        {{{.name = "y", .array = "text", .index = "join"}},
         1,
         STATUS_INVALID,
         "all fields are joined"},
        {{{.name = "y", .array = "text", .index = "no"}},
         1,
         STATUS_NOT_FOUND,
         "there is no array 'no'"},
        {{{.name = "x", .array = "frames"}}, 0, STATUS_INVALID, "dataset.fields is empty"},
        {{{.name = "x23456789012345678901234567890123456789012345678901234567890123z",
           .array = "frames"}},
         1,
         STATUS_INVALID,
         "has 64 bytes; the limit is 63"},
    };
    struct world world;
    put_world(*state, &world, 5);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuse_with(*state, cases[i].fields, cases[i].count, MEBIBYTE, cases[i].status,
                    cases[i].message);
    refuse_with(*state, world_fields, 3, 100, STATUS_INVALID,
                "field 'words': array 'text' takes 168 B, and joined arrays are held whole: raise "
                "dataset.hold_limit (100 B)");
    world_done(&world);
}

static void test_refused_arrays(void **state)
{
    static const struct dataset_field_spec fields[] = {{.name = "x", .array = "strings"}};
    put_group(*state);
    refuse_default(*state, STATUS_INVALID, "there are no arrays with samples");
    put_empty(*state, "good", "<f4", "[10, 100]", "[5, 100]");
    put_empty(*state, "other", "|O", "[3]", "[3]"); /* another length: not in the way */
    struct dataset *dataset = open_with(*state, NULL, 0, MEBIBYTE);
    assert_int_equal(dataset->field_count, 1);
    dataset_free(dataset);

    put_empty(*state, "strings", "|O", "[10]", "[5]");
    refuse_default(
        *state, STATUS_UNSUPPORTED,
        "array 'strings': dtype '|O' (Python objects): rewrite the array with a dtype of "
        "fixed size. To do without "
        "it, list dataset.fields without it");
    refuse_with(*state, fields, 1, MEBIBYTE, STATUS_UNSUPPORTED,
                "field 'x': array 'strings': dtype '|O' (Python objects)");
}

static void test_refused_corrupt_array(void **state)
{
    put_group(*state);
    put_empty(*state, "good", "<f4", "[10, 100]", "[5, 100]");
    put_empty(*state, "odd", "<f4", "\"ten\"", "[5]");
    refuse_default(*state, STATUS_CORRUPT, "array 'odd': 'shape' is a JSON string, expected array");
}

static void test_refused_ambiguous(void **state)
{
    put_group(*state);
    put_empty(*state, "a", "<f4", "[10, 20]", "[5, 20]");
    put_empty(*state, "b", "<f4", "[20, 10]", "[5, 10]");
    refuse_default(*state, STATUS_INVALID, "ambiguous: 'a' and 'b'");
}

static void test_refused_huge(void **state)
{
    put_group(*state);
    put_empty(*state, "a", "<f4", "[10, 4000000000000000]", "[10, 1]");
    put_empty(*state, "b", "<f4", "[4611686018427387904]", "[1]");
    refuse_default(*state, STATUS_CORRUPT, "array 'b': 'shape' overflows");
    static const struct dataset_field_spec fields[] = {{.name = "x", .array = "a"}};
    refuse_with(*state, fields, 1, MEBIBYTE, STATUS_INVALID, "beyond any memory");

    /* 63 bits hold what is stored, and not what becomes of it. */
    put_empty(*state, "c", "|u1", "[1, 4611686018427387904]", "[1, 1]");
    static const struct dataset_field_spec cast[] = {
        {.name = "x", .array = "c", .cast = DTYPE_FLOAT32}};
    refuse_with(*state, cast, 1, MEBIBYTE, STATUS_INVALID, "does not fit 63 bits as float32");
    static const struct dataset_field_spec scaled[] = {{.name = "x", .array = "c", .scale = 0.5}};
    refuse_with(*state, scaled, 1, MEBIBYTE, STATUS_INVALID, "does not fit 63 bits as float32");
}

static void test_no_dataset(void **state)
{
    struct fixture missing = *(struct fixture *)*state;
    refuse_default(*state, STATUS_NOT_FOUND, "no Zarr array or group there");
    strcpy(missing.path + strlen(missing.path) - 6, "absent");
    refuse_default(&missing, STATUS_NOT_FOUND, "absent");
}

static void test_index_out_of_range(void **state)
{
    static const struct {
        enum dtype dtype;
        int64_t value;
        const char *message;
    } cases[] = {
        {DTYPE_INT64, -1, "array 'join' position 4: index -1 is out of range: array 'text' has 6"},
        {DTYPE_INT8, -1, "index -1 is"},
        {DTYPE_UINT8, 6, "index 6 is"},
        {DTYPE_UINT64, -2, "index 18446744073709551614 is"},
        {DTYPE_INT16, 300, "index 300 is"},
    };
    struct world world;
    put_world(*state, &world, 5);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = dtype_bytes(cases[i].dtype);
        unsigned char items[SAMPLES * 8] = {0};
        struct recipe recipe = world.join.recipe;
        struct error err;
        recipe.dtype = cases[i].dtype;
        memcpy(items + 4 * bytes, &cases[i].value, bytes); /* little-endian machines */
        recipe_put(*state, &recipe, items, &world.join.array);
        struct dataset *dataset = open_with(*state, world_fields, 3, MEBIBYTE);
        void *held = aligned_alloc(64, dataset->held_bytes);
        assert_int_equal(dataset_hold(dataset, held, &err), STATUS_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("%s", err.message);
        free(held);
        dataset_free(dataset);
    }
    world_done(&world);
}

static void test_row_error_names_chunk(void **state)
{
    struct world world;
    struct dataset_reader *reader;
    struct zarr_read_stats stats = {0};
    struct error err;
    put_world(*state, &world, 5);
    fixture_put(*state, "frames/2.1.0.0", "junk");
    struct dataset *dataset = open_with(*state, world_fields, 3, MEBIBYTE);
    void *row = aligned_alloc(64, dataset->row_bytes);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    assert_ok(dataset_read_row(reader, 1, row, &stats, &err), &err);
    assert_int_equal(dataset_read_row(reader, 2, row, &stats, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "array 'frames' chunk 2.1.0.0: zstd"));
    dataset_reader_free(reader);
    free(row);
    dataset_free(dataset);
    world_done(&world);
}

#define in_store(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_store(test_refused_specs),         in_store(test_refused_arrays),
        in_store(test_refused_corrupt_array), in_store(test_refused_ambiguous),
        in_store(test_refused_huge),          in_store(test_no_dataset),
        in_store(test_index_out_of_range),    in_store(test_row_error_names_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
