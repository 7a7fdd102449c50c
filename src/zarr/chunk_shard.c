/* Chunks of shards: where they lie, and getting several at once. See chunk_internal.h. */
#include "zarr/chunk_internal.h"

#include "base/clock.h"
#include "store/disk_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The disk cache
 *
 * holds inner chunks, parts of chunks and indices under names that no store has as keys.
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

/* A shard that holds a chunk: which, and where it lies in the value. */
struct place {
    struct shard_name name;
    const char *key;
    uint64_t offset, bytes; /* UINT64_MAX bytes: all of the value, however many it has */
};

static const struct zarr_shard_level *level_of(struct shard_name name)
{
    return &name.array->shard_levels[name.level];
}

static bool is_same(struct shard_name a, struct shard_name b)
{
    return a.array == b.array && a.level == b.level && a.number == b.number;
}

/* What has to be got for the index of the shard there. */
static enum status index_piece(const struct place *place, struct zarr_piece *ret_piece,
                               struct error *err)
{
    const struct zarr_shard_level *level = level_of(place->name);
    bool is_value = place->bytes == UINT64_MAX;

    if (place->bytes < level->index_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "the inner shard's %" PRIu64 " bytes have no room for its index of %zu",
                         place->bytes, level->index_bytes);
    *ret_piece = (struct zarr_piece){
        .kind = is_value && !level->index_at_start ? ZARR_PIECE_TAIL : ZARR_PIECE_RANGE,
        .key = place->key,
        .offset = place->offset,
        .bytes = level->index_bytes,
        .is_index = true,
        .level = place->name.level,
        .number = place->name.number,
        .shard_bytes = place->bytes,
    };
    if (!is_value && !level->index_at_start)
        ret_piece->offset += place->bytes - level->index_bytes;
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

static struct disk_index disk_index_of(const struct place *place)
{
    struct disk_index disk;

    snprintf(disk.key.text, sizeof disk.key.text, "%s#index %d.%" PRIu64, place->key,
             place->name.level, place->name.number);
    disk.entries_bytes = level_of(place->name)->entry_count * sizeof(struct shard_entry);
    disk.bytes = disk.entries_bytes + sizeof(uint64_t);
    return disk;
}

static bool index_from_disk(struct zarr_chunk_reader *reader, const struct place *place,
                            struct shard_index *index, struct zarr_read_stats *stats)
{
    size_t size;

    if (!reader->cache)
        return false;
    struct disk_index disk = disk_index_of(place);
    if (!disk_cache_get(reader->cache, disk.key.text, index->entries, disk.bytes, &size) ||
        size != disk.bytes)
        return false;
    memcpy(&index->shard_bytes, (unsigned char *)index->entries + disk.entries_bytes,
           sizeof index->shard_bytes);
    stats->disk_bytes += size;
    return true;
}

static void index_to_disk(struct zarr_chunk_reader *reader, const struct place *place,
                          const struct shard_index *index)
{
    if (!reader->cache)
        return;
    struct disk_index disk = disk_index_of(place);
    memcpy((unsigned char *)index->entries + disk.entries_bytes, &index->shard_bytes,
           sizeof index->shard_bytes);
    disk_cache_put(reader->cache, disk.key.text, index->entries, disk.bytes);
}

/* Loads the index of the shard there into the reader's place for its level. */
static enum status load_index(struct zarr_chunk_reader *reader, const struct place *place,
                              struct zarr_read_stats *stats, struct error *err)
{
    struct shard_index *index = &reader->indices[place->name.level];
    struct zarr_piece piece;
    enum status status = index_piece(place, &piece, err);

    if (status != STATUS_OK)
        return status;
    *index = (struct shard_index){.name = place->name, .entries = index->entries};
    if (index_from_disk(reader, place, index, stats))
        return STATUS_OK;
    status = read_index(reader, &piece, &index->shard_bytes, stats, err);
    if (status == STATUS_NOT_FOUND) {
        index->absent = true;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = shard_index_parse(index, reader->context, reader->raw_index, err);
    if (status == STATUS_OK) {
        index_to_disk(reader, place, index);
        return STATUS_OK;
    }
    index->name.array = NULL;
    return error_prefix(err, status, "the shard's index: ");
}

/* The index of that shard if it is known; NULL if not. */
static struct shard_index *known_index(struct zarr_chunk_reader *reader, struct shard_name name)
{
    struct shard_index *index = &reader->indices[name.level];

