/* Slices of fields: by numbers, ranges and names of coordinates; what samples are then, which
 * chunks are read, that other ranks have the same, and every mistake with what is there. */
#include "base/random.h"
#include "dataset/dataset.h"
#include "zarr_fixture.h"

enum { TIMES = 6, CHANNELS = 7, LATS = 4 };

static float item(int time, int channel, int lat)
{
    return (float)(100 * time + 10 * channel + lat);
}

static void put_array(const struct fixture *fixture, const char *path, const char *shape,
                      const char *chunks, const char *type, const char *dimensions)
{
    char attributes[256];
    snprintf(attributes, sizeof attributes, "{\"_ARRAY_DIMENSIONS\": %s}", dimensions);
    document_put(fixture, (struct document){.path = path,
                                            .shape = shape,
                                            .type = type,
                                            .chunks = chunks,
                                            .attributes = attributes});
}

static void put_bytes(const struct fixture *fixture, const char *key, const void *bytes,
                      size_t size)
{
    struct error err;
    assert_ok(store_put(fixture->store, key, bytes, size, &err), &err);
}

/* A weather store in `folder`, a chunk for each time and channel. */
static void put_weather(const struct fixture *fixture, const char *folder, const char *names)
{
    uint32_t letters[CHANNELS][3] = {{0}};
    static const float lats[LATS] = {90.0f, 52.3f, -52.3f, -90.0f};
    static const int32_t levels[CHANNELS] = {1000, 925, 850, 20200101, 20200102, 300, 300};
    char path[ZARR_KEY_BYTES];
    for (int c = 0; c < CHANNELS; c++)
        for (int i = 0; i < 3; i++)
            letters[c][i] = (uint32_t)names[3 * c + i] == '_' ? 0 : (unsigned char)names[3 * c + i];
    snprintf(path, sizeof path, "%s/.zgroup", folder);
    fixture_put(fixture, path, "{\"zarr_format\": 2}");
    snprintf(path, sizeof path, "%s/x", folder);
    put_array(fixture, path, "[6, 7, 4]", "[1, 1, 4]", "<f4", "[\"time\", \"channel\", \"lat\"]");
    snprintf(path, sizeof path, "%s/y", folder);
    put_array(fixture, path, "[6, 7]", "[1, 7]", "<f4", "[\"time\", \"level\"]");
    snprintf(path, sizeof path, "%s/channel", folder);
    put_array(fixture, path, "[7]", "[7]", "<U3", "[\"channel\"]");
    snprintf(path, sizeof path, "%s/lat", folder);
    put_array(fixture, path, "[4]", "[4]", "<f4", "[\"lat\"]");
    snprintf(path, sizeof path, "%s/level", folder);
    put_array(fixture, path, "[7]", "[7]", "<i4", "[\"level\"]");
    snprintf(path, sizeof path, "%s/channel/0", folder);
    put_bytes(fixture, path, letters, sizeof letters);
    snprintf(path, sizeof path, "%s/lat/0", folder);
    put_bytes(fixture, path, lats, sizeof lats);
    snprintf(path, sizeof path, "%s/level/0", folder);
    put_bytes(fixture, path, levels, sizeof levels);
    for (int t = 0; t < TIMES; t++) {
        for (int c = 0; c < CHANNELS; c++) {
            float chunk[LATS];
            for (int l = 0; l < LATS; l++)
                chunk[l] = item(t, c, l);
            snprintf(path, sizeof path, "%s/x/%d.%d.0", folder, t, c);
            put_bytes(fixture, path, chunk, sizeof chunk);
        }
        float chunk[CHANNELS];
        for (int c = 0; c < CHANNELS; c++)
            chunk[c] = item(t, c, 0);
        snprintf(path, sizeof path, "%s/y/%d.0", folder, t);
        put_bytes(fixture, path, chunk, sizeof chunk);
    }
}

static int setup(void **state)
{
    fixture_setup(state);
    put_weather(*state, "a", "t2mu10v10msltcwz__q__");
    put_weather(*state, "b", "t2mu10v10msltcwz__q__");
    put_weather(*state, "c", "u10t2mv10msltcwz__q__");
    put_array(*state, "a/z", "[6, 7]", "[1, 7]", "<f4", "[\"time\", \"bare\"]");
    put_array(*state, "a/bare", "[7]", "[7]", "<f4", "[\"bare\"]"); /* no chunk */
    return 0;
}

