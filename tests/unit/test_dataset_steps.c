/* Fields with steps: rows with halos against the whole arrays, for random shapes, stores and steps;
 * what a bad chunk makes of samples, by brute force; made fields; packing; and refusals. */
#include "anchors/anchors.h"
#include "dataset/read/bad_log.h"
#include "dataset/read/row_pieces.h"
#include "dataset_world.h"
#include "zarr/chunk/chunk.h"

enum { FIELDS = 4 };

/* What is opened: two fields of `a`, one of `b`, and `b` converted. */
struct world {
    struct stores stores;
    struct dataset *dataset;
    struct dataset_options options;
    struct dataset_field_spec specs[FIELDS];
    int32_t steps[FIELDS][MOST_STEPS];
    struct text list;
};

/* False: no sample is left. */
static bool open_world(const char *folder, uint64_t seed, bool mask, struct world *world)
{
    static const char *const names[FIELDS] = {"a.future", "a.past", "b", "half"};
    struct error err;
    memset(world, 0, sizeof *world);
    put_stores(folder, seed, &world->stores);
    world->list = list_of(&world->stores);
    for (size_t f = 0; f < FIELDS; f++)
        world->specs[f] =
            (struct dataset_field_spec){.name = names[f],
                                        .array = f < 2 ? "a" : "b",
                                        .cast = f == 3 ? DTYPE_FLOAT32 : DTYPE_NONE,
                                        .scale = f == 3 ? 0.5 : 0.0,
                                        .steps = world->steps[f],
                                        .step_count = draw_steps(seed, 10 + f, world->steps[f])};
    world->options = (struct dataset_options){
        .uri = world->list.data,
        .fields = world->specs,
        .field_count = FIELDS,
        .mask = mask,
        .hold_limit_bytes = mask || random_below(random_u64(seed, 2, 0), 2) ? 1 : MEBIBYTE,
        .samples = {.continuous = random_below(random_u64(seed, 2, 1), 2),
                    .stride = random_below(random_u64(seed, 2, 2), 4),
                    .pad_before = random_below(random_u64(seed, 2, 3), 4),
                    .pad_after = random_below(random_u64(seed, 2, 4), 4),
                    .fill = (enum samples_fill)random_below(random_u64(seed, 2, 5), 2),
                    .row_chunks = random_below(random_u64(seed, 2, 6), 4)}};
    static const char *const ends[] = {NULL, "ends", NULL};
    static const char *const ids[] = {NULL, NULL, "meta/ids"};
    size_t episodes = random_below(random_u64(seed, 2, 7), 3);
    world->options.samples.episodes_ends = ends[episodes];
    world->options.samples.episodes_id = ids[episodes];
    enum status status = dataset_open(&world->options, &world->dataset, &err);
    /* Windows may be longer than stores, and pads than windows; and chunks differ. */
    if (status != STATUS_OK && status != STATUS_INVALID)
        fail_msg("%s", err.message);
    return status == STATUS_OK;
}

static void world_done(struct world *world)
{
    dataset_free(world->dataset);
    stores_done(&world->stores);
    text_done(&world->list);
}

/* Frame `frame` of what is stored, as field `f` has it. */
static void expect_frame(const struct world *world, size_t f, uint64_t frame,
                         const unsigned char *found)
{
    const struct convert halve = {DTYPE_UINT16, DTYPE_FLOAT32, 0.5, 0.0};
    unsigned char half[12];
    if (f < 2)
        assert_memory_equal(found, world->stores.a + frame * A_BYTES, A_BYTES);
    else if (f == 2)
        assert_memory_equal(found, world->stores.b + frame * B_BYTES, B_BYTES);
    else {
        convert_items(&halve, world->stores.b + frame * B_BYTES, 3, half);
        assert_memory_equal(found, half, sizeof half);
    }
}

/* The index among the fields that were asked for. */
static size_t spec_of(const struct world *world, const char *name)
{
    for (size_t f = 0; f < FIELDS; f++)
        if (strcmp(world->specs[f].name, name) == 0)
            return f;
    fail_msg("no field %s", name);
    return 0;
}

/* Frames that a window of `anchor` may have, by the stored ends. */
static void find_episode(const struct world *world, uint64_t anchor, uint64_t *low, uint64_t *high)
{
    const struct dataset_samples_spec *samples = &world->options.samples;
    const struct stores *stores = &world->stores;
    bool cuts = samples->episodes_ends || samples->episodes_id;
    *low = 0;
    *high = stores->first[stores->count];
    for (size_t s = 0; s < stores->count; s++)
        for (size_t k = 0; k < (cuts ? stores->end_count[s] : 1); k++) {
            uint64_t end = cuts ? stores->first[s] + (uint64_t)stores->ends[s * MOST_RUNS + k]
                                : stores->first[s + 1];
            if (!cuts && samples->continuous)
                continue;
            if (end <= anchor)
                *low = end;
            else
                *high = min_u64(*high, end);
        }
}

