/* What fields may be besides arrays as they are: views along any axis and of converted items,
 * against item by item arithmetic; several stores; groups and patterns; and what is refused. */
#include "dataset/dataset.h"
#include "zarr/chunk/chunk.h"
#include "zarr/hierarchy/hierarchy.h"
#include "zarr/metadata/view.h"
#include "zarr_fixture.h"

enum { MEBIBYTE = 1 << 20 };

/* Views
 * ---------------------------------------------------------------------------------------------- */

/* The item of the view at `position` (in the view's axes), converted, by hand. */
static void expect_item(const struct zarr_array *array, const struct zarr_view *view,
                        const unsigned char *items, const uint64_t *position,
                        const unsigned char *found)
{
    unsigned char expected[16];
    uint64_t offset = 0;
    for (int axis = 0; axis < array->rank; axis++) {
        int view_axis = axis == view->first_axis ? 0 : axis < view->first_axis ? axis + 1 : axis;
        offset = offset * array->shape[axis] + position[view_axis];
    }
    const unsigned char *item = items + offset * array->item_bytes;
    if (view->convert.to == DTYPE_NONE) {
        assert_memory_equal(found, item, array->item_bytes);
        return;
    }
    convert_items(&view->convert, item, 1, expected);
    assert_memory_equal(found, expected, dtype_bytes(view->convert.to));
}

/* Reads the view `step` indices at a time. */
static void check_view(const struct fixture *fixture, const struct zarr_array *array,
                       const struct zarr_view *view, const unsigned char *items, uint64_t step)
{
    struct zarr_read_stats stats = {0};
    struct zarr_chunk_reader *reader;
    struct zarr_array viewed;
    const struct zarr_array *arrays[] = {&viewed};
    struct error err;
    assert_ok(zarr_view_make(array, view, &viewed, &err), &err);
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 1, &reader, &err), &err);
    size_t sample_bytes = zarr_array_sample_bytes(&viewed);
    for (uint64_t begin = 0; begin < viewed.shape[0]; begin += step) {
        uint64_t end = begin + step < viewed.shape[0] ? begin + step : viewed.shape[0];
        unsigned char *out = malloc((end - begin) * sample_bytes);
        uint64_t position[ZARR_MAX_RANK] = {begin}, lengths[ZARR_MAX_RANK];
        const unsigned char *at = out;
        assert_ok(zarr_read_samples(reader, &viewed, begin, end, out, &stats, &err), &err);
        memcpy(lengths, viewed.shape, sizeof lengths);
        lengths[0] = end;
        do {
            expect_item(array, view, items, position, at);
            at += viewed.item_bytes;
        } while (recipe_next(position, lengths, viewed.rank));
        assert_ptr_equal(at, out + (end - begin) * sample_bytes);
        free(out);
    }
    zarr_chunk_reader_free(reader);
}

static void test_views(void **state)
{
    static const char *const codecs[] = {NULL, "{\"id\": \"zstd\", \"level\": 1}"};
    static const enum dtype dtypes[] = {DTYPE_FLOAT32, DTYPE_INT16, DTYPE_FLOAT64, DTYPE_UINT8};
    static const struct convert converts[] = {
        {.to = DTYPE_NONE},
        {.to = DTYPE_FLOAT16, .scale = 1.0},
        {.to = DTYPE_FLOAT32, .scale = 0.5, .offset = -3.0},
    };
    char path[16];
    for (uint64_t i = 0; i < 60; i++) {
        struct recipe recipe = {.path = path,
                                .rank = 1 + (int)(i % 4),
                                .dtype = dtypes[random_below(random_u64(1, 1, i), 4)],
                                .codec = codecs[i / 2 % 2],
                                .is_big = i / 3 % 2};
        struct zarr_array array;
        uint64_t count = 1;
        snprintf(path, sizeof path, "a%d", (int)i);
        for (int axis = 0; axis < recipe.rank; axis++) {
            uint64_t draw = random_u64(2, i, (uint64_t)axis);
            recipe.shape[axis] = 1 + draw % 9;
            recipe.chunks[axis] = 1 + draw / 16 % 10;
            count *= recipe.shape[axis];
        }
        unsigned char *items = random_items(i, count * dtype_bytes(recipe.dtype));
        recipe_put(*state, &recipe, items, &array);
        for (int axis = 0; axis < recipe.rank; axis++)
            for (size_t c = 0; c < 3; c++) {
                struct zarr_view view = {.first_axis = axis, .convert = converts[c]};
                view.convert.from = recipe.dtype;
                check_view(*state, &array, &view, items, 1 + i % 5);
                check_view(*state, &array, &view, items, 100);
            }
        free(items);
    }
}

