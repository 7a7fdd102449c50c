/* See chunk_internal.h: a chunk as the store has it. Gets the chunk from the tape, the disk cache
 * or the store, and decodes the chunk; tries once more if the bytes do not decode. */
#include "zarr/chunk/chunk_internal.h"

#include "base/clock.h"
#include "base/convert.h"
#include "base/number.h"
#include "base/trace.h"
#include "codec/vlen.h"

#include <string.h>

static enum status ask_range(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             bool lend, struct error *err)
{
    struct store_range range = {chunk->offset, chunk->bytes, chunk->memory};
    chunk->size = chunk->bytes;
    if (lend && store_lend(reader->store, chunk->key, &range, chunk->capacity, reader->fetched,
                           &chunk->lent, &chunk->size))
        return STATUS_OK;
    if (chunk->array->shard_level_count > 0)
        return store_get_ranges(reader->store, chunk->key, &range, 1, reader->fetched, err);
    return store_get_range(reader->store, chunk->key, &range, chunk->whole, reader->fetched, err);
}

static enum status get_whole(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             bool lend, struct error *err)
{
    if (lend && store_lend(reader->store, chunk->key, NULL, chunk->capacity, reader->fetched,
                           &chunk->lent, &chunk->size))
        return STATUS_OK;
    return store_get_packed(reader->store, chunk->key, codec_chain_begins(&chunk->array->codecs),
                            reader->fetched, chunk->memory, chunk->capacity, &chunk->size, err);
}

static enum status ask_whole(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             bool lend, struct error *err)
{
    size_t offset;
    enum status status = get_whole(reader, chunk, lend, err);
    if (status == STATUS_OK && chunk->size >= CODEC_HEAD_BYTES &&
        codec_chain_has_partial(&chunk->array->codecs))
        chunk_note_head(reader, chunk, chunk_stored(chunk), &offset);
    return status;
}

static enum status ask_store(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             bool lend, struct zarr_read_stats *stats, struct error *err)
{
    enum status status = STATUS_OK;
    bool is_there = false;
    if (!chunk->is_range && chunk_may_be_cut(reader, chunk))
        status = chunk_read_cut(reader, chunk, &is_there, stats, err);
    if (status == STATUS_OK && !is_there) {
        status = chunk->is_range ? ask_range(reader, chunk, lend, err)
                                 : ask_whole(reader, chunk, lend, err);
        stats->stored_bytes += status == STATUS_OK ? chunk->size : 0;
    }
    chunk->is_new = status == STATUS_OK;
    return status;
}

static void note_read(struct zarr_read_stats *stats, uint64_t start_ns, size_t bytes)
{
    uint64_t end_ns = clock_now_ns();
    stats->read_ns += end_ns - start_ns;
    trace_note(TRACE_READ, start_ns, end_ns, bytes);
}

/* From the nearest that has it, with store_get()'s contract. `lend`: the bytes may stay where they
 * were fetched, or on the tape. */
static enum status fetch(struct zarr_chunk_reader *reader, struct stored_chunk *chunk, bool lend,
                         struct zarr_read_stats *stats, struct error *err)
{
    struct zarr_tape *tape = reader->tape;
    uint64_t start_ns = clock_now_ns();
    enum status status = STATUS_OK;
    chunk->lent = NULL;
    if (tape && tape->play) {
        status = tape->play(tape, chunk->memory, chunk->capacity, lend ? &chunk->lent : NULL,
                            &chunk->size, err);
        stats->memory_chunk_count++;
        if (status == STATUS_OK)
            stats->memory_bytes += chunk->size;
        note_read(stats, start_ns, chunk->size);
        return status;
    }
    if (!chunk->located)
        status = chunk_locate(reader, chunk, stats, err);
    if (status == STATUS_OK && chunk->is_missing)
        status = error_set(err, STATUS_NOT_FOUND, "the shard '%s' does not have it", chunk->key);
    if (status == STATUS_OK && !chunk_from_disk(reader, chunk, stats))
        status = ask_store(reader, chunk, lend, stats, err);
    note_read(stats, start_ns, chunk->size);
    return status;
}

/* Tells the tape what became of a chunk that the store or its cache was asked for. */
static void record(struct zarr_tape *tape, const struct stored_chunk *chunk, enum status status)
{
    if (!tape || tape->play)
        return;
    if (chunk->fetched)
        tape->record(tape, STATUS_OK, chunk_stored(chunk), chunk->size);
    else
        tape->record(tape, status == STATUS_NOT_FOUND ? STATUS_OK : status, NULL, 0);
}

/* Decodes the wanted range alone, or all of the chunk where that cannot be done. */
static enum status decode_partial(struct zarr_chunk_reader *reader,
                                  const struct stored_chunk *chunk, struct codec_output wanted,
                                  struct error *err)
{
    const struct codec_chain *codecs = &chunk->array->codecs;
    const struct codec_output all = codec_output_of(reader->scratch, chunk->whole);
    bool done;
    if (chunk_copy_cut(chunk, wanted.data))
        return STATUS_OK;
    enum status status =
        codec_decode_partial(codecs, reader->context, chunk_stored(chunk), chunk->size,
                             all.capacity, chunk->begin, wanted, &done, err);

