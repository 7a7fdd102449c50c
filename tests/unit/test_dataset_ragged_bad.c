/* Ragged fields that are refused, by what message; and chunks and indices that are bad: errors, or
 * masked. */
#include "dataset/read/bad_log.h"
#include "dataset/read/row_pieces.h"
#include "dataset_refusal.h"
#include "ragged_world.h"

enum { FRAMES = 6, ITEMS = 10 };

static const int64_t good_offsets[FRAMES + 1] = {0, 3, 3, 5, 6, 10, 10};
static const int16_t good_indices[ITEMS] = {0, 2, 4, 1, 3, 0, 4, 3, 2, 1};
static const float good_values[ITEMS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

static void put(const struct fixture *fixture, const char *path, enum dtype dtype, uint64_t count,
                uint64_t chunk, const void *items)
{
    struct zarr_array array;
    struct recipe recipe = {.path = path,
                            .rank = 1,
                            .shape = {count},
                            .chunks = {chunk},
                            .dtype = dtype,
                            .codec = "{\"id\": \"zlib\", \"level\": 1}"};
    recipe_put(fixture, &recipe, items, &array);
}

static void put_good(const struct fixture *fixture)
{
    put(fixture, "o", DTYPE_INT64, FRAMES + 1, 3, good_offsets);
    put(fixture, "i", DTYPE_INT16, ITEMS, 4, good_indices);
    put(fixture, "v", DTYPE_FLOAT32, ITEMS, 4, good_values);
}

static struct dataset_field_spec csr_field(void)
{
    return (struct dataset_field_spec){
        .name = "e", .array = "e", .ragged = {.offsets = "o", .index = "i", .values = "v"}};
}

static struct dataset_field_spec dense_field(void)
{
    struct dataset_field_spec field = csr_field();
    field.deliver = (struct dataset_deliver_spec){
        .is_given = true, .form = RAGGED_DENSE, .dense_rank = 1, .dense_shape = {5}};
    return field;
}

static void refuse(const struct fixture *fixture, struct dataset_field_spec field,
                   const char *words)
{
    refuse_options(
        &(struct dataset_options){.uri = fixture->path, .fields = &field, .field_count = 1},
        STATUS_INVALID, words);
}

/* Arrays
 * ---------------------------------------------------------------------------------------------- */

static void refuse_offsets(const struct fixture *fixture, enum dtype dtype, const void *offsets,
                           const char *words)
{
    put(fixture, "o", dtype, FRAMES + 1, 3, offsets);
    refuse(fixture, csr_field(), words);
}

static void bad_offsets(void **state)
{
    const struct fixture *fixture = *state;
    put_good(fixture);
    refuse_offsets(
        fixture, DTYPE_INT64, (int64_t[]){0, 3, 2, 5, 6, 10, 10},
        "field 'e': array 'o': item 2 is 2, and the one before is 3: offsets never fall; "
        "write the array anew");
    refuse_offsets(fixture, DTYPE_INT64, (int64_t[]){1, 3, 3, 5, 6, 10, 10},
                   "item 0 is 1: offsets begin with 0");
    refuse_offsets(fixture, DTYPE_INT32, (int32_t[]){0, -3, 3, 5, 6, 10, 10}, "item 1 is -3");
    refuse_offsets(fixture, DTYPE_INT64, (int64_t[]){0, 3, 3, 5, 6, 10, 11},
                   "array 'o' ends with 11, and array 'i' has 10 items");
    refuse_offsets(fixture, DTYPE_UINT8, (uint8_t[]){0, 3, 3, 5, 6, 9, 9}, "ends with 9");
    refuse_offsets(fixture, DTYPE_UINT64, (uint64_t[]){0, 3, 3, 5, 6, UINT64_MAX, UINT64_MAX},
                   "item 5 is 18446744073709551615, and the one before is 6");
    refuse_offsets(fixture, DTYPE_FLOAT32, good_values, "one-dimensional and of integers");
    put(fixture, "o", DTYPE_INT64, 1, 1, (int64_t[]){0});
    refuse(fixture, csr_field(), "has one item, and so no sample");
}

static void bad_arrays(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec two[2] = {csr_field(), {.name = "label", .array = "label"}};
    struct dataset_options options = {.uri = fixture->path, .fields = two, .field_count = 2};
    put_good(fixture);
    put(fixture, "label", DTYPE_INT16, FRAMES + 1, 4, good_indices);
    refuse_options(&options, STATUS_INVALID,
                   "fields differ in their number of samples: 'label' (array 'label') has 7, 'e' "
                   "(array 'o') has 6; offsets have one item more than there are samples");
    put(fixture, "v", DTYPE_FLOAT32, ITEMS - 1, 4, good_values);
    refuse(
        fixture, csr_field(),
        "columns differ in their number of items: array 'i' has 10, array 'v' has 9; one of them");
    put(fixture, "i", DTYPE_FLOAT32, ITEMS, 4, good_values);
    refuse(fixture, csr_field(), "array 'i' is 1-dimensional and of float32: a column of indices");
    struct dataset_field_spec field = csr_field();
    put_good(fixture);
    field.ragged.values = "w";
    refuse_options(
        &(struct dataset_options){.uri = fixture->path, .fields = &field, .field_count = 1},
        STATUS_NOT_FOUND, "there is no array 'w'");
}

/* Configuration
 * ---------------------------------------------------------------------------------------------- */

static void bad_keys(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = csr_field();
    put_good(fixture);
    field.ragged.columns = "i";
    refuse(fixture, field, "field 'e': ragged has both index and columns");
    field = csr_field();
    field.ragged.offsets = NULL;
    refuse(fixture, field, "ragged has no offsets");
    field = csr_field();
    field.ragged.index = field.ragged.values = NULL;
    refuse(fixture, field, "ragged has offsets alone");
    field = csr_field();
    field.ragged.index = "i,i,i,i,i,i,i,i,i,i";
    refuse(fixture, field, "ragged has more than 9 columns");
    field = csr_field();
    field.mean = "m";
    refuse(fixture, field, "mean is not for ragged fields: use scale and offset");
    field = csr_field();
    field.segments = true;
    field.steps = (int32_t[]){0};
    field.step_count = 1;
    refuse(fixture, field, "segments is not for ragged fields");
    field = csr_field();
    field.ragged.values = NULL;
    field.scale = 2;
    refuse(fixture, field, "and this one has none: set ragged.values");
    field = csr_field();
    field.cast = DTYPE_UINT8;
    refuse(fixture, field, "cast: uint8: values can become float16");
    field = (struct dataset_field_spec){
        .name = "v", .array = "v", .deliver = {.is_given = true, .form = RAGGED_CSR}};
    refuse(fixture, field, "deliver is for ragged fields, and array 'v' is none");
}

static void bad_forms(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = dense_field();
    put_good(fixture);
    field.deliver.dense_rank = 0;
    refuse(fixture, field, "deliver: dense takes a shape");
    field = dense_field();
    field.deliver.dense_rank = 2;
    field.deliver.dense_shape[1] = 3;
    refuse(fixture, field, "deliver.dense has 2 dimensions, and ragged.index has 1 column");
    field.ragged.index = "i,i";
    field.deliver.dense_shape[1] = UINT32_MAX;
    refuse(fixture, field, "deliver.dense has more than 4294967295 cells");
    field = dense_field();
    field.ragged.index = NULL;
    field.ragged.columns = "i";
    refuse(fixture, field, "deliver: dense takes columns of indices");
    field = dense_field();
    field.cast = DTYPE_INT32;
    refuse(fixture, field, "the values of array 'v' are float32, and would be cut off");
    field = dense_field();
    field.deliver.pad_items = 4;
    refuse(fixture, field, "deliver has both pad and dense");
    field = csr_field();
    field.deliver =
        (struct dataset_deliver_spec){.is_given = true, .form = RAGGED_PAD, .pad_items = 3};
    refuse(fixture, field,
           "has 4 items, more than deliver.pad (3): the longest frame has 4; give a larger pad");
    field.deliver = (struct dataset_deliver_spec){.is_given = true, .combine = RAGGED_MAX};
    refuse(fixture, field, "deliver.combine is for dense");
    field.deliver = (struct dataset_deliver_spec){.is_given = true, .truncates = true};
    refuse(fixture, field, "deliver.truncate is for pad");
    field.deliver =
        (struct dataset_deliver_spec){.form = RAGGED_PAD, .pad_items = 4, .multiple = 2};
    refuse(fixture, field, "deliver.pad_to_multiple_of is for csr");
}

/* As many stores as columns leave room for: fields that say how long samples are have no array. */
static void many_stores(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = csr_field();
    struct dataset_options options = {.fields = &field, .field_count = 1};
    struct text uris = {0};
    struct dataset *dataset;
    struct error err;
    put_good(fixture);
    for (int i = 0; i < 300; i++)
        text_append(&uris, "%s%s", i ? "," : "", fixture->path);
    options.uri = uris.data;
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(dataset->frame_count, 300 * FRAMES);
    dataset_free(dataset);
    for (int i = 300; i < 513; i++)
        text_append(&uris, ",%s", fixture->path);
    options.uri = uris.data;
    assert_int_equal(dataset_open(&options, &dataset, &err), STATUS_INVALID);
    assert_non_null(
        strstr(err.message, "and other stores: 513 stores with 2 arrays each: at most"));
    text_done(&uris);
}

/* Sparse groups
 * ---------------------------------------------------------------------------------------------- */

static void put_group(const struct fixture *fixture, const char *attributes)
{
    fixture_put(fixture, "X/.zattrs", attributes);
    put(fixture, "X/indptr", DTYPE_INT64, FRAMES + 1, 3, good_offsets);
    put(fixture, "X/indices", DTYPE_INT16, ITEMS, 4, good_indices);
    put(fixture, "X/data", DTYPE_FLOAT32, ITEMS, 4, good_values);
}

static void sparse_groups(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = {.name = "X", .array = "X"};
    struct dataset_options options = {.uri = fixture->path, .fields = &field, .field_count = 1};
    struct dataset *dataset;
    struct error err;
    put_group(fixture, "{\"encoding-type\": \"csr_matrix\", \"shape\": [6, 5]}");
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(dataset->field_count, 3);
    assert_string_equal(dataset->fields[1].name, "X.indices");
    dataset_free(dataset);
    field.deliver = (struct dataset_deliver_spec){.is_given = true, .form = RAGGED_DENSE};
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(dataset->ragged[0].dense_shape[0], 5);
    dataset_free(dataset);
    field.deliver.dense_rank = 1;
    field.deliver.dense_shape[0] = 4;
    refuse(fixture, field, "deliver.dense has 4 cells, and the matrix of group 'X' has 5 columns");
    put_group(fixture, "{\"encoding-type\": \"csc_matrix\", \"shape\": [6, 5]}");
    refuse(fixture, field, "group 'X' is a csc_matrix, whose items lie column by column");
    put_group(fixture, "{\"encoding-type\": \"categorical\"}");
    refuse(fixture, field, "has the encoding-type 'categorical': only csr_matrix is read");
}

/* Rows
 * ---------------------------------------------------------------------------------------------- */

struct opened {
    struct dataset *dataset;
    struct dataset_reader *reader;
    struct bad_log *log;
    unsigned char *row;
    void *held;
    struct world_pages pages;
};

static struct opened open_row(const struct fixture *fixture, struct dataset_field_spec field,
                              bool mask)
{
    struct dataset_options options = {.uri = fixture->path,
                                      .fields = &field,
                                      .field_count = 1,
                                      .mask = mask,
                                      .samples.row_chunks = 100};
    struct opened opened = {0};
    struct error err;
    assert_ok(dataset_open(&options, &opened.dataset, &err), &err);
    assert_int_equal(opened.dataset->row_count, 1);
    opened.held = aligned_alloc(64, (opened.dataset->held_bytes + 63) / 64 * 64);
    assert_ok(dataset_hold(opened.dataset, opened.held, &err), &err);
    assert_ok(dataset_reader_new(opened.dataset, &opened.reader, &err), &err);
    opened.row = aligned_alloc(64, opened.dataset->row_bytes);
    world_pages_init(&opened.pages, opened.dataset, dataset_row_pages(opened.dataset, 0));
    assert_ok(bad_log_new(&opened.log, &err), &err);
    dataset_log_bad(opened.dataset, opened.log);
    return opened;
}

static void close_row(struct opened *opened)
{
    world_pages_done(&opened->pages);
    dataset_reader_free(opened->reader);
    dataset_free(opened->dataset);
    bad_log_free(opened->log);
    free(opened->row);
    free(opened->held);
}

static enum status read_row(struct opened *opened, struct error *err)
{
    struct zarr_read_stats stats = {0};
    return dataset_read_row_with(opened->reader, 0, opened->row, &opened->pages.pages, NULL, NULL,
                                 &stats, err);
}

/* Bad frames have zeros in both columns, others what was written; `bad` has a bit for each. */
static void expect_items(const struct opened *opened, unsigned bad)
{
    const struct ragged *ragged = &opened->dataset->ragged[0];
    struct ragged_row lies = dataset_ragged_row(opened->dataset, 0, 0);
    for (uint64_t frame = 0; frame < FRAMES; frame++) {
        bool is_bad = bad >> frame & 1;
        assert_int_equal(opened->row[opened->dataset->valid_offset + frame], !is_bad);
        for (int64_t i = good_offsets[frame]; i < good_offsets[frame + 1]; i++) {
            int16_t index = is_bad ? 0 : good_indices[i];
            float value = is_bad ? 0 : good_values[i];
            assert_memory_equal(world_item(&opened->pages, ragged, &lies, 0, (uint64_t)i), &index,
                                sizeof index);
            assert_memory_equal(world_item(&opened->pages, ragged, &lies, 1, (uint64_t)i), &value,
                                sizeof value);
        }
    }
}

/* Chunk 1 of a column has the items 4 to 7: of frames 2, 3 and 4. */
static void bad_chunks(void **state)
{
    struct bad_chunk bad;
    struct error err;
    put_good(*state);
    for (int column = 0; column < 2; column++) {
        struct opened opened = open_row(*state, csr_field(), true);
        fixture_put(*state, column ? "v/1" : "i/1", "nonsense");
        assert_ok(read_row(&opened, &err), &err);
        expect_items(&opened, 4 | 8 | 16);
        assert_true(bad_log_take(opened.log, &bad));
        assert_string_equal(bad.array, column ? "v" : "i");
        assert_string_equal(bad.chunk.text, "1");
        assert_int_equal(bad.first_sample, 2);
        assert_int_equal(bad.sample_count, 3);
        assert_false(bad_log_take(opened.log, &bad));
        close_row(&opened);
        opened = open_row(*state, csr_field(), false);
        assert_int_equal(read_row(&opened, &err), STATUS_CORRUPT);
        assert_non_null(
            strstr(err.message, column ? "array 'v' chunk 1: " : "array 'i' chunk 1: "));
        close_row(&opened);
        put_good(*state);
    }
}

enum { NARROW_FRAMES = 12, FRAME_ITEMS = 50, CHUNK_ITEMS = 128 };

static void put_packed(const struct fixture *fixture, const char *name, const int32_t *items)
{
    struct zarr_array array;
    struct recipe recipe = {.format = ZARR_V2,
                            .codec = "{\"id\": \"blosc\", \"cname\": \"zstd\", \"clevel\": 5, "
                                     "\"shuffle\": 1}",
                            .path = name,
                            .rank = 1,
                            .shape = {NARROW_FRAMES * FRAME_ITEMS},
                            .chunks = {CHUNK_ITEMS},
                            .dtype = DTYPE_INT32};
    recipe_put(fixture, &recipe, items, &array);
}

/* The other chunks of a column stay narrow where one is bad, and frames that have items of both are
 * zero in both. Chunk 1 has items of the frames 2 to 5. */
static void bad_chunks_beside_narrow_ones(void **state)
{
    int64_t offsets[NARROW_FRAMES + 1];
    int32_t items[NARROW_FRAMES * FRAME_ITEMS];
    struct dataset_field_spec field = csr_field();
    struct error err;
    field.ragged.offsets = "p";
    field.ragged.index = "l";
    field.ragged.values = "n";
    for (int64_t i = 0; i <= NARROW_FRAMES; i++)
        offsets[i] = i * FRAME_ITEMS;
    for (int32_t i = 0; i < NARROW_FRAMES * FRAME_ITEMS; i++)
        items[i] = 1 + i % 97;
    put(*state, "p", DTYPE_INT64, NARROW_FRAMES + 1, 5, offsets);
    put_packed(*state, "l", items);
    put_packed(*state, "n", items);
    fixture_put(*state, "n/1", "nonsense");
    struct opened opened = open_row(*state, field, true);
    const struct ragged *ragged = &opened.dataset->ragged[0];
    struct ragged_row lies = dataset_ragged_row(opened.dataset, 0, 0);
    world_narrow_items = 0;
    assert_ok(read_row(&opened, &err), &err);
    for (uint64_t i = 0; i < NARROW_FRAMES * FRAME_ITEMS; i++) {
        bool is_bad = i / FRAME_ITEMS >= 2 && i / FRAME_ITEMS <= 5;
        int32_t expected = is_bad ? 0 : items[i];
        for (size_t c = 0; c < 2; c++)
            assert_memory_equal(world_item(&opened.pages, ragged, &lies, c, i), &expected,
                                sizeof expected);
        assert_int_equal(opened.row[opened.dataset->valid_offset + i / FRAME_ITEMS], !is_bad);
    }
    assert_int_equal(world_narrow_items,
                     narrow_takes(4) ? 7 * CHUNK_ITEMS : 0); /* whole chunks: 4 and 4, less one */
    close_row(&opened);
}

/* With steps a sample is bad whose frames, or what stands in their place, are bad. */
static void bad_steps(void **state)
{
    static const int32_t steps[] = {-1, 0};
    struct dataset_field_spec field = csr_field();
    struct dataset_options options = {.uri = ((struct fixture *)*state)->path,
                                      .fields = &field,
                                      .field_count = 1,
                                      .mask = true,
                                      .samples = {.row_chunks = 100, .pad_before = 1}};
    struct error err;
    put_good(*state);
    field.steps = steps;
    field.step_count = 2;
    struct opened opened = open_row(*state, csr_field(), true); /* for its memory */
    dataset_reader_free(opened.reader);
    dataset_free(opened.dataset);
    assert_ok(dataset_open(&options, &opened.dataset, &err), &err);
    assert_ok(dataset_hold(opened.dataset, opened.held, &err), &err);
    assert_ok(dataset_reader_new(opened.dataset, &opened.reader, &err), &err);
    dataset_log_bad(opened.dataset, opened.log);
    fixture_put(*state, "i/1", "nonsense"); /* frames 2, 3 and 4 */
    assert_ok(read_row(&opened, &err), &err);
    static const unsigned char valid[FRAMES] = {1, 1, 0, 0, 0, 0};
    assert_memory_equal(opened.row + opened.dataset->valid_offset, valid, FRAMES);
    const struct ragged *ragged = &opened.dataset->ragged[0];
    struct ragged_row lies = dataset_ragged_row(opened.dataset, 0, 0);
    for (uint64_t i = 0; i < ITEMS; i++) { /* what could not be read is no wild index */
        int16_t index = i >= 4 && i < 8 ? 0 : good_indices[i];
        assert_memory_equal(world_item(&opened.pages, ragged, &lies, 0, i), &index, sizeof index);
    }
    close_row(&opened);
}

/* Items 4, 6 and 7, of frames 2, 4 and 4, lie outside. */
static void bad_indices(void **state)
{
    const int16_t indices[ITEMS] = {0, 2, 4, 1, 5, 0, -1, 7, 2, 1};
    struct bad_chunk bad;
    struct error err;
    put_good(*state);
    put(*state, "i", DTYPE_INT16, ITEMS, 4, indices);
    struct opened opened = open_row(*state, dense_field(), false);
    assert_int_equal(read_row(&opened, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message,
                           "array 'i' item 4 (of frame 2 of the store): index 5 is outside the "
                           "shape [5], whose axis 0 has the indices 0 to 4: give deliver.dense"));
    close_row(&opened);
    opened = open_row(*state, dense_field(), true);
    assert_ok(read_row(&opened, &err), &err);
    expect_items(&opened, 4 | 16);
    assert_true(bad_log_take(opened.log, &bad));
    assert_int_equal(bad.first_sample, 2);
    assert_int_equal(bad.sample_count, 1);
    assert_true(bad_log_take(opened.log, &bad));
    assert_int_equal(bad.first_sample, 4); /* listed once */
    assert_non_null(strstr(bad.cause.message, "index -1 is outside"));
    assert_false(bad_log_take(opened.log, &bad));
    close_row(&opened);
    opened = open_row(*state, csr_field(), false); /* indices are data there */
    assert_ok(read_row(&opened, &err), &err);
    close_row(&opened);
}

/* Offsets that are written anew between opening and holding. */
static void changed_offsets(void **state)
{
    struct dataset_field_spec field = csr_field();
    struct dataset_options options = {
        .uri = ((struct fixture *)*state)->path, .fields = &field, .field_count = 1};
    const int64_t others[FRAMES + 1] = {0, 2, 3, 5, 6, 10, 10};
    struct dataset *dataset;
    struct error err;
    put_good(*state);
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    put(*state, "o", DTYPE_INT64, FRAMES + 1, 3, others);
    void *held = aligned_alloc(64, (dataset->held_bytes + 63) / 64 * 64);
    assert_int_equal(dataset_hold(dataset, held, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "has other offsets now than when the dataset was opened"));
    dataset_free(dataset);
    free(held);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_offsets),     TEST(bad_arrays),
        TEST(bad_keys),        TEST(bad_forms),
        TEST(many_stores),     TEST(sparse_groups),
        TEST(bad_chunks),      TEST(bad_chunks_beside_narrow_ones),
        TEST(bad_steps),       TEST(bad_indices),
        TEST(changed_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
