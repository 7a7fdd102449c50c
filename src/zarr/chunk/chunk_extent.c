/* See chunk_internal.h: where an inner chunk lies in its value, from shard to shard down to the
 * chunk. */
#include "zarr/chunk/chunk_internal.h"

#include <inttypes.h>
#include <string.h>

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
    bool is_sized = !array->is_vlen || array->value_offsets;
    bool raw = codec_chain_is_raw(&array->codecs) && is_sized;
    size_t whole = array->is_vlen ? chunk->whole : array->chunk_bytes;
    if (!missing && raw && extent->bytes != whole)
        return error_set(err, STATUS_CORRUPT,
                         "chunk holds %" PRIu64 " bytes, the array's chunks have %zu",
                         extent->bytes, whole);
    size_t bound = codec_chain_stored_bound(&array->codecs, whole);
    if (!missing && is_sized && extent->bytes > bound)
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
        status = shard_look_up(reader, &extent, number, &look, stats, err);
        if (status == STATUS_OK)
            status = descend(&look, number, chunk, &extent, &missing, err);
        if (status != STATUS_OK)
            return status;
    }
    return settle(chunk, &extent, missing, err);
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
        if (!shard_look_up_known(reader, &extent, number, &look))
            return shard_index_piece(&extent, ret_index, err);
        enum status status = descend(&look, number, chunk, &extent, &missing, err);
        if (status != STATUS_OK)
            return status;
    }
    *ret_known = true;
    return settle(chunk, &extent, missing, err);
}

enum status zarr_locate_chunk(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                              const uint64_t *chunk_index, const char *key,
                              struct zarr_extent *ret_extent, struct error *err)
{
    struct stored_chunk chunk = {.array = array, .key = key};
    struct zarr_read_stats unused = {0};
    memcpy(chunk.index, chunk_index, (size_t)array->rank * sizeof *chunk_index);
    reader->bad_shard.array = NULL;
    enum status status = chunk_locate(reader, &chunk, &unused, err);
    if (status == STATUS_OK)
        *ret_extent = (struct zarr_extent){chunk.is_missing, chunk.offset, chunk.bytes};
    return status;
}
