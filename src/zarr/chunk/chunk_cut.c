/* See chunk_internal.h: cuts, ranges of chunks whose bytes lie plain in their value behind a head
 * that says so. A cut is kept, on tapes too, behind a mark that no chunk begins with by accident.
 */
#include "zarr/chunk/chunk_internal.h"

#include <string.h>

enum { CUT_SAVES_BYTES = 64 << 10 }; /* at least, for one more read */

struct cut {
    char mark[8];
    uint64_t begin; /* in the decoded chunk */
};

static struct cut cut_of(const struct stored_chunk *chunk)
{
    return (struct cut){.mark = "\xffpstkcut", .begin = chunk->begin};
}

static bool is_cut(const struct stored_chunk *chunk)
{
    struct cut cut = cut_of(chunk);
    return chunk->size == sizeof cut + chunk->wanted &&
           memcmp(chunk_stored(chunk), &cut, sizeof cut) == 0;
}

static uint64_t array_bit(const struct zarr_array *array)
{
    return UINT64_C(1) << ((uintptr_t)array / sizeof *array % 64);
}

bool chunk_may_be_cut(const struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    const struct zarr_array *array = chunk->array;
    return reader->cuts && !reader->cache && array->shard_level_count == 0 &&
           codec_chain_has_partial(&array->codecs) &&
           !(reader->compressed_arrays & array_bit(array)) &&
           chunk->wanted + CUT_SAVES_BYTES <= chunk->whole;
}

bool chunk_note_head(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                     const void *head, size_t *ret_offset)
{
    const struct zarr_array *array = chunk->array;
    bool plain = codec_chain_stores_plain(&array->codecs, head, chunk->whole, ret_offset);
    if (plain)
        reader->compressed_arrays &= ~array_bit(array);
    else
        reader->compressed_arrays |= array_bit(array);
    return plain;
}

enum status chunk_read_cut(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                           bool *ret_done, struct zarr_read_stats *stats, struct error *err)
{
    struct cut cut = cut_of(chunk);
    struct store_range head = {0, CODEC_HEAD_BYTES, chunk->memory};
    struct store_range range = {0, chunk->wanted, (unsigned char *)chunk->memory + sizeof cut};
    size_t offset;
    enum status status =
        store_get_ranges(reader->store, chunk->key, &head, 1, reader->fetched, err);
    *ret_done = false;
    if (status == STATUS_CORRUPT)
        return STATUS_OK; /* too short for a head: the codec will say so */
    if (status != STATUS_OK)
        return status;
    stats->stored_bytes += CODEC_HEAD_BYTES;
    if (!chunk_note_head(reader, chunk, chunk->memory, &offset))
        return STATUS_OK;
    range.offset = offset + chunk->begin;
    status = store_get_range(reader->store, chunk->key, &range, offset + chunk->whole,
                             reader->fetched, err);
    if (status == STATUS_CORRUPT)
        return STATUS_OK; /* of another length than that: the codec will say what is wrong, if
                             anything is */
    if (status != STATUS_OK)
        return status;
    memcpy(chunk->memory, &cut, sizeof cut);
    chunk->size = sizeof cut + chunk->wanted;
    stats->stored_bytes += chunk->wanted;
    *ret_done = true;
    return STATUS_OK;
}

bool chunk_copy_cut(const struct stored_chunk *chunk, void *decoded)
{
    if (!is_cut(chunk))
        return false;
    memcpy(decoded, (const unsigned char *)chunk_stored(chunk) + sizeof(struct cut), chunk->wanted);
    return true;
}
