/* Sharded arrays: inner chunks in any order with gaps, or missing; what is read and how often;
 * ranges of raw chunks; indices that make no sense. */
#include "zarr_sharded.h"

static void test_any_order_with_gaps(void **state)
{
    static const char *const codecs[] = {
        "", ", \"crc32c\"",
        ", {\"name\": \"zstd\", \"configuration\": {\"level\": 1, \"checksum\": false}}"};
    for (int i = 0; i < 6; i++) {
        struct shard_entry entries[ENTRIES];
        struct sharded *sharded = make(*state, i % 2 ? "start" : "end", codecs[i / 2], entries);
        for (size_t bytes = 0; bytes <= 1000; bytes += 100) {
            struct zarr_chunk_reader *reader = open_reader(sharded, bytes / 20, bytes, NULL);
            for (uint64_t step = 1; step <= LENGTH; step++)
                check_all(reader, sharded, step);
            zarr_chunk_reader_free(reader);
        }
        free(sharded);
    }
}

/* What stays decoded is the chunk that is wanted, whatever was read before. */
static void test_kept_chunks(void **state)
{
    static const char zstd[] =
        ", {\"name\": \"zstd\", \"configuration\": {\"level\": 1, \"checksum\": false}}";
    const struct zarr_read_options options = {.coalesce_bytes = 1000, .keeps = true};
    struct shard_entry entries[ENTRIES];
    struct sharded *sharded = make(*state, "end", zstd, entries);
    struct zarr_chunk_reader *reader = open_reader_with(sharded, options);
    for (uint64_t step = 1; step <= LENGTH; step++)
        check_all(reader, sharded, step);
    zarr_chunk_reader_free(reader);
    free(sharded);
}

/* An index is read once; what lies between chunks only where it is less than the gap. */
static void test_what_is_read(void **state)
{
    struct shard_entry entries[ENTRIES];
    struct sharded *sharded = make(*state, "end", "", entries);
    const struct zarr_array *arrays[] = {&sharded->array};
    struct shard_cache *indices;
    struct error err;
    enum { CHUNK = 2 * 5 * 2, CHUNKS = 7 + 6 }; /* shard 2 has chunks 0 to 4 and 6 of its 8 */
    assert_ok(shard_cache_new(arrays, 1, 1 << 20, &indices, &err), &err);
    assert_true(shard_cache_bytes(arrays, 1, 1 << 20) < 8192);
    struct zarr_chunk_reader *reader = open_reader(sharded, GAP - 1, 1 << 20, indices);
    uint64_t chunks = check_all(reader, sharded, LENGTH) - 2 * INDEX_BYTES;
    assert_in_range(chunks, CHUNK * (CHUNKS - 3), CHUNK * CHUNKS);
    assert_int_equal(check_all(reader, sharded, LENGTH), chunks);
    zarr_chunk_reader_free(reader);

    reader = open_reader(sharded, GAP, 1 << 20, indices); /* others have read the indices */
    uint64_t joined = check_all(reader, sharded, LENGTH);
    assert_true(joined > chunks && joined < chunks + CHUNKS * GAP);
    assert_int_equal((joined - chunks) % GAP, 0);
    zarr_chunk_reader_free(reader);
    shard_cache_free(indices);
    free(sharded);
}

/* One sample of a raw inner chunk costs that sample's bytes. */
static void test_ranges_of_raw_chunks(void **state)
{
    struct shard_entry entries[ENTRIES];
    struct sharded *sharded = make(*state, "end", "", entries);
    struct zarr_chunk_reader *reader = open_reader(sharded, 0, 1 << 20, NULL);
    struct zarr_read_stats stats = {0};
    uint16_t out[WIDTH];
    struct error err;
    assert_ok(zarr_read_samples(reader, &sharded->array, 3, 4, out, &stats, &err), &err);
    assert_memory_equal(out, sharded->items[3], sizeof out);
    assert_int_equal(stats.stored_bytes, INDEX_BYTES + 2 * 5 * 2);
    zarr_chunk_reader_free(reader);

    struct recipe recipe = {.path = "b",
                            .rank = 2,
                            .shape = {LENGTH, WIDTH},
                            .chunks = {20, WIDTH},
                            .is_big = true,
                            .dtype = DTYPE_UINT16};
    struct zarr_array array;
    const struct zarr_array *arrays[] = {&array};
    recipe_put(*state, &recipe, sharded->items, &array);
    assert_ok(zarr_chunk_reader_new(((struct fixture *)*state)->store, arrays, 1, &reader, &err),
              &err);
    for (uint64_t t = 0; t < LENGTH; t++) {
        assert_ok(zarr_read_samples(reader, &array, t, t + 1, out, &stats, &err), &err);
        assert_memory_equal(out, sharded->items[t], sizeof out);
    }
    assert_int_equal(stats.stored_bytes, INDEX_BYTES + 2 * 5 * 2 + LENGTH * WIDTH * 2);
    zarr_chunk_reader_free(reader);
    free(sharded);
}

