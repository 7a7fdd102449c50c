/* Reading a range of a chunk: what is asked of the store, from a tape too, and what a damaged value
 * comes to. */
#include "zarr/chunk/chunk.h"
#include "zarr/chunk/chunk_internal.h"
#include "zarr/metadata/view.h"
#include "zarr_fixture.h"

#include <unistd.h>

enum { RANGE_ROWS = 8, RANGE_WIDTH = 65536 };

struct ranges {
    struct fixture *fixture;
    struct zarr_array array;
    struct zarr_chunk_reader *reader;
    unsigned char *items, *out;
};

/* One chunk of 512 KiB, in the key "a/0.0". */
static void open_ranges(struct fixture *fixture, const char *codec, bool zeros,
                        struct ranges *ranges)
{
    const struct recipe recipe = {.path = "a",
                                  .rank = 2,
                                  .shape = {RANGE_ROWS, RANGE_WIDTH},
                                  .chunks = {RANGE_ROWS, RANGE_WIDTH},
                                  .dtype = DTYPE_UINT8,
                                  .codec = codec};
    const struct zarr_array *arrays[] = {&ranges->array};
    struct error err;
    ranges->fixture = fixture;
    ranges->items = random_items(3, (size_t)RANGE_ROWS * RANGE_WIDTH);
    if (zeros)
        memset(ranges->items, 0, (size_t)RANGE_ROWS * RANGE_WIDTH);
    ranges->out = malloc((size_t)RANGE_ROWS * RANGE_WIDTH);
    recipe_put(fixture, &recipe, ranges->items, &ranges->array);
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 1, &ranges->reader, &err), &err);
}

static void close_ranges(struct ranges *ranges)
{
    zarr_chunk_reader_free(ranges->reader);
    free(ranges->items);
    free(ranges->out);
}

/* Reads samples [begin, end), which have to be right; returns the stored bytes that this took. */
static uint64_t read_range(struct ranges *ranges, uint64_t begin, uint64_t end)
{
    struct zarr_read_stats stats = {0};
    struct error err;
    assert_ok(
        zarr_read_samples(ranges->reader, &ranges->array, begin, end, ranges->out, &stats, &err),
        &err);
    assert_memory_equal(ranges->out, ranges->items + begin * RANGE_WIDTH,
                        (end - begin) * RANGE_WIDTH);
    return stats.stored_bytes;
}

/* Samples one by one decode a chunk once, where the reader keeps what it has decoded. */
static void test_a_kept_chunk(void **state)
{
    static const char *const codecs[] = {"{\"id\": \"zstd\", \"level\": 1}",
                                         "{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, "
                                         "\"shuffle\": 1, \"blocksize\": 0}"};
    struct zarr_read_options options = zarr_read_defaults;
    struct error err;
    options.keeps = true;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        struct ranges ranges;
        open_ranges(*state, codecs[i], false, &ranges);
        const struct zarr_array *arrays[] = {&ranges.array};
        uint64_t whole = read_range(&ranges, 0, RANGE_ROWS);
        zarr_chunk_reader_free(ranges.reader);
        assert_ok(zarr_chunk_reader_new_with(ranges.fixture->store, arrays, 1, &options,
                                             &ranges.reader, &err),
                  &err);
        assert_int_equal(read_range(&ranges, 0, 1), whole);
        for (uint64_t row = 1; row < RANGE_ROWS; row++)
            assert_int_equal(read_range(&ranges, row, row + 1), 0);
        assert_int_equal(read_range(&ranges, 0, RANGE_ROWS), 0);
        close_ranges(&ranges);
    }
}

static void expect_corrupt(struct ranges *ranges, const char *message)
{
    struct zarr_read_stats stats = {0};
    struct error err;
    assert_int_equal(
        zarr_read_samples(ranges->reader, &ranges->array, 2, 4, ranges->out, &stats, &err),
        STATUS_CORRUPT);
    assert_non_null(strstr(err.message, "array 'a' chunk 0.0: "));
    if (!strstr(err.message, message))
        fail_msg("'%s' is not in: %s", message, err.message);
}

