/* Views that select indices: each item where it belongs, chunks outside never asked for, each chunk
 * once, and mistakes refused. */
#include "zarr/chunk/chunk.h"
#include "zarr/metadata/selection.h"
#include "zarr/metadata/view.h"
#include "zarr_fixture.h"

enum { CASES = 120, MOST_INDICES = 64 };

static const char *const codecs[] = {
    NULL,
    "{\"id\": \"zstd\", \"level\": 1}",
    "{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1, \"blocksize\": 0}",
};

static uint64_t pick(uint64_t seed, uint64_t which, uint64_t bound)
{
    return random_below(random_u64(seed, 3, which), bound);
}

static void random_recipe(uint64_t seed, struct recipe *recipe)
{
    static const enum dtype dtypes[] = {DTYPE_UINT8, DTYPE_INT16, DTYPE_FLOAT32, DTYPE_COMPLEX128};
    *recipe = (struct recipe){.path = "a",
                              .rank = 2 + (int)(seed % 3),
                              .dtype = dtypes[pick(seed, 1, 4)],
                              .codec = codecs[pick(seed, 2, 3)],
                              .is_big = pick(seed, 3, 2)};
    for (int i = 0; i < recipe->rank; i++) {
        recipe->shape[i] = 1 + pick(seed, 10 + (uint64_t)i, 13);
        recipe->chunks[i] = 1 + pick(seed, 20 + (uint64_t)i, recipe->shape[i] + 1);
    }
}

/* The indices along one axis that a case wants, in their order; and the same as runs. */
struct wish {
    uint64_t indices[MOST_INDICES], count;
    struct zarr_run runs[MOST_INDICES];
    size_t run_count;
    struct zarr_selection *selection; /* NULL: all */
};

/* Some of the indices, shuffled, neighbours as one run now and then. */
static void make_wish(uint64_t seed, uint64_t length, uint64_t chunk, bool selects,
                      struct wish *wish)
{
    struct error err;
    *wish = (struct wish){.count = length};
    for (uint64_t i = 0; i < length; i++)
        wish->indices[i] = i;
    if (!selects)
        return;
    wish->count = 1 + pick(seed, 50, length);
    for (uint64_t i = 0; pick(seed, 51, 2) && i + 1 < length; i++) {
        uint64_t other = i + pick(seed, 60 + i, length - i), index = wish->indices[i];
        wish->indices[i] = wish->indices[other];
        wish->indices[other] = index;
    }
    for (uint64_t i = 0; i < wish->count; i++) {
        struct zarr_run *last = wish->run_count ? &wish->runs[wish->run_count - 1] : NULL;
        if (last && last->first + last->count == wish->indices[i] && pick(seed, 90 + i, 4))
            last->count++;
        else
            wish->runs[wish->run_count++] = (struct zarr_run){wish->indices[i], 1};
    }
    assert_ok(
        zarr_selection_new(length, chunk, wish->runs, wish->run_count, &wish->selection, &err),
        &err);
    assert_int_equal(wish->selection->count, wish->count);
}

/* The chunks that hold wanted indices, counted one by one. */
static uint64_t count_chunks(const struct zarr_array *array, const struct wish *wishes, int first,
                             uint64_t begin, uint64_t end)
{
    uint64_t total = 1;
    for (int axis = 0; axis < array->rank; axis++) {
        uint64_t count = 0;
        for (uint64_t chunk = 0; chunk < array->chunk_counts[axis]; chunk++) {
            bool wanted = false;
            for (uint64_t i = 0; i < wishes[axis].count; i++)
                wanted |= wishes[axis].indices[i] / array->chunk_shape[axis] == chunk &&
                          (axis != first || (i >= begin && i < end));
            count += wanted;
        }
        total *= count;
    }
    return total;
}

/* What the view has to be, item by item; axis `first` outermost. */
static unsigned char *expected_items(const struct zarr_array *array, const struct wish *wishes,
                                     int first, uint64_t begin, uint64_t end,
                                     const unsigned char *items, size_t *ret_bytes)
{
    uint64_t position[ZARR_MAX_RANK] = {0}, lengths[ZARR_MAX_RANK];
    unsigned char *out, *at;
    *ret_bytes = array->item_bytes;
    for (int i = 0; i < array->rank; i++) {
        int axis = i == 0 ? first : i <= first ? i - 1 : i;
        lengths[i] = i == 0 ? end - begin : wishes[axis].count;
        *ret_bytes *= lengths[i];
    }
    at = out = malloc(*ret_bytes);
    do {
        uint64_t offset = 0;
        for (int axis = 0; axis < array->rank; axis++) {
            uint64_t place = axis == first  ? begin + position[0]
                             : axis < first ? position[axis + 1]
                                            : position[axis];
            offset = offset * array->shape[axis] + wishes[axis].indices[place];
        }
        memcpy(at, items + offset * array->item_bytes, array->item_bytes);
        at += array->item_bytes;
    } while (recipe_next(position, lengths, array->rank));
    return out;
}

static enum status count_piece(void *argument, const struct zarr_piece *piece, struct error *err)
{
    (void)piece, (void)err;
    (*(uint64_t *)argument)++;
    return STATUS_OK;
}

