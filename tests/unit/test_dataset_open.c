/* Opening datasets: fields by default and by configuration, joins, what is held and what is read by
 * rows, rows and held samples against the written arrays, and every refusal. */
#include "dataset/dataset.h"
#include "zarr/hierarchy.h"
#include "zarr_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MEBIBYTE = 1 << 20 };

/* An array of the reference dataset, kept to compare with. */
struct reference {
    struct recipe recipe;
    struct zarr_array array;
    unsigned char *items;
};

static void put_reference(const struct fixture *fixture, struct reference *reference, uint64_t seed)
{
    size_t size = dtype_bytes(reference->recipe.dtype);

    for (int i = 0; i < reference->recipe.rank; i++)
        size *= reference->recipe.shape[i];
    if (!reference->items)
        reference->items = random_items(seed, size);
    recipe_put(fixture, &reference->recipe, reference->items, &reference->array);
}

static void put_group(const struct fixture *fixture)
{
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
}

/* Metadata of an array without chunks. */
static void put_empty(const struct fixture *fixture, const char *path, const char *type,
                      const char *shape, const char *chunks, const char *order)
{
    char key[128], document[512];

    snprintf(key, sizeof key, "%s/.zarray", path);
    snprintf(
        document, sizeof document,
        "{\"zarr_format\": 2, \"shape\": %s, \"chunks\": %s, \"dtype\": \"%s\", \"compressor\": "
        "null, \"fill_value\": 0, \"order\": \"%s\", \"filters\": null}",
        shape, chunks, type, order);
    fixture_put(fixture, key, document);
}

static struct dataset *open_with(const struct fixture *fixture,
                                 const struct dataset_field_spec *fields, size_t count,
                                 uint64_t hold_limit_bytes)
{
    struct dataset_options options = {.uri = fixture->path,
                                      .fields = fields,
                                      .field_count = count,
                                      .hold_limit_bytes = hold_limit_bytes};
    struct dataset *dataset;
    struct error err;

    assert_ok(dataset_open(&options, &dataset, &err), &err);
    return dataset;
}

static void refuse_with(const struct fixture *fixture, const struct dataset_field_spec *fields,
                        size_t count, uint64_t hold_limit_bytes, enum status expected,
                        const char *message)
{
    struct dataset_options options = {.uri = fixture->path,
                                      .fields = fields,
                                      .field_count = count,
                                      .hold_limit_bytes = hold_limit_bytes};
    struct dataset *dataset = NULL;
    struct error err;

    error_clear(&err);
    enum status status = dataset_open(&options, &dataset, &err);
    if (status != expected || !strstr(err.message, message))
        fail_msg("got '%s' (%s), expected '%s'", err.message, status_text(status), message);
    assert_null(dataset);
}

static void refuse_default(const struct fixture *fixture, enum status expected, const char *message)
{
    refuse_with(fixture, NULL, 0, MEBIBYTE, expected, message);
}

/* N = 21 samples; frames give rows of `row_length`; labels are in chunks of 5, text is joined. */
struct world {
    struct reference frames, labels, text, join;
};

enum { SAMPLES = 21, TEXTS = 6 };

static void put_world(const struct fixture *fixture, struct world *world, uint64_t row_length)
{
    *world = (struct world){
        .frames.recipe = {.path = "frames",
                          .rank = 4,
                          .shape = {SAMPLES, 3, 4, 5},
                          .chunks = {row_length, 2, 4, 5},
                          .dtype = DTYPE_FLOAT16,
                          .codec = "{\"id\": \"zstd\", \"level\": 1}"},
        .labels.recipe = {.path = "labels",
                          .rank = 1,
                          .shape = {SAMPLES},
                          .chunks = {5},
                          .dtype = DTYPE_INT32,
                          .is_big = true},
        .text.recipe = {.path = "text",
                        .rank = 2,
                        .shape = {TEXTS, 7},
                        .chunks = {4, 7},
                        .dtype = DTYPE_FLOAT32},
        .join.recipe = {.path = "join",
                        .rank = 1,
                        .shape = {SAMPLES},
                        .chunks = {8},
                        .dtype = DTYPE_UINT16,
                        .is_big = true},
    };
    uint16_t *index = malloc(SAMPLES * sizeof *index);

    for (uint64_t i = 0; i < SAMPLES; i++)
        index[i] = (uint16_t)random_below(random_u64(3, 3, i), TEXTS);
    world->join.items = (unsigned char *)index;
    put_group(fixture);
    put_reference(fixture, &world->frames, 1);
    put_reference(fixture, &world->labels, 2);
    put_reference(fixture, &world->text, 3);
    put_reference(fixture, &world->join, 4);
    /* Labels are stored big-endian; in memory they are what random bytes say. */
}

