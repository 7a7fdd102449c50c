/* For tests: a sharded array whose shards are made by hand. */
#ifndef PENSTOCK_TESTS_UNIT_ZARR_SHARDED_H
#define PENSTOCK_TESTS_UNIT_ZARR_SHARDED_H

#include "zarr/chunk/chunk.h"
#include "zarr/chunk/shard_cache.h"
#include "zarr_fixture.h"

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

static inline void write_document(const char *location, const char *codecs, struct text *out)
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

static inline void put_shard(struct sharded *sharded, uint64_t number)
{
    char key[ZARR_KEY_BYTES];
    struct error err;
    zarr_chunk_key(&sharded->array, (uint64_t[]){number * 4, 0}, key);
    assert_ok(store_put(sharded->fixture->store, key, sharded->shard[number],
                        sharded->bytes[number], &err),
              &err);
}

static inline unsigned char *index_of(struct sharded *sharded, uint64_t number)
{
    return sharded->shard[number] + (sharded->array.shard_levels[0].index_at_start
                                         ? 0
                                         : sharded->bytes[number] - INDEX_BYTES);
}

/* Writes the index anew; its checksum is right for what it says. */
static inline void put_index(struct sharded *sharded, uint64_t number,
                             const struct shard_entry *entries)
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
static inline void make_shard(struct sharded *sharded, uint64_t number,
                              struct shard_entry *ret_entries)
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
static inline struct sharded *make(const struct fixture *fixture, const char *location,
                                   const char *codecs, struct shard_entry *entries)
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

static inline struct zarr_chunk_reader *open_reader_with(const struct sharded *sharded,
                                                         struct zarr_read_options options)
{
    const struct zarr_array *arrays[] = {&sharded->array};
    struct zarr_chunk_reader *reader;
    struct error err;
    assert_ok(
        zarr_chunk_reader_new_with(sharded->fixture->store, arrays, 1, &options, &reader, &err),
        &err);
    return reader;
}

static inline struct zarr_chunk_reader *open_reader(const struct sharded *sharded, size_t gap,
                                                    size_t coalesce_bytes,
                                                    struct shard_cache *indices)
{
    return open_reader_with(sharded, (struct zarr_read_options){.coalesce_gap = gap,
                                                                .coalesce_bytes = coalesce_bytes,
                                                                .indices = indices});
}

/* Reads all there is and compares; returns the stored bytes that it took. */
static inline uint64_t check_all(struct zarr_chunk_reader *reader, const struct sharded *sharded,
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

#endif