static void test_fill_values_are_converted(void **state)
{
    struct recipe recipe = {.path = "x",
                            .rank = 2,
                            .shape = {6, 5},
                            .chunks = {4, 5},
                            .dtype = DTYPE_INT16,
                            .fill = "-20"};
    struct zarr_view view = {.first_axis = 1, .convert = {DTYPE_INT16, DTYPE_FLOAT32, 0.5, 1.0}};
    struct zarr_array array;
    int16_t items[30];
    for (int i = 0; i < 30; i++)
        items[i] = -20;
    recipe_put_metadata(*state, &recipe, &array); /* and no chunks */
    check_view(*state, &array, &view, (const unsigned char *)items, 2);
}

/* Several stores
 * ---------------------------------------------------------------------------------------------- */

enum { STORES = 3 };
static const uint64_t lengths[STORES] = {9, 2, 14}, words[STORES] = {3, 5, 4};

struct store_content {
    struct fixture fixture;
    unsigned char *frames; /* float32 [length, 3] */
    unsigned char *labels; /* int32 [length] */
    unsigned char *text;   /* float32 [words, 2] */
    uint16_t index[16];
};

static void put_store(const char *folder, int i, struct store_content *content)
{
    uint64_t n = lengths[i];
    struct recipe frames = {.path = "g/frames",
                            .rank = 2,
                            .shape = {n, 3},
                            .chunks = {4, 2},
                            .dtype = DTYPE_FLOAT32,
                            .codec = "{\"id\": \"zstd\"}"};
    struct recipe labels = {
        .path = "g/labels", .rank = 1, .shape = {n}, .chunks = {5}, .dtype = DTYPE_INT32};
    struct recipe text = {.path = "text",
                          .rank = 2,
                          .shape = {words[i], 2},
                          .chunks = {2, 2},
                          .dtype = DTYPE_FLOAT32};
    struct recipe index = {
        .path = "index", .rank = 1, .shape = {n}, .chunks = {n}, .dtype = DTYPE_UINT16};
    struct zarr_array array;
    struct error err;
    snprintf(content->fixture.path, sizeof content->fixture.path, "%s/%c.zarr", folder, 'a' + i);
    assert_ok(store_create(content->fixture.path, false, &content->fixture.store, &err), &err);
    fixture_put(&content->fixture, ".zgroup", "{\"zarr_format\": 2}");
    fixture_put(&content->fixture, "g/.zgroup", "{\"zarr_format\": 2}");
    content->frames = random_items(10 + (uint64_t)i, n * 12);
    content->labels = random_items(20 + (uint64_t)i, n * 4);
    content->text = random_items(30 + (uint64_t)i, words[i] * 8);
    for (uint64_t k = 0; k < n; k++)
        content->index[k] = (uint16_t)random_below(random_u64(9, (uint64_t)i, k), words[i]);
    recipe_put(&content->fixture, &frames, content->frames, &array);
    recipe_put(&content->fixture, &labels, content->labels, &array);
    recipe_put(&content->fixture, &text, content->text, &array);
    recipe_put(&content->fixture, &index, content->index, &array);
}

static void stores_done(struct store_content *contents)
{
    for (int i = 0; i < STORES; i++) {
        store_free(contents[i].fixture.store);
        free(contents[i].frames);
        free(contents[i].labels);
        free(contents[i].text);
    }
}

static const struct dataset_field_spec joined_fields[] = {
    {.name = "frames", .array = "frames", .cast = DTYPE_BFLOAT16},
    {.name = "labels", .array = "labels"},
    {.name = "words", .array = "/text", .index = "/index", .scale = 2.0},
};

static struct text list_of(const char *folder)
{
    struct text list = {0};
    char path[80];
    for (int i = 0; i < STORES; i++) {
        snprintf(path, sizeof path, "%s/%c.zarr", folder, 'a' + i);
        text_list_put(&list, path);
    }
    return list;
}

/* Sample i of the dataset, number k of its store: rows begin anew with each. */
static const unsigned char *sample_at(const struct dataset *dataset, size_t field,
                                      const unsigned char *row, uint64_t i, uint64_t k)
{
    const struct dataset_field *f = &dataset->fields[field];
    return f->source == FIELD_ROW ? row + f->row_offset + k % dataset->row_length * f->sample_bytes
                                  : (const unsigned char *)dataset_held_sample(dataset, field, i);
}

