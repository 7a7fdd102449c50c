/* Reading chunks and regions, against a reference copy: random shapes, chunk grids, ranks, dtypes,
 * byte orders and codecs with fixed seeds; missing, short and damaged chunks. */
#include "zarr/chunk/chunk.h"
#include "zarr_fixture.h"

#include <unistd.h>

static const char *const v2_codecs[] = {
    NULL,
    "{\"id\": \"zstd\", \"level\": 1}",
    "{\"id\": \"zlib\", \"level\": 1}",
    "{\"id\": \"gzip\", \"level\": 1}",
    "{\"id\": \"lz4\", \"acceleration\": 1}",
    "{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1, \"blocksize\": 0}",
};
static const char *const v3_codecs[] = {
    NULL,
    ",{\"name\": \"zstd\", \"configuration\": {\"level\": 1, \"checksum\": false}}",
    ",{\"name\": \"gzip\", \"configuration\": {\"level\": 1}}",
    ",{\"name\": \"crc32c\"}",
    ",{\"name\": \"zstd\", \"configuration\": {\"level\": 1, \"checksum\": true}},\"crc32c\"",
    ",{\"name\": \"blosc\", \"configuration\": {\"cname\": \"zstd\", \"clevel\": 5, \"shuffle\": "
    "\"shuffle\", \"typesize\": 4, \"blocksize\": 0}}",
};
enum { CODEC_KINDS = 6, CASES = 400 };

static uint64_t pick(uint64_t seed, uint64_t which, uint64_t bound)
{
    return random_below(random_u64(seed, 1, which), bound);
}

static void random_recipe(uint64_t seed, struct recipe *recipe)
{
    memset(recipe, 0, sizeof *recipe);
    recipe->path = seed % 3 ? "group/a" : "";
    recipe->format = seed % 2 ? ZARR_V3 : ZARR_V2;
    recipe->rank = 1 + (int)(seed % ZARR_MAX_RANK);
    uint64_t longest = recipe->rank <= 3 ? 17 : recipe->rank <= 5 ? 7 : 4;
    for (int i = 0; i < recipe->rank; i++) {
        recipe->shape[i] = 1 + pick(seed, 10 + (uint64_t)i, longest);
        recipe->chunks[i] = 1 + pick(seed, 20 + (uint64_t)i, recipe->shape[i] + 2);
        if (i > 0 &&
            pick(seed, 30 + (uint64_t)i, 2)) /* grids that leave inner axes whole are usual */
            recipe->chunks[i] = recipe->shape[i];
    }
    do
        recipe->dtype = (enum dtype)(1 + pick(seed++, 40, DTYPE_COMPLEX128));
    while (recipe->format == ZARR_V2 && recipe->dtype == DTYPE_BFLOAT16);
    recipe->codec =
        (recipe->format == ZARR_V3 ? v3_codecs : v2_codecs)[pick(seed, 41, CODEC_KINDS)];
    recipe->is_big = pick(seed, 42, 2);
    recipe->separator = "./"[pick(seed, 43, 2)];
    if (recipe->dtype == DTYPE_BOOL)
        recipe->fill = "true";
    else if (recipe->dtype >= DTYPE_COMPLEX64)
        recipe->fill = "[1.5, -2]";
    else
        recipe->fill = "7";
}

/* Leaves out one chunk in four and puts the fill value there in the reference. */
static void put_with_gaps(const struct fixture *fixture, const struct recipe *recipe, uint64_t seed,
                          unsigned char *items, struct zarr_array *array)
{
    uint64_t chunk_index[ZARR_MAX_RANK] = {0}, number = 0;
    recipe_put_metadata(fixture, recipe, array);
    do {
        if (pick(seed, 1000 + number++, 4) > 0) {
            recipe_put_chunk(fixture, array, chunk_index, items);
            continue;
        }
        uint64_t position[ZARR_MAX_RANK] = {0};
        do {
            uint64_t item;
            if (recipe_item(array, chunk_index, position, &item))
                memcpy(items + item * array->item_bytes, array->fill, array->item_bytes);
        } while (recipe_next(position, array->chunk_shape, array->rank));
    } while (recipe_next(chunk_index, array->chunk_counts, array->rank));
}