    if (is_same(index->name, name) || shard_cache_get(reader->options.indices, name, index))
        return index;
    return NULL;
}

static enum status find_index(struct zarr_chunk_reader *reader, const struct place *place,
                              struct shard_index **ret_index, struct zarr_read_stats *stats,
                              struct error *err)
{
    *ret_index = known_index(reader, place->name);
    if (*ret_index)
        return STATUS_OK;
    enum status status = load_index(reader, place, stats, err);
    if (status == STATUS_CORRUPT && store_retry(reader->store, 0, err))
        status = load_index(reader, place, stats, err);
    if (status != STATUS_OK)
        return status;
    *ret_index = &reader->indices[place->name.level];
    shard_cache_put(reader->options.indices, *ret_index);
    return STATUS_OK;
}

/* Places
 * ------------------------------------------------------------------------------------------- */

static struct place first_place(const struct stored_chunk *chunk)
{
    return (struct place){
        .name = shard_of(chunk->array, 0, chunk->index), .key = chunk->key, .bytes = UINT64_MAX};
}

/* From a shard to what it has at the chunk's place: the next level's shard, or the chunk.
 * *ret_missing: nothing. */
static enum status descend(const struct shard_index *index, const struct stored_chunk *chunk,
                           struct place *place, bool *ret_missing, struct error *err)
{
    int level = place->name.level;
    struct shard_entry entry = {SHARD_MISSING, SHARD_MISSING};

    if (!index->absent) {
        uint64_t number = shard_entry_number(chunk->array, level, chunk->index);
        enum status status = shard_index_entry(index, number, &entry, err);
        if (status != STATUS_OK)
            return status;
    }
    *ret_missing = entry.bytes == SHARD_MISSING;
    place->offset += entry.offset;
    place->bytes = entry.bytes;
    if (level + 1 < chunk->array->shard_level_count)
        place->name = shard_of(chunk->array, level + 1, chunk->index);
    return STATUS_OK;
}

/* The chunk is at `place`, or missing; the part of it that is wanted. */
static enum status settle(struct stored_chunk *chunk, const struct place *place, bool missing,
                          struct error *err)
{
    const struct zarr_array *array = chunk->array;
    bool raw = codec_chain_is_raw(&array->codecs);

    if (!missing && raw && place->bytes != array->chunk_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "chunk holds %" PRIu64 " bytes, the array's chunks have %zu", place->bytes,
                         array->chunk_bytes);
    size_t bound = codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
    if (!missing && place->bytes > bound)
        return error_set(err, STATUS_CORRUPT,
                         "the shard's index gives it %" PRIu64 " bytes, at most %zu can be right",
                         place->bytes, bound);
    chunk->is_missing = missing;
    chunk->is_range = true;
    chunk->offset = place->offset + (raw ? chunk->begin : 0);
    chunk->bytes = raw ? chunk->wanted : place->bytes;
    chunk->located = true;
    return STATUS_OK;
}

enum status chunk_locate(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                         struct zarr_read_stats *stats, struct error *err)
{
    struct place place = first_place(chunk);
    enum status status = STATUS_OK;
    bool missing = false;

    for (int i = 0; i < chunk->array->shard_level_count && !missing; i++) {
        struct shard_index *index;

        status = find_index(reader, &place, &index, stats, err);
        if (status == STATUS_OK)
            status = descend(index, chunk, &place, &missing, err);
        if (status != STATUS_OK)
            return status;
    }
    return settle(chunk, &place, missing, err);
}

/* Several at once
 * ------------------------------------------------------------------------------------------- */

static int compare_offsets(const void *a, const void *b)
{
    uint64_t left = (*(struct stored_chunk *const *)a)->offset;
    uint64_t right = (*(struct stored_chunk *const *)b)->offset;

    return left < right ? -1 : left > right;
}

/* Puts the chunks, in order of offset, one after another into `memory`, and joins those that are
 * close into one range as long as `spare` bytes of memory are left for what lies between. Returns
 * the number of ranges. */
static size_t coalesce(const struct zarr_read_options *options, struct stored_chunk **chunks,
                       size_t count, unsigned char *memory, size_t spare,
                       struct store_range *ranges)
{
    size_t range_count = 0;