static void expect_sample(const struct dataset *dataset, const unsigned char *row,
                          const struct store_content *content, uint64_t i, uint64_t k)
{
    struct convert to_bfloat16 = {DTYPE_FLOAT32, DTYPE_BFLOAT16, 1.0, 0.0};
    struct convert twice = {DTYPE_FLOAT32, DTYPE_FLOAT32, 2.0, 0.0};
    unsigned char frames[6], text[8];
    convert_items(&to_bfloat16, content->frames + k * 12, 3, frames);
    convert_items(&twice, content->text + content->index[k] * 8, 2, text);
    assert_memory_equal(sample_at(dataset, 0, row, i, k), frames, 6);
    assert_memory_equal(sample_at(dataset, 1, row, i, k), content->labels + k * 4, 4);
    assert_memory_equal(sample_at(dataset, 2, row, i, k), text, 8);
}

static void check_joined(struct dataset *dataset, const struct store_content *contents)
{
    unsigned char *row = aligned_alloc(64, dataset->row_bytes);
    void *held = aligned_alloc(64, dataset->held_bytes);
    struct zarr_read_stats stats = {0};
    struct dataset_stored_row stored;
    struct dataset_reader *reader;
    struct error err;
    uint64_t i = 0, row_number = 0;
    assert_ok(dataset_hold(dataset, held, &err), &err);
    assert_ok(dataset_reader_new(dataset, &reader, &err), &err);
    for (int s = 0; s < STORES; s++) {
        assert_int_equal(dataset->store_frames[s], i);
        assert_int_equal(dataset->store_rows[s], row_number);
        for (uint64_t k = 0; k < lengths[s]; k++, i++) {
            if (k % dataset->row_length == 0) {
                uint64_t left = lengths[s] - k, whole = dataset->row_length;
                assert_int_equal(dataset_row_first(dataset, row_number), i);
                assert_int_equal(dataset_row_frames(dataset, row_number),
                                 left < whole ? left : whole);
                assert_ok(dataset_read_row(reader, row_number++, row, &stats, &err), &err);
            }
            expect_sample(dataset, row, &contents[s], i, k);
        }
    }
    assert_int_equal(row_number, dataset->row_count);
    if (dataset->fields[1].source == FIELD_HELD) /* all that is left: 3 + 1 + 4 chunks, 2 across */
        assert_int_equal(stats.chunk_count, 16);
    assert_int_equal(i, dataset->sample_count);
    assert_ok(dataset_stored_row_bytes(dataset, &stored, &err), &err);
    assert_true(stored.mean_bytes > 0);
    dataset_reader_free(reader);
    free(held);
    free(row);
}

static void test_joined_stores(void **state)
{
    struct fixture *fixture = *state;
    struct store_content contents[STORES];
    struct text list = list_of(fixture->path);
    struct dataset *dataset, *copy;
    struct error err;
    void *bytes;
    size_t size;
    for (int i = 0; i < STORES; i++)
        put_store(fixture->path, i, &contents[i]);
    for (uint64_t hold = 0; hold <= MEBIBYTE; hold += MEBIBYTE / 4) {
        struct dataset_options options = {.uri = list.data,
                                          .group = "g/",
                                          .fields = joined_fields,
                                          .field_count = 3,
                                          .hold_limit_bytes = hold > 0 ? hold : 96};
        assert_ok(dataset_open(&options, &dataset, &err), &err);
        assert_int_equal(dataset->store_count, STORES);
        assert_int_equal(dataset->row_length, 4);
        assert_int_equal(dataset->row_count, 3 + 1 + 4);
        assert_int_equal(dataset->fields[1].source, hold > 0 ? FIELD_HELD : FIELD_ROW);
        assert_true(dataset->fields[0].decode_amplification == 1.0);
        assert_string_equal(dataset_field_array(dataset, 0)->path, "a.zarr/g/frames");
        check_joined(dataset, contents);
        assert_ok(dataset_pack(dataset, &bytes, &size, &err), &err);
        assert_ok(dataset_unpack(bytes, size, NULL, &copy, &err), &err);
        assert_int_equal(copy->fingerprint, dataset->fingerprint);
        check_joined(copy, contents);
        dataset_free(copy);
        dataset_free(dataset);
        free(bytes);
    }
    stores_done(contents);
    text_done(&list);
}