static void world_done(struct world *world)
{
    free(world->frames.items);
    free(world->labels.items);
    free(world->text.items);
    free(world->join.items);
}

static const struct dataset_field_spec world_fields[] = {
    {.name = "words", .array = "text", .index = "join"},
    {.name = "label", .array = "labels"},
    {.name = "frames", .array = "frames"},
};

static const void *expected_sample(const struct world *world, size_t field, uint64_t i,
                                   size_t sample_bytes)
{
    const uint16_t *index = (const void *)world->join.items;
    const unsigned char *items[] = {world->frames.items, world->labels.items, world->text.items};

    return items[field] + (field == 2 ? index[i] : i) * sample_bytes;
}

/* Reads all rows and held samples and compares each sample of each field. */
static void check_samples(struct dataset *dataset, const struct world *world)
{
    struct dataset_reader *reader;
    struct dataset_read_stats stats = {0};
    unsigned char *row = aligned_alloc(64, dataset->row_bytes);
    void *held = dataset->held_bytes ? aligned_alloc(64, dataset->held_bytes) : NULL;
    struct error err;

    assert_ok(dataset_hold(dataset, held, &err), &err);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (uint64_t r = 0; r < dataset->row_count; r++) {
        memset(row, 0xa5, dataset->row_bytes);
        assert_ok(dataset_read_row(reader, r, row, &stats, &err), &err);
        for (uint64_t k = 0; k < dataset_row_frames(dataset, r); k++) {
            uint64_t i = r * dataset->row_length + k;

            for (size_t f = 0; f < dataset->field_count; f++) {
                const struct dataset_field *field = &dataset->fields[f];
                const void *sample = field->source == FIELD_ROW
                                         ? row + field->row_offset + k * field->sample_bytes
                                         : dataset_held_sample(dataset, f, i);
                assert_memory_equal(sample, expected_sample(world, f, i, field->sample_bytes),
                                    field->sample_bytes);
            }
        }
    }
    assert_true(stats.chunk_count > 0 && stats.stored_bytes > 0);
    dataset_reader_free(reader);
    free(held);
    free(row);
}

static void check_world(const struct fixture *fixture, uint64_t row_length,
                        uint64_t hold_limit_bytes, enum field_source label_source)
{
    struct world world;

    put_world(fixture, &world, row_length);
    struct dataset *dataset = open_with(fixture, world_fields, 3, hold_limit_bytes);
    uint64_t length = row_length < SAMPLES ? row_length : SAMPLES;

    assert_int_equal(dataset->sample_count, SAMPLES);
    assert_int_equal(dataset->row_length, length);
    assert_int_equal(dataset->row_count, (SAMPLES + length - 1) / length);
    assert_int_equal(dataset->field_count, 3);
    assert_string_equal(dataset->fields[0].name, "frames");
    assert_string_equal(dataset->fields[1].name, "label");
    assert_string_equal(dataset->fields[2].name, "words");
    assert_int_equal(dataset->fields[0].source, FIELD_ROW);
    assert_int_equal(dataset->fields[1].source, label_source);
    assert_int_equal(dataset->fields[2].source, FIELD_HELD);
    assert_int_equal(dataset->fields[0].rank, 3);
    assert_int_equal(dataset->fields[0].shape[2], 5);
    assert_int_equal(dataset->fields[1].rank, 0);
    assert_int_equal(dataset->fields[1].sample_bytes, 4);
    assert_int_equal(dataset->sample_bytes, 120 + 4 + 28);
    assert_int_equal(dataset->row_bytes % 64, 0);
    assert_int_equal(dataset->record_bytes, label_source == FIELD_ROW ? 128 + 16 : 128);
    assert_string_equal(dataset_field_array(dataset, 2)->path, "text");
    assert_string_equal(dataset_field_index_array(dataset, 2)->path, "join");
    assert_null(dataset_field_index_array(dataset, 0));
    assert_int_equal(dataset_hierarchy(dataset)->node_count, 4);
    check_samples(dataset, &world);
    dataset_free(dataset);
    world_done(&world);
}