/* The value with so many bytes, of its own first ones and zeros. */
static void resize_value(struct ranges *ranges, off_t bytes)
{
    char path[96];
    snprintf(path, sizeof path, "%s/a/0.0", ranges->fixture->path);
    assert_int_equal(truncate(path, bytes), 0);
}

static void poke_value(struct ranges *ranges, off_t at, unsigned char byte)
{
    char path[96];
    snprintf(path, sizeof path, "%s/a/0.0", ranges->fixture->path);
    FILE *file = fopen(path, "r+");
    fseek(file, at, SEEK_SET);
    fputc(byte, file);
    fclose(file);
}

static void test_range_of_a_raw_chunk(void **state)
{
    enum { BYTES = RANGE_ROWS * RANGE_WIDTH };
    struct ranges ranges;
    open_ranges(*state, NULL, false, &ranges);
    assert_int_equal(read_range(&ranges, 2, 4), 2 * RANGE_WIDTH);
    assert_int_equal(read_range(&ranges, 0, 8), BYTES);
    resize_value(&ranges, BYTES + 1);
    expect_corrupt(&ranges, "/a/0.0' has 524289 bytes instead of 524288: it was cut short, or");
    resize_value(&ranges, BYTES - 1); /* behind the range */
    expect_corrupt(&ranges, "/a/0.0' has 524287 bytes instead of 524288: it was cut short, or");
    resize_value(&ranges, BYTES);
    assert_int_equal(read_range(&ranges, 2, 4), 2 * RANGE_WIDTH);
    close_ranges(&ranges);
}

/* Blosc copies what it cannot make smaller. */
static void test_range_of_a_plain_blosc_chunk(void **state)
{
    enum { HEAD = 16, VALUE = HEAD + RANGE_ROWS * RANGE_WIDTH };
    struct ranges ranges;
    open_ranges(*state, "{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 0, \"shuffle\": 1}",
                false, &ranges);
    assert_int_equal(read_range(&ranges, 0, 8), VALUE);
    assert_int_equal(read_range(&ranges, 2, 4), HEAD + 2 * RANGE_WIDTH);
    assert_int_equal(read_range(&ranges, 0, 1), HEAD + RANGE_WIDTH);
    assert_int_equal(read_range(&ranges, 4, 8), HEAD + 4 * RANGE_WIDTH);
    resize_value(&ranges, VALUE + 16); /* as some writers leave it: read whole */
    assert_int_equal(read_range(&ranges, 2, 4), HEAD + VALUE + 16);
    resize_value(&ranges, VALUE - 1);
    expect_corrupt(&ranges, "blosc: header says 524304 stored bytes, there are 524303");
    resize_value(&ranges, HEAD + 2 * RANGE_WIDTH); /* as long as what is kept of a range */
    expect_corrupt(&ranges, "blosc: header says 524304 stored bytes, there are 131088");
    resize_value(&ranges, VALUE);
    poke_value(&ranges, 4, 1); /* decoded bytes */
    expect_corrupt(&ranges, "blosc: ");
    resize_value(&ranges, HEAD - 1);
    expect_corrupt(&ranges, "blosc: 15 stored bytes have no room for a header");
    close_ranges(&ranges);
}

/* One that is compressed is read whole, and its array's next ones without a look at the head. */
static void test_range_of_a_compressed_chunk(void **state)
{
    enum { HEAD = 16 };
    struct ranges ranges;
    open_ranges(*state, "{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 5, \"shuffle\": 1}",
                true, &ranges);
    uint64_t bytes = read_range(&ranges, 2, 4);
    assert_in_range(bytes, HEAD + 1, RANGE_WIDTH);
    assert_int_equal(read_range(&ranges, 4, 5), bytes - HEAD);
    close_ranges(&ranges);
}

struct short_tape {
    struct zarr_tape tape;
    unsigned char bytes[3 * RANGE_WIDTH];
    size_t size;
    bool lends;
};

static void record_on(struct zarr_tape *tape, enum status failure, const void *bytes, size_t size)
{
    struct short_tape *to = (struct short_tape *)tape;
    assert_int_equal(failure, STATUS_OK);
    assert_in_range(size, 1, sizeof to->bytes);
    memcpy(to->bytes, bytes, size);
    to->size = size;
}