/* What was said of the chunks of one array stays when a shard's index is decoded after them. */
static void test_widths_stay(void **state)
{
    enum { ITEMS = 600, CHUNK = 256 };
    struct shard_entry entries[ENTRIES];
    struct sharded *sharded = make(*state, "end", ", \"crc32c\"", entries);
    int32_t items[ITEMS], out[ITEMS], whole[CHUNK];
    uint16_t sample[WIDTH];
    enum narrow_width widths[3] = {NARROW_HIGH_4, NARROW_HIGH_4, NARROW_HIGH_4};
    struct recipe recipe = {.path = "n",
                            .format = ZARR_V2,
                            .codec = "{\"id\": \"blosc\", \"cname\": \"lz4\", \"shuffle\": 1}",
                            .rank = 1,
                            .shape = {ITEMS},
                            .chunks = {CHUNK},
                            .dtype = DTYPE_INT32};
    struct zarr_array array;
    const struct zarr_array *arrays[] = {&array, &sharded->array};
    struct zarr_read_stats stats = {0};
    struct zarr_chunk_reader *reader;
    struct error err;
    for (int32_t i = 0; i < ITEMS; i++)
        items[i] = i * 60 + (i == 300) * 1000000; /* of chunk 1 one needs all of its bytes */
    recipe_put(*state, &recipe, items, &array);
    assert_int_equal(zarr_array_may_be_narrow(&array), narrow_takes(4));
    assert_false(zarr_array_may_be_narrow(&sharded->array));
    assert_ok(zarr_chunk_reader_new(((struct fixture *)*state)->store, arrays, 2, &reader, &err),
              &err);
    assert_ok(zarr_read_narrow(reader, &array, 0, 2 * CHUNK, out, widths, &stats, &err), &err);
    assert_int_equal(widths[1], NARROW_NOT);
    assert_int_equal(widths[2], NARROW_HIGH_4); /* not asked for */
    assert_memory_equal(out + CHUNK, items + CHUNK, CHUNK * sizeof items[0]);
    assert_ok(zarr_read_narrow(reader, &array, 0, CHUNK, out, widths, &stats, &err), &err);
    assert_ok(zarr_read_samples(reader, &sharded->array, 3, 4, sample, &stats, &err), &err);
    assert_int_equal(widths[0], narrow_takes(4) ? NARROW_LOW_2 : NARROW_NOT);
    narrow_copy(whole, out, CHUNK, sizeof whole[0], widths[0], NULL, 0);
    assert_memory_equal(whole, items, sizeof whole);
    zarr_chunk_reader_free(reader);
    free(sharded);
}

/* Chunks that are left out, counted. */
struct skipping {
    struct zarr_faults faults;
    int count;
    uint64_t index[2];
    struct error cause;
};

static enum status count_skipped(struct zarr_faults *faults, const struct zarr_array *array,
                                 const uint64_t *chunk_index, uint64_t begin, uint64_t end,
                                 const struct error *cause, struct error *err)
{
    struct skipping *skipping = (struct skipping *)faults;
    (void)array, (void)err;
    assert_true(begin < end);
    skipping->count++;
    memcpy(skipping->index, chunk_index, sizeof skipping->index);
    skipping->cause = *cause;
    return STATUS_OK;
}

/* Damages the index of shard 0 and reads it: which chunk goes missing, and how many do. */
static void check_damage(struct sharded *sharded, const struct shard_entry *entries, uint64_t first,
                         int count, const char *message)
{
    struct zarr_chunk_reader *reader = open_reader(sharded, 64, 1 << 20, NULL);
    struct skipping skipping = {.faults = {.skip = count_skipped}};
    struct zarr_read_stats stats = {0};
    uint16_t out[SHARD_LENGTH][WIDTH];
    struct error err;
    if (entries)
        put_index(sharded, 0, entries);
    put_shard(sharded, 0);
    assert_int_equal(zarr_read_samples(reader, &sharded->array, 0, SHARD_LENGTH, out, &stats, &err),
                     STATUS_CORRUPT);
    char where[64];
    snprintf(where, sizeof where, "array 'a' chunk %d.%d in shard 'a/c/0/0': ", (int)first / 2,
             (int)first % 2);
    if (!strstr(err.message, where) || !strstr(err.message, message))
        fail_msg("got '%s', expected '%s...%s'", err.message, where, message);

    zarr_chunk_reader_use_faults(reader, &skipping.faults);
    memcpy(out, sharded->items, sizeof out);
    assert_ok(zarr_read_samples(reader, &sharded->array, 0, SHARD_LENGTH, out, &stats, &err), &err);
    assert_int_equal(skipping.count, count);
    if (entries && entries[0].offset != SHARD_MISSING) /* the others are as they were */
        assert_memory_equal(out, sharded->items, sizeof out);
    zarr_chunk_reader_free(reader);
}

