/* Samples that cannot be: arrays that do not say what samples are, and steps that make no sense. */
#include "dataset_refusal.h"
#include "dataset_world.h"

/* One store of 12 frames, and arrays that are not what they should be. */
static void put_slips(const struct fixture *fixture)
{
    static const int32_t falling[] = {4, 9, 7, 12}, late[] = {4, 13}, early[] = {4, 11},
                         numbers[] = {3, 12}, back[] = {1, 1, 2, 2, 3, 3, 2, 4, 4, 1, 5, 5};
    static const float x[12] = {0};
    static const unsigned char none[12] = {0};
    struct recipe square = {
        .path = "square", .rank = 2, .shape = {12, 2}, .chunks = {12, 2}, .dtype = DTYPE_UINT8};
    unsigned char bytes[24] = {0};
    struct zarr_array array;
    put_line(fixture, "x", DTYPE_FLOAT32, 12, x);
    put_line(fixture, "falling", DTYPE_INT32, 4, falling);
    put_line(fixture, "late", DTYPE_INT32, 2, late);
    put_line(fixture, "early", DTYPE_INT32, 2, early);
    put_line(fixture, "numbers", DTYPE_INT32, 2, numbers);
    put_line(fixture, "back", DTYPE_INT32, 12, back);
    put_line(fixture, "none", DTYPE_BOOL, 12, none);
    put_line(fixture, "short", DTYPE_BOOL, 5, none);
    recipe_put(fixture, &square, bytes, &array);
}

static void refuse(const struct fixture *fixture, struct dataset_samples_spec samples,
                   struct dataset_field_spec field, enum status expected, const char *message)
{
    field.name = "x";
    field.array = "x";
    struct dataset_options options = {
        .uri = fixture->path, .fields = &field, .field_count = 1, .samples = samples};
    refuse_options(&options, expected, message);
}