static void expect_sample(const struct world *world, const struct dataset *dataset, size_t i,
                          const unsigned char *row, uint64_t row_first, uint64_t anchor)
{
    const struct dataset_field *field = &dataset->fields[i];
    uint64_t low, high;
    size_t f = spec_of(world, field->name);
    find_episode(world, anchor, &low, &high);
    for (size_t k = 0; k < max_u64(field->step_count, 1); k++) {
        int64_t at = (int64_t)anchor + (field->step_count > 0 ? field->steps[k] : 0);
        uint64_t frame = at < (int64_t)low ? low : at >= (int64_t)high ? high - 1 : (uint64_t)at;
        if (frame != (uint64_t)at && field->fill == SAMPLES_FILL_ZERO)
            continue;
        const unsigned char *found =
            field->source == FIELD_HELD
                ? dataset_held_sample(dataset, i, frame)
                : row + field->row_offset +
                      (int64_t)(frame - row_first) * (int64_t)field->frame_bytes;

        assert_true(field->source == FIELD_HELD ||
                    (found >= row && found + field->frame_bytes <= row + dataset->row_bytes));
        expect_frame(world, f, frame, found);
    }
}

/* The bool that says which steps are real, of the field that the made one is for. */
static void expect_valid(const struct world *world, const struct dataset *dataset, size_t i,
                         uint64_t anchor)
{
    const struct dataset_field *field = &dataset->fields[i];
    struct anchors_episode episode = anchors_episode_of(dataset->anchors, anchor);
    unsigned char valid[MOST_STEPS];
    (void)world;
    assert_int_equal(field->made, MADE_VALID);
    assert_int_equal(field->dtype, DTYPE_BOOL);
    assert_int_equal(field->sample_bytes, dataset->fields[field->made_for].step_count);
    dataset_make(dataset, i, anchor, 0, valid);
    for (size_t k = 0; k < field->step_count; k++) {
        int64_t at = (int64_t)anchor + field->steps[k];
        assert_int_equal(valid[k], at >= (int64_t)episode.first && at < (int64_t)episode.end);
    }
}

static uint64_t check_row(const struct world *world, struct dataset *dataset,
                          struct dataset_reader *reader, uint64_t row, unsigned char *buffer)
{
    uint64_t first = dataset_row_first(dataset, row), pieces, bytes;
    uint32_t count = dataset->anchors ? anchors_row_samples(dataset->anchors, row)
                                      : (uint32_t)dataset_row_frames(dataset, row);
    struct zarr_read_stats stats = {0};
    struct error err;
    memset(buffer, 0xa5, dataset->row_bytes);
    assert_ok(dataset_read_row(reader, row, buffer, &stats, &err), &err);
    dataset_row_demand(dataset, &pieces, &bytes);
    assert_true(stats.chunk_count <= pieces);
    for (uint32_t k = 0; k < count; k++) {
        uint64_t anchor = dataset->anchors ? anchors_frame_at(dataset->anchors, row, k) : first + k;
        assert_true(anchor >= first && anchor - first < dataset->row_length);
        for (size_t i = 0; i < dataset->field_count; i++)
            if (dataset->fields[i].source == FIELD_MADE)
                expect_valid(world, dataset, i, anchor);
            else
                expect_sample(world, dataset, i, buffer, first, anchor);
    }
    return count;
}

static void check_all(const struct world *world, struct dataset *dataset)
{
    unsigned char *row = aligned_alloc(64, dataset->row_bytes);
    void *held = aligned_alloc(64, dataset->held_bytes + 64);
    struct dataset_stored_row stored;
    struct dataset_reader *reader;
    struct error err;
    uint64_t samples = 0;
    assert_ok(dataset_hold(dataset, held, &err), &err);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (uint64_t r = 0; r < dataset->row_count; r++)
        samples += check_row(world, dataset, reader, r, row);
    assert_int_equal(samples, dataset->sample_count);
    assert_ok(dataset_stored_row_bytes(dataset, &stored, &err), &err);
    assert_true(stored.mean_bytes > 0); /* rows without samples are not asked about */
    dataset_reader_free(reader);
    free(held);
    free(row);
}

/* Whether two fields are read together in rows. */
static bool shares(const struct dataset *dataset)
{
    bool found = false;
    for (size_t i = 0; i < dataset->field_count; i++)
        found |= dataset->fields[i].source == FIELD_ROW && dataset->fields[i].row_leader != i;
    return found;
}

