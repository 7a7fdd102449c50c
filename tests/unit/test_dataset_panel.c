/* Columns of a matrix that are listed (dataset/panel.h): random stores against a model that has no
 * other items; and lists that are refused. */
#include "dataset/read/bad_log.h"
#include "dataset_refusal.h"
#include "ragged_world.h"

static struct dataset *open_dataset(const struct dataset_options *options)
{
    struct dataset *dataset = NULL;
    struct error err = {0};
    assert_ok(dataset_open(options, &dataset, &err), &err);
    return dataset;
}

static void *hold(struct dataset *dataset)
{
    void *memory = aligned_alloc(64, dataset->held_bytes + 64);
    const struct dataset_hold_options options = {.thread_count = 3, .memory_bytes = UINT64_MAX};
    struct error err = {0};
    memset(memory, 0x5a, dataset->held_bytes);
    assert_ok(dataset_hold_with(dataset, &options, memory, &err), &err);
    return memory;
}

/* Sums of the largest numbers. */
static int descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static void expect_most(uint64_t bound, const uint64_t *lengths, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += lengths[i];
    assert_true(bound >= sum);
    assert_true(bound <= sum + sum / 32);
}

static void check_item(const struct ragged_world *world, const struct world_pages *pages,
                       const struct ragged *ragged, const struct ragged_row *lies, uint64_t item)
{
    size_t v_bytes = dtype_bytes(world->v_dtype);
    assert_memory_equal(world_item(pages, ragged, lies, 0, item), &world->a[item], 2);
    assert_memory_equal(world_item(pages, ragged, lies, 1, item), &world->b[item], 4);
    assert_memory_equal(world_item(pages, ragged, lies, 2, item), world->v + item * v_bytes,
                        v_bytes);
}

/* A list of some of the columns that a world's indices are of, in any order. */
enum { LIST_BYTES = 512 };
static uint64_t list_columns(uint64_t seed, int axis, int32_t numbers[70], char list[LIST_BYTES])
{
    uint64_t columns = axis == 1 ? 50 : 70, count = 0;
    size_t length = 1;
    strcpy(list, "[");
    memset(numbers, 0xff, 70 * sizeof *numbers);
    for (uint64_t i = 0; i < columns; i++) {
        uint64_t column = i * 37 % columns == i ? i : (i * 37 + seed) % columns;
        if (numbers[column] >= 0 || world_random(seed, 13, i, 3) > 0)
            continue;
        numbers[column] = (int32_t)count++;
        length += (size_t)snprintf(list + length, LIST_BYTES - length, "%s%" PRIu64,
                                   count > 1 ? "," : "", column);
    }
    strcat(list, count > 0 ? "]" : "7:8]");
    if (count == 0)
        numbers[7] = 0;
    return count > 0 ? count : 1;
}

/* The model becomes that of what is listed. */
static void sift_world(struct ragged_world *world, int axis, const int32_t *numbers)
{
    uint64_t kept = 0, begin = 0, frames = world->frames[world->store_count];
    size_t v_bytes = dtype_bytes(world->v_dtype);
    for (uint64_t frame = 0; frame < frames; frame++) {
        uint64_t end = world->offsets[frame + 1];
        for (uint64_t i = begin; i < end; i++) {
            int32_t place = numbers[axis == 1 ? (uint32_t)world->a[i] : world->b[i]];
            if (place < 0)
                continue;
            world->a[kept] = axis == 1 ? (int16_t)place : world->a[i];
            world->b[kept] = axis == 1 ? world->b[i] : (uint32_t)place;
            memmove(world->v + kept * v_bytes, world->v + i * v_bytes, v_bytes);
            kept++;
        }
        world->offsets[frame + 1] = kept;
        begin = end;
    }
}