/* Gets the pieces that were told beforehand. */
struct told {
    const struct store *store;
    uint64_t count, bytes;
};

static enum status get_piece(void *argument, const struct zarr_piece *piece, struct error *err)
{
    struct told *told = argument;
    unsigned char *bytes = malloc(piece->bytes);
    struct store_range range = {piece->offset, piece->bytes, bytes};
    size_t size = piece->bytes;
    enum status status = piece->kind == ZARR_PIECE_RANGE
                             ? store_get_ranges(told->store, piece->key, &range, 1, NULL, err)
                             : store_get(told->store, piece->key, bytes, piece->bytes, &size, err);
    assert_false(piece->is_index);
    told->count++;
    told->bytes += status == STATUS_OK ? size : 0;
    free(bytes);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* Reads [begin, end) between guard bytes and compares; what was told beforehand is what is read. */
static void check_region(const struct store *store, struct zarr_chunk_reader *reader,
                         const struct zarr_array *array, uint64_t begin, uint64_t end,
                         const unsigned char *items)
{
    enum { GUARD = 32 };
    struct zarr_read_stats stats = {0};
    size_t sample = zarr_array_sample_bytes(array), size = (end - begin) * sample;
    unsigned char *out = malloc(size + 2 * GUARD);
    struct error err;
    memset(out, 0xa5, size + 2 * GUARD);
    assert_ok(zarr_read_samples(reader, array, begin, end, out + GUARD, &stats, &err), &err);
    assert_memory_equal(out + GUARD, items + begin * sample, size);
    for (int i = 0; i < GUARD; i++) {
        assert_int_equal(out[i], 0xa5);
        assert_int_equal(out[GUARD + size + (size_t)i], 0xa5);
    }
    assert_int_equal(stats.decoded_bytes, size);
    struct told told = {.store = store};
    assert_ok(zarr_list_pieces(NULL, array, begin, end, get_piece, &told, &err), &err);
    assert_int_equal(told.count, stats.chunk_count);
    assert_int_equal(told.bytes, stats.stored_bytes);
    free(out);
}

/* Short ranges, up and down, by a reader that keeps the last chunk. */
static void check_kept(const struct store *store, const struct zarr_array *array, uint64_t seed,
                       const unsigned char *items)
{
    struct zarr_read_options options = zarr_read_defaults;
    size_t sample = zarr_array_sample_bytes(array);
    unsigned char *out = malloc(array->shape[0] * sample);
    struct zarr_read_stats stats = {0};
    struct zarr_chunk_reader *reader;
    struct error err;
    options.keeps = true;
    assert_ok(zarr_chunk_reader_new_with(store, &array, 1, &options, &reader, &err), &err);
    for (uint64_t i = 0; i < 2 * array->shape[0]; i++) {
        uint64_t begin = i % array->shape[0], left = array->shape[0] - begin;
        uint64_t end = begin + 1 + pick(seed, 70 + i, left < 3 ? left : 3);
        assert_ok(zarr_read_samples(reader, array, begin, end, out, &stats, &err), &err);
        assert_memory_equal(out, items + begin * sample, (end - begin) * sample);
    }
    zarr_chunk_reader_free(reader);
    free(out);
}

static void check_case(uint64_t seed)
{
    struct fixture *fixture;
    struct zarr_chunk_reader *reader;
    struct zarr_array array;
    const struct zarr_array *arrays[] = {&array};
    struct recipe recipe;
    struct error err;
    void *state;
    fixture_setup(&state);
    fixture = state;
    random_recipe(seed, &recipe);
    size_t size = dtype_bytes(recipe.dtype);
    for (int i = 0; i < recipe.rank; i++)
        size *= recipe.shape[i];
    unsigned char *items = random_items(seed, size);
    put_with_gaps(fixture, &recipe, seed, items, &array);
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 1, &reader, &err), &err);
    check_region(fixture->store, reader, &array, 0, array.shape[0], items);
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t begin = pick(seed, 50 + i, array.shape[0]);
        check_region(fixture->store, reader, &array, begin,
                     begin + 1 + pick(seed, 60 + i, array.shape[0] - begin), items);
    }
    zarr_chunk_reader_free(reader);
    check_kept(fixture->store, &array, seed, items);
    free(items);
    fixture_teardown(&state);
}