static enum status open_slices(const struct fixture *fixture, const char *uris, const char *array,
                               const struct dataset_slice_spec *slices, size_t count,
                               struct dataset **ret_dataset, struct error *err)
{
    struct dataset_field_spec spec = {.name = "f", .array = array, .slice_count = count};
    struct text uri = {0};
    memcpy(spec.slices, slices, count * sizeof *slices);
    for (const char *at = uris; *at; at++)
        text_append(&uri, "%s%s/%c", uri.length ? "," : "", fixture->path, *at);
    const struct dataset_options options = {.uri = uri.data, .fields = &spec, .field_count = 1};
    enum status status = dataset_open(&options, ret_dataset, err);
    text_done(&uri);
    return status;
}

/* Reads row `row`; returns how many chunks that took. */
static uint64_t read_row(const struct dataset *dataset, uint64_t row, float *items, size_t count)
{
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct error err;
    void *buffer = aligned_alloc(64, dataset->row_bytes);
    assert_int_equal(dataset->fields[0].sample_bytes, count * sizeof *items);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    assert_ok(dataset_read_row(reader, row, buffer, &stats, &err), &err);
    memcpy(items, (char *)buffer + dataset->fields[0].row_offset, count * sizeof *items);
    dataset_reader_free(reader);
    free(buffer);
    return stats.chunk_count;
}

static void lists_and_names(void **state)
{
    static const struct {
        struct dataset_slice_spec slices[2];
        size_t count;
        int rank;
        uint64_t shape[2], chunks;
        float items[8];
    } cases[] = {
        {{{"channel", "[msl,t2m]"}, {"lat", "1:3"}}, 2, 2, {2, 2}, 2, {231, 232, 201, 202}},
        {{{"1", "[5:,0]"}, {"2", "-1"}}, 2, 1, {3}, 3, {253, 263, 203}},
        {{{"channel", "z"}, {"lat", "[=52.3]"}}, 2, 1, {1}, 1, {251}},
        {{{"channel", "=q"}}, 1, 1, {4}, 1, {260, 261, 262, 263}},
        {{{"channel", "2"}, {"lat", "-52.3"}}, 2, 0, {0}, 1, {222}},
        {{{"channel", "2:4"}, {"lat", ":-2"}}, 2, 2, {2, 2}, 2, {220, 221, 230, 231}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset *dataset, *copy;
        float items[8] = {0};
        struct error err;
        size_t size, bytes;
        void *packed;
        assert_ok(open_slices(*state, "a", "x", cases[i].slices, cases[i].count, &dataset, &err),
                  &err);
        const struct dataset_field *field = &dataset->fields[0];
        assert_int_equal(field->rank, cases[i].rank);
        assert_memory_equal(field->shape, cases[i].shape, (size_t)field->rank * 8);
        bytes = field->sample_bytes;
        assert_int_equal(read_row(dataset, 2, items, bytes / 4), cases[i].chunks);
        assert_memory_equal(items, cases[i].items, bytes);
        assert_ok(dataset_pack(dataset, &packed, &size, &err), &err);
        assert_ok(dataset_unpack(packed, size, NULL, &copy, &err), &err);
        assert_int_equal(copy->fingerprint, dataset->fingerprint);
        assert_int_equal(copy->fields[0].rank, field->rank);
        memset(items, 0, sizeof items);
        assert_int_equal(read_row(copy, 2, items, bytes / 4), cases[i].chunks);
        assert_memory_equal(items, cases[i].items, bytes);
        free(packed);
        dataset_free(copy);
        dataset_free(dataset);
    }
}

/* A crop is a slice of what the slice leaves. */
static void crops(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec spec = {.name = "f",
                                      .array = "x",
                                      .slices = {{"channel", "[6,0:3,5]"}},
                                      .slice_count = 1,
                                      .crops = {{"1", 2}, {"lat", 3}},
                                      .crop_count = 2,
                                      .crop_at = CROP_CENTER};
    char uri[128];
    struct dataset *dataset;
    float items[6];
    struct error err;
    snprintf(uri, sizeof uri, "%s/a", fixture->path);
    const struct dataset_options options = {.uri = uri, .fields = &spec, .field_count = 1};
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(read_row(dataset, 2, items, 6), 2);
    assert_memory_equal(items, ((float[]){200, 201, 202, 210, 211, 212}), sizeof items);
    dataset_free(dataset);
    spec.crops[0].length = 6;
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "field 'f': crop of axis '1': 6 indices of 5"));
    spec.crops[0] = (struct dataset_crop_spec){"time", 2};
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "axis 'time' is the sample axis"));
    spec.crops[0] = (struct dataset_crop_spec){"4", 2};
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "has no axis '4', which is to be sliced"));
}

