/* See chunk_internal.h: batches, inner chunks of one shard that are fetched together by few ranges.
 */
#include "zarr/chunk/chunk_internal.h"

#include "base/clock.h"
#include "base/trace.h"

#include <stdlib.h>

void chunk_batch_init(struct chunk_batch *batch)
{
    batch->wanted_count = batch->wanted_bytes = batch->cached_bytes = batch->range_count = 0;
}

size_t chunk_batch_next(struct zarr_chunk_reader *reader, struct chunk_walk *walk, const char *key,
                        uint64_t begin, uint64_t end, bool *ret_more)
{
    size_t count = 0;
    do {
        reader->batch[count++] = chunk_of(reader, walk->array, walk->chunk, key, begin, end);
        *ret_more = chunk_walk_next(walk);
    } while (*ret_more && count < BATCH_CHUNKS);
    return count;
}

bool chunk_batch_has_room(const struct zarr_chunk_reader *reader, const struct chunk_batch *batch,
                          const struct stored_chunk *chunk)
{
    return chunk->bytes <= reader->ahead_capacity - batch->cached_bytes - batch->wanted_bytes;
}

void chunk_batch_add(struct chunk_batch *batch, struct stored_chunk *chunk)
{
    batch->wanted[batch->wanted_count++] = chunk;
    batch->wanted_bytes += chunk->bytes;
}

static int compare_offsets(const void *a, const void *b)
{
    uint64_t left = (*(struct stored_chunk *const *)a)->offset;
    uint64_t right = (*(struct stored_chunk *const *)b)->offset;
    return left < right ? -1 : left > right;
}

void chunk_batch_coalesce(const struct zarr_chunk_reader *reader, struct chunk_batch *batch)
{
    const struct zarr_read_options *options = &reader->options;
    size_t at = batch->cached_bytes;
    size_t spare = reader->ahead_capacity - batch->cached_bytes - batch->wanted_bytes;
    qsort(batch->wanted, batch->wanted_count, sizeof *batch->wanted, compare_offsets);
    batch->range_count = 0;
    for (size_t i = 0; i < batch->wanted_count; i++) {
        struct stored_chunk *chunk = batch->wanted[i];
        struct store_range *range =
            batch->range_count > 0 ? &batch->ranges[batch->range_count - 1] : NULL;
        uint64_t end = range ? range->offset + range->size : 0;
        bool behind = range && chunk->offset >= end;
        uint64_t gap = behind ? chunk->offset - end : UINT64_MAX;
        bool joins = behind && gap <= options->coalesce_gap && gap <= spare &&
                     range->size + gap + chunk->bytes <= options->coalesce_bytes;
        if (joins) {
            range->size += gap + chunk->bytes;
            at += gap;
            spare -= gap;
        }
        chunk->memory = reader->ahead ? reader->ahead + at : NULL;
        if (!joins)
            batch->ranges[batch->range_count++] =
                (struct store_range){chunk->offset, chunk->bytes, chunk->memory};
        at += chunk->bytes;
    }
}

/* Chunks of ranges that were fetched before stay in the memory of the fetch. Returns how many
 * ranges are left, which are moved to the front. */
static size_t lend_ranges(struct zarr_chunk_reader *reader, struct chunk_batch *batch)
{
    const char *key = batch->wanted[0]->key;
    size_t left = 0, next = 0;
    for (size_t i = 0; i < batch->range_count; i++) {
        const struct store_range range = batch->ranges[i];
        unsigned char *end = (unsigned char *)range.buffer + range.size;
        const void *lent = NULL;
        size_t size;
        if (!store_lend(reader->store, key, &range, range.size, reader->fetched, &lent, &size))
            batch->ranges[left++] = range;
        for (; next < batch->wanted_count; next++) {
            struct stored_chunk *chunk = batch->wanted[next];
            if ((unsigned char *)chunk->memory >= end)
                break;
            if (lent)
                chunk->lent = (const unsigned char *)lent + (chunk->offset - range.offset);
        }
    }
    return left;
}

/* Gets what is not in the disk cache. What fails is left to be fetched one by one, where the cause
 * can be told of the very chunk. */
static void fetch_wanted(struct zarr_chunk_reader *reader, struct chunk_batch *batch,
                         struct zarr_read_stats *stats)
{
    if (batch->wanted_count == 0)
        return;
    uint64_t bytes = 0;

    chunk_batch_coalesce(reader, batch);
    for (size_t i = 0; i < batch->range_count; i++)
        bytes += batch->ranges[i].size;
    size_t left = lend_ranges(reader, batch);
    if (left > 0 && store_get_ranges(reader->store, batch->wanted[0]->key, batch->ranges, left,
                                     reader->fetched, NULL) != STATUS_OK)
        return;
    stats->stored_bytes += bytes;
    for (size_t i = 0; i < batch->wanted_count; i++) {
        struct stored_chunk *chunk = batch->wanted[i];
        chunk->capacity = chunk->size = chunk->bytes;
        chunk->is_new = true;
        chunk->fetched = true;
    }
}

size_t chunk_batch_fetch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                         size_t count, struct zarr_read_stats *stats)
{
    struct chunk_batch batch;
    size_t ready = 0;
    uint64_t start_ns = clock_now_ns();
    chunk_batch_init(&batch);
    for (; ready < count; ready++) {
        struct stored_chunk *chunk = &chunks[ready];
        if (!chunk->located && chunk_locate(reader, chunk, stats, NULL) != STATUS_OK) {
            ready++; /* its own read will tell why, before others are looked for */
            break;
        }
        if (chunk->is_missing)
            continue;
        if (!chunk_batch_has_room(reader, &batch, chunk))
            break;
        chunk->memory = reader->ahead + batch.cached_bytes;
        chunk->capacity = chunk->bytes;
        chunk->fetched = chunk_from_disk(reader, chunk, stats);
        if (chunk->fetched)
            batch.cached_bytes += chunk->bytes;
        else
            chunk_batch_add(&batch, chunk);
    }
    fetch_wanted(reader, &batch, stats);
    uint64_t end_ns = clock_now_ns();
    stats->read_ns += end_ns - start_ns;
    trace_note(TRACE_READ, start_ns, end_ns, batch.cached_bytes);
    return ready;
}
