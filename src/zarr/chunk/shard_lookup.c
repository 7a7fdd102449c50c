/* See chunk_internal.h: looking inner chunks up in the index of their shard. The index comes from
 * the reader, the cache of indices, the disk cache or the store. */
#include "zarr/chunk/chunk_internal.h"

#include <inttypes.h>
#include <string.h>

static const struct zarr_shard_level *level_of(struct shard_name name)
{
    return &name.array->shard_levels[name.level];
}

enum status shard_index_piece(const struct shard_extent *extent, struct zarr_piece *ret_piece,
                              struct error *err)
{
    const struct zarr_shard_level *level = level_of(extent->name);
    bool is_value = extent->bytes == UINT64_MAX;
    if (extent->bytes < level->index_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "the inner shard's %" PRIu64 " bytes have no room for its index of %zu",
                         extent->bytes, level->index_bytes);
    *ret_piece = (struct zarr_piece){
        .kind = is_value && !level->index_at_start ? ZARR_PIECE_SUFFIX : ZARR_PIECE_RANGE,
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
    if (piece->kind == ZARR_PIECE_SUFFIX)
        status = store_get_suffix(reader->store, piece->key, reader->raw_index, piece->bytes,
                                  ret_shard_bytes, err);
    else
        status = store_get_ranges(reader->store, piece->key, &range, 1, reader->fetched, err);
    if (status == STATUS_OK)
        stats->stored_bytes += piece->bytes;
    return status;
}

/* Loads the index of the shard there into the reader's memory for its level. */
static enum status load_index(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                              struct zarr_read_stats *stats, struct error *err)
{
    struct shard_index *index = &reader->indices[extent->name.level];
    struct zarr_piece piece;
    enum status status = shard_index_piece(extent, &piece, err);
    if (status != STATUS_OK)
        return status;
    *index = (struct shard_index){.name = extent->name, .entries = index->entries};
    if (shard_index_from_disk(reader, extent, index, stats))
        return STATUS_OK;
    status = read_index(reader, &piece, &index->shard_bytes, stats, err);
    if (status == STATUS_NOT_FOUND) {
        index->absent = true;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = shard_index_parse(index, reader->context, reader->raw_index, err);
    if (status == STATUS_OK) {
        shard_index_to_disk(reader, extent, index);
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
    shard_index_to_disk(reader, extent, index);
    shard_cache_put(reader->options.indices, index);
}

enum status shard_look_up(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
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

/* Whether the disk cache has the index. */
static bool load_from_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                           uint64_t number, struct shard_look *ret_look)
{
    struct shard_index *index = &reader->indices[extent->name.level];
    struct zarr_read_stats unused = {0};
    if (!reader->cache)
        return false;
    *index = (struct shard_index){.name = extent->name, .entries = index->entries};
    if (!shard_index_from_disk(reader, extent, index, &unused)) {
        index->name.array = NULL;
        return false;
    }
    shard_cache_put(reader->options.indices, index);
    *ret_look = shard_index_look(index, number);
    return true;
}

bool shard_look_up_known(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                         uint64_t number, struct shard_look *ret_look)
{
    return look_up(reader, extent->name, number, ret_look) ||
           load_from_disk(reader, extent, number, ret_look);
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
        .shard_bytes = piece->kind == ZARR_PIECE_SUFFIX ? value_bytes : piece->shard_bytes,
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
