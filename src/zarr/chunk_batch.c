/* Several chunks at once: inner chunks of a shard by as few requests as will do, and what reads
 * will ask for beforehand. Both cut batches the same way, so that what was fetched ahead is what is
 * asked for later. See chunk_internal.h. */
#include "zarr/chunk_internal.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>

/* Chunks of one value that are fetched together. */
struct batch {
    struct stored_chunk *wanted[BATCH_CHUNKS]; /* those of which the store is asked */
    size_t wanted_count, wanted_bytes;
    size_t cached_bytes; /* of those that the disk cache has, which come first in memory */
    struct store_range ranges[BATCH_CHUNKS];
    size_t range_count;
};

static void batch_init(struct batch *batch)
{
    batch->wanted_count = batch->wanted_bytes = batch->cached_bytes = batch->range_count = 0;
}

size_t chunk_next_batch(struct zarr_chunk_reader *reader, struct chunk_walk *walk, const char *key,
                        uint64_t begin, uint64_t end, bool *ret_more)
{
    size_t count = 0;

    do {
        reader->batch[count++] = chunk_of(walk->array, walk->chunk, key, begin, end);
        *ret_more = chunk_walk_next(walk);
    } while (*ret_more && count < BATCH_CHUNKS);
    return count;
}

static bool has_room(const struct zarr_chunk_reader *reader, const struct batch *batch,
                     const struct stored_chunk *chunk)
{
    return chunk->bytes <= reader->ahead_capacity - batch->cached_bytes - batch->wanted_bytes;
}

static void want(struct batch *batch, struct stored_chunk *chunk)
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

/* Joins what is close into one range, as long as there is memory for what lies between. The ranges'
 * buffers, and the chunks in them, lie one behind another in `ahead`, if there is that. */
static void coalesce(const struct zarr_chunk_reader *reader, struct batch *batch)
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

/* Fetching
 * ---------------------------------------------------------------------------------------------- */

/* Gets what is not in the disk cache. What fails is left to be fetched one by one, where the cause
 * can be told of the very chunk. */
static void fetch_wanted(struct zarr_chunk_reader *reader, struct batch *batch,
                         struct zarr_read_stats *stats)
{
    if (batch->wanted_count == 0)
        return;
    coalesce(reader, batch);
    if (store_get_ranges(reader->store, batch->wanted[0]->key, batch->ranges, batch->range_count,
                         NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < batch->range_count; i++)
        stats->stored_bytes += batch->ranges[i].size;
    for (size_t i = 0; i < batch->wanted_count; i++) {
        struct stored_chunk *chunk = batch->wanted[i];

        chunk->capacity = chunk->size = chunk->bytes;
        chunk->is_new = true;
        chunk->fetched = true;
    }
}

size_t chunk_fetch_batch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                         size_t count, struct zarr_read_stats *stats)
{
    struct batch batch;
    size_t ready = 0;
    uint64_t start_ns = clock_now_ns();

    batch_init(&batch);
    for (; ready < count; ready++) {
        struct stored_chunk *chunk = &chunks[ready];

        if (!chunk->located && chunk_locate(reader, chunk, stats, NULL) != STATUS_OK) {
            ready++; /* its own read will tell why, before others are looked for */
            break;
        }
        if (chunk->is_missing)
            continue;
        if (!has_room(reader, &batch, chunk))
            break;
        chunk->memory = reader->ahead + batch.cached_bytes;
        chunk->capacity = chunk->bytes;
        chunk->fetched = chunk_from_disk(reader, chunk, stats);
        if (chunk->fetched)
            batch.cached_bytes += chunk->bytes;
        else
            want(&batch, chunk);
    }
    fetch_wanted(reader, &batch, stats);
    stats->read_ns += clock_now_ns() - start_ns;
    return ready;
}

/* Beforehand
 * ---------------------------------------------------------------------------------------------- */

/* Who is told the pieces. */
struct listener {
    zarr_visit_piece *visit;
    void *argument;
    struct shard_name last; /* whose index was told last */
};

static bool is_in_last(const struct listener *listener, const struct stored_chunk *chunk)
{
    struct shard_name last = listener->last;

    return last.array == chunk->array &&
           shard_is_same(shard_of(chunk->array, last.level, chunk->index), last);
}

