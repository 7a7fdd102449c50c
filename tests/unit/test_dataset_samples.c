/* What frames are samples, as arrays of the stores say: against the definition, frame by frame, for
 * random arrays; splits; documents; and refusals. */
#include "anchors/anchors.h"
#include "dataset/frame_array.h"
#include "dataset_refusal.h"
#include "dataset_world.h"

struct world {
    struct stores stores;
    struct text list;
    struct dataset_field_spec field;
    int32_t steps[MOST_STEPS];
    struct dataset_options options;
};

static void put_world(const char *folder, uint64_t seed, struct world *world)
{
    memset(world, 0, sizeof *world);
    put_stores(folder, seed, &world->stores);
    world->list = list_of(&world->stores);
    world->field = (struct dataset_field_spec){.name = "b",
                                               .array = "b",
                                               .steps = world->steps,
                                               .step_count = draw_steps(seed, 3, world->steps)};
    world->options = (struct dataset_options){
        .uri = world->list.data, .fields = &world->field, .field_count = 1, .hold_limit_bytes = 1};
}

static void world_done(struct world *world)
{
    stores_done(&world->stores);
    text_done(&world->list);
}

/* Marks the frames in one of the frames' episodes [low, high). */
static bool is_anchor(const struct world *world, uint64_t frame, uint64_t low, uint64_t high)
{
    const struct dataset_samples_spec *samples = &world->options.samples;
    const struct stores *stores = &world->stores;
    size_t count = max_u64(world->field.step_count, 1);
    uint64_t before = 0, after = 0;

    if ((frame - low) % max_u64(samples->stride, 1) != 0)
        return false;
    for (size_t k = 0; k < count; k++) {
        int64_t at = (int64_t)frame + (world->field.step_count > 0 ? world->steps[k] : 0);

        before += at < (int64_t)low;
        after += at >= (int64_t)high;
        if (at < (int64_t)low || at >= (int64_t)high || !samples->missing)
            continue;
        if (strcmp(samples->missing, "missing") == 0 && stores->missing[at])
            return false;
        for (size_t s = 0; strcmp(samples->missing, "gone") == 0 && s < stores->count; s++)
            for (size_t g = 0; g < stores->gone_count[s]; g++)
                if (stores->first[s] + stores->gone[s * MOST_RUNS + g] == (uint64_t)at)
                    return false;
    }
    return before <= samples->pad_before && after <= samples->pad_after &&
           (!samples->where || stores->where[frame]);
}

/* Whether `frame` is the first one of its episode. */
static bool begins(const struct world *world, uint64_t frame)
{
    const struct dataset_samples_spec *samples = &world->options.samples;
    const struct stores *stores = &world->stores;

    for (size_t s = 0; s < stores->count; s++) {
        if (frame == stores->first[s] &&
            (!samples->continuous || samples->episodes_ends || samples->episodes_id))
            return true;
        for (size_t k = 0; k < stores->end_count[s]; k++)
            if ((samples->episodes_ends || samples->episodes_id) &&
                stores->first[s] + (uint64_t)stores->ends[s * MOST_RUNS + k] == frame)
                return true;
    }
    return frame == 0;
}

/* All anchors of the dataset against the definition. */
static void check_anchors(const struct world *world, const struct dataset *dataset)
{
    uint64_t frames = world->stores.first[world->stores.count], low = 0, samples = 0;
    struct anchors_counts counts = dataset_anchor_counts(dataset);

    for (uint64_t i = 0; i < frames; i++) {
        uint64_t high = i + 1, row;

        low = begins(world, i) ? i : low;
        while (high < frames && !begins(world, high))
            high++;
        bool found =
            dataset->anchors ? anchors_offset_of(dataset->anchors, i, &row) != UINT64_MAX : true;
        assert_int_equal(found, is_anchor(world, i, low, high));
        samples += found;
    }
    assert_int_equal(dataset->sample_count, samples);
    assert_int_equal(dataset->frame_count, frames);
    assert_true(!dataset->anchors || (counts.samples == samples && counts.frames == frames));
}

