/* Constants: arrays of the first store that trainers get once; and attributes of fields, within
 * their bounds. */
#include "dataset/dataset.h"
#include "zarr_fixture.h"

enum { TIMES = 6, LATS = 4 };

static const float orography[LATS] = {3, 1, 4, 1};
static const int64_t answer = 42;

static void put_array(const struct fixture *fixture, const char *path, const char *shape,
                      const char *type, const char *attributes)
{
    document_put(fixture, (struct document){.path = path,
                                            .shape = shape,
                                            .type = type,
                                            .fill = type[1] == 'i' ? "7" : NULL,
                                            .attributes = attributes});
}

static int setup(void **state)
{
    struct error err;
    if (fixture_setup(state))
        return -1;
    const struct fixture *fixture = *state;
    for (const char *store = "ab"; *store; store++) {
        char path[64];
        snprintf(path, sizeof path, "%c/.zgroup", *store);
        fixture_put(fixture, path, "{\"zarr_format\": 2}");
        snprintf(path, sizeof path, "%c/x", *store);
        put_array(fixture, path, "[6, 4]", "<f4",
                  "{\"units\": \"K\", \"valid_min\": NaN, \"_ARRAY_DIMENSIONS\": [\"time\", "
                  "\"lat\"]}");
        snprintf(path, sizeof path, "%c/orography", *store);
        put_array(fixture, path, "[4]", "<f4",
                  "{\"long_name\": \"height\", \"_ARRAY_DIMENSIONS\": [\"lat\"]}");
    }
    put_array(fixture, "a/time", "[6]", "<i8", "{\"_ARRAY_DIMENSIONS\": [\"time\"]}");
    put_array(fixture, "a/six", "[6]", "<i8", "{\"_ARRAY_DIMENSIONS\": [\"level\"]}");
    put_array(fixture, "a/bare", "[6]", "<i8", "{}");
    put_array(fixture, "a/names", "[2]", "<U3", "{}");
    put_array(fixture, "a/crs", "[]", "<i8", "{\"_ARRAY_DIMENSIONS\": []}");
    put_array(fixture, "a/large", "[4097, 4096]", "<f4", "{}");
    put_array(fixture, "a/half", "[2048, 4096]", "<f4", "{}");
    put_array(fixture, "a/half2", "[2049, 4096]", "<f4", "{}");
    assert_ok(store_put(fixture->store, "a/orography/0", orography, sizeof orography, &err), &err);
    assert_ok(store_put(fixture->store, "a/crs/0", &answer, sizeof answer, &err), &err);
    return 0;
}

static enum status open_with(const struct fixture *fixture, const char *constants, bool fills,
                             struct dataset **ret_dataset, struct error *err)
{
    const struct dataset_field_spec field = {.name = "x", .array = "x"};
    char uri[256];
    snprintf(uri, sizeof uri, "%.100s/a,%.100s/b", fixture->path, fixture->path);
    const struct dataset_options options = {.uri = uri,
                                            .fields = &field,
                                            .field_count = 1,
                                            .constants = constants,
                                            .fills_empty = fills};
    return dataset_open(&options, ret_dataset, err);
}

static void check_constants(const struct dataset *dataset)
{
    const struct dataset_constant *constants = dataset->constants;
    assert_int_equal(dataset->constant_count, 4);
    assert_string_equal(constants[0].name, "orography");
    assert_true(constants[0].dtype == DTYPE_FLOAT32 && constants[0].rank == 1);
    assert_int_equal(constants[0].bytes, sizeof orography);
    assert_memory_equal(constants[0].data, orography, sizeof orography);
    assert_non_null(strstr(constants[0].attributes, "\"long_name\":\"height\""));
    assert_string_equal(constants[1].name, "names");
    assert_true(constants[1].dtype == DTYPE_UINT32 && constants[1].rank == 2);
    assert_true(constants[1].shape[0] == 2 && constants[1].shape[1] == 3);
    assert_string_equal(constants[2].name, "six");
    assert_int_equal(((const int64_t *)constants[2].data)[5], 7); /* a missing chunk */
    assert_string_equal(constants[3].name, "crs");
    assert_true(constants[3].rank == 0 && constants[3].bytes == 8); /* no axes: one item */
    assert_int_equal(*(const int64_t *)constants[3].data, 42);
    assert_in_range(dataset->constant_bytes, 16 + 24 + 48 + 8 + 6, 16 + 24 + 48 + 8 + 200);
}

static void of_the_first_store(void **state)
{
    struct dataset *dataset, *copy;
    struct error err;
    size_t size;
    void *packed;
    assert_ok(open_with(*state, "/orography/,names,six,crs", true, &dataset, &err), &err);
    check_constants(dataset);
    assert_ok(dataset_pack(dataset, &packed, &size, &err), &err);
    assert_ok(dataset_unpack(packed, size, NULL, &copy, &err), &err);
    check_constants(copy);
    assert_int_equal(copy->fingerprint, dataset->fingerprint);
    dataset_free(copy);
    free(packed);
    dataset_free(dataset);
    assert_ok(open_with(*state, "", false, &dataset, &err), &err);
    assert_int_equal(dataset->constant_count, 0);
    dataset_free(dataset);
}

