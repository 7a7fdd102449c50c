/* What a store says of itself in attributes, as anemoi writes them: dates whose frames no sample
 * touches, and names of the indices along an axis. */
#include "anchors/anchors.h"
#include "dataset/dataset.h"
#include "dataset/frames/missing_dates.h"
#include "zarr_fixture.h"

#include <stdlib.h>

enum { FRAMES = 6, VARIABLES = 3 };

static const char names[] = "\"variables\": [\"2t\", \"msl\", \"tp\"]";

/* x[t, v] is 10 t + v. */
static int setup(void **state)
{
    float x[FRAMES * VARIABLES];
    struct error err;
    fixture_setup(state);
    const struct fixture *fixture = *state;
    fixture_put(*state, ".zgroup", "{\"zarr_format\": 2}");
    for (int i = 0; i < FRAMES * VARIABLES; i++)
        x[i] = (float)(10 * (i / VARIABLES) + i % VARIABLES);
    document_put(fixture, (struct document){
                              .path = "x",
                              .shape = "[6, 3]",
                              .chunks = "[6, 3]",
                              .type = "<f4",
                              .attributes = "{\"_ARRAY_DIMENSIONS\": [\"time\", \"variable\"]}"});
    assert_ok(store_put(fixture->store, "x/0.0", x, sizeof x, &err), &err);
    return 0;
}

static void put_attributes(void *state, const char *missing, const char *dates)
{
    struct text text = {0};
    text_append(&text, "{%s, \"missing_dates\": %s%s}", names, missing, dates);
    fixture_put(state, ".zattrs", text.data);
    text_done(&text);
}

static void put_dates(const struct fixture *fixture, const char *type, const int64_t *dates)
{
    struct error err;
    document_put(fixture,
                 (struct document){.path = "dates", .shape = "[6]", .chunks = "[6]", .type = type});
    assert_ok(store_put(fixture->store, "dates/0", dates, FRAMES * sizeof *dates, &err), &err);
}

static enum status open_x(const struct fixture *fixture, struct dataset_field_spec spec,
                          struct dataset **ret_dataset, struct error *err)
{
    spec.name = spec.array = "x";
    const struct dataset_options options = {
        .uri = fixture->path, .fields = &spec, .field_count = 1};
    return dataset_open(&options, ret_dataset, err);
}

/* Bit t of `expected`: there is a sample at frame t. The same on a rank that got the dataset
 * packed. */
static void expect_frames(const struct fixture *fixture, struct dataset_field_spec spec,
                          unsigned expected)
{
    struct dataset *datasets[2];
    struct error err;
    void *packed;
    size_t size;
    assert_ok(open_x(fixture, spec, &datasets[0], &err), &err);
    assert_ok(dataset_pack(datasets[0], &packed, &size, &err), &err);
    assert_ok(dataset_unpack(packed, size, NULL, &datasets[1], &err), &err);
    for (int d = 0; d < 2; d++) {
        uint64_t row;
        for (uint64_t t = 0; t < FRAMES; t++)
            assert_int_equal(!datasets[d]->anchors ||
                                 anchors_offset_of(datasets[d]->anchors, t, &row) != UINT64_MAX,
                             expected >> t & 1);
        dataset_free(datasets[d]);
    }
    free(packed);
}

static void test_frames(void **state)
{
    static const char start[] = ", \"start_date\": \"2020-02-28T00:00:00\", \"frequency\": \"12h\"";
    static const int32_t pair[] = {0, 1};
    const struct dataset_field_spec plain = {0}, two = {.steps = pair, .step_count = 2};
    const int64_t second = 1582848000; /* 2020-02-28 */
    int64_t dates[FRAMES];
    put_attributes(*state, "[]", start);
    expect_frames(*state, plain, 0x3f);
    put_attributes(*state, "[\"2020-02-29T12:00:00\", \"2020-02-28\"]", start);
    expect_frames(*state, plain, 0x36); /* not 0 and 3 */
    expect_frames(*state, two, 0x12);   /* nor those before */
    for (int t = 0; t < FRAMES; t++)    /* the array goes before start and frequency */
        dates[t] = second + 21600 * t;
    put_dates(*state, "<M8[s]", dates);
    put_attributes(*state, "[\"2020-02-29 06:00:00.000\"]", start);
    expect_frames(*state, plain, 0x1f);
    for (int t = 0; t < FRAMES; t++)
        dates[t] = (second + 21600 * t) * 1000000000;
    put_dates(*state, "<M8[ns]", dates);
    expect_frames(*state, plain, 0x1f);
    for (int t = 0; t < FRAMES; t++)
        dates[t] = 18320 + t;
    put_dates(*state, "<M8[D]", dates);
    put_attributes(*state, "[\"2020-03-01\"]", "");
    expect_frames(*state, plain, 0x3b);
}

