/* Pieces of sharded arrays told beforehand; and indices that are cached, in memory and on disk. */
#include "zarr_sharded.h"

#include "store/cache/disk_cache.h"

#include <unistd.h>

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
    enum status status = piece->kind == ZARR_PIECE_SUFFIX
                             ? store_get_suffix(store, piece->key, bytes, piece->bytes, &total, err)
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
    const struct CMUnitTest tests[] = {
        TEST(test_pieces_are_what_is_read),
        TEST(test_disk_cache),
        TEST(test_cache_look_ups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