static void check_view(const struct fixture *fixture, const struct zarr_array *array,
                       const struct zarr_array *view, const struct wish *wishes, int first,
                       const unsigned char *items, uint64_t seed)
{
    const struct zarr_array *arrays[] = {view};
    uint64_t length = view->shape[0], begin = pick(seed, 70, length);
    uint64_t end = begin + 1 + pick(seed, 71, length - begin), pieces = 0;
    struct zarr_read_stats stats = {0};
    struct zarr_chunk_reader *reader;
    struct error err;
    size_t bytes;
    unsigned char *expected = expected_items(array, wishes, first, begin, end, items, &bytes);
    unsigned char *out = malloc(bytes + 1);
    out[bytes] = 0xa5;
    assert_int_equal(bytes, zarr_array_sample_bytes(view) * (end - begin));
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 1, &reader, &err), &err);
    assert_ok(zarr_read_samples(reader, view, begin, end, out, &stats, &err), &err);
    assert_memory_equal(out, expected, bytes);
    assert_int_equal(out[bytes], 0xa5);
    assert_int_equal(stats.decoded_bytes, bytes);
    assert_int_equal(stats.chunk_count, count_chunks(array, wishes, first, begin, end));
    assert_ok(zarr_list_pieces(NULL, view, begin, end, count_piece, &pieces, &err), &err);
    assert_int_equal(pieces, stats.chunk_count);
    zarr_chunk_reader_free(reader);
    free(expected);
    free(out);
}

static void random_views(void **state)
{
    struct fixture *fixture = *state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct zarr_array array, view;
        struct wish wishes[ZARR_MAX_RANK];
        struct recipe recipe;
        struct error err;
        random_recipe(seed, &recipe);
        recipe_put_metadata(fixture, &recipe, &array);
        unsigned char *items = random_items(seed, array.total_bytes);
        recipe_put(fixture, &recipe, items, &array);
        struct zarr_view how = {.first_axis = (int)pick(seed, 4, (uint64_t)array.rank)};
        for (int axis = 0; axis < array.rank; axis++) {
            make_wish(seed * 10 + (uint64_t)axis, array.shape[axis], array.chunk_shape[axis],
                      axis != how.first_axis && pick(seed, 80 + (uint64_t)axis, 3), &wishes[axis]);
            how.selections[axis] = wishes[axis].selection;
        }
        assert_ok(zarr_view_make(&array, &how, &view, &err), &err);
        check_view(fixture, &array, &view, wishes, how.first_axis, items, seed);
        for (int axis = 0; axis < array.rank; axis++)
            zarr_selection_free(wishes[axis].selection);
        free(items);
    }
}

/* Of a chunk without codecs, no more is read than from the first wanted index to the last one. */
static void raw_chunks_are_cut(void **state)
{
    struct fixture *fixture = *state;
    struct recipe recipe = {
        .path = "a", .rank = 3, .shape = {4, 10, 8}, .chunks = {1, 10, 8}, .dtype = DTYPE_FLOAT32};
    struct zarr_run runs[] = {{5, 2}, {3, 1}};
    struct zarr_read_stats stats = {0};
    struct zarr_selection *selection;
    struct zarr_chunk_reader *reader;
    struct zarr_array array, view;
    const struct zarr_array *arrays[] = {&view};
    float out[3 * 8];
    struct error err;
    recipe_put_metadata(fixture, &recipe, &array);
    unsigned char *items = random_items(1, array.total_bytes);
    recipe_put(fixture, &recipe, items, &array);
    assert_ok(zarr_selection_new(10, 10, runs, 2, &selection, &err), &err);
    assert_ok(zarr_view_make(&array, &(struct zarr_view){.selections[1] = selection}, &view, &err),
              &err);
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 1, &reader, &err), &err);
    assert_ok(zarr_read_samples(reader, &view, 2, 3, out, &stats, &err), &err);
    assert_memory_equal(out, items + (2 * 10 + 5) * 32, 64);
    assert_memory_equal(out + 16, items + (2 * 10 + 3) * 32, 32);
    assert_int_equal(stats.stored_bytes, 4 * 32);
    zarr_chunk_reader_free(reader);
    zarr_selection_free(selection);
    free(items);
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        struct zarr_run runs[2];
        size_t count;
        const char *message;
    } cases[] = {
        {{{0, 0}}, 0, "0 runs of indices"},
        {{{3, 0}}, 1, "a range without any index"},
        {{{10, 1}}, 1, "index 10 is out of range: the axis has 10, from 0 on"},
        {{{5, 6}}, 1, "index 10 is out of range"},
        {{{UINT64_MAX, 2}}, 1, "out of range"},
        {{{2, 3}, {4, 1}}, 2, "index 4 is there twice"},
        {{{4, 1}, {2, 3}}, 2, "index 4 is there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_selection *selection;
        struct error err = {0};
        assert_int_equal(zarr_selection_new(10, 4, cases[i].runs, cases[i].count, &selection, &err),
                         STATUS_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("case %zu gives '%s', not '%s'", i, err.message, cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_views, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(raw_chunks_are_cut, fixture_setup, fixture_teardown),
        cmocka_unit_test(mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