/* The place of a random crop, which is a part of the slice, from docs/use/samples.md. */
static void random_crops(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec specs[2] = {{.name = "f",
                                           .array = "x",
                                           .slices = {{"channel", "[6,0:3,5]"}},
                                           .slice_count = 1,
                                           .crops = {{"channel", 2}, {"lat", 3}},
                                           .crop_count = 2,
                                           .crop_at = CROP_RANDOM,
                                           .crop_group = 7},
                                          {.name = "y",
                                           .array = "y",
                                           .crops = {{"level", 4}},
                                           .crop_count = 1,
                                           .crop_at = CROP_RANDOM}};
    static const int channels[] = {6, 0, 1, 2, 5};
    char uri[128];
    struct dataset *dataset, *copy;
    float frame[5 * LATS], part[6];
    int32_t origins[2], again[2];
    struct error err;
    size_t size;
    void *packed;
    bool moved = false;
    snprintf(uri, sizeof uri, "%s/a", fixture->path);
    const struct dataset_options options = {.uri = uri, .fields = specs, .field_count = 2};
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(dataset->field_count, 4); /* f, f.crop, y, y.crop */
    const struct dataset_field *field = &dataset->fields[0];
    assert_true(field->rank == 2 && field->shape[0] == 2 && field->shape[1] == 3);
    assert_int_equal(field->sample_bytes, sizeof part);
    assert_int_equal(field->frame_bytes, sizeof frame);
    assert_string_equal(dataset->fields[1].name, "f.crop");
    assert_int_equal(dataset->fields[1].dtype, DTYPE_INT32);
    assert_true(dataset->fields[1].rank == 1 && dataset->fields[1].shape[0] == 2);
    for (int channel = 0; channel < 5; channel++)
        for (int lat = 0; lat < LATS; lat++)
            frame[channel * LATS + lat] = item(2, channels[channel], lat);
    assert_ok(dataset_pack(dataset, &packed, &size, &err), &err);
    assert_ok(dataset_unpack(packed, size, NULL, &copy, &err), &err);
    assert_int_equal(copy->fingerprint, dataset->fingerprint);
    for (uint64_t key = 1; key < 50; key++) {
        dataset_make(dataset, 1, 2, key, origins);
        dataset_make(copy, 1, 2, key, again);
        assert_memory_equal(origins, again, sizeof origins);
        assert_int_equal(origins[0], random_below(random_u64(key, 7, 0), 4));
        assert_int_equal(origins[1], random_below(random_u64(key, 7, 1), 2));
        crop_box_copy(&field->crop->box, (unsigned char *)part,
                      (unsigned char *)frame + crop_begin(field->crop, key));
        for (int i = 0; i < 6; i++)
            assert_true(!(part[i] < frame[(origins[0] + i / 3) * LATS + origins[1] + i % 3]) &&
                        !(part[i] > frame[(origins[0] + i / 3) * LATS + origins[1] + i % 3]));
        moved |= origins[0] != 0 && origins[1] != 0;
    }
    assert_true(moved);
    uint64_t before = dataset->fingerprint;
    free(packed);
    dataset_free(copy);
    dataset_free(dataset);

    specs[0].crop_group = 8;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_not_equal(dataset->fingerprint, before);
    dataset_free(dataset);
    specs[0].crop_group = 0;
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "field 'f' has random crops of 2 of 5, 3 of 4, and field "
                                        "'y' of 4 of 7, in one group"));
    specs[0].crop_group = 7;
    specs[0].crops[0].length = 6;
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "field 'f': crop of axis 'channel': 6 indices of 5"));
    specs[0].crops[0] = (struct dataset_crop_spec){"time", 2};
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "axis 'time' is the sample axis"));
    specs[0].crops[0] = (struct dataset_crop_spec){"height", 2};
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "has no axis 'height'"));
}

