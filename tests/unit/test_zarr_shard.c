/* Sharded arrays, with shards made by hand: inner chunks in any order with gaps, or missing; what
 * is read and how often; indices that make no sense; pieces told beforehand; ranges of raw chunks.
 */
#include "zarr/chunk.h"
#include "zarr/shard_cache.h"
#include "zarr_fixture.h"

#include "store/disk_cache.h"

#include <unistd.h>

enum {
    LENGTH = 22,
    WIDTH = 9,
    SHARD_LENGTH = 8, /* 4 inner chunks of 2 along axis 0, 2 of 5 along axis 1 */
    SHARD_WIDTH = 10,
    ENTRIES = 8,
    SHARDS = 3,
    GAP = 7,
    INDEX_BYTES = 16 * ENTRIES + 4,
};

#define BYTES "{\"name\": \"bytes\", \"configuration\": {\"endian\": \"little\"}}"

static void write_document(const char *location, const char *codecs, struct text *out)
{
    text_append(out,
                "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [%d, %d], "
                "\"data_type\": \"uint16\", \"chunk_grid\": {\"name\": \"regular\", "
                "\"configuration\": {\"chunk_shape\": [%d, %d]}}, \"chunk_key_encoding\": "
                "\"default\", \"fill_value\": 77, \"codecs\": [{\"name\": \"sharding_indexed\", "
                "\"configuration\": {\"chunk_shape\": [2, 5], \"codecs\": [" BYTES "%s], "
                "\"index_codecs\": [" BYTES ", \"crc32c\"], \"index_location\": \"%s\"}}]}",
                LENGTH, WIDTH, SHARD_LENGTH, SHARD_WIDTH, codecs, location);
}

/* An array in a store, and what it holds. */
struct sharded {
    const struct fixture *fixture;
    struct zarr_array array;
    uint16_t items[LENGTH][WIDTH];
    unsigned char shard[SHARDS][4096];
    size_t bytes[SHARDS];
};

static void put_shard(struct sharded *sharded, uint64_t number)
{
    char key[ZARR_KEY_BYTES];
    struct error err;

    zarr_chunk_key(&sharded->array, (uint64_t[]){number * 4, 0}, key);
    assert_ok(store_put(sharded->fixture->store, key, sharded->shard[number],
                        sharded->bytes[number], &err),
              &err);
}

static unsigned char *index_of(struct sharded *sharded, uint64_t number)
{
    return sharded->shard[number] + (sharded->array.shard_levels[0].index_at_start
                                         ? 0
                                         : sharded->bytes[number] - INDEX_BYTES);
}

/* Writes the index anew; its checksum is right for what it says. */
static void put_index(struct sharded *sharded, uint64_t number, const struct shard_entry *entries)
{
    size_t size;
    struct error err;

    unsigned char stored[INDEX_BYTES + 1024];
    assert_ok(codec_encode(&sharded->array.shard_levels[0].index_codecs, entries, 16 * ENTRIES,
                           stored, sizeof stored, &size, &err),
              &err);
    assert_int_equal(size, INDEX_BYTES);
    memcpy(index_of(sharded, number), stored, size);
}

/* Inner chunks from the last to the first, with gaps; entry 5 is missing. */
static void make_shard(struct sharded *sharded, uint64_t number, struct shard_entry *ret_entries)
{
    const struct zarr_array *array = &sharded->array;
    unsigned char chunk[64], *out = sharded->shard[number];
    size_t at = array->shard_levels[0].index_at_start ? INDEX_BYTES : 0;
    struct error err;

    memset(out, 0xdd, sizeof sharded->shard[number]);
    for (uint64_t entry = ENTRIES; entry-- > 0;) {
        uint64_t index[] = {number * 4 + entry / 2, entry % 2};
        size_t size;

        ret_entries[entry] = (struct shard_entry){SHARD_MISSING, SHARD_MISSING};
        if (entry == 5 || index[0] >= array->chunk_counts[0])
            continue;
        recipe_cut_chunk(array, index, (unsigned char *)sharded->items, chunk);
        assert_ok(codec_encode(&array->codecs, chunk, array->chunk_bytes, out + at + GAP,
                               sizeof sharded->shard[number] - at - GAP, &size, &err),
                  &err);
        ret_entries[entry] = (struct shard_entry){at + GAP, size};
        at += GAP + size;
    }
    sharded->bytes[number] = at + (array->shard_levels[0].index_at_start ? 0 : INDEX_BYTES);
    put_index(sharded, number, ret_entries);
}

/* Shard 1 is missing as a whole. `entries` are those of shard 0. */
static struct sharded *make(const struct fixture *fixture, const char *location, const char *codecs,
                            struct shard_entry *entries)
{
    struct sharded *sharded = calloc(1, sizeof *sharded);
    struct shard_entry others[ENTRIES];
    struct text document = {0};
    struct error err;