static void test_refused_arrays(void **state)
{
    const struct dataset_field_spec plain = {0};
    put_slips(*state);
#define REFUSE(status, message, ...) \
    refuse(*state, (struct dataset_samples_spec){__VA_ARGS__}, plain, STATUS_##status, message)
    REFUSE(INVALID, "samples.episodes_ends: array 'falling' of the store '/tmp/",
           .episodes_ends = "falling");
    REFUSE(INVALID, "ends must rise, but item 2 is 7, after 9", .episodes_ends = "falling");
    REFUSE(INVALID, "item 1 is 13, but the store has 12 frames", .episodes_ends = "late");
    REFUSE(INVALID, "the last item is 11, but the store has 12 frames: the last item must be that",
           .episodes_ends = "early");
    REFUSE(INVALID, "the array must be of integers; the array is of float32", .episodes_ends = "x");
    REFUSE(INVALID, "must have one dimension, and numbers as items; the array has 2 dimensions",
           .episodes_ends = "square");
    REFUSE(NOT_FOUND, "samples.episodes_ends: there is no array 'nowhere' in the store",
           .episodes_ends = "nowhere");
    REFUSE(NOT_FOUND, "; STORE::ARRAY is for mean, std, scale and offset alone: write this array",
           .where = "/tmp/other.zarr::where");
    REFUSE(INVALID, "2 comes back at frame 6, after other values", .episodes_id = "back");
    REFUSE(INVALID, "samples.episodes_id: array 'numbers'", .episodes_id = "numbers");
    REFUSE(INVALID, "the array has 2 items, and the fields have 12 frames",
           .episodes_id = "numbers");
    REFUSE(INVALID, "samples.episodes has more than one of ends, id and jumps",
           .episodes_ends = "late", .episodes_id = "back");
    REFUSE(INVALID, "must be of integers, float32 or float64; the array is of bool",
           .episodes_jumps = "none");
    REFUSE(INVALID, "the array has 2 items, and the fields have 12 frames",
           .episodes_jumps = "numbers");
    REFUSE(INVALID, "the array has 5 items, and the fields have 12 frames", .where = "short");
    REFUSE(INVALID, "must be of bool, or of integers of 8 bits; the array is of int32",
           .where = "numbers");
    REFUSE(INVALID, "no sample is left of 12 frames", .where = "none");
    REFUSE(INVALID, "item 1 is 12, but the numbers of the store's frames are 0 to 11",
           .missing = "numbers");
    REFUSE(INVALID, "samples.missing: array 'x'", .missing = "x");
    REFUSE(INVALID, "the array must be of integers", .split_part = "a", .split_by = "x",
           .split_parts = &(struct samples_part){"a", 1, NULL}, .split_part_count = 1);
    REFUSE(INVALID, "samples.segments is 'late', but no field uses it", .segments = "late");
    REFUSE(INVALID, "samples.pad lets 1 steps before", .pad_before = 1);
    REFUSE(INVALID, "samples.split_range", .split_begin = 20, .split_end = 30);
#undef REFUSE
}

static void test_refused_steps(void **state)
{
    static const int32_t falling[] = {0, 2, 2}, far[] = {0, 1 << 24}, two[] = {0, 1};
    const struct dataset_samples_spec plain = {0}, early = {.segments = "early"};
    put_slips(*state);
#define REFUSE(samples, message, ...) \
    refuse(*state, samples, (struct dataset_field_spec){__VA_ARGS__}, STATUS_INVALID, message)
    REFUSE(plain, "field 'x': steps must rise, but 2 follows 2", .steps = falling, .step_count = 3);
    REFUSE(plain, "field 'x': step 16777216 is out of range", .steps = far, .step_count = 2);
    REFUSE(plain, "field 'x': 65537 steps; the limit is 65536", .steps = two,
           .step_count = DATASET_MAX_STEPS + 1);
    REFUSE(plain, "field 'x': steps begin with epoch 3: say which steps there are", .steps = two,
           .step_count = 2, .phases = {{.epoch = 3, .step_count = 1}}, .phase_count = 1);
    REFUSE(plain, "field 'x' has segments but no steps", .segments = true);
    REFUSE(plain, "set samples.segments to the array of the ends of documents", .steps = two,
           .step_count = 2, .segments = true);
    REFUSE(early, "samples.segments: array 'early'", .steps = two, .step_count = 2,
           .segments = true);
#undef REFUSE
}

/* Arrays of several blocks
 * ---------------------------------------------------------------------------------------------- */

enum { MANY = 3 << 20, MANY_CHUNK = 1 << 18, MANY_EPISODE = 1000 };

static void put_many(const struct fixture *fixture, const char *path, const int64_t *items)
{
    struct recipe recipe = {
        .path = path, .rank = 1, .shape = {MANY}, .chunks = {MANY_CHUNK}, .dtype = DTYPE_INT64};
    struct zarr_array array;
    recipe_put(fixture, &recipe, items, &array);
}

/* The last chunk is too short. */
static void damage_many(const struct fixture *fixture, const char *path)
{
    char key[64];
    struct error err;
    snprintf(key, sizeof key, "%s/%d", path, MANY / MANY_CHUNK - 1);
    assert_ok(store_put(fixture->store, key, "short", 5, &err), &err);
}

/* Blocks that several threads read are looked at in order, and the first error is told. */
static void test_blocks(void **state)
{
    const struct fixture *fixture = *state;
    const struct dataset_field_spec plain = {0};
    struct dataset_field_spec field = {.name = "x", .array = "x"};
    struct dataset_options options = {.uri = fixture->path,
                                      .fields = &field,
                                      .field_count = 1,
                                      .samples = {.episodes_id = "id", .stride = MANY_EPISODE}};
    struct recipe frames = {
        .path = "x", .rank = 1, .shape = {MANY}, .chunks = {MANY}, .dtype = DTYPE_UINT8};
    int64_t *items = malloc(MANY * sizeof *items);
    struct zarr_array array;
    struct dataset *dataset;
    struct error err;
    recipe_put_metadata(fixture, &frames, &array);
    for (int64_t i = 0; i < MANY; i++)
        items[i] = i / MANY_EPISODE;
    put_many(fixture, "id", items);
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(dataset_anchor_counts(dataset).episodes, MANY / MANY_EPISODE + 1);
    assert_int_equal(dataset->sample_count, MANY / MANY_EPISODE + 1);
    dataset_free(dataset);

    for (int64_t i = 0; i < MANY; i++)
        items[i] = i + 1;
    put_many(fixture, "ends", items);
    damage_many(fixture, "ends");
    refuse(fixture, (struct dataset_samples_spec){.episodes_ends = "ends"}, plain, STATUS_CORRUPT,
           "chunk 11");
    items[600000] = 5;
    put_many(fixture, "ends", items);
    damage_many(fixture, "ends");
    refuse(fixture, (struct dataset_samples_spec){.episodes_ends = "ends"}, plain, STATUS_INVALID,
           "ends must rise, but item 600000 is 5, after 600000");
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_arrays, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_steps, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
