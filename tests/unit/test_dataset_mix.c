/* A mix: its rows, held arrays and made fields are those of its sources, packed or not; and sources
 * whose fields differ are refused. */
#include "base/size.h"
#include "dataset/dataset.h"
#include "zarr_fixture.h"

enum { SOURCES = 3, TABLE = 7 };

/* Sources of unequal lengths and chunks. */
static const struct shape {
    uint64_t count, chunk;
} shapes[SOURCES] = {{50, 8}, {7, 3}, {33, 33}};

static const struct dataset_field_spec fields[] = {{.name = "text", .array = "b", .index = "i"},
                                                   {.name = "x", .array = "a"}};

/* Source `d` in a folder of its own: random items, and a table that is joined. */
static void put_source(const struct fixture *fixture, int d)
{
    uint64_t count = shapes[d].count;
    struct recipe recipe = {.rank = 2, .dtype = DTYPE_FLOAT32};
    struct zarr_array array;
    char path[32];
    snprintf(path, sizeof path, "%d/.zgroup", d);
    fixture_put(fixture, path, "{\"zarr_format\": 2}");
    const struct {
        const char *name;
        uint64_t count, chunk, items;
    } arrays[] = {{"a", count, shapes[d].chunk, 5}, {"b", TABLE, 2, 3}};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%d/%s", d, arrays[i].name);
        recipe.path = path;
        recipe.shape[0] = arrays[i].count, recipe.shape[1] = arrays[i].items;
        recipe.chunks[0] = arrays[i].chunk, recipe.chunks[1] = arrays[i].items;
        unsigned char *items =
            random_items((uint64_t)(10 * d + i), arrays[i].count * arrays[i].items * 4);
        recipe_put(fixture, &recipe, items, &array);
        free(items);
    }
    int64_t *index = calloc(count, sizeof *index);
    for (uint64_t i = 0; i < count; i++)
        index[i] = (int64_t)((i * 5 + (uint64_t)d) % TABLE);
    snprintf(path, sizeof path, "%d/i", d);
    recipe = (struct recipe){.path = path, .rank = 1, .shape = {count}, .chunks = {4}};
    recipe.dtype = DTYPE_INT64;
    recipe_put(fixture, &recipe, index, &array);
    free(index);
}

static struct dataset_options options_of(const struct fixture *fixture, int d, char uri[80])
{
    snprintf(uri, 80, "%s/%d", fixture->path, d);
    return (struct dataset_options){
        .uri = uri, .fields = fields, .field_count = 2, .hold_limit_bytes = 1 << 20};
}

static struct dataset *open_mix(const struct fixture *fixture)
{
    struct dataset_mix_source sources[SOURCES];
    char uris[SOURCES][80];
    static const char *const names[SOURCES] = {"a.yaml", "b.yaml", "c.yaml"};
    struct dataset *mix;
    struct error err;
    for (int d = 0; d < SOURCES; d++)
        sources[d] = (struct dataset_mix_source){.name = names[d],
                                                 .options = options_of(fixture, d, uris[d])};
    assert_ok(dataset_open_mix(sources, SOURCES, &mix, &err), &err);
    return mix;
}

static struct dataset *open_alone(const struct fixture *fixture, int d)
{
    char uri[80];
    struct dataset_options options = options_of(fixture, d, uri);
    struct dataset *dataset;
    struct error err;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    return dataset;
}

static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(64, size_round_up(bytes, 64));
    assert_non_null(memory);
    memset(memory, 0xee, bytes);
    return memory;
}

static void assert_same_row(struct dataset_reader *reader, uint64_t row,
                            struct dataset_reader *alone_reader, uint64_t alone_row, size_t bytes)
{
    struct zarr_read_stats stats = {0};
    void *got = aligned(bytes), *expected = aligned(bytes);
    struct error err;
    assert_ok(dataset_read_row(reader, row, got, &stats, &err), &err);
    assert_ok(dataset_read_row(alone_reader, alone_row, expected, &stats, &err), &err);
    assert_memory_equal(got, expected, bytes);
    free(got);
    free(expected);
}