    sharded->fixture = fixture;
    write_document(location, codecs, &document);
    assert_ok(zarr_array_parse(ZARR_V3, "a", document.data, document.length, &sharded->array, &err),
              &err);
    text_done(&document);
    for (int t = 0; t < LENGTH; t++)
        for (int x = 0; x < WIDTH; x++) {
            bool missing = t / SHARD_LENGTH == 1 || (t % SHARD_LENGTH / 2 == 2 && x >= 5);
            sharded->items[t][x] = missing ? 77 : (uint16_t)(1000 + t * 100 + x);
        }
    make_shard(sharded, 0, entries);
    put_shard(sharded, 0);
    make_shard(sharded, 2, others);
    put_shard(sharded, 2);
    return sharded;
}

static struct zarr_chunk_reader *open_reader(const struct sharded *sharded, size_t gap,
                                             size_t coalesce_bytes, struct shard_cache *indices)
{
    const struct zarr_array *arrays[] = {&sharded->array};
    struct zarr_read_options options = {
        .coalesce_gap = gap, .coalesce_bytes = coalesce_bytes, .indices = indices};
    struct zarr_chunk_reader *reader;
    struct error err;

    assert_ok(
        zarr_chunk_reader_new_with(sharded->fixture->store, arrays, 1, &options, &reader, &err),
        &err);
    return reader;
}

/* Reads all there is and compares; returns the stored bytes that it took. */
static uint64_t check_all(struct zarr_chunk_reader *reader, const struct sharded *sharded,
                          uint64_t step)
{
    struct zarr_read_stats stats = {0};
    uint16_t out[LENGTH][WIDTH];
    struct error err;

    for (uint64_t t = 0; t < LENGTH; t += step) {
        uint64_t end = t + step < LENGTH ? t + step : LENGTH;

        memset(out, 0xa5, sizeof out);
        assert_ok(zarr_read_samples(reader, &sharded->array, t, end, out, &stats, &err), &err);
        assert_memory_equal(out, sharded->items[t], (end - t) * sizeof out[0]);
    }
    return stats.stored_bytes;
}

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

/* Takes indices as a fetcher would, and adds up the rest. */
struct fetcher {
    const struct sharded *sharded;
    struct zarr_chunk_reader *reader;
    uint64_t index_count, count, bytes;
};

static enum status fetch_piece(void *argument, const struct zarr_piece *piece, struct error *err)
{
    struct fetcher *fetcher = argument;
    const struct store *store = fetcher->sharded->fixture->store;
    unsigned char bytes[4096];
    uint64_t total = 0;

    assert_true(piece->bytes <= sizeof bytes);
    struct store_range range = {piece->offset, piece->bytes, bytes};
    enum status status = piece->kind == ZARR_PIECE_TAIL
                             ? store_get_tail(store, piece->key, bytes, piece->bytes, &total, err)
                             : store_get_ranges(store, piece->key, &range, 1, NULL, err);
    assert_true(status == STATUS_OK || (piece->is_index && status == STATUS_NOT_FOUND));
    if (piece->is_index) {
        fetcher->index_count++;
        return zarr_take_index(fetcher->reader, piece, status == STATUS_OK ? bytes : NULL, total,
                               err);
    }
    fetcher->count++;
    fetcher->bytes += piece->bytes;
    return STATUS_OK;
}

/* First the indices, then the very ranges that a read asks for, gaps included. */
static void check_pieces(struct sharded *sharded, size_t gap, size_t at_once, uint64_t count)
{
    const struct zarr_array *array = &sharded->array;
    struct zarr_read_stats stats = {0};
    uint16_t out[LENGTH][WIDTH];
    struct shard_cache *indices;
    struct error err;

    assert_ok(shard_cache_new(&array, 1, 1 << 20, &indices, &err), &err);
    struct zarr_read_options options = {
        .coalesce_gap = gap, .coalesce_bytes = at_once, .indices = indices};
    struct zarr_chunk_reader *reader = open_reader(sharded, gap, at_once, indices), *lister;
    options.lists_only = true;
    assert_ok(
        zarr_chunk_reader_new_with(sharded->fixture->store, &array, 1, &options, &lister, &err),
        &err);
    struct fetcher fetcher = {.sharded = sharded, .reader = lister};
    assert_ok(zarr_list_pieces(lister, array, 1, LENGTH - 1, fetch_piece, &fetcher, &err), &err);
    assert_int_equal(fetcher.index_count, SHARDS);
    fetcher.count = fetcher.bytes = 0;
    assert_ok(zarr_list_pieces(lister, array, 1, LENGTH - 1, fetch_piece, &fetcher, &err), &err);
    assert_int_equal(fetcher.index_count, SHARDS);
    assert_int_equal(fetcher.count, count);
    assert_ok(zarr_read_samples(reader, array, 1, LENGTH - 1, out, &stats, &err), &err);
    assert_memory_equal(out, sharded->items[1], (LENGTH - 2) * sizeof out[0]);
    assert_int_equal(stats.stored_bytes, fetcher.bytes);
    zarr_chunk_reader_free(lister);
    zarr_chunk_reader_free(reader);
    shard_cache_free(indices);
}