    for (size_t i = 0; i < count; i++) {
        struct store_range *range = range_count > 0 ? &ranges[range_count - 1] : NULL;
        uint64_t end = range ? range->offset + range->size : 0;
        bool behind = range && chunks[i]->offset >= end;
        uint64_t gap = behind ? chunks[i]->offset - end : UINT64_MAX;
        bool joins = behind && gap <= options->coalesce_gap && gap <= spare &&
                     range->size + gap + chunks[i]->bytes <= options->coalesce_bytes;

        if (joins) {
            range->size += gap + chunks[i]->bytes;
            memory += gap;
            spare -= gap;
        } else {
            ranges[range_count++] =
                (struct store_range){chunks[i]->offset, chunks[i]->bytes, memory};
        }
        chunks[i]->memory = memory;
        memory += chunks[i]->bytes;
    }
    return range_count;
}

/* Gets what is not in the disk cache. What fails is left to be fetched one by one, where the cause
 * can be told of the very chunk. */
static void fetch_together(struct zarr_chunk_reader *reader, struct stored_chunk **chunks,
                           size_t count, size_t used, size_t pending, struct zarr_read_stats *stats)
{
    struct store_range ranges[BATCH_CHUNKS];
    uint64_t bytes = 0;

    if (count == 0)
        return;
    qsort(chunks, count, sizeof *chunks, compare_offsets);
    size_t range_count = coalesce(&reader->options, chunks, count, reader->ahead + used,
                                  reader->ahead_capacity - used - pending, ranges);
    if (store_get_ranges(reader->store, chunks[0]->key, ranges, range_count, NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < range_count; i++)
        bytes += ranges[i].size;
    stats->stored_bytes += bytes;
    for (size_t i = 0; i < count; i++) {
        chunks[i]->capacity = chunks[i]->size = chunks[i]->bytes;
        chunks[i]->is_new = true;
        chunks[i]->fetched = true;
    }
}

size_t chunk_fetch_batch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                         size_t count, struct zarr_read_stats *stats)
{
    struct stored_chunk *wanted[BATCH_CHUNKS];
    size_t used = 0, pending = 0, wanted_count = 0, ready = 0;
    uint64_t start_ns = clock_now_ns();

    for (; ready < count; ready++) {
        struct stored_chunk *chunk = &chunks[ready];

        if (!chunk->located && chunk_locate(reader, chunk, stats, NULL) != STATUS_OK)
            continue; /* its own read will tell why */
        if (chunk->is_missing)
            continue;
        if (chunk->bytes > reader->ahead_capacity - used - pending)
            break;
        chunk->memory = reader->ahead + used;
        chunk->capacity = chunk->bytes;
        chunk->fetched = chunk_from_disk(reader, chunk, stats);
        if (chunk->fetched) {
            used += chunk->bytes;
        } else {
            wanted[wanted_count++] = chunk;
            pending += chunk->bytes;
        }
    }
    fetch_together(reader, wanted, wanted_count, used, pending, stats);
    stats->read_ns += clock_now_ns() - start_ns;
    return ready;
}

/* Beforehand
 * ------------------------------------------------------------------------------------------- */

static enum status tell_chunk(const struct stored_chunk *chunk, zarr_visit_piece *visit,
                              void *argument, struct error *err)
{
    struct zarr_piece piece = {.kind = ZARR_PIECE_RANGE,
                               .key = chunk->key,
                               .offset = chunk->offset,
                               .bytes = chunk->bytes};

    struct cache_key cache_key = cache_key_of(chunk);

    piece.cache_key = cache_key.text;
    if (chunk->is_missing)
        piece = (struct zarr_piece){.kind = ZARR_PIECE_MISSING, .key = chunk->key};
    if (!chunk->is_range) {
        piece.kind = ZARR_PIECE_VALUE;
        piece.bytes =
            codec_chain_is_raw(&chunk->array->codecs)
                ? chunk->wanted
                : codec_chain_stored_bound(&chunk->array->codecs, chunk->array->chunk_bytes);
    }
    return visit(argument, &piece, err);
}

enum status chunk_tell_piece(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             zarr_visit_piece *visit, void *argument, struct shard_name *last,
                             bool *complete, struct error *err)
{
    enum status status = STATUS_OK;
    bool missing = false;

    if (chunk->array->shard_level_count == 0)
        return tell_chunk(chunk, visit, argument, err);
    struct place place = first_place(chunk);

    for (int i = 0; i < chunk->array->shard_level_count && !missing; i++) {
        struct shard_index *index = known_index(reader, place.name);

        if (!index) {
            struct zarr_piece piece;

            *complete = false;
            if (is_same(place.name, *last))
                return STATUS_OK;
            *last = place.name;
            status = index_piece(&place, &piece, err);
            return status == STATUS_OK ? visit(argument, &piece, err) : status;
        }
        status = descend(index, chunk, &place, &missing, err);
        if (status != STATUS_OK)
            return status;
    }
    status = settle(chunk, &place, missing, err);
    return status == STATUS_OK ? tell_chunk(chunk, visit, argument, err) : status;
}

enum status zarr_take_index(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                            const struct zarr_piece *piece, const void *bytes, uint64_t value_bytes,
                            struct error *err)
{
    struct shard_index *index = &reader->indices[piece->level];
    enum status status = STATUS_OK;

    index->name = (struct shard_name){array, piece->level, piece->number};
    index->absent = bytes == NULL;
    index->shard_bytes = piece->kind == ZARR_PIECE_TAIL ? value_bytes : piece->shard_bytes;
    if (bytes) {
        memcpy(reader->raw_index, bytes, piece->bytes);
        status = shard_index_parse(index, reader->context, reader->raw_index, err);
    }
    if (status != STATUS_OK) {
        index->name.array = NULL;
        return error_prefix(err, status, "array '%s' shard '%s': its index: ", array->path,
                            piece->key);
    }
    shard_cache_put(reader->options.indices, index);
    return STATUS_OK;
}
