/* Chunks of shards: where they lie, and what the disk cache has of them. See chunk_internal.h. */
#include "zarr/chunk_internal.h"

#include "base/clock.h"
#include "store/disk_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The disk cache
 *
 * holds inner chunks, ranges of chunks and indices under names that no store has as keys.
 * ---------------------------------------------------------------------------------------------- */

struct cache_key {
    char text[ZARR_KEY_BYTES + 256];
};

static struct cache_key cache_key_of(const struct stored_chunk *chunk)
{
    struct cache_key key;
    bool is_inner = chunk->array->shard_level_count > 0;
    int length = snprintf(key.text, sizeof key.text, "%s%s%s", chunk->key, is_inner ? "#" : "",
                          is_inner ? zarr_index_format(chunk->array, chunk->index).text : "");

    if (chunk->is_range && chunk->wanted != chunk->array->chunk_bytes &&
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
    disk_cache_put(reader->cache, key.text, chunk->memory, chunk->size);
    stats->read_ns += clock_now_ns() - start_ns;
}

/* Indices
 * ------------------------------------------------------------------------------------------- */

/* A shard that holds a chunk, and the bytes of the value that are the shard (or the chunk). */
struct shard_extent {
    struct shard_name name;
    const char *key;
    uint64_t offset, bytes; /* UINT64_MAX bytes: all of the value, however many it has */
};

static const struct zarr_shard_level *level_of(struct shard_name name)
{
    return &name.array->shard_levels[name.level];
}

/* What has to be got for the index of the shard there. */
static enum status index_piece(const struct shard_extent *extent, struct zarr_piece *ret_piece,
                               struct error *err)
{
    const struct zarr_shard_level *level = level_of(extent->name);
    bool is_value = extent->bytes == UINT64_MAX;

    if (extent->bytes < level->index_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "the inner shard's %" PRIu64 " bytes have no room for its index of %zu",
                         extent->bytes, level->index_bytes);
    *ret_piece = (struct zarr_piece){
        .kind = is_value && !level->index_at_start ? ZARR_PIECE_TAIL : ZARR_PIECE_RANGE,
        .array = extent->name.array,
        .key = extent->key,
        .offset = extent->offset,
        .bytes = level->index_bytes,
        .is_index = true,
        .level = extent->name.level,
        .number = extent->name.number,
        .shard_bytes = extent->bytes,
    };
    if (!is_value && !level->index_at_start)
        ret_piece->offset += extent->bytes - level->index_bytes;
    return STATUS_OK;
}

/* Reads an index's bytes to raw_index. */
static enum status read_index(struct zarr_chunk_reader *reader, const struct zarr_piece *piece,
                              uint64_t *ret_shard_bytes, struct zarr_read_stats *stats,
                              struct error *err)
{
    struct store_range range = {piece->offset, piece->bytes, reader->raw_index};
    enum status status;

    *ret_shard_bytes = piece->shard_bytes;
    if (piece->kind == ZARR_PIECE_TAIL)
        status = store_get_tail(reader->store, piece->key, reader->raw_index, piece->bytes,
                                ret_shard_bytes, err);
    else
        status = store_get_ranges(reader->store, piece->key, &range, 1, err);
    if (status == STATUS_OK)
        stats->stored_bytes += piece->bytes;
    return status;
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
    disk.entries_bytes = level_of(extent->name)->entry_count * sizeof(struct shard_entry);
    disk.bytes = disk.entries_bytes + sizeof(uint64_t);
    return disk;
}

static bool index_from_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
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

static void index_to_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                          const struct shard_index *index)
{
    if (!reader->cache)
        return;
    struct disk_index disk = disk_index_of(extent);
    memcpy((unsigned char *)index->entries + disk.entries_bytes, &index->shard_bytes,
           sizeof index->shard_bytes);
    disk_cache_put(reader->cache, disk.key.text, index->entries, disk.bytes);
}

/* Loads the index of the shard there into the reader's memory for its level. */
static enum status load_index(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                              struct zarr_read_stats *stats, struct error *err)
{
    struct shard_index *index = &reader->indices[extent->name.level];
    struct zarr_piece piece;
    enum status status = index_piece(extent, &piece, err);