static enum status play_from(struct zarr_tape *tape, void *buffer, size_t capacity,
                             const void **ret_lent, size_t *ret_size, struct error *err)
{
    struct short_tape *from = (struct short_tape *)tape;
    (void)err;
    assert_in_range(from->size, 1, capacity);
    if (ret_lent && from->lends)
        *ret_lent = from->bytes;
    else
        memcpy(buffer, from->bytes, from->size);
    *ret_size = from->size;
    return STATUS_OK;
}

static void test_ranges_on_a_tape(void **state)
{
    static struct short_tape tape = {.tape.record = record_on};
    struct ranges ranges;
    open_ranges(*state, "{\"id\": \"blosc\", \"cname\": \"lz4\", \"clevel\": 0, \"shuffle\": 1}",
                false, &ranges);
    zarr_chunk_reader_use_tape(ranges.reader, &tape.tape);
    assert_int_equal(read_range(&ranges, 5, 7), 16 + 2 * RANGE_WIDTH);
    tape.tape.play = play_from;
    resize_value(&ranges, 0);
    assert_int_equal(read_range(&ranges, 5, 7), 0);
    tape.lends = true;
    memset(ranges.reader->stored, 0xee, ranges.reader->stored_capacity);
    assert_int_equal(read_range(&ranges, 5, 7), 0);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(ranges.reader->stored[i], 0xee); /* nothing was copied there */
    close_ranges(&ranges);
}

/* A range that blosc cannot decode alone, as it is no multiple of the frame's typesize, goes
 * through scratch memory, which holds another chunk until then: views of that one do not get its
 * bytes. */
static void test_a_range_between_two_views(void **state)
{
    enum { ROWS = 8, WIDTH = 5 };
    static const struct recipe recipes[] = {
        {.path = "x",
         .format = ZARR_V3,
         .rank = 2,
         .shape = {ROWS, WIDTH},
         .chunks = {ROWS, WIDTH},
         .dtype = DTYPE_UINT8,
         .codec = ",{\"name\": \"gzip\", \"configuration\": {\"level\": 1}}"},
        {.path = "y",
         .format = ZARR_V3,
         .rank = 2,
         .shape = {ROWS, WIDTH},
         .chunks = {ROWS, WIDTH},
         .dtype = DTYPE_UINT8,
         .codec = ",{\"name\": \"blosc\", \"configuration\": {\"cname\": \"zstd\", \"clevel\": 5, "
                  "\"shuffle\": \"shuffle\", \"typesize\": 4, \"blocksize\": 0}}"},
    };
    const struct zarr_view view = {.convert = {DTYPE_UINT8, DTYPE_FLOAT32, 1, 0}};
    const struct fixture *fixture = *state;
    struct zarr_array x, y, cast;
    const struct zarr_array *arrays[] = {&cast, &y};
    struct zarr_chunk_reader *reader;
    struct zarr_read_stats stats = {0};
    unsigned char *items = random_items(7, 2 * ROWS * WIDTH), *other = items + ROWS * WIDTH;
    struct error err;
    recipe_put(fixture, &recipes[0], items, &x);
    recipe_put(fixture, &recipes[1], other, &y);
    assert_ok(zarr_view_make(&x, &view, &cast, &err), &err);
    assert_ok(zarr_chunk_reader_new(fixture->store, arrays, 2, &reader, &err), &err);
    for (int i = 0; i < 2; i++) {
        unsigned char range[WIDTH];
        float out[WIDTH];
        assert_ok(zarr_read_samples(reader, &cast, 1, 2, out, &stats, &err), &err);
        for (int k = 0; k < WIDTH; k++)
            assert_true(out[k] == items[WIDTH + k]);
        assert_ok(zarr_read_samples(reader, &y, 1, 2, range, &stats, &err), &err);
        assert_memory_equal(range, other + WIDTH, WIDTH);
    }
    zarr_chunk_reader_free(reader);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_range_of_a_raw_chunk, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_range_of_a_plain_blosc_chunk, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_range_of_a_compressed_chunk, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_kept_chunk, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_ranges_on_a_tape, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_range_between_two_views, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