static void test_rows(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset *copy;
    struct world world;
    struct error err;
    size_t size, opened = 0, shared = 0;
    void *bytes;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        if (open_world(fixture->path, seed, false, &world)) {
            opened++;
            shared += shares(world.dataset);
            check_all(&world, world.dataset);
            assert_ok(dataset_pack(world.dataset, &bytes, &size, &err), &err);
            assert_ok(dataset_unpack(bytes, size, NULL, &copy, &err), &err);
            assert_int_equal(copy->fingerprint, world.dataset->fingerprint);
            assert_int_equal(copy->row_bytes, world.dataset->row_bytes);
            assert_int_equal(copy->order_row_bytes, world.dataset->order_row_bytes);
            check_all(&world, copy);
            dataset_free(copy);
            free(bytes);
        }
        world_done(&world);
    }
    assert_true(opened > 75);
    assert_true(shared > 40);
}

/* Bad chunks of the arrays, one bit a frame. */
struct damage {
    bool bad[2][MOST_STORES * 64];
};

static void damage_store(struct world *world, uint64_t seed, size_t s, struct damage *damage)
{
    struct stores *stores = &world->stores;
    for (int array = 0; array < 2; array++) {
        size_t field = 0;
        while (world->dataset->fields[field].source == FIELD_MADE ||
               spec_of(world, world->dataset->fields[field].name) / 2 != (size_t)array)
            field++;
        uint64_t length = dataset_field_array(world->dataset, field)->chunk_shape[0];
        uint64_t frames = stores->first[s + 1] - stores->first[s];
        uint64_t chunk = random_below(random_u64(seed, 5, s * 2 + (uint64_t)array),
                                      (frames + length - 1) / length);
        char key[32];

        snprintf(key, sizeof key, "%c/%" PRIu64 ".0", 'a' + array, chunk);
        fixture_put(&stores->fixtures[s], key, "no bytes of a chunk");
        for (uint64_t i = chunk * length; i < (chunk + 1) * length && i < frames; i++)
            damage->bad[array][stores->first[s] + i] = true;
    }
}

/* Whether a frame that the sample has, or repeats, is bad. */
static bool is_bad(const struct world *world, const struct damage *damage, uint64_t anchor)
{
    const struct dataset *dataset = world->dataset;
    struct anchors_episode episode = anchors_episode_of(dataset->anchors, anchor);
    for (size_t f = 0; f < FIELDS; f++)
        for (size_t k = 0; k < max_u64(world->specs[f].step_count, 1); k++) {
            int64_t step = world->specs[f].step_count > 0 ? world->steps[f][k] : 0;
            int64_t at = (int64_t)anchor + step;
            bool is_real = at >= (int64_t)episode.first && at < (int64_t)episode.end;
            uint64_t frame = at < (int64_t)episode.first ? episode.first
                             : is_real                   ? (uint64_t)at
                                                         : episode.end - 1;
            if ((is_real || world->options.samples.fill == SAMPLES_FILL_EDGE) &&
                damage->bad[f / 2][frame])
                return true;
        }
    return false;
}

static size_t check_masks(const struct world *world, const struct damage *damage)
{
    struct dataset *dataset = world->dataset;
    unsigned char *row = aligned_alloc(64, dataset->row_bytes);
    struct zarr_read_stats stats = {0};
    struct dataset_reader *reader;
    struct bad_chunk chunk;
    struct bad_log *log;
    struct error err;
    size_t count = 0;
    assert_ok(bad_log_new(&log, &err), &err);
    dataset_log_bad(dataset, log);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (uint64_t r = 0; r < dataset->row_count; r++) {
        assert_ok(dataset_read_row(reader, r, row, &stats, &err), &err);
        for (uint32_t k = 0; k < anchors_row_samples(dataset->anchors, r); k++) {
            uint64_t anchor = anchors_frame_at(dataset->anchors, r, k);
            uint64_t i = anchor - dataset_row_first(dataset, r);
            assert_int_equal(row[dataset->valid_offset + i], !is_bad(world, damage, anchor));
            if (row[dataset->valid_offset + i])
                for (size_t f = 0; f < dataset->field_count; f++)
                    if (dataset->fields[f].source == FIELD_ROW)
                        expect_sample(world, dataset, f, row, dataset_row_first(dataset, r),
                                      anchor);
            count += !row[dataset->valid_offset + i];
        }
        while (bad_log_take(log, &chunk))
            assert_true(
                damage->bad[chunk.array[strlen(chunk.array) - 1] - 'a'][chunk.first_sample]);
    }
    dataset_reader_free(reader);
    bad_log_free(log);
    free(row);
    return count;
}

static void test_masks(void **state)
{
    const struct fixture *fixture = *state;
    struct world world;
    size_t bad = 0;
    for (uint64_t seed = 1000; seed < 1100; seed++) {
        if (open_world(fixture->path, seed, true, &world) && world.dataset->anchors) {
            struct damage damage = {0};
            for (size_t s = 0; s < world.stores.count; s++)
                damage_store(&world, seed, s, &damage);
            bad += check_masks(&world, &damage);
        }
        world_done(&world);
    }
    assert_true(bad > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_masks, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