static void test_row_lengths(void **state)
{
    check_world(*state, 1, MEBIBYTE, FIELD_HELD); /* labels in 5 straddle rows of 1 */
    check_world(*state, 5, MEBIBYTE, FIELD_ROW);  /* the same grid */
    check_world(*state, 10, MEBIBYTE, FIELD_ROW); /* whole chunks a row */
    check_world(*state, 8, MEBIBYTE, FIELD_HELD); /* ragged */
    check_world(*state, 16, MEBIBYTE, FIELD_HELD);
    check_world(*state, 21, MEBIBYTE, FIELD_ROW); /* one row, whatever the grid */
    check_world(*state, 30, MEBIBYTE, FIELD_ROW); /* a chunk longer than the array */
}

/* With too little memory to hold the labels they are read along with the rows, several times. */
static void test_amplification(void **state)
{
    static const struct {
        uint64_t row_length;
        double reads; /* of label chunks in an epoch; there are 5 */
    } cases[] = {{1, 21}, {8, 7}, {16, 6}, {3, 10}, {7, 7}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        put_world(*state, &world, cases[i].row_length);
        struct dataset_field_spec fields[] = {world_fields[1], world_fields[2]};
        struct dataset *dataset = open_with(*state, fields, 2, 10);

        assert_int_equal(dataset->fields[1].source, FIELD_ROW);
        assert_true(dataset->fields[1].decode_amplification > cases[i].reads / 5 - 1e-9);
        assert_true(dataset->fields[1].decode_amplification < cases[i].reads / 5 + 1e-9);
        check_samples(dataset, &world);
        dataset_free(dataset);
        world_done(&world);
    }
}

static void test_default_fields(void **state)
{
    struct world world;

    put_world(*state, &world, 5);
    struct dataset *dataset = open_with(*state, NULL, 0, MEBIBYTE);
    assert_int_equal(dataset->field_count, 3);
    assert_string_equal(dataset->fields[0].name, "frames");
    assert_string_equal(dataset->fields[1].name, "join");
    assert_string_equal(dataset->fields[2].name, "labels");
    dataset_free(dataset);
    world_done(&world);
}

static void test_root_array(void **state)
{
    struct reference data = {
        .recipe = {.path = "", .rank = 2, .shape = {9, 2}, .chunks = {4, 2}, .dtype = DTYPE_UINT8}};
    struct dataset_field_spec fields[] = {{.name = "x", .array = ""}};

    put_reference(*state, &data, 1);
    struct dataset *dataset = open_with(*state, NULL, 0, MEBIBYTE);
    assert_string_equal(dataset->fields[0].name, "data");
    assert_int_equal(dataset->row_length, 4);
    dataset_free(dataset);
    dataset = open_with(*state, fields, 1, MEBIBYTE);
    assert_string_equal(dataset->fields[0].name, "x");
    dataset_free(dataset);
    free(data.items);
}

