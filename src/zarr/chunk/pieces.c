/* See chunk.h: pieces, the requests that reads will make, listed beforehand. Batches are cut as
 * reads cut them, so that reads make the same requests. */
#include "zarr/chunk/chunk_internal.h"

#include <assert.h>

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

static enum status tell_ranges(const struct zarr_chunk_reader *reader, struct chunk_batch *batch,
                               const struct listener *listener, struct error *err)
{
    enum status status = STATUS_OK;
    if (batch->wanted_count == 0)
        return STATUS_OK;
    chunk_batch_coalesce(reader, batch);
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

/* What chunk_batch_fetch() would do, told; *ret_ready is what it would return. */
static enum status tell_batch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                              size_t count, struct listener *listener, size_t *ret_ready,
                              struct error *err)
{
    struct chunk_batch batch;
    bool all_known = true;
    size_t ready = 0;
    chunk_batch_init(&batch);
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
        if (!chunk_batch_has_room(reader, &batch, chunk))
            break;
        if (chunk_is_on_disk(reader, chunk))
            batch.cached_bytes += chunk->bytes;
        else
            chunk_batch_add(&batch, chunk);
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
        size_t count = chunk_batch_next(reader, walk, key, begin, end, &more);
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
                          : codec_chain_stored_bound(
                                &array->codecs, array->is_vlen ? chunk->whole : array->chunk_bytes);
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
        struct stored_chunk chunk = chunk_of(reader, array, walk.chunk, key, begin, end);
        status = tell_chunk(reader, &chunk, &listener, err);
    } while (status == STATUS_OK && chunk_walk_next_value(&walk));
    return status;
}