static enum status tell_index(struct listener *listener, const struct zarr_piece *piece,
                              struct error *err)
{
    listener->last = (struct shard_name){piece->array, piece->level, piece->number};
    return listener->visit(listener->argument, piece, err);
}

static enum status tell_ranges(const struct zarr_chunk_reader *reader, struct batch *batch,
                               const struct listener *listener, struct error *err)
{
    enum status status = STATUS_OK;

    if (batch->wanted_count == 0)
        return STATUS_OK;
    coalesce(reader, batch);
    for (size_t i = 0; i < batch->range_count && status == STATUS_OK; i++) {
        struct zarr_piece piece = {.kind = ZARR_PIECE_RANGE,
                                   .array = batch->wanted[0]->array,
                                   .key = batch->wanted[0]->key,
                                   .offset = batch->ranges[i].offset,
                                   .bytes = batch->ranges[i].size};
        status = listener->visit(listener->argument, &piece, err);
    }
    return status;
}

/* What chunk_fetch_batch() would do, told; *ret_ready is what it would return. */
static enum status tell_batch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                              size_t count, struct listener *listener, size_t *ret_ready,
                              struct error *err)
{
    struct batch batch;
    bool all_known = true;
    size_t ready = 0;

    batch_init(&batch);
    for (; ready < count; ready++) {
        struct stored_chunk *chunk = &chunks[ready];
        struct zarr_piece index;
        bool known;

        if (is_in_last(listener, chunk)) {
            all_known = false;
            continue;
        }
        enum status status = chunk_locate_known(reader, chunk, &known, &index, err);
        if (status == STATUS_OK && !known)
            status = tell_index(listener, &index, err);
        if (status != STATUS_OK)
            return status;
        all_known &= known;
        if (!known || chunk->is_missing)
            continue;
        if (!has_room(reader, &batch, chunk))
            break;
        if (chunk_is_on_disk(reader, chunk))
            batch.cached_bytes += chunk->bytes;
        else
            want(&batch, chunk);
    }
    *ret_ready = ready;
    return all_known ? tell_ranges(reader, &batch, listener, err) : STATUS_OK;
}

static enum status tell_shard(struct zarr_chunk_reader *reader, struct chunk_walk *walk,
                              const char *key, uint64_t begin, uint64_t end,
                              struct listener *listener, struct error *err)
{
    enum status status = STATUS_OK;
    bool more = true;

    while (more && status == STATUS_OK) {
        size_t count = chunk_next_batch(reader, walk, key, begin, end, &more);

        for (size_t done = 0, ready = 0; done < count && status == STATUS_OK; done += ready)
            status = tell_batch(reader, reader->batch + done, count - done, listener, &ready, err);
    }
    return status;
}

/* A chunk that is a value. */
static enum status tell_chunk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                              const struct listener *listener, struct error *err)
{
    const struct zarr_array *array = chunk->array;
    struct zarr_piece piece = {.array = array, .key = chunk->key};

    if (reader && chunk_is_on_disk(reader, chunk))
        return STATUS_OK;
    if (chunk->is_range) {
        piece.kind = ZARR_PIECE_RANGE;
        piece.offset = chunk->offset;
        piece.bytes = chunk->bytes;
    } else {
        piece.kind = ZARR_PIECE_VALUE;
        piece.bytes = codec_chain_is_raw(&array->codecs)
                          ? chunk->wanted
                          : codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
        piece.begins = codec_chain_begins(&array->codecs);
    }
    return listener->visit(listener->argument, &piece, err);
}

enum status zarr_list_pieces(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             uint64_t begin, uint64_t end, zarr_visit_piece *visit, void *argument,
                             struct error *err)
{
    struct listener listener = {.visit = visit, .argument = argument};
    enum status status = STATUS_OK;
    struct chunk_walk walk;

    assert(begin < end && end <= array->shape[0]);
    chunk_walk_begin(&walk, array, begin, end);
    do {
        char key[ZARR_KEY_BYTES];

        zarr_chunk_key(array, walk.chunk, key);
        if (array->shard_level_count > 0) {
            status = tell_shard(reader, &walk, key, begin, end, &listener, err);
            continue;
        }
        struct stored_chunk chunk = chunk_of(array, walk.chunk, key, begin, end);
        status = tell_chunk(reader, &chunk, &listener, err);
    } while (status == STATUS_OK && chunk_walk_next_value(&walk));
    return status;
}