/* Frames lie as the rows do, in each store. Labels, in chunks of 5, are cut by rows at 4 and 8; not
 * at all; and at 4, 8 and 12: of 2 + 1 + 3 chunks one is read once, one thrice, four twice. */
static void test_amplification(void **state)
{
    struct fixture *fixture = *state;
    struct store_content contents[STORES];
    struct text list = list_of(fixture->path);
    struct dataset_options options = {.uri = list.data, .group = "g", .sample_axis = "0"};
    struct dataset *dataset;
    struct error err;
    for (int i = 0; i < STORES; i++)
        put_store(fixture->path, i, &contents[i]);
    assert_ok(dataset_open(&options, &dataset, &err), &err);
    assert_int_equal(dataset->field_count, 2);
    assert_true(dataset->fields[0].decode_amplification == 1.0);
    assert_true(dataset->fields[1].decode_amplification == 11.0 / 6.0);
    dataset_free(dataset);
    stores_done(contents);
    text_done(&list);
}

static void test_names_of_stores(void **state)
{
    struct fixture *fixture = *state;
    struct store_options options = {0};
    char paths[3][96];
    const char *uris[3] = {paths[0], paths[1], paths[2]}, *name, *key = "2-x.zarr/a/0.0";
    struct store *store, *other;
    struct error err;
    snprintf(paths[0], sizeof paths[0], "%s/1/x.zarr/", fixture->path);
    snprintf(paths[1], sizeof paths[1], "%s/2/x.zarr", fixture->path);
    snprintf(paths[2], sizeof paths[2], "%s/y.zarr//", fixture->path);
    fixture_put(fixture, "1/x.zarr/a", "one");
    fixture_put(fixture, "2/x.zarr/a/0.0", "two");
    fixture_put(fixture, "y.zarr/a", "three");
    assert_ok(store_open_joined(uris, 3, &options, &store, &err), &err);
    store_joined_at(store, 0, &name);
    assert_string_equal(name, "1-x.zarr");
    store_joined_at(store, 2, &name);
    assert_string_equal(name, "y.zarr");
    assert_non_null(store_resolve(store, &key, &err));
    assert_string_equal(key, "a/0.0");

    char buffer[16];
    size_t size;
    assert_ok(store_get(store, "2-x.zarr/a/0.0", buffer, sizeof buffer, &size, &err), &err);
    assert_memory_equal(buffer, "two", 3);
    assert_int_equal(store_get(store, "y.zarr/b", buffer, sizeof buffer, &size, &err),
                     STATUS_NOT_FOUND);
    assert_int_equal(store_get(store, "y.zarr2/a", buffer, sizeof buffer, &size, &err),
                     STATUS_INVALID);
    assert_int_equal(store_get(store, "z/a", buffer, sizeof buffer, &size, &err), STATUS_INVALID);
    assert_int_equal(store_get(store, "y.zarr/../a", buffer, sizeof buffer, &size, &err),
                     STATUS_INVALID);
    assert_int_equal(store_put(store, "z/a", "", 0, &err), STATUS_INVALID);
    store_free(store);
    uris[1] = "/nowhere";
    assert_int_equal(store_open_joined(uris, 3, &options, &other, &err), STATUS_NOT_FOUND);
}

/* No two are equal, also where a number before a name makes it another one's. */
static void test_names_that_collide(void **state)
{
    static const struct {
        const char *uris[3], *names[3];
    } cases[] = {
        {{"x/d.zarr", "y/d.zarr", "z/2-d.zarr"}, {"1-d.zarr", "2-d.zarr", "3-2-d.zarr"}},
        {{"x/d.zarr", "y/e.zarr", "x/.."}, {"d.zarr", "e.zarr", "3"}},
        {{"x/..", "z/1", "y/e.zarr"}, {"1", "2-1", "3-e.zarr"}},
    };
    struct fixture *fixture = *state;
    struct store_options options = {0};
    struct error err;
    fixture_put(fixture, "x/d.zarr/a", "");
    fixture_put(fixture, "y/d.zarr/a", "");
    fixture_put(fixture, "y/e.zarr/a", "");
    fixture_put(fixture, "z/2-d.zarr/a", "");
    fixture_put(fixture, "z/1/a", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char paths[3][96];
        const char *uris[3] = {paths[0], paths[1], paths[2]};
        struct store *store;
        for (size_t k = 0; k < 3; k++)
            snprintf(paths[k], sizeof paths[k], "%s/%s", fixture->path, cases[i].uris[k]);
        assert_ok(store_open_joined(uris, 3, &options, &store, &err), &err);
        for (size_t k = 0; k < 3; k++) {
            const char *name;
            store_joined_at(store, k, &name);
            assert_string_equal(name, cases[i].names[k]);
        }
        store_free(store);
    }
}

