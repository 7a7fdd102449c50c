/* Fields with mean, std and cf: that other ranks have the same values, what the fingerprint covers,
 * and every mistake. Values themselves: tests/python/test_zarr_fields.py. */
#include "dataset/dataset.h"
#include "zarr_fixture.h"

enum { TIMES = 3, CHANNELS = 4, LATS = 5 };

/* An array of one chunk. */
static void put_array(const struct fixture *fixture, const char *path, const char *shape,
                      const char *type, const char *attributes, const void *items, size_t size)
{
    char key[ZARR_KEY_BYTES];
    struct error err;
    document_put(fixture, (struct document){.path = path,
                                            .shape = shape,
                                            .type = type,
                                            .fill = type[0] == '|' ? NULL : "7",
                                            .attributes = attributes});
    snprintf(key, sizeof key, "%s/0%s", path, strchr(shape, ',') ? ".0.0" : "");
    if (size > 0)
        assert_ok(store_put(fixture->store, key, items, size, &err), &err);
}

static int setup(void **state)
{
    static const float mean[CHANNELS] = {1, 2, 3, 4}, other[CHANNELS] = {1, 2, 3, 5},
                       zero[CHANNELS] = {1, 0, 3, 4}, lats[LATS] = {2, 4, 8, 16, 32};
    int16_t items[TIMES * CHANNELS * LATS], negative[TIMES * CHANNELS * LATS];
    fixture_setup(state);
    fixture_put(*state, ".zgroup", "{\"zarr_format\": 2}");
    for (int i = 0; i < TIMES * CHANNELS * LATS; i++) {
        items[i] = (int16_t)i;
        negative[i] = (int16_t)(-1 - i);
    }
    put_array(*state, "x", "[3, 4, 5]", "<i2",
              "{\"_ARRAY_DIMENSIONS\": [\"time\", \"channel\", \"lat\"], \"scale_factor\": 0.5, "
              "\"missing_value\": [21, 22]}",
              items, sizeof items);
    put_array(*state, "y", "[3, 4, 5]", "<i2", "{\"add_offset\": \"none\"}", items, sizeof items);
    put_array(*state, "nan", "[3, 4, 5]", "<i2",
              "{\"_ARRAY_DIMENSIONS\": [\"time\", \"channel\", \"lat\"], \"scale_factor\": 2.0, "
              "\"missing_value\": \"NaN\"}",
              items, sizeof items);
    put_array(*state, "empty", "[3, 4, 5]", "<i2", "{}", NULL, 0);
    put_array(*state, "mean", "[4]", "<f4", "{}", mean, sizeof mean);
    put_array(*state, "other", "[4]", "<f4", "{}", other, sizeof other);
    put_array(*state, "zero", "[4]", "<f4", "{}", zero, sizeof zero);
    put_array(*state, "lats", "[5]", "<f4", "{\"_ARRAY_DIMENSIONS\": [\"lat\"]}", lats,
              sizeof lats);
    put_array(*state, "turned", "[3, 4, 5]", "<i2",
              "{\"_Unsigned\": \"true\", \"scale_factor\": 2}", negative, sizeof negative);
    put_array(*state, "tiny", "[4]", "<f8", "{}", (double[]){1, 1e-60, 1, 1}, 32);
    put_array(*state, "denormal", "[4]", "<f4", "{}", (float[]){1, 1e-40f, 1, 1}, 16);
    put_array(*state, "huge", "[4]", "<f8", "{}", (double[]){1, 1, 1, -1e60}, 32);
    put_array(*state, "text", "[4]", "|S2", "{}", "aabbccdd", 8);
    put_array(*state, "seven", "[7]", "<f4", "{}", (float[7]){0}, 28);
    put_array(*state, "bare", "[4]", "<f4", "{}", NULL, 0);
    return 0;
}

static enum status open_field(const struct fixture *fixture, struct dataset_field_spec spec,
                              struct dataset **ret_dataset, struct error *err)
{
    spec.name = "f";
    const struct dataset_options options = {
        .uri = fixture->path, .fields = &spec, .field_count = 1};
    return dataset_open(&options, ret_dataset, err);
}

/* The sample at time 1. */
static void read_sample(const struct dataset *dataset, float *items, size_t count)
{
    const struct dataset_field *field = &dataset->fields[0];
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct error err;
    char *buffer = aligned_alloc(64, dataset->row_bytes);
    assert_int_equal(field->dtype, DTYPE_FLOAT32);
    assert_int_equal(field->sample_bytes, count * sizeof *items);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    assert_ok(dataset_read_row(reader, 0, buffer, &stats, &err), &err);
    memcpy(items, buffer + field->row_offset + field->sample_bytes, field->sample_bytes);
    dataset_reader_free(reader);
    free(buffer);
}