/* Rows follow the larger sample, by name on a tie. */
static void test_leader(void **state)
{
    put_group(*state);
    put_empty(*state, "b", "<f4", "[12, 4]", "[3, 4]", "C");
    put_empty(*state, "a", "<f4", "[12, 4]", "[4, 4]", "C");
    put_empty(*state, "c", "<f4", "[12]", "[2]", "C");
    struct dataset *dataset = open_with(*state, NULL, 0, MEBIBYTE);
    assert_int_equal(dataset->row_length, 4);
    assert_int_equal(dataset->fields[0].source, FIELD_ROW);
    assert_int_equal(dataset->fields[1].source, FIELD_HELD);
    assert_int_equal(dataset->fields[2].source, FIELD_ROW);
    dataset_free(dataset);
}

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
    put_empty(*state, "good", "<f4", "[10, 100]", "[5, 100]", "C");
    put_empty(*state, "other", "|O", "[3]", "[3]", "C"); /* another length: not in the way */
    struct dataset *dataset = open_with(*state, NULL, 0, MEBIBYTE);
    assert_int_equal(dataset->field_count, 1);
    dataset_free(dataset);

    put_empty(*state, "strings", "|O", "[10]", "[5]", "C");
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
    put_empty(*state, "good", "<f4", "[10, 100]", "[5, 100]", "C");
    put_empty(*state, "odd", "<f4", "\"ten\"", "[5]", "C");
    refuse_default(*state, STATUS_CORRUPT, "array 'odd': 'shape' is a JSON string, expected array");
}

static void test_refused_ambiguous(void **state)
{
    put_group(*state);
    put_empty(*state, "a", "<f4", "[10, 20]", "[5, 20]", "C");
    put_empty(*state, "b", "<f4", "[20, 10]", "[5, 10]", "C");
    refuse_default(*state, STATUS_INVALID, "ambiguous: 'a' and 'b'");
}

static void test_refused_huge(void **state)
{
    put_group(*state);
    put_empty(*state, "a", "<f4", "[10, 4000000000000000]", "[10, 1]", "C");
    put_empty(*state, "b", "<f4", "[4611686018427387904]", "[1]", "C");
    refuse_default(*state, STATUS_CORRUPT, "array 'b': 'shape' overflows");
    static const struct dataset_field_spec fields[] = {{.name = "x", .array = "a"}};
    refuse_with(*state, fields, 1, MEBIBYTE, STATUS_INVALID, "beyond any memory");

    /* 63 bits hold what is stored, and not what becomes of it. */
    put_empty(*state, "c", "|u1", "[1, 4611686018427387904]", "[1, 1]", "C");
    static const struct dataset_field_spec cast[] = {
        {.name = "x", .array = "c", .cast = DTYPE_FLOAT32}};
    refuse_with(*state, cast, 1, MEBIBYTE, STATUS_INVALID, "does not fit 63 bits as float32");
    static const struct dataset_field_spec scaled[] = {{.name = "x", .array = "c", .scale = 0.5}};
    refuse_with(*state, scaled, 1, MEBIBYTE, STATUS_INVALID, "does not fit 63 bits as float32");
}

static struct dataset *open_options(const struct dataset_options *options)
{
    struct dataset *dataset;
    struct error err;

    assert_ok(dataset_open(options, &dataset, &err), &err);
    return dataset;
}

/* What the fields do not name is not looked at: neither too many arrays nor groups nested too deep
 * keep them from being read. */