/* The second store names a date, and the first one none: each is asked. */
static void test_stores(void **state)
{
    static const char attributes[] = "{\"missing_dates\": [\"2020-03-01\"], \"start_date\": "
                                     "\"2020-02-28\", \"frequency\": \"1d\"}";
    const struct fixture *fixture = *state;
    struct text uri = {0};
    const float x[FRAMES * VARIABLES] = {0};
    struct dataset *dataset;
    struct error err;
    uint64_t row;
    for (const char *store = "a"; store; store = *store == 'a' ? "b" : NULL) {
        char key[8];
        snprintf(key, sizeof key, "%s/x", store);
        document_put(
            fixture,
            (struct document){.path = key, .shape = "[6, 3]", .chunks = "[6, 3]", .type = "<f4"});
        snprintf(key, sizeof key, "%s/x/0.0", store);
        assert_ok(store_put(fixture->store, key, x, sizeof x, &err), &err);
        text_append(&uri, "%s%s/%s", uri.length ? "," : "", fixture->path, store);
    }
    fixture_put(*state, "a/.zgroup", "{\"zarr_format\": 2}");
    fixture_put(*state, "b/.zgroup", "{\"zarr_format\": 2}");
    fixture_put(*state, "b/.zattrs", attributes);
    const struct dataset_field_spec spec = {.name = "x", .array = "x"};
    const struct dataset_options options = {.uri = uri.data, .fields = &spec, .field_count = 1};
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_non_null(dataset->anchors);
    for (uint64_t t = 0; t < 2 * FRAMES; t++)
        assert_int_equal(anchors_offset_of(dataset->anchors, t, &row) != UINT64_MAX, t != 8);
    dataset_free(dataset);
    text_done(&uri);
}

static void refuse(const struct fixture *fixture, const char *message)
{
    struct dataset *dataset;
    struct error err = {0};
    assert_int_equal(open_x(fixture, (struct dataset_field_spec){0}, &dataset, &err),
                     STATUS_INVALID);
    if (!strstr(err.message, message))
        fail_msg("'%s' lacks '%s'", err.message, message);
    assert_non_null(strstr(err.message, "set samples.missing to it"));
    assert_non_null(strstr(err.message, "attribute missing_dates"));
}

static void test_mistakes(void **state)
{
    const int64_t dates[FRAMES] = {0, 1, 2, 2, 3, 4}, rising[FRAMES] = {0, 1, 2, 3, 4, 5};
    struct error err;
    const char *one = "[\"2020-02-29\"]";
    put_attributes(*state, one, "");
    refuse(*state, "there is neither an array 'dates' nor an attribute 'start_date'");
    put_attributes(*state, one, ", \"start_date\": \"2020-02-28\"");
    refuse(*state, "nor an attribute 'frequency'");
    put_attributes(*state, one, ", \"start_date\": \"2020-02-28\", \"frequency\": \"daily\"");
    refuse(*state, "the attribute 'frequency' is 'daily'");
    put_attributes(*state, one, ", \"start_date\": \"2021-02-29\", \"frequency\": \"1d\"");
    refuse(*state, "the attribute 'start_date' is '2021-02-29'");
    put_attributes(*state, one, ", \"start_date\": \"2020-02-28\", \"frequency\": \"7h\"");
    refuse(*state, "no frame has the date 2020-02-29");
    put_attributes(*state, "[\"soon\"]", ", \"start_date\": \"2020-02-28\", \"frequency\": 6");
    refuse(*state, "'soon' is no date such as");
    put_dates(*state, "<i8", dates);
    refuse(*state, "the array 'dates' is 1-dimensional and of int64");
    put_dates(*state, "<M8[s]", dates);
    refuse(*state, "does not rise at item 3");
    document_put(*state, (struct document){
                             .path = "dates", .shape = "[5]", .chunks = "[6]", .type = "<M8[s]"});
    assert_ok(store_put(((struct fixture *)*state)->store, "dates/0", rising, sizeof rising, &err),
              &err);
    refuse(*state, "the array 'dates' has 5 dates, and there are 6 frames");
}

static void test_dates(void **state)
{
    int64_t seconds;
    (void)state;
    assert_true(missing_dates_parse("1970-01-01T00:00:00Z", &seconds) && seconds == 0);
    assert_true(missing_dates_parse("1969-12-31 23:59", &seconds) && seconds == -60);
    assert_true(missing_dates_parse("2000-03-01", &seconds) && seconds == 951868800);
    static const char *const wrong[] = {"",           "2020-1-1",         "2020-13-01",
                                        "2020-02-30", "2020-01-01T24:00", "2020-01-01T00:00:00.5",
                                        "20200101",   "2020-01-01x00:00", "2020-01-01T00:00:00+02"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(missing_dates_parse(wrong[i], &seconds));
    assert_true(missing_dates_frequency("30m", &seconds) && seconds == 1800);
    assert_false(missing_dates_frequency("0h", &seconds));
}

static void test_names(void **state)
{
    struct dataset_field_spec spec = {.slices = {{"variable", "[tp,2t]"}}, .slice_count = 1};
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct dataset *dataset;
    struct error err;
    put_attributes(*state, "[]", "");
    assert_ok(open_x(*state, spec, &dataset, &err), &err);
    float *row = aligned_alloc(64, dataset->row_bytes);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    assert_ok(dataset_read_row(reader, 0, row, &stats, &err), &err);
    assert_true(row[2] == 12.0f && row[3] == 10.0f);
    dataset_reader_free(reader);
    dataset_free(dataset);
    free(row);
    spec.slices[0].indices = "msk";
    assert_int_equal(open_x(*state, spec, &dataset, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "'msk' is none of the 3 names in 'attribute variables': "
                                        "did you mean 'msl'?"));
    fixture_put(*state, ".zattrs", "{\"variables\": [\"2t\", \"msl\"]}");
    assert_int_equal(open_x(*state, spec, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "attribute 'variables' of the group has 2 names, and the "
                                        "axis has 3 indices"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_frames, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_stores, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_mistakes, setup, fixture_teardown),
        cmocka_unit_test(test_dates),
        cmocka_unit_test_setup_teardown(test_names, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