static void test_random_arrays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < CASES; seed++) {
        check_case(seed);
    }
}

/* Large chunks, raw and not, that are one run of the destination, well aligned or not, or cut at
 * the array's edge: the same past the page cache. */
static void test_direct_reads(void **state)
{
    static const char *const codecs[] = {NULL, "{\"id\": \"zstd\", \"level\": 1}"};
    enum { ROWS = 3, MIB = 1 << 20, WIDTH = MIB + 8 };
    struct store_settings settings = store_settings_default();
    struct zarr_read_options reads = zarr_read_defaults;
    const struct store_options options = {.settings = &settings};
    const struct fixture *fixture = *state;
    struct store *store;
    struct error err;
    settings.direct = reads.direct = true;
    assert_ok(store_open_with(fixture->path, &options, &store, &err), &err);
    unsigned char *items = random_items(5, (size_t)ROWS * WIDTH);
    unsigned char *out = aligned_alloc(4096, 4 * MIB);
    for (int k = 0; k < 2; k++) {
        const struct recipe recipe = {.path = k ? "zstd" : "raw",
                                      .rank = 2,
                                      .shape = {ROWS, WIDTH},
                                      .chunks = {k ? 2 : 1, k ? WIDTH : MIB},
                                      .dtype = DTYPE_UINT8,
                                      .codec = codecs[k]};
        struct zarr_array array;
        const struct zarr_array *arrays[] = {&array};
        struct zarr_chunk_reader *reader;
        recipe_put(fixture, &recipe, items, &array);
        assert_ok(zarr_chunk_reader_new_with(store, arrays, 1, &reads, &reader, &err), &err);
        check_region(store, reader, &array, 0, ROWS, items);
        for (int misaligned = 0; misaligned < 2; misaligned++) {
            struct zarr_read_stats stats = {0};
            unsigned char *to = out + 64 * misaligned;
            assert_ok(zarr_read_samples(reader, &array, 1, 3, to, &stats, &err), &err);
            assert_memory_equal(to, items + WIDTH, 2 * (size_t)WIDTH);
        }
        zarr_chunk_reader_free(reader);
    }
    store_free(store);
    free(items);
    free(out);
}

static void test_keys(void **state)
{
    static const struct {
        enum zarr_format format;
        const char *path;
        char separator;
        const char *key;
    } cases[] = {
        {ZARR_V2, "a", '.', "a/17.0"},
        {ZARR_V2, "", '/', "17/0"},
        {ZARR_V3, "g/a", '/', "g/a/c/17/0"},
        {ZARR_V3, "", '.', "c.17.0"},
    };
    uint64_t chunk_index[] = {17, 0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_array array = {.rank = 2,
                                   .key_path_bytes = strlen(cases[i].path),
                                   .key_axes = {0, 1},
                                   .key_prefixed = cases[i].format == ZARR_V3,
                                   .key_separator = cases[i].separator};
        char key[ZARR_KEY_BYTES];
        strcpy(array.path, cases[i].path);
        zarr_chunk_key(&array, chunk_index, key);
        assert_string_equal(key, cases[i].key);
        assert_string_equal(zarr_index_format(&array, chunk_index).text, "17.0");
    }
}