/* Lists in a string: what is put is what is taken. */
static void test_lists(void **state)
{
    static const char *const items[] = {"a", "b,c", "d\\", "\\,", "e\\f", "", "\\\\g", ","};
    struct text list = {0}, item = {0};
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        text_list_put(&list, items[i]);
    for (const char *at = list.data; text_list_take(&at, &item); count++)
        assert_string_equal(item.data, items[count]);
    assert_int_equal(count, sizeof items / sizeof items[0]);
    const char *plain = "C:\\data,x", *nothing = NULL;
    assert_true(text_list_take(&plain, &item));
    assert_string_equal(item.data, "C:\\data");
    assert_true(text_list_take(&plain, &item));
    assert_string_equal(item.data, "x");
    assert_false(text_list_take(&plain, &item));
    assert_false(text_list_take(&nothing, &item));
    text_done(&list);
    text_done(&item);
}

/* Refusals
 * ---------------------------------------------------------------------------------------------- */

static void refuse(const struct dataset_options *options, const char *message)
{
    struct dataset *dataset = NULL;
    struct error err;
    error_clear(&err);
    enum status status = dataset_open(options, &dataset, &err);
    if (status == STATUS_OK || !strstr(err.message, message))
        fail_msg("got '%s' (%s), expected '%s'", err.message, status_text(status), message);
}

static void test_refused(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        struct dataset_field_spec field; /* without a name: default fields */
        const char *group, *exclude, *axis, *message;
    } cases[] = {
        {.field = {.name = "x", .array = "a", .sample_axis = "2"},
         .message = "field 'x': array 'a' has no axis '2', along which its samples are to lie: it "
                    "has 2"},
        {.field = {.name = "x", .array = "a", .sample_axis = "time"},
         .message = "from 0 on, without names"},
        {.field = {.name = "x", .array = "a"}, .axis = "9", .message = "has no axis '9'"},
        {.field = {.name = "x", .array = "c", .cast = DTYPE_FLOAT16},
         .message = "items of complex64 cannot become float16"},
        {.field = {.name = "x", .array = "a", .cast = DTYPE_INT8},
         .message = "items of float32 cannot become int8"},
        {.field = {.name = "x", .array = "a", .scale = 1e308 * 10},
         .message = "scale and offset must be finite numbers"},
        {.field = {.name = "x", .array = "a"},
         .exclude = "c",
         .message = "dataset.exclude is for the default fields"},
        {.field = {.name = "x", .array = "a"}, .group = "h", .message = "there is no array 'h/a'"},
        {.exclude = "a,d*", .message = "dataset.exclude: 'd*' fits no array"},
        {.exclude = "*", .message = "there are no arrays with samples"},
        {.group = "h", .message = "there are no arrays with samples in group h"},
        {.axis = "3", .message = "there are no arrays with samples"},
    };
    struct recipe a = {
        .path = "a", .rank = 2, .shape = {8, 3}, .chunks = {2, 3}, .dtype = DTYPE_FLOAT32};
    struct recipe c = {
        .path = "c", .rank = 2, .shape = {8, 2}, .chunks = {2, 2}, .dtype = DTYPE_COMPLEX64};
    struct zarr_array array;
    fixture_put(fixture, ".zgroup", "{\"zarr_format\": 2}");
    recipe_put_metadata(fixture, &a, &array);
    recipe_put_metadata(fixture, &c, &array);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dataset_options options = {.uri = fixture->path,
                                          .fields = cases[i].field.name ? &cases[i].field : NULL,
                                          .field_count = 1,
                                          .group = cases[i].group,
                                          .exclude = cases[i].exclude,
                                          .sample_axis = cases[i].axis};
        refuse(&options, cases[i].message);
    }
}

#define in_store(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_store(test_views),
        in_store(test_fill_values_are_converted),
        in_store(test_joined_stores),
        in_store(test_amplification),
        in_store(test_names_of_stores),
        in_store(test_refused),
        in_store(test_names_that_collide),
        in_store(test_refused),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