static void check_row(const struct ragged_world *world, const struct dataset *dataset,
                      struct dataset_reader *reader, uint64_t row, uint64_t *ret_pages)
{
    const struct ragged *ragged = &dataset->ragged[0];
    struct ragged_row lies = dataset_ragged_row(dataset, 0, row);
    uint32_t count = dataset_row_pages(dataset, row);
    uint64_t first = dataset_row_first(dataset, row), frames = dataset_row_frames(dataset, row);
    unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
    struct zarr_read_stats stats = {0};
    struct world_pages pages;
    struct error err = {0};
    assert_int_equal(count, lies.page_count);
    assert_true(lies.items.begin <= world->offsets[first]);
    assert_true(lies.items.end >= world->offsets[first + frames] || dataset->anchors);
    world_pages_init(&pages, dataset, count);
    assert_ok(dataset_read_row_with(reader, row, buffer, &pages.pages, NULL, NULL, &stats, &err),
              &err);
    for (uint64_t item = lies.items.begin; item < lies.items.end; item++)
        check_item(world, &pages, ragged, &lies, item);
    *ret_pages = count;
    world_pages_done(&pages);
    free(buffer);
}

static void check_rows(const struct ragged_world *world, const struct dataset *dataset)
{
    uint64_t *pages = calloc(dataset->row_count, sizeof *pages), lengths[WORLD_FRAMES];
    struct dataset_reader *reader;
    struct error err = {0};
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (uint64_t row = 0; row < dataset->row_count; row++)
        check_row(world, dataset, reader, row, &pages[row]);
    dataset_reader_free(reader);
    qsort(pages, dataset->row_count, sizeof *pages, descending);
    for (uint64_t n = 1; n <= dataset->row_count; n = 2 * n)
        expect_most(dataset_most_pages(dataset, n), pages, n);
    free(pages);
    for (uint64_t i = 0; i < dataset->frame_count; i++)
        lengths[i] = world->offsets[i + 1] - world->offsets[i];
    qsort(lengths, dataset->frame_count, sizeof *lengths, descending);
    for (uint64_t n = 1; n <= dataset->frame_count && !dataset->anchors; n = 2 * n)
        expect_most(ragged_most_items(&dataset->ragged[0], n), lengths, n);
}

/* From packed bytes, with memory that another has filled. */
static void check_unpacked(const struct ragged_world *world, const struct dataset *dataset,
                           const void *memory)
{
    struct dataset *other;
    struct error err = {0};
    void *bytes;
    size_t size;
    assert_ok(dataset_pack(dataset, &bytes, &size, &err), &err);
    assert_ok(dataset_unpack(bytes, size, NULL, &other, &err), &err);
    free(bytes);
    assert_true(other->fingerprint == dataset->fingerprint);
    assert_int_equal(other->held_bytes, dataset->held_bytes);
    assert_int_equal(other->page_bytes, dataset->page_bytes);
    assert_int_equal(other->scratch_bytes, dataset->scratch_bytes);
    assert_int_equal(other->order_row_bytes, dataset->order_row_bytes);
    assert_int_equal(other->row_length, dataset->row_length);
    dataset_attach(other, memory);
    check_rows(world, other);
    free(hold(other));
    dataset_free(other);
}

static void check_world(void **state, uint64_t seed)
{
    static const enum dtype dtypes[] = {DTYPE_UINT8, DTYPE_FLOAT32, DTYPE_INT64, DTYPE_UINT16};
    static const int32_t steps[] = {-2, 0, 1, 2, 5};
    struct ragged_world *world = world_make(*state, seed, dtypes[seed % 4]);
    bool has_steps = seed % 3 == 2;
    int axis = 1 + (int)(seed / 2 % 2);
    int32_t numbers[70];
    char list[LIST_BYTES];
    uint64_t count = list_columns(seed, axis, numbers, list);
    struct dataset_field_spec field = {.name = "e",
                                       .array = "e",
                                       .ragged = {.offsets = "o", .index = "a,b", .values = "v"},
                                       .steps = has_steps ? steps : NULL,
                                       .step_count = has_steps ? 5 : 0,
                                       .slices = {{.axis = axis == 1 ? "1" : "2", .indices = list}},
                                       .slice_count = 1};
    struct dataset_options options = {.uri = world->uri,
                                      .fields = &field,
                                      .field_count = 1,
                                      .samples.row_chunks = seed % 5,
                                      .samples.pad_before = has_steps ? 2 : 0,
                                      .samples.pad_after = has_steps ? 2 : 0};
    struct dataset *dataset = open_dataset(&options);
    assert_int_equal(dataset->ragged[0].panel_count, count);
    sift_world(world, axis, numbers);
    assert_int_equal(dataset->ragged[0].item_count, world->offsets[dataset->frame_count]);
    void *memory = hold(dataset);
    assert_memory_equal(dataset->ragged[0].offsets, world->offsets,
                        (dataset->frame_count + 1) * sizeof world->offsets[0]);
    check_rows(world, dataset);
    check_unpacked(world, dataset, memory);
    dataset_free(dataset);
    free(memory);
    free(world);
}