    if (status != STATUS_OK || done)
        return status;
    reader->scratch_key[0] = '\0';
    status = codec_decode(codecs, reader->context, chunk_stored(chunk), chunk->size, all, err);
    if (status == STATUS_OK)
        memmove(wanted.data, all.data + chunk->begin, chunk->wanted);
    return status;
}

/* Decodes all of the chunk, or its range. */
static enum status decode_wanted(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                                 void *decoded, struct zarr_read_stats *stats, struct error *err)
{
    const struct zarr_array *array = chunk->array;
    if (chunk_stored(chunk) == decoded)
        return STATUS_OK;
    uint64_t start_ns = clock_now_ns();
    const struct codec_output room = {.data = decoded,
                                      .capacity = chunk->wanted,
                                      .streams = array->is_read_late && decoded != reader->scratch,
                                      .element_bytes = array->item_bytes,
                                      .width = chunk->width};
    enum status status = chunk->wanted == chunk->whole || codec_chain_is_raw(&array->codecs)
                             ? codec_decode(&array->codecs, reader->context, chunk_stored(chunk),
                                            chunk->size, room, err)
                             : decode_partial(reader, chunk, room, err);
    uint64_t end_ns = clock_now_ns();
    stats->decode_ns += end_ns - start_ns;
    trace_note(TRACE_DECODE, start_ns, end_ns, chunk->wanted);
    return status;
}

/* Values of variable length have the lengths that are known of them. */
static enum status check_values(const struct stored_chunk *chunk, const void *decoded,
                                struct error *err)
{
    const struct zarr_array *array = chunk->array;
    uint64_t first = chunk->index[0] * array->chunk_shape[0];
    return vlen_check(decoded, chunk->whole, array->chunk_shape[0], array->item_bytes,
                      array->value_offsets + first,
                      min_u64(array->chunk_shape[0], array->shape[0] - first), err);
}

/* Decodes what was fetched. Chunks that have no codec are read to where they belong; their size is
 * the only thing that can be wrong, but for values of variable length. */
static enum status decode(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                          void *decoded, struct zarr_read_stats *stats, struct error *err)
{
    bool has_values = chunk->array->value_offsets;
    if (codec_chain_is_raw(&chunk->array->codecs) && chunk->size != chunk->wanted)
        return error_set(err, STATUS_CORRUPT,
                         has_values ? "chunk holds %zu bytes, its values take %zu by the array's "
                                      "offsets, or took them when the dataset was opened"
                                    : "chunk holds %zu bytes, the array's chunks have %zu",
                         chunk->size, chunk->wanted);
    enum status status = decode_wanted(reader, chunk, decoded, stats, err);
    if (status == STATUS_OK && has_values)
        return check_values(chunk, decoded, err);
    if (status != STATUS_CORRUPT || !has_values || !err)
        return status;
    struct error cause = *err;
    return error_set(err, status,
                     "%s (its values take %zu bytes by the array's offsets, or took them when the "
                     "dataset was opened)",
                     cause.message, chunk->whole);
}

static enum status fetch_and_decode(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                    void *decoded, struct zarr_read_stats *stats, struct error *err)
{
    enum status status = fetch(reader, chunk, chunk->memory != decoded, stats, err);
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
    if (status == STATUS_CORRUPT && chunk->is_new && store_retry(reader->store, 0, err)) {
        struct fetched *fetched = reader->fetched;
        reader->fetched = NULL; /* the same bytes may be there for another field */
        status = fetch_and_decode(reader, chunk, decoded, stats, err);
        reader->fetched = fetched;
    }
    record(reader->tape, chunk, status);
    if (status == STATUS_OK)
        chunk_to_disk(reader, chunk, stats);
    return status;
}

/* Whether a chunk that is missing has values of variable length that are not empty. */
static bool lacks_values(const struct stored_chunk *chunk)
{
    const struct zarr_array *array = chunk->array;
    return array->value_offsets &&
           (array->vlen_has_fill || zarr_array_chunk_items(array, chunk->index[0]) > 0);
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
        status = changed != STATUS_OK ? changed : status;
    }
    stats->chunk_count++;
    if (status == STATUS_NOT_FOUND) {
        stats->missing_chunk_count++;
        *ret_missing = true;
        bool is_lost = lacks_values(chunk);
        if (!is_lost && (!reader->faults || !reader->faults->missing_is_bad))
            return STATUS_OK;
        status =
            error_set(&cause, STATUS_CORRUPT,
                      is_lost ? "the store has no '%s', and its values are not empty: restore "
                                "it"
                              : "the store has no '%s': restore it, or take missing chunks for the "
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
        convert_swap(decoded, chunk->wanted, dtype_swap_bytes(zarr_array_decoded_dtype(array)));
        stats->decode_ns += clock_now_ns() - start_ns;
    }
    *ret_missing = false;
    return STATUS_OK;
}