static void test_named_among_too_many(void **state)
{
    const struct fixture *fixture = *state;
    static const struct dataset_field_spec fields[] = {{.name = "x", .array = "few/x"},
                                                       {.name = "y", .array = "/many/a17"}};
    char path[128] = "deep";

    put_group(fixture);
    put_empty(fixture, "many/a", "<f4", "[10]", "[5]", "C");
    for (int i = 0; i < ZARR_MAX_ARRAYS; i++) {
        char from[128], folder[128];

        snprintf(from, sizeof from, "%s/many/a/.zarray", fixture->path);
        snprintf(folder, sizeof folder, "%s/many/a%d", fixture->path, i);
        assert_int_equal(mkdir(folder, 0777), 0);
        strcat(folder, "/.zarray");
        assert_int_equal(link(from, folder), 0);
    }
    fixture_put(fixture, "many/.zgroup", "{\"zarr_format\": 2}");
    fixture_put(fixture, "few/.zgroup", "{\"zarr_format\": 2}");
    put_empty(fixture, "few/x", "<f4", "[10, 3]", "[5, 3]", "C");
    strcpy(path, "deep/.zgroup");
    for (int i = 0; i < 20; i++) {
        fixture_put(fixture, path, "{\"zarr_format\": 2}");
        strcpy(strrchr(path, '/'), "/d/.zgroup");
    }
    dataset_free(open_with(fixture, fields, 2, MEBIBYTE));
    refuse_default(fixture, STATUS_INVALID, "");

    struct dataset_options options = {
        .uri = fixture->path, .group = "/few/", .hold_limit_bytes = MEBIBYTE};
    struct dataset *dataset = open_options(&options);
    assert_int_equal(dataset->field_count, 1);
    assert_string_equal(dataset->fields[0].name, "x");
    assert_int_equal(dataset_hierarchy(dataset)->node_count, 1);
    dataset_free(dataset);

    options.group = "many";
    struct error err;
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "more than 4096 arrays: name those that are wanted"));

    /* One that is not there: some of what is, as found by a walk that ends soon. */
    options.fields = &(struct dataset_field_spec){.name = "x", .array = "no"};
    options.field_count = 1;
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_NOT_FOUND);
    assert_non_null(strstr(err.message, "there is no array 'many/no'; there are 'many/a"));
    assert_non_null(strstr(err.message, " and more"));
}

/* As zarr-python finds them: without metadata of groups above. */
static void test_named_without_groups_above(void **state)
{
    const struct fixture *fixture = *state;
    struct reference world = {
        .recipe = {
            .path = "A/1/0/0", .rank = 2, .shape = {6, 4}, .chunks = {2, 4}, .dtype = DTYPE_INT16}};
    struct dataset_field_spec field = {.name = "x", .array = "A/1/0/0"};
    struct zarr_array v3;

    refuse_with(fixture, &field, 1, MEBIBYTE, STATUS_NOT_FOUND, "no Zarr array or group there");
    put_reference(fixture, &world, 5);
    refuse_default(fixture, STATUS_NOT_FOUND, "no Zarr array or group there");
    dataset_free(open_with(fixture, &field, 1, MEBIBYTE));
    struct dataset_options options = {
        .uri = fixture->path, .group = "A/1", .hold_limit_bytes = MEBIBYTE};
    options.fields = &(struct dataset_field_spec){.name = "x", .array = "0/0"};
    options.field_count = 1;
    dataset_free(open_options(&options));

    struct recipe recipe = world.recipe;
    recipe.format = ZARR_V3;
    recipe.path = "B/2/a.b";
    recipe_put(fixture, &recipe, world.items, &v3);
    field.array = "/B/2/a.b";
    dataset_free(open_with(fixture, &field, 1, MEBIBYTE));

    /* Under a root of its own, which does not know of it, too. */
    put_group(fixture);
    field.array = "A/1/0/0/";
    dataset_free(open_with(fixture, &field, 1, MEBIBYTE));
    fixture_put(fixture, ".zmetadata", "{\"zarr_consolidated_format\": 1, \"metadata\": {}}");
    dataset_free(open_with(fixture, &field, 1, MEBIBYTE));
    field.array = "A/1/0";
    refuse_with(fixture, &field, 1, MEBIBYTE, STATUS_NOT_FOUND, "there is no array 'A/1/0'");
    field.array = "A/.x"; /* no member of a group */
    refuse_with(fixture, &field, 1, MEBIBYTE, STATUS_NOT_FOUND, "there is no array 'A/.x'");
    free(world.items);
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
    struct dataset_read_stats stats = {0};
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
        in_store(test_row_lengths),
        in_store(test_amplification),
        in_store(test_default_fields),
        in_store(test_root_array),
        in_store(test_leader),
        in_store(test_refused_specs),
        in_store(test_refused_arrays),
        in_store(test_refused_corrupt_array),
        in_store(test_refused_ambiguous),
        in_store(test_refused_huge),
        in_store(test_named_among_too_many),
        in_store(test_named_without_groups_above),
        in_store(test_no_dataset),
        in_store(test_index_out_of_range),
        in_store(test_row_error_names_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
