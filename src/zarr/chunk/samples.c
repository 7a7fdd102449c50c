/* See chunk.h: reads a range of samples chunk by chunk, and puts each item where it belongs. */
#include "zarr/chunk/chunk_internal.h"

#include "base/clock.h"
#include "base/trace.h"

#include <assert.h>
#include <string.h>

/* A range of samples that is being read. */
struct request {
    const struct zarr_array *array;
    uint64_t begin, end;
    unsigned char *destination;
    enum narrow_width *widths; /* of each chunk from the first on; NULL: items are whole */
    struct zarr_read_stats *stats;
    zarr_take_values *take; /* of values of variable length, instead of a destination */
    void *argument;         /* of take() */
};

/* Where the chunk is decoded to, and read to where that was not done: straight to where it belongs
 * if it is one run there. `overlap` is NULL of values of variable length. */
static unsigned char *choose_memory(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                    const struct chunk_overlap *overlap, unsigned char *destination)
{
    bool direct = overlap && chunk->array->convert.to == DTYPE_NONE && overlap->is_only &&
                  scatter_is_run(&overlap->scatter) &&
                  scatter_bytes(&overlap->scatter) == chunk->wanted;
    unsigned char *decoded = direct ? destination + overlap->to : reader->scratch;
    if (chunk->fetched)
        return decoded;
    bool raw = codec_chain_is_raw(&chunk->array->codecs);
    bool aligned = (uintptr_t)decoded % STORE_DIRECT_ALIGNMENT == 0;
    bool to_decoded =
        raw && (aligned || chunk->is_range || !chunk_goes_direct(&reader->options, chunk->array));
    chunk->memory = to_decoded ? decoded : reader->stored;
    chunk->capacity = raw ? chunk->wanted : reader->stored_capacity;
    return decoded;
}

/* Whether the chunk is what scratch memory holds already: of several members of a structured dtype,
 * of several fields that convert the same items, or of the samples before. */
static bool is_decoded(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    const struct zarr_array *array = chunk->array;
    bool may_be =
        reader->options.keeps || (array->shard_level_count == 0 &&
                                  (zarr_array_is_member(array) || array->convert.to != DTYPE_NONE));
    return may_be && chunk->wanted == chunk->whole &&
           strcmp(reader->scratch_key, chunk->key) == 0 &&
           memcmp(reader->scratch_index, chunk->index,
                  (size_t)array->rank * sizeof *chunk->index) == 0;
}

/* Notes what scratch memory holds now; what was decoded partially is not worth it. */
static void note_decoded(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    if (chunk->wanted != chunk->whole)
        return;
    memcpy(reader->scratch_key, chunk->key, strlen(chunk->key) + 1);
    memcpy(reader->scratch_index, chunk->index, sizeof reader->scratch_index);
}

static void put_overlap(const struct zarr_array *array, const struct stored_chunk *chunk,
                        const struct chunk_overlap *overlap, const unsigned char *decoded,
                        unsigned char *destination)
{
    const struct scatter *scatter = &overlap->scatter;
    bool swaps = array->byte_swapped && zarr_array_is_member(array);
    if (array->convert.to != DTYPE_NONE) {
        scatter_convert(scatter, &array->convert, array->normal, overlap->entry,
                        swaps ? dtype_swap_bytes(array->convert.from) : 1,
                        decoded + (overlap->from - chunk->begin), destination + overlap->to);
        return;
    }
    scatter_copy(scatter, decoded + (overlap->from - chunk->begin), destination + overlap->to);
    if (swaps)
        scatter_swap(scatter, dtype_swap_bytes(array->dtype), destination + overlap->to);
}

/* Of a missing chunk: the fill value, which becomes another item for each entry of a normal. */
static void fill_overlap(const struct zarr_array *array, const struct chunk_overlap *overlap,
                         unsigned char *destination)
{
    struct scatter scatter = overlap->scatter;
    if (!array->normal) {
        scatter_fill(&scatter, array->fill, destination + overlap->to);
        return;
    }
    memset(scatter.from, 0, sizeof scatter.from);
    scatter_convert(&scatter, &array->convert, array->normal, overlap->entry, 1, array->fill,
                    destination + overlap->to);
}