/* All rows of source `d`, from row `first` of the mix on. */
static void assert_rows(const struct dataset *mix, const struct dataset *alone, uint32_t d,
                        uint64_t first)
{
    struct dataset_reader *reader, *alone_reader;
    struct error err;
    assert_ok(dataset_reader_new(mix, &reader, &err), &err);
    assert_ok(dataset_reader_new(alone, &alone_reader, &err), &err);
    for (uint64_t row = 0; row < alone->row_count; row++) {
        uint64_t there;
        assert_int_equal(dataset_source_of_row(mix, first + row, &there), d);
        assert_int_equal(there, row);
        assert_int_equal(dataset_row_first(mix, first + row), dataset_row_first(alone, row));
        assert_int_equal(dataset_row_frames(mix, first + row), dataset_row_frames(alone, row));
        assert_same_row(reader, first + row, alone_reader, row, alone->row_bytes);
    }
    dataset_reader_free(reader);
    dataset_reader_free(alone_reader);
}

/* The joined field of each sample, and the made one. */
static void assert_held(const struct dataset *mix, struct dataset *alone, uint32_t d)
{
    const struct dataset *source = dataset_source(mix, d);
    void *memory = aligned(alone->held_bytes);
    struct error err;
    assert_ok(dataset_hold(alone, memory, &err), &err);
    for (uint64_t i = 0; i < alone->sample_count; i++) {
        int32_t number = -1;
        assert_string_equal(mix->fields[1].name, "text");
        assert_memory_equal(dataset_held_sample(source, 1, i), dataset_held_sample(alone, 0, i),
                            12);
        dataset_make(source, 0, i, 0, &number);
        assert_int_equal(number, d);
    }
    free(memory);
}

static void assert_sums(const struct dataset *mix)
{
    assert_int_equal(mix->source_count, SOURCES);
    assert_int_equal(mix->sample_count, 50 + 7 + 33);
    assert_int_equal(mix->row_count, 7 + 3 + 1);
    assert_int_equal(mix->row_length, 33);
    assert_int_equal(mix->row_bytes, 704);
    assert_int_equal(mix->record_bytes, 32);
    assert_int_equal(mix->sample_bytes, 20 + 12 + 4);
    assert_int_equal(mix->field_count, 3);
    assert_string_equal(mix->fields[0].name, "source");
    assert_int_equal(mix->fields[0].source, FIELD_MADE);
    assert_int_equal(mix->fields[0].made, MADE_SOURCE);
    assert_int_equal(mix->fields[0].dtype, DTYPE_INT32);
    assert_int_equal(mix->fields[0].rank, 0);
}

static void assert_is_of(struct dataset *mix, const struct fixture *fixture)
{
    void *memory = aligned(mix->held_bytes);
    uint64_t first = 0;
    struct error err;
    assert_sums(mix);
    assert_ok(dataset_hold(mix, memory, &err), &err);
    for (uint32_t d = 0; d < SOURCES; d++) {
        struct dataset *alone = open_alone(fixture, (int)d);
        assert_int_equal(dataset_source(mix, d)->fingerprint, alone->fingerprint);
        assert_rows(mix, alone, d, first);
        assert_held(mix, alone, d);
        first += alone->row_count;
        dataset_free(alone);
    }
    free(memory);
}

static void has_what_its_sources_have(void **state)
{
    struct fixture *fixture = *state;
    struct dataset *mix, *unpacked;
    struct error err;
    void *bytes;
    size_t size;
    for (int d = 0; d < SOURCES; d++)
        put_source(fixture, d);
    mix = open_mix(fixture);
    assert_is_of(mix, fixture);
    assert_ok(dataset_pack(mix, &bytes, &size, &err), &err);
    assert_ok(dataset_unpack(bytes, size, NULL, &unpacked, &err), &err);
    assert_int_equal(unpacked->fingerprint, mix->fingerprint);
    assert_int_equal(unpacked->scratch_bytes, mix->scratch_bytes);
    assert_is_of(unpacked, fixture);
    for (size_t less = 1; less < size; less += 97) {
        struct dataset *cut;
        assert_int_equal(dataset_unpack(bytes, less, NULL, &cut, &err), STATUS_CORRUPT);
    }
    free(bytes);
    dataset_free(unpacked);
    dataset_free(mix);
}