static void random_worlds(void **state)
{
    for (uint64_t seed = 0; seed < WORLD_BARE_END; seed += 2)
        check_world(state, seed);
}

/* Lists that are refused
 * ---------------------------------------------------------------------------------------------- */

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

static void bad_slices(void **state)
{
    const struct {
        const char *axis, *indices, *words;
    } cases[] = {
        {"0", "[1]", "slice of axis '0': axes are numbers from 1 to 1"},
        {"2", "[1]", "slice of axis '2': axes are numbers from 1 to 1"},
        {"1", "[1,3,1]", "column 1 is listed twice, as number 0 and 2 of the list"},
        {"1", "[2:4,3]", "column 3 is listed twice, as number 1 and 2 of the list"},
        {"1", "[]", "a list without any index"},
        {"1", "[3:3]", "'3:3' is a range without any index"},
        {"1", "[3:]", "'[3:]' reaches beyond column 67108863: nothing says how many columns"},
        {"1", "[-1]", "reaches beyond column 67108863"},
        {"1", "[0:40000]", "40000 columns, and the array 'i' has indices of int16: list fewer"},
        {"v", "[1]", "array 'v' is not one of strings"},
    };
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = csr_field();
    put_good(fixture);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        field.slices[0] = (struct dataset_slice_spec){cases[i].axis, cases[i].indices};
        field.slice_count = 1;
        refuse(fixture, field, cases[i].words);
    }
    field.slice_count = 2;
    refuse(fixture, field, "slice has 2 axes: of a ragged field one can be sliced");
    field = dense_field();
    field.slices[0] = (struct dataset_slice_spec){"1", "[1,2]"};
    field.slice_count = 1;
    refuse(fixture, field, "deliver.dense has 5 cells along axis 0, and the slice lists 2 columns");
    field.ragged.columns = "i";
    field.ragged.index = NULL;
    refuse(fixture, field, "slice takes columns of indices: name them in ragged.index");
    field = csr_field();
    field.index = "i";
    field.slices[0] = (struct dataset_slice_spec){"1", "[1,2]"};
    field.slice_count = 1;
    refuse(fixture, field, "slice and index: a joined field has all columns");
}

/* A row whose items are all of other columns is read without pages. */
static void no_item_of_a_row(void **state)
{
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = csr_field();
    put_good(fixture);
    field.slices[0] = (struct dataset_slice_spec){"1", "[9]"};
    field.slice_count = 1;
    struct dataset *dataset = open_dataset(
        &(struct dataset_options){.uri = fixture->path, .fields = &field, .field_count = 1});
    void *memory = hold(dataset), *buffer = aligned_alloc(64, dataset->row_bytes);
    struct dataset_reader *reader;
    struct zarr_read_stats stats = {0};
    struct error err = {0};
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    assert_int_equal(dataset_row_pages(dataset, 0), 0);
    assert_ok(dataset_read_row(reader, 0, buffer, &stats, &err), &err);
    dataset_reader_free(reader);
    dataset_free(dataset);
    free(buffer);
    free(memory);
}