/* Puts all boxes of the chunk where they belong, which was not done while decoding. */
static void put_overlaps(const struct request *request, const struct stored_chunk *chunk,
                         struct chunk_overlap *overlap, const unsigned char *decoded)
{
    const struct zarr_array *array = chunk->array;
    uint64_t start_ns = clock_now_ns(), before = request->stats->decoded_bytes;
    do {
        request->stats->decoded_bytes += scatter_bytes(&overlap->scatter);
        if (decoded)
            put_overlap(array, chunk, overlap, decoded, request->destination);
        else
            fill_overlap(array, overlap, request->destination);
    } while (chunk_overlap_next(array, chunk->index, request->begin, request->end, overlap));
    uint64_t end_ns = clock_now_ns();
    request->stats->decode_ns += end_ns - start_ns;
    trace_note(TRACE_DECODE, start_ns, end_ns, request->stats->decoded_bytes - before);
}

static enum narrow_width *width_in(const struct request *request, const struct stored_chunk *chunk)
{
    uint64_t first = request->begin / request->array->chunk_shape[0];
    return request->widths ? request->widths + (chunk->index[0] - first) : NULL;
}

/* `overlap` is the chunk's first box, and in the end the last one. */
static enum status read_overlap(struct zarr_chunk_reader *reader, const struct request *request,
                                struct stored_chunk *chunk, struct chunk_overlap *overlap,
                                struct error *err)
{
    bool missing = false;
    enum narrow_width *width = width_in(request, chunk);
    if (width)
        *width = NARROW_NOT;
    unsigned char *decoded = reader->scratch;
    if (!is_decoded(reader, chunk)) {
        decoded = choose_memory(reader, chunk, overlap, request->destination);
        if (decoded == reader->scratch)
            reader->scratch_key[0] = '\0';
        else
            chunk->width = width;
        enum status status = chunk_load(reader, chunk, decoded, &missing, request->stats, err);
        if (status != STATUS_OK)
            return status;
        if (decoded == reader->scratch && !missing)
            note_decoded(reader, chunk);
    }
    if (missing || decoded == reader->scratch)
        put_overlaps(request, chunk, overlap, missing ? NULL : decoded);
    else
        request->stats->decoded_bytes += scatter_bytes(&overlap->scatter);
    return STATUS_OK;
}

/* Has the wanted values of a chunk taken from scratch memory. */
static enum status read_values(struct zarr_chunk_reader *reader, const struct request *request,
                               struct stored_chunk *chunk, const struct chunk_overlap *overlap,
                               struct error *err)
{
    const struct zarr_array *array = chunk->array;
    const unsigned char *decoded = choose_memory(reader, chunk, NULL, NULL);
    uint64_t begin = request->begin + overlap->first, end = begin + overlap->count;
    bool missing = false;
    reader->scratch_key[0] = '\0';
    enum status status = chunk_load(reader, chunk, reader->scratch, &missing, request->stats, err);
    if (status != STATUS_OK)
        return status;
    uint64_t start_ns = clock_now_ns();
    uint64_t bytes = (array->value_offsets[end] - array->value_offsets[begin]) * array->item_bytes;
    request->take(request->argument, array, begin, end, missing ? NULL : decoded);
    uint64_t end_ns = clock_now_ns();
    request->stats->decoded_bytes += bytes;
    request->stats->decode_ns += end_ns - start_ns;
    trace_note(TRACE_DECODE, start_ns, end_ns, bytes);
    return STATUS_OK;
}

/* Leaves out an overlap that cannot be had, if whoever reads can do without. Memory that is short
 * and a store that hangs are no fault of the chunk. */
static enum status skip_overlap(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                                uint64_t begin, const struct chunk_overlap *overlap,
                                const struct error *cause, struct error *err)
{
    struct zarr_faults *faults = reader->faults;
    enum status status = (enum status)cause->status;
    bool bad = status == STATUS_CORRUPT || status == STATUS_IO || status == STATUS_UNSUPPORTED;
    if (bad && faults && faults->skip)
        return faults->skip(faults, chunk->array, chunk->index, begin + overlap->first,
                            begin + overlap->first + overlap->count, cause, err);
    if (err)
        *err = *cause;
    return status;
}