static void progress(void *argument, uint64_t chunks, uint64_t chunk_count, uint64_t bytes)
{
    uint64_t *last = argument;
    assert_true(chunks >= last[0] && bytes >= last[1]);
    last[0] = chunks, last[1] = bytes, last[2] = chunk_count;
}

static void tells_the_progress_of_all(void **state)
{
    struct fixture *fixture = *state;
    uint64_t last[3] = {0};
    struct error err;
    for (int d = 0; d < SOURCES; d++)
        put_source(fixture, d);
    struct dataset *mix = open_mix(fixture);
    void *memory = aligned(mix->held_bytes);
    const struct dataset_hold_options options = {
        .thread_count = 2, .memory_bytes = 1 << 20, .progress = progress, .argument = last};
    assert_ok(dataset_hold_with(mix, &options, memory, &err), &err);
    assert_int_equal(last[0], last[2]);
    assert_int_equal(last[2], 3 * 4 + 13 + 2 + 9); /* of the table, and of the indices */
    assert_int_equal(last[1], 3 * TABLE * 12 + (50 + 7 + 33) * 8);
    free(memory);
    dataset_free(mix);
}

/* Opens sources 0 and 1, the second with other options. */
static void assert_refused(const struct fixture *fixture, const struct dataset_field_spec *others,
                           size_t count, const char *part)
{
    char uris[2][80];
    struct dataset_mix_source sources[2] = {
        {.name = "a.yaml", .options = options_of(fixture, 0, uris[0])},
        {.name = "b.yaml", .options = options_of(fixture, 1, uris[1])}};
    struct dataset *mix;
    struct error err;
    sources[1].options.fields = others;
    sources[1].options.field_count = count;
    assert_int_equal(dataset_open_mix(sources, 2, &mix, &err), STATUS_INVALID);
    if (!strstr(err.message, part))
        fail_msg("%s", err.message);
}

static void refuses_sources_that_differ(void **state)
{
    struct fixture *fixture = *state;
    const struct dataset_field_spec
        cast[] = {fields[0], {.name = "x", .array = "a", .cast = DTYPE_FLOAT16}},
        slice[] = {fields[0],
                   {.name = "x", .array = "a", .slices = {{"1", "0:4"}}, .slice_count = 1}},
        more[] = {fields[0], fields[1], {.name = "y", .array = "a"}},
        named[] = {fields[0], fields[1], {.name = "source", .array = "a"}};
    put_source(fixture, 0);
    put_source(fixture, 1);
    assert_refused(fixture, cast, 2,
                   "field 'x' is float32 (5) in source 'a.yaml', and float16 (5) in 'b.yaml'");
    assert_refused(fixture, slice, 2,
                   "field 'x' is float32 (5) in source 'a.yaml', and float32 (4) in 'b.yaml'");
    assert_refused(fixture, more, 3, "field 'y' is in source 'b.yaml', and not in 'a.yaml'");
    assert_refused(fixture, fields + 1, 1,
                   "field 'text' is in source 'a.yaml', and not in 'b.yaml'");
    assert_refused(fixture, named, 3, "source 'b.yaml': ");
    assert_refused(fixture, named, 3, "a field is named 'source'");
}

static void a_mix_has_a_fingerprint_of_its_own(void **state)
{
    struct fixture *fixture = *state;
    char uris[2][80];
    struct dataset_mix_source sources[2];
    struct dataset *ab, *ba;
    struct error err;
    put_source(fixture, 0);
    put_source(fixture, 1);
    for (int d = 0; d < 2; d++)
        sources[d] =
            (struct dataset_mix_source){.name = "", .options = options_of(fixture, d, uris[d])};
    assert_ok(dataset_open_mix(sources, 2, &ab, &err), &err);
    struct dataset_mix_source first = sources[0];
    sources[0] = sources[1], sources[1] = first;
    assert_ok(dataset_open_mix(sources, 2, &ba, &err), &err);
    assert_int_not_equal(ab->fingerprint, ba->fingerprint);
    assert_int_not_equal(ab->fingerprint, ab->sources[0]->fingerprint);
    dataset_free(ab);
    dataset_free(ba);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(has_what_its_sources_have, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(tells_the_progress_of_all, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(refuses_sources_that_differ, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(a_mix_has_a_fingerprint_of_its_own, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
