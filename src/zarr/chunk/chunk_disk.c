/* See chunk_internal.h: what the disk cache holds of arrays. Inner chunks, ranges of chunks and
 * indices of shards have names there that no store has as keys. */
#include "zarr/chunk/chunk_internal.h"

#include "base/clock.h"
#include "store/cache/disk_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct cache_key {
    char text[ZARR_KEY_BYTES + 256];
};

static struct cache_key cache_key_of(const struct stored_chunk *chunk)
{
    struct cache_key key;
    bool is_inner = chunk->array->shard_level_count > 0;
    int length = snprintf(key.text, sizeof key.text, "%s%s%s", chunk->key, is_inner ? "#" : "",
                          is_inner ? zarr_index_format(chunk->array, chunk->index).text : "");
    if (chunk->is_range && chunk->wanted != chunk->whole &&
        codec_chain_is_raw(&chunk->array->codecs))
        snprintf(key.text + length, sizeof key.text - (size_t)length, "@%zu+%zu", chunk->begin,
                 chunk->wanted);
    return key;
}

bool chunk_is_on_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    return reader->cache && disk_cache_has(reader->cache, cache_key_of(chunk).text);
}

bool chunk_from_disk(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                     struct zarr_read_stats *stats)
{
    if (!reader->cache)
        return false;
    struct cache_key key = cache_key_of(chunk);
    if (!disk_cache_get(reader->cache, key.text, chunk->memory, chunk->capacity, &chunk->size))
        return false;
    stats->disk_bytes += chunk->size;
    stats->disk_chunk_count++;
    return true;
}

void chunk_to_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                   struct zarr_read_stats *stats)
{
    if (!reader->cache || !chunk->is_new)
        return;
    uint64_t start_ns = clock_now_ns();
    struct cache_key key = cache_key_of(chunk);
    disk_cache_put(reader->cache, key.text, chunk_stored(chunk), chunk->size);
    stats->read_ns += clock_now_ns() - start_ns;
}

/* Indices lie in the disk cache as parsed, with the size of their shard behind them. */
struct disk_index {
    struct cache_key key;
    size_t entries_bytes, bytes;
};

static struct disk_index disk_index_of(const struct shard_extent *extent)
{
    struct disk_index disk;
    snprintf(disk.key.text, sizeof disk.key.text, "%s#index %d.%" PRIu64, extent->key,
             extent->name.level, extent->name.number);
    disk.entries_bytes = extent->name.array->shard_levels[extent->name.level].entry_count *
                         sizeof(struct shard_entry);
    disk.bytes = disk.entries_bytes + sizeof(uint64_t);
    return disk;
}

bool shard_index_from_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                           struct shard_index *index, struct zarr_read_stats *stats)
{
    size_t size;
    if (!reader->cache)
        return false;
    struct disk_index disk = disk_index_of(extent);
    if (!disk_cache_get(reader->cache, disk.key.text, index->entries, disk.bytes, &size) ||
        size != disk.bytes)
        return false;
    memcpy(&index->shard_bytes, (unsigned char *)index->entries + disk.entries_bytes,
           sizeof index->shard_bytes);
    stats->disk_bytes += size;
    return true;
}

void shard_index_to_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                         const struct shard_index *index)
{
    if (!reader->cache)
        return;
    struct disk_index disk = disk_index_of(extent);
    memcpy((unsigned char *)index->entries + disk.entries_bytes, &index->shard_bytes,
           sizeof index->shard_bytes);
    disk_cache_put(reader->cache, disk.key.text, index->entries, disk.bytes);
}