static void test_indices_that_make_no_sense(void **state)
{
    struct shard_entry good[ENTRIES], bad[ENTRIES];
    struct sharded *sharded = make(*state, "end", ", \"crc32c\"", good);
    static const struct {
        struct shard_entry entry;
        const char *message;
    } cases[] = {
        {{1 << 30, 24}, "entry 3 has 24 bytes at byte 1073741824"},
        {{0, 1 << 30}, "entry 3 has 1073741824 bytes at byte 0"},
        {{UINT64_MAX, 24}, "entry 3 has 24 bytes"},
        {{UINT64_MAX - 10, 24}, "entry 3 has 24 bytes"},
        {{10, UINT64_MAX}, "bytes at byte 10"},
        {{2, 0}, "crc32c: "},
        {{2, 3}, "crc32c: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(bad, good, sizeof bad);
        bad[3] = cases[i].entry;
        check_damage(sharded, bad, 3, 1, cases[i].message);
    }
    memcpy(bad, good, sizeof bad); /* into the index */
    bad[3].offset = sharded->bytes[0] - INDEX_BYTES - bad[3].bytes + 1;
    check_damage(sharded, bad, 3, 1, "the shard's index is wrong: entry 3 has ");
    memcpy(bad, good, sizeof bad);
    bad[3].offset = bad[6].offset;
    check_damage(sharded, bad, 3, 2, "has bytes that another one has, too");
    memcpy(bad, good, sizeof bad); /* more than a chunk can have */
    for (int i = 0; i < ENTRIES; i++)
        bad[i] = (struct shard_entry){SHARD_MISSING, SHARD_MISSING};
    bad[3] = (struct shard_entry){0, sharded->bytes[0] - INDEX_BYTES};
    check_damage(sharded, bad, 3, 1, "at most");

    put_index(sharded, 0, good);
    index_of(sharded, 0)[5] ^= 1; /* the checksum does not fit */
    check_damage(sharded, NULL, 0, ENTRIES, "the shard's index: crc32c: ");
    sharded->bytes[0] = 60; /* cut short */
    check_damage(sharded, NULL, 0, ENTRIES, "the shard's index: ");
    free(sharded);
}

/* An index that does not decode is read once for all the chunks of a range, whether reading ends
 * with it or leaves them out; and again for the next range. */
static void test_a_bad_index_is_asked_for_once(void **state)
{
    struct shard_entry entries[ENTRIES];
    struct sharded *sharded = make(*state, "end", "", entries);
    struct zarr_chunk_reader *reader = open_reader(sharded, 64, 1 << 20, NULL);
    struct skipping skipping = {.faults = {.skip = count_skipped}};
    uint16_t out[SHARD_LENGTH][WIDTH];
    struct error err;
    index_of(sharded, 0)[5] ^= 1;
    put_shard(sharded, 0);
    for (int i = 0; i < 3; i++) {
        struct zarr_read_stats stats = {0};
        enum status status =
            zarr_read_samples(reader, &sharded->array, 0, SHARD_LENGTH, out, &stats, &err);
        assert_int_equal(status, i == 0 ? STATUS_CORRUPT : STATUS_OK);
        assert_int_equal(skipping.count, i * ENTRIES);
        assert_int_equal(stats.stored_bytes, INDEX_BYTES);
        zarr_chunk_reader_use_faults(reader, &skipping.faults);
    }
    index_of(sharded, 0)[5] ^= 1;
    put_shard(sharded, 0);
    check_all(reader, sharded, LENGTH);
    zarr_chunk_reader_free(reader);
    free(sharded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_any_order_with_gaps),
        TEST(test_kept_chunks),
        TEST(test_what_is_read),
        TEST(test_ranges_of_raw_chunks),
        TEST(test_widths_stay),
        TEST(test_indices_that_make_no_sense),
        TEST(test_a_bad_index_is_asked_for_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
