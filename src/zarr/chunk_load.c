/* Getting one chunk: from the tape, the disk cache or the store, through the codecs, with one more
 * try where bytes do not decode. See chunk.h; chunk.c asks, and puts them where they belong. */
#include "zarr/chunk_internal.h"

#include "base/clock.h"

#include <string.h>

/* Cuts
 *
 * are ranges of chunks whose bytes lie in their value as they are, behind a head that says so. They
 * are kept, on tapes too, behind a mark that no chunk begins with by accident.
 * ---------------------------------------------------------------------------------------------- */

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
           memcmp(chunk->memory, &cut, sizeof cut) == 0;
}

static uint64_t array_bit(const struct zarr_array *array)
{
    return UINT64_C(1) << ((uintptr_t)array / sizeof *array % 64);
}

/* Whether to look for a range to cut out: not where the disk cache would have the whole chunk the
 * next time, nor where that saves less than a read is worth. */
static bool may_be_cut(const struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    const struct zarr_array *array = chunk->array;

    return reader->cuts && !reader->cache && array->shard_level_count == 0 &&
           codec_chain_has_partial(&array->codecs) &&
           !(reader->compressed_arrays & array_bit(array)) &&
           chunk->wanted + CUT_SAVES_BYTES <= array->chunk_bytes;
}

/* Notes what a chunk that begins with `head` tells of its array's next ones. */
static bool note_head(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                      const void *head, size_t *ret_offset)
{
    const struct zarr_array *array = chunk->array;
    bool plain = codec_chain_stores_plain(&array->codecs, head, array->chunk_bytes, ret_offset);

    if (plain)
        reader->compressed_arrays &= ~array_bit(array);
    else
        reader->compressed_arrays |= array_bit(array);
    return plain;
}

/* Reads the head, then the range; *ret_done is false where the chunk has to be read whole. */
static enum status ask_cut(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                           bool *ret_done, struct zarr_read_stats *stats, struct error *err)
{
    struct cut cut = cut_of(chunk);
    struct store_range head = {0, CODEC_HEAD_BYTES, chunk->memory};
    struct store_range range = {0, chunk->wanted, (unsigned char *)chunk->memory + sizeof cut};
    size_t offset;
    enum status status = store_get_ranges(reader->store, chunk->key, &head, 1, err);

    *ret_done = false;
    if (status == STATUS_CORRUPT)
        return STATUS_OK; /* too short for a head: the codec will say so */
    if (status != STATUS_OK)
        return status;
    stats->stored_bytes += CODEC_HEAD_BYTES;
    if (!note_head(reader, chunk, chunk->memory, &offset))
        return STATUS_OK;
    range.offset = offset + chunk->begin;
    status =
        store_get_range(reader->store, chunk->key, &range, offset + chunk->array->chunk_bytes, err);
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

/* Getting
 * ---------------------------------------------------------------------------------------------- */

static enum status ask_range(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             struct error *err)
{
    struct store_range range = {chunk->offset, chunk->bytes, chunk->memory};

    chunk->size = chunk->bytes;
    if (chunk->array->shard_level_count > 0)
        return store_get_ranges(reader->store, chunk->key, &range, 1, err);
    return store_get_range(reader->store, chunk->key, &range, chunk->array->chunk_bytes, err);
}

static enum status ask_whole(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             struct error *err)
{
    size_t offset;
    enum status status =
        store_get_packed(reader->store, chunk->key, codec_chain_begins(&chunk->array->codecs),
                         chunk->memory, chunk->capacity, &chunk->size, err);

    if (status == STATUS_OK && chunk->size >= CODEC_HEAD_BYTES &&
        codec_chain_has_partial(&chunk->array->codecs))
        note_head(reader, chunk, chunk->memory, &offset);
    return status;
}

static enum status ask_store(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             struct zarr_read_stats *stats, struct error *err)
{
    enum status status = STATUS_OK;
    bool is_there = false;

    if (!chunk->is_range && may_be_cut(reader, chunk))
        status = ask_cut(reader, chunk, &is_there, stats, err);
    if (status == STATUS_OK && !is_there) {
        status = chunk->is_range ? ask_range(reader, chunk, err) : ask_whole(reader, chunk, err);
        stats->stored_bytes += status == STATUS_OK ? chunk->size : 0;
    }
    chunk->is_new = status == STATUS_OK;
    return status;
}

/* From the nearest that has it, with store_get()'s contract. */
static enum status fetch(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                         struct zarr_read_stats *stats, struct error *err)
{
    struct zarr_tape *tape = reader->tape;
    uint64_t start_ns = clock_now_ns();
    enum status status = STATUS_OK;

    if (tape && tape->play) {
        status = tape->play(tape, chunk->memory, chunk->capacity, &chunk->size, err);
        stats->memory_chunk_count++;
        if (status == STATUS_OK)
            stats->memory_bytes += chunk->size;
        stats->read_ns += clock_now_ns() - start_ns;
        return status;
    }
    if (!chunk->located)
        status = chunk_locate(reader, chunk, stats, err);
    if (status == STATUS_OK && chunk->is_missing)
        status = error_set(err, STATUS_NOT_FOUND, "the shard '%s' does not have it", chunk->key);
    if (status == STATUS_OK && !chunk_from_disk(reader, chunk, stats))
        status = ask_store(reader, chunk, stats, err);
    stats->read_ns += clock_now_ns() - start_ns;
    return status;
}

/* Tells the tape what became of a chunk that the store or its cache was asked for. */
static void record(struct zarr_tape *tape, const struct stored_chunk *chunk, enum status status)
{
    if (!tape || tape->play)
        return;
    if (chunk->fetched)
        tape->record(tape, STATUS_OK, chunk->memory, chunk->size);
    else
        tape->record(tape, status == STATUS_NOT_FOUND ? STATUS_OK : status, NULL, 0);
}

/* Decodes the wanted range alone, or all of the chunk where that cannot be done. */
static enum status decode_partial(struct zarr_chunk_reader *reader,
                                  const struct stored_chunk *chunk, void *decoded,
                                  struct error *err)
{
    const struct codec_chain *codecs = &chunk->array->codecs;
    size_t chunk_bytes = chunk->array->chunk_bytes;
    bool done;

