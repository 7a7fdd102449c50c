/* What frames are samples, as arrays of the stores say: against the definition, frame by frame, for
 * random arrays; splits; and documents. */
#include "anchors/anchors.h"
#include "dataset/frames/frame_array.h"
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
    static const struct samples_part parts[] = {
        {"train", 0.5, NULL}, {"val", 0.3, NULL}, {"test", 0.2, NULL}};
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

/* A position counts from where its document begins, also where no step is there. */
static void test_a_document_that_begins_between_steps(void **state)
{
    static const float x[12] = {0};
    static const int64_t ends[] = {2, 7, 12};
    static const int32_t steps[] = {0, 3, 5};
    static const struct {
        uint64_t anchor;
        int32_t segment[3], position[3];
    } cases[] = {{0, {1, 2, 2}, {0, 1, 3}}, {3, {1, 1, 2}, {0, 3, 1}}, {5, {1, 2, 2}, {0, 1, 3}}};
    const struct fixture *fixture = *state;
    const struct dataset_field_spec field = {
        .name = "x", .array = "x", .steps = steps, .step_count = 3, .segments = true};
    const struct dataset_options options = {.uri = fixture->path,
                                            .fields = &field,
                                            .field_count = 1,
                                            .samples = {.segments = "ends", .continuous = true}};
    struct dataset *dataset;
    struct error err;
    put_line(fixture, "x", DTYPE_FLOAT32, 12, x);
    put_line(fixture, "ends", DTYPE_INT64, 3, ends);
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_string_equal(dataset->fields[1].name, "x.position");
    assert_string_equal(dataset->fields[2].name, "x.segment");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t position[3], segment[3];
        dataset_make(dataset, 1, cases[i].anchor, 0, position);
        dataset_make(dataset, 2, cases[i].anchor, 0, segment);
        assert_memory_equal(position, cases[i].position, sizeof position);
        assert_memory_equal(segment, cases[i].segment, sizeof segment);
    }
    dataset_free(dataset);
}

/* Two stores: 8 times in hours, of which the fifth comes late, and 6 in days, of which the fourth
 * does; the second store goes on where the first one ends. */
static void put_times(struct fixture stores[2], const char *folder)
{
    static const int64_t hours[] = {0, 6, 12, 18, 30, 36, 42, 48};
    static const double days[] = {0, .25, .5, 1, 1.25, 1.5};
    static const float x[8] = {0};
    static const struct {
        const char *shape, *type, *units;
        const void *times;
    } of[] = {{"[8]", "<i8", "{\"units\": \"hours since 2000-01-01\"}", hours},
              {"[6]", "<f8", "{\"units\": \"days since 2000-01-03 06:00\"}", days}};
    struct error err;
    for (int s = 0; s < 2; s++) {
        uint64_t count = s == 0 ? 8 : 6;
        snprintf(stores[s].path, sizeof stores[s].path, "%.40s/%d.zarr", folder, s);
        assert_ok(store_create(stores[s].path, false, &stores[s].store, &err), &err);
        fixture_put(&stores[s], ".zgroup", "{\"zarr_format\": 2}");
        put_line(&stores[s], "x", DTYPE_FLOAT32, count, x);
        document_put(&stores[s], (struct document){.path = "t",
                                                   .shape = of[s].shape,
                                                   .type = of[s].type,
                                                   .attributes = of[s].units});
        assert_ok(store_put(stores[s].store, "t/0", of[s].times, count * 8, &err), &err);
    }
}

/* Bit t: there is a sample of two steps at frame t. */
static uint64_t samples_of_pairs(const char *list, struct dataset_samples_spec samples)
{
    static const int32_t pair[] = {0, 1};
    const struct dataset_field_spec x = {.name = "x", .array = "x", .steps = pair, .step_count = 2};
    const struct dataset_options options = {
        .uri = list, .fields = &x, .field_count = 1, .samples = samples};
    struct dataset *dataset;
    struct error err;
    uint64_t bits = 0, row;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    for (uint64_t t = 0; t < dataset->frame_count; t++)
        bits |= (uint64_t)(anchors_offset_of(dataset->anchors, t, &row) != UINT64_MAX) << t;
    dataset_free(dataset);
    return bits;
}

/* Episodes end where the time jumps, within a store and from store to store. */
static void test_jumps(void **state)
{
    static const struct samples_part parts[] = {{"a", .5, NULL}, {"b", .5, NULL}};
    struct dataset_samples_spec jumps = {.episodes_jumps = "t"}, cut;
    const int64_t months[] = {0, 31, 59, 90, 181, 212, 243, 273};
    const struct fixture *fixture = *state;
    struct fixture stores[2];
    struct text list = {0};
    struct error err;
    put_times(stores, fixture->path);
    for (int s = 0; s < 2; s++)
        text_list_put(&list, stores[s].path);
    assert_int_equal(samples_of_pairs(list.data, (struct dataset_samples_spec){0}), 0x1f7f);
    assert_int_equal(samples_of_pairs(list.data, jumps), 0x1b77);
    cut = jumps;
    cut.split_part = "a";
    cut.split_parts = parts;
    cut.split_part_count = 2;
    uint64_t a = samples_of_pairs(list.data, cut);
    cut.split_part = "b";
    uint64_t b = samples_of_pairs(list.data, cut);
    assert_true(a && b && (a & b) == 0 && (a | b) == 0x1b77);
    jumps.continuous = true;
    assert_int_equal(samples_of_pairs(list.data, jumps), 0x1bf7);

    /* Times without a calendar of ours are compared where both stores have the same units. */
    fixture_put(&stores[0], "t/.zattrs",
                "{\"units\": \"hours since 2000-01-01\", \"calendar\": \"noleap\"}");
    const struct dataset_field_spec x = {.name = "x", .array = "x"};
    struct dataset_options options = {
        .uri = list.data, .fields = &x, .field_count = 1, .samples = jumps};
    refuse_options(&options, STATUS_INVALID, "samples.episodes_jumps: array 't' of the store");
    refuse_options(&options, STATUS_INVALID,
                   "in 'days since 2000-01-03 06:00', cannot be compared");

    /* Months are as long as they are, but for three that are one; and what is no number ends, too.
     */
    jumps.continuous = false;
    fixture_put(&stores[0], "t/.zattrs", "{\"units\": \"days since 2000-01-01\"}");
    assert_ok(store_put(stores[0].store, "t/0", months, sizeof months, &err), &err);
    assert_int_equal(samples_of_pairs(stores[0].path, jumps), 0x77);
    document_put(&stores[0], (struct document){.path = "t", .shape = "[8]", .type = "<M8[ns]"});
    int64_t nanoseconds[] = {0, 1, 2, INT64_MIN, 3, 4, 5, 6};
    for (int i = 0; i < 8; i++)
        nanoseconds[i] = i == 3 ? INT64_MIN : nanoseconds[i] * 1000000007 + 1577836800000000000;
    assert_ok(store_put(stores[0].store, "t/0", nanoseconds, sizeof nanoseconds, &err), &err);
    assert_int_equal(samples_of_pairs(stores[0].path, jumps), 0x73);
    for (int s = 0; s < 2; s++)
        store_free(stores[s].store);
    text_done(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_anchors, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_threads_of_large_chunks, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_splits, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_jumps, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_range, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_documents, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_document_that_begins_between_steps, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