/* Crops of any axes, against loops over all items. */
static void any_axes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 400; seed++) {
        uint64_t shape[4], wanted[4] = {0}, items = 1, draw = 0;
        int rank = 1 + (int)random_below(random_u64(seed, 0, draw++), 4);
        struct dataset_crop crop;
        unsigned char frame[4096], part[4096];
        size_t at = 0;
        for (int axis = 0; axis < rank; axis++) {
            shape[axis] = 1 + random_below(random_u64(seed, 0, draw++), 6);
            items *= shape[axis];
            if (axis == rank - 1 || random_below(random_u64(seed, 0, draw++), 2))
                wanted[axis] = 1 + random_below(random_u64(seed, 0, draw++), shape[axis]);
        }
        if (rank > 1 && wanted[0] > 0 && seed % 2)
            wanted[rank - 1] = 0;
        for (size_t i = 0; i < 3 * items; i++)
            frame[i] = (unsigned char)random_u64(seed, 1, i);
        crop_lay_out(&crop, 5, rank, shape, wanted, 3);
        int32_t origins[CROP_MAX_AXES];
        crop_origins(&crop, seed, origins);
        crop_box_copy(&crop.box, part, frame + crop_begin(&crop, seed));
        for (uint64_t i = 0; i < items; i++) {
            uint64_t rest = i;
            bool inside = true;
            for (int axis = rank - 1, k = crop.axis_count - 1; axis >= 0; axis--) {
                uint64_t index = rest % shape[axis];
                rest /= shape[axis];
                if (wanted[axis] == 0)
                    continue;
                inside = inside && index >= (uint64_t)origins[k] &&
                         index < (uint64_t)origins[k] + wanted[axis];
                k--;
            }
            if (inside) {
                assert_memory_equal(part + at, frame + 3 * i, 3);
                at += 3;
            }
        }
        assert_int_equal(at, crop.box.bytes);
    }
}

static uint64_t fingerprint(const struct fixture *fixture, const char *indices)
{
    const struct dataset_slice_spec slice = {"channel", indices};
    struct dataset *dataset;
    struct error err;
    assert_ok(open_slices(fixture, "a", "x", &slice, 1, &dataset, &err), &err);
    uint64_t fingerprint = dataset->fingerprint;
    dataset_free(dataset);
    return fingerprint;
}

static void fingerprints(void **state)
{
    assert_int_equal(fingerprint(*state, "[t2m,u10]"), fingerprint(*state, "[0,1]"));
    assert_int_not_equal(fingerprint(*state, "[t2m,u10]"), fingerprint(*state, "[1,0]"));
    assert_int_not_equal(fingerprint(*state, "0:2"), fingerprint(*state, "1:3"));
}

/* Fields with other indices of one array are read each for itself. */
static void two_fields(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec specs[] = {
        {.name = "a", .array = "x", .slices = {{"channel", "0:2"}}, .slice_count = 1},
        {.name = "b", .array = "x", .slices = {{"channel", "2:4"}}, .slice_count = 1},
    };
    char uri[128];
    struct dataset *dataset;
    struct dataset_reader *reader;
    struct zarr_read_stats stats = {0};
    struct error err;
    snprintf(uri, sizeof uri, "%s/a", fixture->path);
    const struct dataset_options options = {.uri = uri, .fields = specs, .field_count = 2};
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    assert_ok(dataset_read_row(reader, 3, buffer, &stats, &err), &err);
    for (int f = 0; f < 2; f++)
        for (int i = 0; i < 8; i++) {
            float found;
            memcpy(&found, buffer + dataset->fields[f].row_offset + 4 * i, sizeof found);
            assert_true(found == item(3, 2 * f + i / LATS, i % LATS));
        }
    dataset_reader_free(reader);
    free(buffer);
    dataset_free(dataset);
}

/* Neighbours that are one number in single precision. */
static void long_numbers(void **state)
{
    const struct dataset_slice_spec slice = {"level", "[=20200102]"};
    struct dataset *dataset;
    struct error err;
    float items[1];
    assert_ok(open_slices(*state, "a", "y", &slice, 1, &dataset, &err), &err);
    read_row(dataset, 1, items, 1);
    assert_true(items[0] == item(1, 4, 0));
    dataset_free(dataset);
}

static void several_stores(void **state)
{
    const struct dataset_slice_spec slice = {"channel", "[t2m]"};
    struct dataset *dataset;
    float items[LATS];
    struct error err;
    assert_ok(open_slices(*state, "ab", "x", &slice, 1, &dataset, &err), &err);
    assert_int_equal(dataset->sample_count, 2 * TIMES);
    assert_int_equal(read_row(dataset, TIMES + 1, items, LATS), 1);
    assert_true(items[0] == item(1, 0, 0) && items[3] == item(1, 0, 3));
    dataset_free(dataset);
    assert_int_equal(open_slices(*state, "ac", "x", &slice, 1, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "have these names at other indices than in the store"));
}