    if (status != STATUS_OK)
        return status;
    *index = (struct shard_index){.name = extent->name, .entries = index->entries};
    if (index_from_disk(reader, extent, index, stats))
        return STATUS_OK;
    status = read_index(reader, &piece, &index->shard_bytes, stats, err);
    if (status == STATUS_NOT_FOUND) {
        index->absent = true;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = shard_index_parse(index, reader->context, reader->raw_index, err);
    if (status == STATUS_OK) {
        index_to_disk(reader, extent, index);
        return STATUS_OK;
    }
    index->name.array = NULL;
    return error_prefix(err, status, "the shard's index: ");
}

/* Looks the entry up, if the shard's index is known: it is the last one that this reader had, or in
 * the cache. */
static bool look_up(const struct zarr_chunk_reader *reader, struct shard_name name, uint64_t number,
                    struct shard_look *ret_look)
{
    const struct shard_index *own = &reader->indices[name.level];

    if (!shard_is_same(own->name, name))
        return shard_cache_look(reader->options.indices, name, number, ret_look);
    *ret_look = shard_index_look(own, number);
    return true;
}

/* Gives an index that came ahead of the read to the disk cache, once for all readers. */
static void keep_index(struct zarr_chunk_reader *reader, const struct shard_extent *extent)
{
    struct shard_index *index = &reader->indices[extent->name.level];

    if (!shard_is_same(index->name, extent->name) &&
        !shard_cache_get(reader->options.indices, extent->name, index))
        return;
    index->is_new = false;
    index_to_disk(reader, extent, index);
    shard_cache_put(reader->options.indices, index);
}

static enum status find_entry(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                              uint64_t number, struct shard_look *ret_look,
                              struct zarr_read_stats *stats, struct error *err)
{
    struct error cause;

    if (look_up(reader, extent->name, number, ret_look)) {
        if (ret_look->is_new && reader->cache)
            keep_index(reader, extent);
        return STATUS_OK;
    }
    if (shard_is_same(reader->bad_shard, extent->name)) {
        if (err)
            *err = reader->bad_cause;
        return (enum status)reader->bad_cause.status;
    }
    error_clear(&cause);
    enum status status = load_index(reader, extent, stats, &cause);
    if (status == STATUS_CORRUPT && store_retry(reader->store, 0, &cause))
        status = load_index(reader, extent, stats, &cause);
    if (status != STATUS_OK) {
        reader->bad_shard = extent->name;
        reader->bad_cause = cause;
        if (err)
            *err = cause;
        return status;
    }
    *ret_look = shard_index_look(&reader->indices[extent->name.level], number);
    shard_cache_put(reader->options.indices, &reader->indices[extent->name.level]);
    return STATUS_OK;
}

/* Extents
 * ------------------------------------------------------------------------------------------- */

static struct shard_extent value_extent(const struct stored_chunk *chunk)
{
    return (struct shard_extent){
        .name = shard_of(chunk->array, 0, chunk->index), .key = chunk->key, .bytes = UINT64_MAX};
}

/* From a shard to what it has for the chunk, its entry `number`: the next level's shard, or
 * the chunk. *ret_missing: nothing. */
static enum status descend(const struct shard_look *look, uint64_t number,
                           const struct stored_chunk *chunk, struct shard_extent *extent,
                           bool *ret_missing, struct error *err)
{
    int level = extent->name.level;
    enum status status = shard_look_check(extent->name, number, look, err);

    if (status != STATUS_OK)
        return status;
    *ret_missing = look->entry.bytes == SHARD_MISSING;
    extent->offset += look->entry.offset;
    extent->bytes = look->entry.bytes;
    if (level + 1 < chunk->array->shard_level_count)
        extent->name = shard_of(chunk->array, level + 1, chunk->index);
    return STATUS_OK;
}

/* The chunk is at `extent`, or missing; the range of it that is wanted. */
static enum status settle(struct stored_chunk *chunk, const struct shard_extent *extent,
                          bool missing, struct error *err)
{
    const struct zarr_array *array = chunk->array;
    bool raw = codec_chain_is_raw(&array->codecs);

    if (!missing && raw && extent->bytes != array->chunk_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "chunk holds %" PRIu64 " bytes, the array's chunks have %zu",
                         extent->bytes, array->chunk_bytes);
    size_t bound = codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
    if (!missing && extent->bytes > bound)
        return error_set(err, STATUS_CORRUPT,
                         "the shard's index gives it %" PRIu64 " bytes, at most %zu can be right",
                         extent->bytes, bound);
    chunk->is_missing = missing;
    chunk->is_range = true;
    chunk->offset = extent->offset + (raw ? chunk->begin : 0);
    chunk->bytes = raw ? chunk->wanted : extent->bytes;
    chunk->located = true;
    return STATUS_OK;
}

enum status chunk_locate(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                         struct zarr_read_stats *stats, struct error *err)
{
    struct shard_extent extent = value_extent(chunk);
    enum status status = STATUS_OK;
    bool missing = false;