static void mistakes(void **state)
{
    static const struct {
        const char *constants, *words;
        enum status status;
    } cases[] = {
        {"time", "dataset.constants: array 'time' has the sample axis (6 long)", STATUS_INVALID},
        {"bare", "array 'bare' has the sample axis", STATUS_INVALID},
        {"nothing", "dataset.constants: there is no array 'nothing'", STATUS_NOT_FOUND},
        {"six,orography,six", "'six' is there twice", STATUS_INVALID},
        {",six", "'' is no name of an array", STATUS_INVALID},
        {"large", "array 'large' has 64.0 MiB, more than 64.0 MiB", STATUS_INVALID},
        {"half,half2", "with constant 'half2' the constants take 64.0 MiB; the limit is 64.0 MiB",
         STATUS_INVALID},
        {"orography,six",
         "dataset.constants: array 'six': the metadata is there, and no chunk at all",
         STATUS_CORRUPT},
    };
    struct dataset *dataset;
    struct error err;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool fills = cases[i].status != STATUS_CORRUPT;
        if (open_with(*state, cases[i].constants, fills, &dataset, &err) != cases[i].status)
            fail_msg("'%s': '%s'", cases[i].constants, err.message);
        if (!strstr(err.message, cases[i].words))
            fail_msg("'%s' does not say '%s'", err.message, cases[i].words);
    }
}

static void attributes(void **state)
{
    const struct fixture *fixture = *state;
    struct text told = {0}, document = {0}, doubts = {0};
    struct dataset *dataset;
    struct error err;
    assert_ok(open_with(fixture, "", false, &dataset, &err), &err);
    dataset_field_attributes(dataset, 0, &told);
    assert_string_equal(told.data, "{\"units\":\"K\",\"valid_min\":NaN,\"_ARRAY_DIMENSIONS\":"
                                   "[\"time\",\"lat\"]}");
    dataset_describe_doubts(dataset, &doubts);
    assert_true(!doubts.data || !strstr(doubts.data, "do not get"));
    text_done(&doubts);
    dataset_free(dataset);

    text_append(&document, "{\"units\": \"K\", \"long\": \"%5000s\", \"empty\": null", "");
    for (int i = 0; i < 20; i++)
        text_append(&document, ", \"a%02d\": \"%4000s\"", i, "");
    text_append(&document, "}");
    fixture_put(fixture, "a/x/.zattrs", document.data);
    assert_ok(open_with(fixture, "", false, &dataset, &err), &err);
    text_done(&told);
    dataset_field_attributes(dataset, 0, &told);
    assert_non_null(strstr(told.data, "\"units\":\"K\",\"long\":null,\"empty\":null,\"a00\":\"  "));
    assert_non_null(strstr(told.data, "\"a15\""));
    assert_null(strstr(told.data, "\"a17\""));
    assert_true(told.length < 66 * 1024);
    dataset_describe_doubts(dataset, &doubts);
    assert_non_null(strstr(doubts.data, "trainers do not get these attributes of array 'x'"));
    assert_non_null(strstr(doubts.data, ": long,empty,a16,a17,a18,a19\n"));
    dataset_free(dataset);
    text_done(&doubts);
    text_done(&document);
    text_done(&told);
}

/* What Penstock itself reads of the attributes does not depend on how many others come before. */
static void encoding_behind_many_attributes(void **state)
{
    const struct fixture *fixture = *state;
    const struct dataset_field_spec field = {.name = "y", .array = "y", .cf = true};
    uint16_t stored[TIMES * LATS] = {[4] = 7};
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct text document = {0}, told = {0};
    struct dataset *dataset;
    struct error err;
    char uri[256];
    text_append(&document, "{\"a00\": \"%4000s\"", "");
    for (int i = 1; i < 17; i++)
        text_append(&document, ", \"a%02d\": \"%4000s\"", i, "");
    text_append(&document, ", \"scale_factor\": 0.5, \"add_offset\": 10, "
                           "\"_ARRAY_DIMENSIONS\": [\"time\", \"lat\"]}");
    put_array(fixture, "c/y", "[6, 4]", "<u2", document.data);
    assert_ok(store_put(fixture->store, "c/y/0.0", stored, sizeof stored, &err), &err);
    snprintf(uri, sizeof uri, "%.100s/c", fixture->path);
    const struct dataset_options options = {.uri = uri, .fields = &field, .field_count = 1};
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    dataset_field_attributes(dataset, 0, &told);
    assert_non_null(strstr(told.data, "\"a15\""));
    assert_null(strstr(told.data, "\"a16\""));
    assert_non_null(strstr(told.data, "\"scale_factor\":0.5,\"add_offset\":10,"
                                      "\"_ARRAY_DIMENSIONS\":[\"time\",\"lat\"]}"));
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    unsigned char *row = aligned_alloc(64, dataset->row_bytes);
    assert_ok(dataset_read_row(reader, 0, row, &stats, &err), &err);
    const float *values = (const float *)(row + dataset->fields[0].row_offset);
    assert_true(values[0] == 10 && values[4] == 13.5f);
    free(row);
    dataset_reader_free(reader);
    dataset_free(dataset);
    text_done(&document);
    text_done(&told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_the_first_store),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(attributes),
        cmocka_unit_test(encoding_behind_many_attributes),
    };
    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