static void test_longest_key_fits(void **state)
{
    struct zarr_array array = {.rank = ZARR_MAX_RANK,
                               .key_path_bytes = ZARR_PATH_BYTES - 1,
                               .key_prefixed = true,
                               .key_separator = '/'};
    uint64_t chunk_index[ZARR_MAX_RANK];
    char key[ZARR_KEY_BYTES];
    (void)state;
    memset(array.path, 'x', ZARR_PATH_BYTES - 1);
    memset(chunk_index, 0xff, sizeof chunk_index);
    zarr_chunk_key(&array, chunk_index, key);
    assert_int_equal(strlen(key), ZARR_PATH_BYTES - 1 + 2 + ZARR_MAX_RANK * 21);
    assert_int_equal(strlen(zarr_index_format(&array, chunk_index).text), ZARR_MAX_RANK * 21 - 1);
}

/* An array [4, 6] of u2 in chunks [2, 6], read after `damage` was done to chunk 1.0. */
static enum status read_damaged(struct fixture *fixture, const char *codec, const void *bytes,
                                size_t size, struct zarr_read_stats *stats, struct error *err)
{
    struct recipe recipe = {.path = "a",
                            .rank = 2,
                            .shape = {4, 6},
                            .chunks = {2, 6},
                            .dtype = DTYPE_UINT16,
                            .codec = codec};
    struct zarr_array array;
    const struct zarr_array *arrays[] = {&array};
    struct zarr_chunk_reader *reader;
    unsigned char *items = random_items(1, 48), out[48];
    recipe_put(fixture, &recipe, items, &array);
    assert_ok(store_put(fixture->store, "a/1.0", bytes, size, err), err);
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 1, &reader, err), err);
    enum status status = zarr_read_samples(reader, &array, 0, 4, out, stats, err);
    zarr_chunk_reader_free(reader);
    free(items);
    return status;
}

static void test_damaged_chunks(void **state)
{
    static const char junk[100] = "junk";
    struct zarr_read_stats stats = {0};
    struct error err;
    assert_int_equal(read_damaged(*state, NULL, junk, 23, &stats, &err), STATUS_CORRUPT);
    assert_string_equal(err.message,
                        "array 'a' chunk 1.0: chunk holds 23 bytes, the array's chunks "
                        "have 24");
    assert_int_equal(read_damaged(*state, NULL, junk, 25, &stats, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "array 'a' chunk 1.0: "));
    assert_int_equal(read_damaged(*state, v2_codecs[1], junk, 20, &stats, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "array 'a' chunk 1.0: zstd"));
}

/* Only a key that does not exist is a missing chunk; one that cannot be opened is a failure. */
static void test_failure_is_not_missing(void **state)
{
    struct fixture *fixture = *state;
    struct recipe recipe = {
        .path = "a", .rank = 1, .shape = {4}, .chunks = {2}, .dtype = DTYPE_UINT8, .fill = "9"};
    struct zarr_array array;
    const struct zarr_array *arrays[] = {&array};
    struct zarr_chunk_reader *reader;
    struct zarr_read_stats stats = {0};
    unsigned char out[4];
    char link[96];
    struct error err;
    recipe_put_metadata(fixture, &recipe, &array);
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 1, &reader, &err), &err);
    assert_ok(zarr_read_samples(reader, &array, 0, 4, out, &stats, &err), &err);
    assert_memory_equal(out, "\x9\x9\x9\x9", 4);
    assert_int_equal(stats.chunk_count, 2);
    assert_int_equal(stats.missing_chunk_count, 2);
    snprintf(link, sizeof link, "%s/a/1", fixture->path);
    assert_int_equal(symlink("1", link), 0);
    assert_int_equal(zarr_read_samples(reader, &array, 0, 4, out, &stats, &err), STATUS_IO);
    assert_non_null(strstr(err.message, "array 'a' chunk 1: "));
    zarr_chunk_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_arrays),
        cmocka_unit_test_setup_teardown(test_direct_reads, fixture_setup, fixture_teardown),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_longest_key_fits),
        cmocka_unit_test_setup_teardown(test_damaged_chunks, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_failure_is_not_missing, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
