/* Ragged fields against a model: random stores, read row by row into pages; bounds against what is
 * there; and the same from packed bytes. */
#include "base/size.h"
#include "dataset/read/row_pieces.h"
#include "ragged_world.h"
#include "zarr/chunk/chunk.h"

enum { CSR_COLUMNS = 3 };

static const char index_list[] = "a,b";

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

/* The frame at a step of the sample at `frame`, or what stands in its place: episodes are stores.
 */
static uint64_t model_frame(const struct ragged_world *world, uint64_t frame, int64_t step)
{
    size_t s = 0;
    while (world->frames[s + 1] <= frame)
        s++;
    int64_t at = (int64_t)frame + step, first = (int64_t)world->frames[s],
            last = (int64_t)world->frames[s + 1] - 1;
    return (uint64_t)(at < first ? first : at > last ? last : at);
}

static uint64_t model_step(const struct ragged_world *world, uint64_t frame, int64_t step)
{
    uint64_t at = model_frame(world, frame, step);
    return world->offsets[at + 1] - world->offsets[at];
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

/* The items of all steps of a row's samples are in its pages. */
static void check_reach(const struct ragged_world *world, const struct dataset *dataset,
                        uint64_t row, const struct ragged_row *lies)
{
    const struct ragged *ragged = &dataset->ragged[0];
    uint64_t first = dataset_row_first(dataset, row), frames = dataset_row_frames(dataset, row);
    for (uint64_t frame = first; frame < first + frames; frame++) {
        uint64_t unused;
        if (dataset->anchors && anchors_offset_of(dataset->anchors, frame, &unused) == UINT64_MAX)
            continue;
        for (size_t k = 0; k < (ragged->step_count ? ragged->step_count : 1); k++) {
            uint64_t at = model_frame(world, frame, ragged->step_count ? ragged->steps[k] : 0);
            uint64_t begin = world->offsets[at], end = world->offsets[at + 1];
            assert_true(begin == end || (begin >= lies->items.begin && end <= lies->items.end));
        }
    }
}

/* A tape of copies. */
struct copies {
    struct zarr_tape tape;
    struct {
        void *bytes; /* NULL: the chunk is missing */
        size_t size;
    } chunks[4096];
    size_t count, played;
};

static enum status play(struct zarr_tape *tape, void *buffer, size_t capacity,
                        const void **ret_lent, size_t *ret_size, struct error *err)
{
    struct copies *copies = (struct copies *)tape;
    (void)err;
    (void)ret_lent;
    assert_true(copies->played < copies->count);
    assert_true(copies->chunks[copies->played].size <= capacity);
    memcpy(buffer, copies->chunks[copies->played].bytes, copies->chunks[copies->played].size);
    *ret_size = copies->chunks[copies->played++].size;
    return STATUS_OK;
}

static void record(struct zarr_tape *tape, enum status failure, const void *bytes, size_t size)
{
    struct copies *copies = (struct copies *)tape;
    assert_int_equal(failure, STATUS_OK);
    assert_non_null(bytes);
    copies->chunks[copies->count].bytes = malloc(size + 1);
    memcpy(copies->chunks[copies->count].bytes, bytes, size);
    copies->chunks[copies->count++].size = size;
}

/* A row that is recorded, and then played without asking the store, is the same. */
static void check_tape(struct dataset_reader *reader, const struct dataset *dataset, uint64_t row,
                       unsigned char *buffer, const struct world_pages *expected)
{
    struct copies *copies = calloc(1, sizeof *copies);
    struct zarr_read_stats stats = {0};
    struct world_pages pages;
    struct error err = {0};
    world_pages_init(&pages, dataset, expected->count);
    copies->tape.record = record;
    assert_ok(
        dataset_read_row_with(reader, row, buffer, &pages.pages, &copies->tape, NULL, &stats, &err),
        &err);
    memset(pages.memory, 0xa5, pages.stride * pages.count);
    copies->tape.play = play;
    stats = (struct zarr_read_stats){0};
    assert_ok(
        dataset_read_row_with(reader, row, buffer, &pages.pages, &copies->tape, NULL, &stats, &err),
        &err);
    assert_int_equal(stats.stored_bytes, 0);
    assert_int_equal(copies->played, copies->count);
    assert_memory_equal(pages.memory, expected->memory, pages.stride * pages.count);
    for (size_t i = 0; i < copies->count; i++)
        free(copies->chunks[i].bytes);
    free(copies);
    world_pages_done(&pages);
}

/* The items of all samples' steps are in the row's pages. */
static void check_row(const struct ragged_world *world, const struct dataset *dataset,
                      struct dataset_reader *reader, uint64_t row, uint64_t *ret_pages)
{
    const struct ragged *ragged = &dataset->ragged[0];
    struct ragged_row lies = dataset_ragged_row(dataset, 0, row);
    uint32_t count = dataset_row_pages(dataset, row);
    unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
    struct zarr_read_stats stats = {0};
    struct world_pages pages;
    struct error err = {0};
    assert_int_equal(count, lies.page_count);
    assert_true(count <= dataset_most_row_pages(dataset));
    world_pages_init(&pages, dataset, count);
    assert_ok(dataset_read_row_with(reader, row, buffer, &pages.pages, NULL, NULL, &stats, &err),
              &err);
    for (uint64_t item = lies.items.begin; item < lies.items.end; item++)
        check_item(world, &pages, ragged, &lies, item);
    check_reach(world, dataset, row, &lies);
    uint64_t pieces, bytes, rows = dataset->row_count;
    dataset_row_demand(dataset, &pieces, &bytes);
    if (count <= 2 * size_divide_up(dataset_most_pages(dataset, rows), rows))
        assert_true(stats.chunk_count <= pieces && stats.stored_bytes <= bytes);
    if (row < 3)
        check_tape(reader, dataset, row, buffer, &pages);
    *ret_pages = count;
    world_pages_done(&pages);
    free(buffer);
}

static void check_rows(const struct ragged_world *world, const struct dataset *dataset)
{
    uint64_t *pages = calloc(dataset->row_count, sizeof *pages);
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
}

static void check_samples(const struct ragged_world *world, const struct dataset *dataset,
                          const int32_t *steps, size_t step_count)
{
    const struct ragged *ragged = &dataset->ragged[0];
    uint64_t lengths[WORLD_FRAMES] = {0}, trailers = 0, count = 0;
    for (uint64_t frame = 0; frame < dataset->frame_count; frame++) {
        uint64_t row;
        if (dataset->anchors && anchors_offset_of(dataset->anchors, frame, &row) == UINT64_MAX)
            continue;
        for (size_t k = 0; k < (step_count ? step_count : 1); k++)
            lengths[count] += model_step(world, frame, step_count ? steps[k] : 0);
        uint64_t bytes = lengths[count] * ragged->trailer_item_bytes;
        assert_int_equal(dataset_trailer_bytes(dataset, frame), (bytes + 15) / 16 * 16);
        trailers += (bytes + 15) / 16 * 16;
        count++;
    }
    assert_int_equal(count, dataset->sample_count);
    qsort(lengths, count, sizeof *lengths, descending);
    for (uint64_t n = 1; n <= count; n = 2 * n)
        expect_most(ragged_most_items(ragged, n), lengths, n);
    assert_true(dataset_most_trailer(dataset, count) >= trailers);
    assert_int_equal(ragged_most_items(ragged, 1), lengths[0]);
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
    assert_true(other->fingerprint == dataset->fingerprint);
    assert_int_equal(other->held_bytes, dataset->held_bytes);
    assert_int_equal(other->page_bytes, dataset->page_bytes);
    assert_int_equal(other->order_row_bytes, dataset->order_row_bytes);
    assert_int_equal(other->row_length, dataset->row_length);
    for (uint64_t n = 1; n < 9; n++) {
        assert_int_equal(dataset_most_pages(other, n), dataset_most_pages(dataset, n));
        assert_int_equal(dataset_most_trailer(other, n), dataset_most_trailer(dataset, n));
    }
    dataset_attach(other, memory);
    check_rows(world, other);
    dataset_free(other);
    free(bytes);
}

static void check_world(void **state, uint64_t seed)
{
    static const enum dtype dtypes[] = {DTYPE_UINT8, DTYPE_FLOAT32, DTYPE_INT64, DTYPE_UINT16};
    static const int32_t steps[] = {-2, 0, 1, 2, 5};
    struct ragged_world *world = world_make(*state, seed, dtypes[seed % 4]);
    bool has_steps = seed % 3 == 2;
    struct dataset_field_spec field = {
        .name = "e",
        .array = "e",
        .ragged = {.offsets = "o", .index = index_list, .values = "v"},
        .steps = has_steps ? steps : NULL,
        .step_count = has_steps ? 5 : 0};
    struct dataset_options options = {.uri = world->uri,
                                      .fields = &field,
                                      .field_count = 1,
                                      .hold_limit_bytes = 1 << 20,
                                      .samples.row_chunks = seed % 5,
                                      .samples.pad_before = has_steps ? 2 : 0,
                                      .samples.pad_after = has_steps ? 2 : 0};
    struct dataset *dataset = open_dataset(&options);
    assert_int_equal(dataset->ragged_count, 1);
    assert_int_equal(dataset->frame_count, world->frames[world->store_count]);
    assert_int_equal(dataset->ragged[0].column_count, CSR_COLUMNS);
    assert_null(dataset->ragged[0].offsets);
    void *memory = hold(dataset);
    assert_memory_equal(dataset->ragged[0].offsets, world->offsets,
                        (dataset->frame_count + 1) * sizeof world->offsets[0]);
    check_rows(world, dataset);
    check_samples(world, dataset, steps, field.step_count);
    check_unpacked(world, dataset, memory);
    dataset_free(dataset);
    free(memory);
    free(world);
}

static void random_worlds(void **state)
{
    world_narrow_items = 0;
    for (uint64_t seed = 0; seed < WORLD_BARE_END; seed++)
        check_world(state, seed);
    assert_true(!narrow_takes(4) || world_narrow_items > 1000);
}

/* Two fields with the same offsets: pages of both, one after the other, and of about the same size.
 * What rows read is about what was estimated before. */
static void check_two_fields(void **state, uint64_t seed)
{
    struct ragged_world *world = world_make(*state, seed, DTYPE_UINT8);
    struct dataset_field_spec fields[] = {
        {.name = "e", .array = "e", .ragged = {.offsets = "o", .index = "a", .values = "v"}},
        {.name = "f", .array = "f", .ragged = {.offsets = "o", .columns = "w"}}};
    struct dataset_options options = {
        .uri = world->uri, .fields = fields, .field_count = 2, .samples.row_chunks = 1 + seed % 2};
    struct dataset *dataset = open_dataset(&options);
    struct zarr_read_stats stats = {0};
    struct dataset_stored_row stored;
    struct dataset_reader *reader;
    struct error err = {0};
    assert_int_equal(dataset->ragged_count, 2);
    for (size_t r = 0; r < 2; r++)
        assert_in_range(dataset->ragged[r].page_bytes, dataset->page_bytes / 2 + 1,
                        dataset->page_bytes);
    assert_ok(dataset_stored_row_bytes(dataset, &stored, &err), &err);
    void *memory = hold(dataset);
    unsigned char *buffer = aligned_alloc(64, dataset->row_bytes);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (uint64_t row = 0; row < dataset->row_count; row++) {
        struct ragged_row e = dataset_ragged_row(dataset, 0, row),
                          f = dataset_ragged_row(dataset, 1, row);
        struct world_pages pages;
        assert_int_equal(e.first_page, 0);
        assert_int_equal(f.first_page, e.page_count);
        assert_int_equal(dataset_row_pages(dataset, row), e.page_count + f.page_count);
        world_pages_init(&pages, dataset, e.page_count + f.page_count);
        assert_ok(
            dataset_read_row_with(reader, row, buffer, &pages.pages, NULL, NULL, &stats, &err),
            &err);
        for (uint64_t i = e.items.begin; i < e.items.end; i++) {
            assert_memory_equal(world_item(&pages, &dataset->ragged[0], &e, 0, i), &world->a[i], 2);
            assert_memory_equal(world_item(&pages, &dataset->ragged[0], &e, 1, i), &world->v[i], 1);
            assert_memory_equal(world_item(&pages, &dataset->ragged[1], &f, 0, i), world->w[i], 12);
        }
        world_pages_done(&pages);
    }
    uint64_t mean = stats.stored_bytes / dataset->row_count;
    assert_in_range(stored.mean_bytes, mean - mean / 8 - 16, mean + mean / 8 + 16);
    free(buffer);
    dataset_reader_free(reader);
    dataset_free(dataset);
    free(memory);
    free(world);
}

static void two_fields(void **state)
{
    for (uint64_t seed = 100; seed < 112; seed++)
        check_two_fields(state, seed);
}

/* Names, dtypes and shapes of what is delivered
 * ---------------------------------------------------------------------------------------------- */

static const struct dataset_field *find(const struct dataset *dataset, const char *name)
{
    for (size_t i = 0; i < dataset->field_count; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return &dataset->fields[i];
    return NULL;
}

static struct dataset *open_one(const struct ragged_world *world, struct dataset_field_spec field)
{
    struct dataset_options options = {.uri = world->uri, .fields = &field, .field_count = 1};
    field.name = "e";
    field.array = "e";
    return open_dataset(&options);
}

static void forms(void **state)
{
    static const int32_t steps[] = {0, 1, 2};
    struct ragged_world *world = world_make(*state, 1, DTYPE_FLOAT32);
    const struct dataset_field *field;
    struct dataset *dataset =
        open_one(world, (struct dataset_field_spec){.ragged = {"o", NULL, "a,w", NULL, NULL}});
    assert_int_equal(dataset->field_count, 3);
    field = find(dataset, "e.w");
    assert_int_equal(field->source, FIELD_RAGGED);
    assert_int_equal(field->rank, 1);
    assert_int_equal(field->shape[0], 3);
    assert_int_equal(field->sample_bytes, 12);
    assert_int_equal(field->column, 1);
    assert_ptr_equal(field->ragged, &dataset->ragged[0]);
    assert_int_equal(find(dataset, "e.offsets")->made, MADE_OFFSETS);
    assert_int_equal(find(dataset, "e.offsets")->dtype, DTYPE_INT64);
    assert_string_equal(dataset->fields[dataset->ragged[0].lengths_field].name, "e.offsets");
    assert_string_equal(dataset->fields[dataset->ragged[0].columns[0].field].name, "e.a");
    assert_int_equal(dataset->ragged[0].values, 2);
    assert_int_equal(dataset->ragged[0].trailer_item_bytes, 14);
    uint64_t mean_bytes = dataset->ragged[0].item_count * 14 / dataset->frame_count;
    assert_in_range(dataset->sample_bytes, 8 + mean_bytes - 1, 8 + mean_bytes + 2);
    dataset_free(dataset);

    dataset = open_one(
        world,
        (struct dataset_field_spec){
            .ragged = {"o", NULL, NULL, "w", NULL},
            .deliver = {.is_given = true, .form = RAGGED_PAD, .truncates = true, .pad_items = 7},
            .steps = steps,
            .step_count = 3});
    field = find(dataset, "e");
    assert_int_equal(field->rank, 3);
    assert_int_equal(field->shape[0], 3);
    assert_int_equal(field->shape[1], 7);
    assert_int_equal(field->shape[2], 3);
    assert_int_equal(field->sample_bytes, 3 * 7 * 12);
    field = find(dataset, "e.length");
    assert_int_equal(field->made, MADE_LENGTH);
    assert_int_equal(field->sample_bytes, 12);
    assert_true(ragged_most_items(&dataset->ragged[0], 1) <= 3 * 7);
    void *memory = hold(dataset);
    int32_t lengths[3];
    uint64_t frame = anchors_frame_at(dataset->anchors, 0, 0);
    dataset_make(dataset, (size_t)(field - dataset->fields), frame, 0, lengths);
    for (int k = 0; k < 3; k++)
        assert_int_equal(lengths[k], min_u64(model_step(world, frame, k), 7));
    dataset_free(dataset);
    free(memory);

    dataset = open_one(world, (struct dataset_field_spec){.ragged = {"o", "b,a", NULL, NULL, NULL},
                                                          .deliver = {.is_given = true,
                                                                      .form = RAGGED_DENSE,
                                                                      .dense_rank = 2,
                                                                      .dense_shape = {70, 50}},
                                                          .cast = DTYPE_UINT8});
    assert_int_equal(dataset->field_count, 1);
    field = find(dataset, "e");
    assert_int_equal(field->dtype, DTYPE_UINT8);
    assert_int_equal(field->rank, 2);
    assert_int_equal(field->sample_bytes, 3500);
    assert_int_equal(dataset->ragged[0].values, dataset->ragged[0].column_count);
    assert_int_equal(dataset->ragged[0].lengths_field, dataset->field_count);
    dataset_free(dataset);
    free(world);
}

/* Integers at the ends of the tensor's dtype, narrower and wider. */
static void clamped_values(void **state)
{
    static const struct {
        enum dtype from, to;
    } cases[] = {{DTYPE_INT64, DTYPE_UINT8},
                 {DTYPE_INT64, DTYPE_INT8},
                 {DTYPE_UINT8, DTYPE_INT32},
                 {DTYPE_UINT16, DTYPE_INT64},
                 {DTYPE_UINT64, DTYPE_INT32}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ragged_world *world = world_make(*state, 40 + i, cases[i].from);
        struct dataset *dataset =
            open_one(world, (struct dataset_field_spec){.ragged = {"o", "a", NULL, "v", NULL},
                                                        .deliver = {.is_given = true,
                                                                    .form = RAGGED_DENSE,
                                                                    .dense_rank = 1,
                                                                    .dense_shape = {50}},
                                                        .cast = cases[i].to});
        const struct ragged *ragged = &dataset->ragged[0];
        void *memory = hold(dataset), *buffer = aligned_alloc(64, dataset->row_bytes);
        struct zarr_read_stats stats = {0};
        struct dataset_reader *reader;
        struct error err = {0};
        assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
        for (uint64_t row = 0; row < dataset->row_count; row++) {
            struct ragged_row lies = dataset_ragged_row(dataset, 0, row);
            struct world_pages pages;
            world_pages_init(&pages, dataset, lies.page_count);
            assert_ok(
                dataset_read_row_with(reader, row, buffer, &pages.pages, NULL, NULL, &stats, &err),
                &err);
            for (uint64_t item = lies.items.begin; item < lies.items.end; item++) {
                const unsigned char *at = world_item(&pages, ragged, &lies, 1, item);
                int64_t value = dtype_integer(cases[i].from, world->v, item);
                int64_t low = cases[i].to == DTYPE_UINT8   ? 0
                              : cases[i].to == DTYPE_INT8  ? INT8_MIN
                              : cases[i].to == DTYPE_INT32 ? INT32_MIN
                                                           : INT64_MIN;
                int64_t high = cases[i].to == DTYPE_UINT8   ? UINT8_MAX
                               : cases[i].to == DTYPE_INT8  ? INT8_MAX
                               : cases[i].to == DTYPE_INT32 ? INT32_MAX
                                                            : INT64_MAX;
                value = value < low ? low : value > high ? high : value;
                assert_true(dtype_integer(cases[i].to, at, 0) == value);
            }
            world_pages_done(&pages);
        }
        dataset_reader_free(reader);
        dataset_free(dataset);
        free(memory);
        free(buffer);
        free(world);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_worlds, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(two_fields, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(forms, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(clamped_values, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