static void test_pieces_are_what_is_read(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct shard_entry entries[ENTRIES];
        struct sharded *sharded =
            make(*state, i ? "start" : "end", i ? "" : ", \"crc32c\"", entries);

        check_pieces(sharded, 0, 1 << 20, 7 + 5);
        check_pieces(sharded, 64, 1 << 20, 1 + 1);
        check_pieces(sharded, 64, 60, i ? 7 + 4 : 4 + 3);
        free(sharded);
    }
}

/* What a reader has read another one finds in the disk cache: `indices` of the first are known
 * beforehand, or NULL. */
static void check_disk_cache(struct sharded *sharded, const char *name, struct shard_cache *indices)
{
    char path[96];
    struct disk_cache_options options = {.path = path, .dataset = 1};
    struct disk_cache *cache;
    struct error err;

    snprintf(path, sizeof path, "%s/%s", sharded->fixture->path, name);
    assert_ok(disk_cache_open(&options, &cache, &err), &err);
    for (int i = 0; i < 2; i++) {
        struct zarr_chunk_reader *reader = open_reader(sharded, 0, 1 << 20, i ? NULL : indices);
        zarr_chunk_reader_use_cache(reader, cache);
        uint64_t bytes = check_all(reader, sharded, LENGTH);
        assert_int_equal(bytes > 0, i == 0);
        zarr_chunk_reader_free(reader);
    }
    disk_cache_free(cache);
}

static void test_disk_cache(void **state)
{
    struct shard_entry entries[ENTRIES];
    struct sharded *sharded = make(*state, "end", ", \"crc32c\"", entries);
    const struct zarr_array *array = &sharded->array;
    struct shard_cache *indices;
    struct error err;

    check_disk_cache(sharded, "cache", NULL);
    assert_ok(shard_cache_new(&array, 1, 1 << 20, &indices, &err), &err);
    struct zarr_chunk_reader *lister = open_reader(sharded, 0, 1 << 20, indices);
    struct fetcher fetcher = {.sharded = sharded, .reader = lister};
    assert_ok(zarr_list_pieces(lister, array, 0, LENGTH, fetch_piece, &fetcher, &err), &err);
    assert_int_equal(fetcher.index_count, SHARDS);
    check_disk_cache(sharded, "cache-ahead", indices);
    zarr_chunk_reader_free(lister);
    shard_cache_free(indices);
    free(sharded);
}

/* An index is looked up entry by entry: each as the whole index has it, of the shard that is
 * asked for alone. */
static void test_cache_look_ups(void **state)
{
    struct shard_entry entries[ENTRIES], copy[ENTRIES];
    struct sharded *sharded = make(*state, "end", "", entries);
    const struct zarr_array *array = &sharded->array;
    struct shard_cache *cache;
    struct error err;

    assert_ok(shard_cache_new(&array, 1, 1 << 20, &cache, &err), &err);
    for (uint64_t i = 0; i < ENTRIES; i++)
        entries[i] = (struct shard_entry){100 * i, 10 + i};
    entries[3] = (struct shard_entry){SHARD_MISSING, SHARD_MISSING};
    struct shard_index index = {{array, 0, 1}, false, true, 5000, entries};
    shard_cache_put(cache, &index);
    struct shard_look look;
    for (uint64_t i = 0; i < ENTRIES; i++) {
        assert_false(shard_cache_look(cache, (struct shard_name){array, 0, 2}, i, &look));
        assert_true(shard_cache_look(cache, index.name, i, &look));
        assert_memory_equal(&look.entry, &entries[i], sizeof look.entry);
        assert_true(look.is_new && !look.absent && look.shard_bytes == 5000);
        assert_int_equal(shard_look_check(index.name, i, &look, &err), STATUS_OK);
    }
    look.entry.bytes = 5000;
    assert_int_equal(shard_look_check(index.name, 1, &look, &err), STATUS_CORRUPT);
    struct shard_index whole = {.entries = copy};
    assert_true(shard_cache_get(cache, index.name, &whole));
    assert_memory_equal(copy, entries, sizeof entries);
    index.absent = true;
    shard_cache_put(cache, &index);
    assert_true(shard_cache_look(cache, index.name, 0, &look));
    assert_true(look.absent && look.entry.bytes == SHARD_MISSING);
    assert_false(shard_cache_look(NULL, index.name, 0, &look));
    shard_cache_free(cache);
    free(sharded);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_any_order_with_gaps),           TEST(test_what_is_read),
        TEST(test_ranges_of_raw_chunks),          TEST(test_indices_that_make_no_sense),
        TEST(test_pieces_are_what_is_read),       TEST(test_disk_cache),
        TEST(test_a_bad_index_is_asked_for_once), TEST(test_cache_look_ups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
