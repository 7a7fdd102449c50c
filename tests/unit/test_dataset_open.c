/* Opening datasets: fields by default and by configuration, joins, what is held and what is read by
 * rows, rows and held samples against the written arrays. */
#include "dataset_joined.h"
#include "zarr/hierarchy/hierarchy.h"

#include <sys/stat.h>
#include <unistd.h>

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
    struct zarr_read_stats stats = {0};
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
    put_empty(*state, "b", "<f4", "[12, 4]", "[3, 4]");
    put_empty(*state, "a", "<f4", "[12, 4]", "[4, 4]");
    put_empty(*state, "c", "<f4", "[12]", "[2]");
    struct dataset *dataset = open_with(*state, NULL, 0, MEBIBYTE);
    assert_int_equal(dataset->row_length, 4);
    assert_int_equal(dataset->fields[0].source, FIELD_ROW);
    assert_int_equal(dataset->fields[1].source, FIELD_HELD);
    assert_int_equal(dataset->fields[2].source, FIELD_ROW);
    dataset_free(dataset);
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
    put_empty(fixture, "many/a", "<f4", "[10]", "[5]");
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
    put_empty(fixture, "few/x", "<f4", "[10, 3]", "[5, 3]");
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

#define in_store(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_store(test_row_lengths),
        in_store(test_amplification),
        in_store(test_default_fields),
        in_store(test_root_array),
        in_store(test_leader),
        in_store(test_named_among_too_many),
        in_store(test_named_without_groups_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