static enum status read_chunk(struct zarr_chunk_reader *reader, const struct request *request,
                              struct stored_chunk *chunk, struct error *err)
{
    struct chunk_overlap overlap;
    struct error cause;
    chunk_overlap_find(request->array, chunk->index, request->begin, request->end, &overlap);
    enum status status = request->take ? read_values(reader, request, chunk, &overlap, &cause)
                                       : read_overlap(reader, request, chunk, &overlap, &cause);
    return status == STATUS_OK ? status
                               : skip_overlap(reader, chunk, request->begin, &overlap, &cause, err);
}

/* The chunks of one shard, as many at once as are fetched together. */
static enum status read_shard(struct zarr_chunk_reader *reader, const struct request *request,
                              struct chunk_walk *walk, const char *key, struct error *err)
{
    bool from_store = !reader->tape || !reader->tape->play, more = true;
    enum status status = STATUS_OK;
    while (more && status == STATUS_OK) {
        size_t count = chunk_batch_next(reader, walk, key, request->begin, request->end, &more);
        for (size_t done = 0; done < count && status == STATUS_OK;) {
            size_t ready = count - done;
            if (is_decoded(reader, &reader->batch[done]))
                ready = 1;
            else if (from_store)
                ready = chunk_batch_fetch(reader, reader->batch + done, ready, request->stats);
            for (size_t i = 0; i < ready && status == STATUS_OK; i++)
                status = read_chunk(reader, request, &reader->batch[done + i], err);
            done += ready;
        }
    }
    return status;
}

bool zarr_array_may_be_narrow(const struct zarr_array *array)
{
    return array->rank == 1 && array->last_lengths[0] == 0 && array->item_length == 0 &&
           !array->byte_swapped && array->convert.to == DTYPE_NONE &&
           !zarr_array_is_member(array) && narrow_takes(array->item_bytes) &&
           codec_chain_may_be_narrow(&array->codecs);
}

static enum status read_range(struct zarr_chunk_reader *reader, const struct request *request,
                              struct error *err)
{
    const struct zarr_array *array = request->array;
    uint64_t begin = request->begin, end = request->end;
    enum status status = STATUS_OK;
    struct chunk_walk walk;
    assert(begin < end && end <= array->shape[0]);
    reader->bad_shard.array = NULL;
    chunk_walk_begin(&walk, array, begin, end);
    do {
        char key[ZARR_KEY_BYTES];
        zarr_chunk_key(array, walk.chunk, key);
        if (array->shard_level_count > 0) {
            status = read_shard(reader, request, &walk, key, err);
            continue;
        }
        struct stored_chunk chunk = chunk_of(reader, array, walk.chunk, key, begin, end);
        status = read_chunk(reader, request, &chunk, err);
    } while (status == STATUS_OK && chunk_walk_next_value(&walk));
    return status;
}

enum status zarr_read_narrow(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             uint64_t begin, uint64_t end, void *destination,
                             enum narrow_width *ret_widths, struct zarr_read_stats *stats,
                             struct error *err)
{
    const struct request request = {.array = array,
                                    .begin = begin,
                                    .end = end,
                                    .destination = destination,
                                    .widths = ret_widths,
                                    .stats = stats};
    return read_range(reader, &request, err);
}

enum status zarr_read_values(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             uint64_t begin, uint64_t end, zarr_take_values *take, void *argument,
                             struct zarr_read_stats *stats, struct error *err)
{
    const struct request request = {.array = array,
                                    .begin = begin,
                                    .end = end,
                                    .stats = stats,
                                    .take = take,
                                    .argument = argument};
    return read_range(reader, &request, err);
}

enum status zarr_read_samples(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                              uint64_t begin, uint64_t end, void *destination,
                              struct zarr_read_stats *stats, struct error *err)
{
    return zarr_read_narrow(reader, array, begin, end, destination, NULL, stats, err);
}