    for (int i = 0; i < chunk->array->shard_level_count && !missing; i++) {
        uint64_t number = shard_entry_number(chunk->array, i, chunk->index);
        struct shard_look look;

        status = find_entry(reader, &extent, number, &look, stats, err);
        if (status == STATUS_OK)
            status = descend(&look, number, chunk, &extent, &missing, err);
        if (status != STATUS_OK)
            return status;
    }
    return settle(chunk, &extent, missing, err);
}

/* Whether the disk cache has the index. */
static bool load_from_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                           uint64_t number, struct shard_look *ret_look)
{
    struct shard_index *index = &reader->indices[extent->name.level];
    struct zarr_read_stats unused = {0};

    if (!reader->cache)
        return false;
    *index = (struct shard_index){.name = extent->name, .entries = index->entries};
    if (!index_from_disk(reader, extent, index, &unused)) {
        index->name.array = NULL;
        return false;
    }
    shard_cache_put(reader->options.indices, index);
    *ret_look = shard_index_look(index, number);
    return true;
}

enum status chunk_locate_known(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                               bool *ret_known, struct zarr_piece *ret_index, struct error *err)
{
    struct shard_extent extent = value_extent(chunk);
    bool missing = false;

    *ret_known = false;
    for (int i = 0; i < chunk->array->shard_level_count && !missing; i++) {
        uint64_t number = shard_entry_number(chunk->array, i, chunk->index);
        struct shard_look look;

        if (!look_up(reader, extent.name, number, &look) &&
            !load_from_disk(reader, &extent, number, &look))
            return index_piece(&extent, ret_index, err);
        enum status status = descend(&look, number, chunk, &extent, &missing, err);
        if (status != STATUS_OK)
            return status;
    }
    *ret_known = true;
    return settle(chunk, &extent, missing, err);
}

enum status zarr_take_index(struct zarr_chunk_reader *reader, const struct zarr_piece *piece,
                            const void *bytes, uint64_t value_bytes, struct error *err)
{
    struct shard_extent extent = {.name = {piece->array, piece->level, piece->number},
                                  .key = piece->key};
    struct shard_index *index = &reader->indices[piece->level];
    enum status status = STATUS_OK;

    *index = (struct shard_index){
        .name = extent.name,
        .absent = bytes == NULL,
        .is_new = bytes != NULL,
        .shard_bytes = piece->kind == ZARR_PIECE_TAIL ? value_bytes : piece->shard_bytes,
        .entries = index->entries,
    };
    if (bytes) {
        memcpy(reader->raw_index, bytes, piece->bytes);
        status = shard_index_parse(index, reader->context, reader->raw_index, err);
    }
    if (status != STATUS_OK) {
        index->name.array = NULL;
        return error_prefix(err, status, "array '%s' shard '%s': its index: ", piece->array->path,
                            piece->key);
    }
    shard_cache_put(reader->options.indices, index);
    return STATUS_OK;
}