static void mistakes(void **state)
{
    static const struct {
        const char *array;
        struct dataset_slice_spec slices[2];
        size_t count;
        enum status status;
        const char *message;
    } cases[] = {
        {"x",
         {{"channel", "7"}},
         1,
         STATUS_INVALID,
         "field 'f': slice of axis 'channel': '7' is out of range: the axis has 7, from 0 on"},
        {"x", {{"channel", "-8"}}, 1, STATUS_INVALID, "'-8' is out of range"},
        {"x", {{"channel", "5:8"}}, 1, STATUS_INVALID, "'5:8' is out of range"},
        {"x", {{"channel", "5:5"}}, 1, STATUS_INVALID, "'5:5' is a range without any index"},
        {"x", {{"channel", "[]"}}, 1, STATUS_INVALID, "a list without any index"},
        {"x", {{"channel", "[1,2,1]"}}, 1, STATUS_INVALID, "index 1 is there twice"},
        {"x",
         {{"channel", "t2n"}},
         1,
         STATUS_NOT_FOUND,
         "'t2n' is none of the 7 names in 'channel': did you mean 't2m'?"},
        {"x",
         {{"lat", "=50"}},
         1,
         STATUS_NOT_FOUND,
         "'50' is none of the 4 numbers in 'lat'; the nearest is 52.2999992"},
        {"x",
         {{"lat", "north"}},
         1,
         STATUS_NOT_FOUND,
         "'north' is no number, as those in 'lat' are"},
        {"y",
         {{"level", "=300"}},
         1,
         STATUS_INVALID,
         "'300' is there twice in 'level', at 5 and 6"},
        {"x",
         {{"chanel", "0"}},
         1,
         STATUS_INVALID,
         "array 'x' has no axis 'chanel', which is to be sliced: it has 3, from 0 on: 0 time, 1 "
         "channel, 2 lat"},
        {"z",
         {{"bare", "=1"}},
         1,
         STATUS_CORRUPT,
         "coordinates: array 'bare': the metadata is there, and no chunk at all"},
        {"x", {{"time", "0:2"}}, 1, STATUS_INVALID, "axis 'time' is the sample axis"},
        {"x", {{"channel", "0"}, {"1", "1"}}, 2, STATUS_INVALID, "axis 1 has two slices"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset *dataset;
        struct error err = {0};
        assert_int_equal(open_slices(*state, "a", cases[i].array, cases[i].slices, cases[i].count,
                                     &dataset, &err),
                         cases[i].status);
        if (!strstr(err.message, cases[i].message))
            fail_msg("case %zu gives '%s', not '%s'", i, err.message, cases[i].message);
    }
}

static void no_coordinates(void **state)
{
    const struct dataset_slice_spec slice = {"1", "t2m"};
    struct dataset *dataset;
    struct error err;
    put_array(*state, "a/z", "[6, 7]", "[1, 7]", "<f4", "[\"time\", \"other\"]");
    assert_int_equal(open_slices(*state, "a", "z", &slice, 1, &dataset, &err), STATUS_NOT_FOUND);
    assert_non_null(
        strstr(err.message, "there is no array 'other' of coordinates, and no list of names"));
    put_array(*state, "a/z", "[6, 7]", "[1, 7]", "<f4", "[null, null]");
    assert_int_equal(open_slices(*state, "a", "z", &slice, 1, &dataset, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "axis 1 of array 'z' has no name"));
    put_array(*state, "a/z", "[6, 7]", "[1, 7]", "<f4", "[\"time\", \"y\"]");
    assert_int_equal(open_slices(*state, "a", "z", &slice, 1, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "array 'y' is not one of coordinates: it takes 7 numbers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_and_names), cmocka_unit_test(fingerprints),
        cmocka_unit_test(crops),           cmocka_unit_test(random_crops),
        cmocka_unit_test(any_axes),        cmocka_unit_test(long_numbers),
        cmocka_unit_test(two_fields),      cmocka_unit_test(several_stores),
        cmocka_unit_test(mistakes),        cmocka_unit_test(no_coordinates),
    };
    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