    if (is_cut(chunk)) {
        memcpy(decoded, (unsigned char *)chunk->memory + sizeof(struct cut), chunk->wanted);
        return STATUS_OK;
    }
    enum status status = codec_decode_partial(codecs, chunk->memory, chunk->size, chunk_bytes,
                                              chunk->begin, decoded, chunk->wanted, &done, err);

    if (status != STATUS_OK || done)
        return status;
    reader->scratch_key[0] = '\0';
    status = codec_decode(codecs, reader->context, chunk->memory, chunk->size, reader->scratch,
                          chunk_bytes, err);
    if (status == STATUS_OK)
        memmove(decoded, reader->scratch + chunk->begin, chunk->wanted);
    return status;
}

/* Decodes what was fetched. Chunks that have no codec are read to where they belong; their size is
 * the only thing that can be wrong. */
static enum status decode(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                          void *decoded, struct zarr_read_stats *stats, struct error *err)
{
    const struct zarr_array *array = chunk->array;

    if (codec_chain_is_raw(&array->codecs) && chunk->size != chunk->wanted)
        return error_set(err, STATUS_CORRUPT, "chunk holds %zu bytes, the array's chunks have %zu",
                         chunk->size, chunk->wanted);
    if (chunk->memory == decoded)
        return STATUS_OK;
    uint64_t start_ns = clock_now_ns();
    enum status status = chunk->wanted == array->chunk_bytes || codec_chain_is_raw(&array->codecs)
                             ? codec_decode(&array->codecs, reader->context, chunk->memory,
                                            chunk->size, decoded, chunk->wanted, err)
                             : decode_partial(reader, chunk, decoded, err);
    stats->decode_ns += clock_now_ns() - start_ns;
    return status;
}

static enum status fetch_and_decode(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                    void *decoded, struct zarr_read_stats *stats, struct error *err)
{
    enum status status = fetch(reader, chunk, stats, err);

    chunk->fetched = status == STATUS_OK;
    return status == STATUS_OK ? decode(reader, chunk, decoded, stats, err) : status;
}

/* Fetches the chunk, if that was not done, and decodes it; with one more try from the store. Then
 * for the tape and the disk cache: one that decodes, so that damage is not spread. */
static enum status load(struct zarr_chunk_reader *reader, struct stored_chunk *chunk, void *decoded,
                        struct zarr_read_stats *stats, struct error *err)
{
    enum status status = chunk->fetched ? decode(reader, chunk, decoded, stats, err)
                                        : fetch_and_decode(reader, chunk, decoded, stats, err);

    if (status == STATUS_CORRUPT && chunk->is_new && store_retry(reader->store, 0, err))
        status = fetch_and_decode(reader, chunk, decoded, stats, err);
    record(reader->tape, chunk, status);
    if (status == STATUS_OK)
        chunk_to_disk(reader, chunk, stats);
    return status;
}

/* "array 'a' chunk 0.3: ", and which shard it is in. */
static enum status name_chunk(struct error *err, enum status status,
                              const struct stored_chunk *chunk)
{
    const struct zarr_array *array = chunk->array;

    if (array->shard_level_count > 0)
        return error_prefix(err, status, "array '%s' chunk %s in shard '%s': ", array->path,
                            zarr_index_format(array, chunk->index).text, chunk->key);
    return error_prefix(err, status, "array '%s' chunk %s: ", array->path,
                        zarr_index_format(array, chunk->index).text);
}

enum status chunk_load(struct zarr_chunk_reader *reader, struct stored_chunk *chunk, void *decoded,
                       bool *ret_missing, struct zarr_read_stats *stats, struct error *err)
{
    const struct zarr_array *array = chunk->array;
    struct error cause;

    error_clear(&cause);
    enum status status = load(reader, chunk, decoded, stats, &cause);
    bool odd = status == STATUS_NOT_FOUND || status == STATUS_CORRUPT;
    bool from_store = !reader->tape || !reader->tape->play;
    if (odd && from_store && reader->faults && reader->faults->check) {
        enum status changed = reader->faults->check(reader->faults, array, &cause);
        status = changed ? changed : status;
    }
    stats->chunk_count++;
    if (status == STATUS_NOT_FOUND) {
        stats->missing_chunk_count++;
        *ret_missing = true;
        if (!reader->faults || !reader->faults->missing_is_bad)
            return STATUS_OK;
        status = error_set(&cause, STATUS_CORRUPT,
                           "the store has no '%s': restore it, or take missing chunks for the "
                           "fill value, as writers leave those out that hold nothing else "
                           "(errors.missing_chunk=fill; verify --missing fill)",
                           chunk->key);
    }
    if (status != STATUS_OK) {
        if (err)
            *err = cause;
        return name_chunk(err, status, chunk);
    }
    if (array->byte_swapped && !zarr_array_is_member(array)) {
        uint64_t start_ns = clock_now_ns();
        bytes_swap(decoded, chunk->wanted, dtype_swap_bytes(zarr_array_decoded_dtype(array)));
        stats->decode_ns += clock_now_ns() - start_ns;
    }
    *ret_missing = false;
    return STATUS_OK;
}