static void test_anchors(void **state)
{
    static const char *const ends[] = {NULL, "ends", NULL}, *const ids[] = {NULL, NULL, "meta/ids"},
                             *const missing[] = {NULL, "missing", "gone"};
    const struct fixture *fixture = *state;
    size_t opened = 0;

    for (uint64_t seed = 1; seed <= 120; seed++) {
        size_t episodes = random_below(random_u64(seed, 2, 0), 3);
        struct dataset *dataset;
        struct world world;
        struct error err;

        put_world(fixture->path, seed, &world);
        world.options.samples = (struct dataset_samples_spec){
            .episodes_ends = ends[episodes],
            .episodes_id = ids[episodes],
            .continuous = random_below(random_u64(seed, 2, 1), 2),
            .stride = random_below(random_u64(seed, 2, 2), 4),
            .pad_before = random_below(random_u64(seed, 2, 3), 3),
            .pad_after = random_below(random_u64(seed, 2, 4), 3),
            .missing = missing[random_below(random_u64(seed, 2, 5), 3)],
            .where = random_below(random_u64(seed, 2, 6), 2) ? "where" : ""};
        if (!world.options.samples.where[0])
            world.options.samples.where = NULL;
        enum status status = dataset_open(&world.options, &dataset, &err);
        if (status != STATUS_OK && !strstr(err.message, "no sample is left") &&
            !strstr(err.message, "samples.pad lets"))
            fail_msg("%s", err.message);
        if (status == STATUS_OK) {
            opened++;
            check_anchors(&world, dataset);
            dataset_free(dataset);
        }
        world_done(&world);
    }
    assert_true(opened > 60);
}

/* Chunks that are large are read by fewer threads: opening takes no more memory for them. */
static void test_threads_of_large_chunks(void **state)
{
    static const struct {
        uint64_t chunk;
        uint64_t least, most; /* threads */
    } cases[] = {{1 << 10, 16, 16}, {4 << 20, 8, 16}, {64 << 20, 1, 2}, {1 << 30, 1, 1}};
    struct zarr_array array;
    struct dataset *dataset;
    struct world world;
    struct error err;

    put_world(((const struct fixture *)*state)->path, 1, &world);
    assert_ok(dataset_open(&world.options, &dataset, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];

        snprintf(text, sizeof text,
                 "{\"zarr_format\": 2, \"shape\": [%" PRIu64 "], \"chunks\": [%" PRIu64 "], "
                 "\"dtype\": \"|b1\", \"compressor\": null, \"fill_value\": true, "
                 "\"order\": \"C\", \"filters\": null}",
                 100 * cases[i].chunk, cases[i].chunk);
        assert_ok(zarr_array_parse(ZARR_V2, "w", text, strlen(text), &array, &err), &err);
        struct frame_array frames = {.dataset = dataset, .view = array};
        uint64_t threads = frame_array_thread_count(&frames, 16);
        assert_in_range(threads, cases[i].least, cases[i].most);
        assert_int_equal(frame_array_thread_count(&frames, 1), 1);
    }
    dataset_free(dataset);
    world_done(&world);
}

/* Each frame is in exactly one part, and all frames of a group are in the same one. */
static void test_splits(void **state)
{
    static const struct samples_part parts[] = {{"train", 0.5}, {"val", 0.3}, {"test", 0.2}};
    static const char *const by[] = {NULL, "episode", "sample", "group"};
    const struct fixture *fixture = *state;

    for (uint64_t seed = 200; seed < 240; seed++) {
        struct world world;
        uint64_t frames, in_parts = 0;
        int part_of[MOST_STORES * 64] = {0}, part_of_group[16] = {0};

        put_world(fixture->path, seed, &world);
        frames = world.stores.first[world.stores.count];
        world.field.step_count = 0;
        for (int p = 0; p < 3; p++) {
            struct dataset *dataset;
            struct error err;
            uint64_t row;

            world.options.samples = (struct dataset_samples_spec){.episodes_ends = "ends",
                                                                  .split_part = parts[p].name,
                                                                  .split_by = by[seed % 4],
                                                                  .split_parts = parts,
                                                                  .split_part_count = 3,
                                                                  .split_seed = seed};
            if (dataset_open(&world.options, &dataset, &err) != STATUS_OK) {
                assert_non_null(strstr(err.message, "need at least as many groups"));
                in_parts = frames;
                continue;
            }
            in_parts += dataset->sample_count;
            for (uint64_t i = 0; i < frames; i++)
                if (anchors_offset_of(dataset->anchors, i, &row) != UINT64_MAX) {
                    int *of_group = &part_of_group[world.stores.group[i] + 5];
                    assert_int_equal(part_of[i], 0);
                    part_of[i] = p + 1;
                    if (seed % 4 == 3) {
                        assert_true(*of_group == 0 || *of_group == p + 1);
                        *of_group = p + 1;
                    } else if (seed % 4 < 2 && i > 0 &&
                               world.stores.ids[i] == world.stores.ids[i - 1])
                        assert_true(part_of[i - 1] == p + 1);
                }
            dataset_free(dataset);
        }
        assert_int_equal(in_parts, frames);
        world_done(&world);
    }
}