/* Indices that change behind the opening. */
static void written_anew(void **state)
{
    static const int16_t others[ITEMS] = {0, 2, 4, 2, 3, 0, 4, 3, 2, 1};
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = csr_field();
    put_good(fixture);
    field.slices[0] = (struct dataset_slice_spec){"1", "[2,1]"};
    field.slice_count = 1;
    struct dataset *dataset = open_dataset(
        &(struct dataset_options){.uri = fixture->path, .fields = &field, .field_count = 1});
    void *memory = hold(dataset), *buffer = aligned_alloc(64, dataset->row_bytes);
    struct dataset_reader *reader;
    struct zarr_read_stats stats = {0};
    struct world_pages pages;
    struct error err = {0};
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    world_pages_init(&pages, dataset, dataset_row_pages(dataset, 0));
    assert_ok(dataset_read_row_with(reader, 0, buffer, &pages.pages, NULL, NULL, &stats, &err),
              &err);
    put(fixture, "i", DTYPE_INT16, ITEMS, 4, (const int16_t[ITEMS]){0, 2, 1, 1, 3, 0, 4, 3, 2, 1});
    assert_int_equal(
        dataset_read_row_with(reader, 0, buffer, &pages.pages, NULL, NULL, &stats, &err),
        STATUS_INVALID);
    assert_non_null(strstr(err.message, "frame 0 of the store has 2 items of the columns that are "
                                        "listed, and 1 when the dataset was opened"));
    put(fixture, "i", DTYPE_INT16, ITEMS, 4, others); /* as many */
    assert_ok(dataset_read_row_with(reader, 0, buffer, &pages.pages, NULL, NULL, &stats, &err),
              &err);
    world_pages_done(&pages);
    dataset_reader_free(reader);
    dataset_free(dataset);
    free(buffer);
    free(memory);
}

/* Indices that cannot be read: at opening an error, later the samples are masked. */
static void unreadable(void **state)
{
    static const unsigned char good[FRAMES] = {1, 1, 0, 0, 0, 1};
    const struct fixture *fixture = *state;
    struct dataset_field_spec field = csr_field();
    put_good(fixture);
    field.slices[0] = (struct dataset_slice_spec){"1", "[2,0,4]"};
    field.slice_count = 1;
    struct dataset_options options = {
        .uri = fixture->path, .fields = &field, .field_count = 1, .mask = true};
    struct dataset *dataset = open_dataset(&options);
    void *memory = hold(dataset);
    unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
    struct dataset_reader *reader;
    struct zarr_read_stats stats = {0};
    struct bad_log *log;
    struct world_pages pages;
    struct error err = {0};
    assert_ok(bad_log_new(&log, &err), &err);
    dataset_log_bad(dataset, log);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    world_pages_init(&pages, dataset, dataset_row_pages(dataset, 0));
    fixture_put(fixture, "i/1", "nonsense"); /* items 4 to 7: of frames 2, 3 and 4 */
    assert_ok(dataset_read_row_with(reader, 0, buffer, &pages.pages, NULL, NULL, &stats, &err),
              &err);
    assert_memory_equal(buffer + dataset->valid_offset, good, FRAMES);
    struct ragged_row lies = dataset_ragged_row(dataset, 0, 0);
    const int16_t indices[] = {1, 0, 2, 0, 0, 0};
    const float values[] = {1, 2, 3, 0, 0, 0}; /* of 0, 2, 4 | | 3 (1) | | 0 (4 3 2) */
    assert_int_equal(lies.items.end, 6);
    for (uint64_t i = 0; i < 6; i++) {
        assert_memory_equal(world_item(&pages, &dataset->ragged[0], &lies, 0, i), &indices[i], 2);
        assert_memory_equal(world_item(&pages, &dataset->ragged[0], &lies, 1, i), &values[i], 4);
    }
    refuse_options(&options, STATUS_CORRUPT, "slice: array 'i' of the store");
    fixture_put(fixture, "o/1", "nonsense");
    refuse_options(&options, STATUS_CORRUPT, "ragged.offsets: array 'o' of the store");
    world_pages_done(&pages);
    dataset_reader_free(reader);
    dataset_free(dataset);
    bad_log_free(log);
    free(buffer);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_worlds, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(bad_slices, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(no_item_of_a_row, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(written_anew, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(unreadable, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