/* Packed and unpacked, the dataset is the same. */
static void expect_sample(const struct fixture *fixture, struct dataset_field_spec spec,
                          const float *expected, size_t count)
{
    struct dataset *dataset, *copy;
    float items[CHANNELS * LATS];
    struct error err;
    void *packed;
    size_t size;
    assert_ok(open_field(fixture, spec, &dataset, &err), &err);
    read_sample(dataset, items, count);
    for (size_t i = 0; i < count; i++)
        assert_true(expected[i] != expected[i] ? items[i] != items[i] : items[i] == expected[i]);
    assert_ok(dataset_pack(dataset, &packed, &size, &err), &err);
    assert_ok(dataset_unpack(packed, size, NULL, &copy, &err), &err);
    assert_int_equal(copy->fingerprint, dataset->fingerprint);
    memset(items, 0, sizeof items);
    read_sample(copy, items, count);
    for (size_t i = 0; i < count; i++)
        assert_true(expected[i] != expected[i] ? items[i] != items[i] : items[i] == expected[i]);
    free(packed);
    dataset_free(copy);
    dataset_free(dataset);
}

static void values(void **state)
{
    const float nan = __builtin_nanf("");
    struct dataset_field_spec spec = {
        .array = "x", .mean = "mean", .slices = {{"channel", "[3,0]"}, {"lat", "1:3"}}};
    spec.slice_count = 2; /* channels 3 and 0 of 20 + 5 c + l */
    expect_sample(*state, spec, (float[]){32, 33, 20, 21}, 4);
    spec.std = "lats";
    expect_sample(*state, spec, (float[]){8, 4.125f, 5, 2.625f}, 4);
    spec.cf = true; /* halves, and 21 and 22 are missing */
    expect_sample(*state, spec, (float[]){3.5f, 1.8125f, nan, nan}, 4);
    spec.array = "nan"; /* no item is NaN */
    spec.mean = spec.std = NULL;
    expect_sample(*state, spec, (float[]){72, 74, 42, 44}, 4);
    spec = (struct dataset_field_spec){.array = "turned", .cf = true, .slices = {{"1", "0:1"}}};
    spec.slice_count = 1; /* 65,535 less the index, twice */
    expect_sample(*state, spec, (float[]){131030, 131028, 131026, 131024, 131022}, 5);
    spec = (struct dataset_field_spec){.array = "empty", .mean = "mean", .slices = {{"2", "0"}}};
    spec.slice_count = 1; /* the fill value is 7 */
    expect_sample(*state, spec, (float[]){6, 5, 4, 3}, 4);
}

static uint64_t fingerprint(const struct fixture *fixture, struct dataset_field_spec spec)
{
    struct dataset *dataset;
    struct error err;
    assert_ok(open_field(fixture, spec, &dataset, &err), &err);
    uint64_t fingerprint = dataset->fingerprint;
    dataset_free(dataset);
    return fingerprint;
}

static void fingerprints(void **state)
{
    struct dataset_field_spec plain = {.array = "x"}, cf = plain, mean = plain, other = plain,
                              std = plain;
    cf.cf = true;
    mean.mean = "mean";
    other.mean = "other";
    std.std = "mean";
    const struct dataset_field_spec specs[] = {plain, cf, mean, other, std};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < i; k++)
            assert_true(fingerprint(*state, specs[i]) != fingerprint(*state, specs[k]));
}

static void mistakes(void **state)
{
    static const struct {
        struct dataset_field_spec spec;
        enum status status;
        const char *message;
    } cases[] = {
        {{.array = "x", .mean = "no"}, STATUS_NOT_FOUND, "field 'f': mean: there is no array 'no'"},
        {{.array = "x", .mean = "seven"},
         STATUS_INVALID,
         "mean: array 'seven' has the shape [7], which does not fit samples of [4, 5]: it takes "
         "the "
         "length of an axis, or 1"},
        {{.array = "x", .std = "zero"},
         STATUS_INVALID,
         "std: array 'zero' has 0 at 1: it takes finite numbers other than 0"},
        {{.array = "x", .std = "tiny"},
         STATUS_INVALID,
         "std: array 'tiny' has 1e-60 at 1, which is too small for float32"},
        {{.array = "x", .std = "denormal"}, STATUS_INVALID, "at 1, which is too small for float32"},
        {{.array = "x", .mean = "huge"},
         STATUS_INVALID,
         "mean: array 'huge' has -1e+60 at 3, which is too large for float32"},
        {{.array = "x", .scale = 1e-60},
         STATUS_INVALID,
         "scale 1e-60 and offset 0 are too large or too small for float32"},
        {{.array = "x", .offset = 1e60}, STATUS_INVALID, "too large or too small for float32"},
        {{.array = "x", .mean = "bare"},
         STATUS_CORRUPT,
         "mean: array 'bare': the metadata is there, and no chunk at all"},
        {{.array = "x", .mean = "text"}, STATUS_INVALID, "mean: array 'text' is not of numbers"},
        {{.array = "x", .mean = "x"}, STATUS_INVALID, "does not fit samples of [4, 5]"},
        {{.array = "x", .cf = true, .scale = 2.0},
         STATUS_INVALID,
         "cf: true takes scale and offset from the array's attributes: remove scale and offset"},
        {{.array = "y", .cf = true},
         STATUS_INVALID,
         "attribute add_offset of array 'y' is \"none\": cf takes one number"},
        {{.array = "text", .cf = true}, STATUS_INVALID, "items of |S2 cannot become float32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset *dataset;
        struct error err = {0};
        assert_int_equal(open_field(*state, cases[i].spec, &dataset, &err), cases[i].status);
        if (!strstr(err.message, cases[i].message))
            fail_msg("case %zu gives '%s', not '%s'", i, err.message, cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