static void test_range(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset *dataset;
    struct world world;
    struct error err;
    uint64_t row, frames;

    put_world(fixture->path, 300, &world);
    frames = world.stores.first[world.stores.count];
    assert_true(frames > 12);
    world.field.step_count = 0;
    world.options.samples =
        (struct dataset_samples_spec){.split_begin = 4, .split_end = UINT64_MAX, .split_gap = 3};
    assert_ok(dataset_open(&world.options, &dataset, &err), &err);
    for (uint64_t i = 0; i < frames; i++)
        assert_int_equal(anchors_offset_of(dataset->anchors, i, &row) != UINT64_MAX, i >= 7);
    dataset_free(dataset);
    world_done(&world);
}

/* Segments and positions of each step, against the ends of documents. */
static void test_documents(void **state)
{
    const struct fixture *fixture = *state;

    for (uint64_t seed = 400; seed < 430; seed++) {
        struct dataset *dataset;
        struct world world;
        struct error err;

        put_world(fixture->path, seed, &world);
        for (int32_t k = 0; k < MOST_STEPS; k++)
            world.steps[k] = k - 1;
        world.field.step_count = MOST_STEPS;
        world.field.segments = true;
        world.options.samples = (struct dataset_samples_spec){
            .segments = "ends", .pad_before = 1, .pad_after = 6, .stride = 2, .continuous = true};
        assert_ok(dataset_open(&world.options, &dataset, &err), &err);
        assert_int_equal(dataset->field_count, 4);
        assert_string_equal(dataset->fields[1].name, "b.position");
        assert_string_equal(dataset->fields[2].name, "b.segment");
        assert_string_equal(dataset->fields[3].name, "b.valid");
        for (uint64_t r = 0; r < dataset->row_count; r++)
            for (uint32_t k = 0; k < anchors_row_samples(dataset->anchors, r); k++) {
                uint64_t anchor = anchors_frame_at(dataset->anchors, r, k);
                int32_t position[MOST_STEPS], segment[MOST_STEPS], expected = 0, at = 0;

                dataset_make(dataset, 1, anchor, 0, position);
                dataset_make(dataset, 2, anchor, 0, segment);
                for (size_t i = 0; i < MOST_STEPS; i++) {
                    int64_t frame = (int64_t)anchor + world.steps[i];
                    bool real = frame >= 0 && frame < (int64_t)dataset->frame_count, first = false;

                    for (size_t s = 0; s < world.stores.count; s++)
                        for (size_t e = 0; e < world.stores.end_count[s]; e++)
                            first |= (int64_t)world.stores.first[s] +
                                         world.stores.ends[s * MOST_RUNS + e] ==
                                     frame;
                    if (real && (first || expected == 0)) {
                        expected++;
                        at = 0;
                    }
                    assert_int_equal(segment[i], real ? expected : 0);
                    assert_int_equal(position[i], real ? at++ : 0);
                }
            }
        dataset_free(dataset);
        world_done(&world);
    }
}

/* Refusals
 * ---------------------------------------------------------------------------------------------- */

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
    REFUSE(INVALID, "2 comes back at frame 6, after other values", .episodes_id = "back");
    REFUSE(INVALID, "samples.episodes_id: array 'numbers'", .episodes_id = "numbers");
    REFUSE(INVALID, "the array has 2 items, and the fields have 12 frames",
           .episodes_id = "numbers");
    REFUSE(INVALID, "both ends ('late') and id ('back')", .episodes_ends = "late",
           .episodes_id = "back");
    REFUSE(INVALID, "the array has 5 items, and the fields have 12 frames", .where = "short");
    REFUSE(INVALID, "must be of bool, or of integers of 8 bits; the array is of int32",
           .where = "numbers");
    REFUSE(INVALID, "no sample is left of 12 frames", .where = "none");
    REFUSE(INVALID, "item 1 is 12, but the numbers of the store's frames are 0 to 11",
           .missing = "numbers");
    REFUSE(INVALID, "samples.missing: array 'x'", .missing = "x");
    REFUSE(INVALID, "the array must be of integers", .split_part = "a", .split_by = "x",
           .split_parts = &(struct samples_part){"a", 1}, .split_part_count = 1);
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
        cmocka_unit_test_setup_teardown(test_anchors, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_threads_of_large_chunks, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_splits, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_range, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_documents, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_blocks, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_arrays, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refused_steps, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
