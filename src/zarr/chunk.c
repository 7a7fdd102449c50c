/* Reading chunks: which are wanted, which range of each, and where it belongs. See chunk.h.
 * chunk_load.c gets one, chunk_shard.c knows where they lie in shards, chunk_reader.c makes the
 * reader. */
#include "zarr/chunk_internal.h"

#include "base/clock.h"
#include "zarr/scatter.h"

#include <assert.h>
#include <string.h>

/* Which chunks
 * ------------------------------------------------------------------------------------------- */

/* The chunks of the present value that are wanted. */
static void enter_value(struct chunk_walk *walk)
{
    const struct zarr_array *array = walk->array;

    for (int i = 0; i < array->rank; i++) {
        uint64_t span = array->shard_level_count > 0 ? array->shard_levels[0].spans[i] : 1;
        uint64_t low = walk->value[i] * span, high = low + span;

        walk->chunk_low[i] = low > walk->low[i] ? low : walk->low[i];
        walk->chunk_high[i] = high < walk->high[i] ? high : walk->high[i];
        walk->chunk[i] = walk->chunk_low[i];
    }
}

void chunk_walk_begin(struct chunk_walk *walk, const struct zarr_array *array, uint64_t begin,
                      uint64_t end)
{
    memset(walk, 0, sizeof *walk);
    walk->array = array;
    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    for (int i = 0; i < array->rank; i++) {
        uint64_t span = array->shard_level_count > 0 ? array->shard_levels[0].spans[i] : 1;

        walk->low[i] = i == 0 ? begin / array->chunk_shape[0] : 0;
        walk->high[i] = i == 0 ? (end - 1) / array->chunk_shape[0] + 1 : array->chunk_counts[i];
        walk->value_low[i] = walk->value[i] = walk->low[i] / span;
        walk->value_high[i] = (walk->high[i] - 1) / span + 1;
    }
    enter_value(walk);
}

/* Steps `position` through the box [low, high) in C order; false, and back at its start, after the
 * last. */
static bool step(uint64_t *position, const uint64_t *low, const uint64_t *high, int rank)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++position[i] < high[i])
            return true;
        position[i] = low[i];
    }
    return false;
}

bool chunk_walk_next(struct chunk_walk *walk)
{
    return step(walk->chunk, walk->chunk_low, walk->chunk_high, walk->array->rank);
}

bool chunk_walk_next_value(struct chunk_walk *walk)
{
    if (!step(walk->value, walk->value_low, walk->value_high, walk->array->rank))
        return false;
    enter_value(walk);
    return true;
}

/* Putting them where they belong
 * ------------------------------------------------------------------------------------------- */

/* What of a chunk is wanted at a destination: how the items lie on both sides, and where each
 * begins. */
struct overlap {
    struct scatter scatter; /* merged */
    size_t from, to;        /* bytes from the start of the decoded chunk, and of the destination */
    uint64_t first, count;  /* along axis 0 of the destination */
};

/* Bytes from one index to the next along each axis of a decoded chunk. */
static void chunk_strides(const struct zarr_array *array, size_t *ret_strides)
{
    size_t stride = array->stored_item_bytes;

    for (int i = array->rank - 1; i >= 0; i--) {
        int axis = array->storage_axes[i];
        ret_strides[axis] = stride;
        stride *= array->chunk_shape[axis];
    }
}

static void find_overlap(const struct zarr_array *array, const uint64_t *chunk_index,
                         uint64_t begin, uint64_t end, struct overlap *ret_overlap)
{
    struct scatter *scatter = &ret_overlap->scatter;
    size_t stride = array->item_bytes;

    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    *ret_overlap = (struct overlap){
        .scatter = {.rank = array->rank, .item_bytes = array->item_bytes},
        .from = array->item_offset,
    };
    chunk_strides(array, scatter->from);
    for (int i = array->rank - 1; i >= 0; i--) {
        uint64_t want_begin = i == 0 ? begin : 0;
        uint64_t want_end = i == 0 ? end : array->shape[i];
        uint64_t chunk_begin = chunk_index[i] * array->chunk_shape[i];
        uint64_t left = want_end - chunk_begin;
        uint64_t low = chunk_begin > want_begin ? chunk_begin : want_begin;
        uint64_t high = chunk_begin + (left < array->chunk_shape[i] ? left : array->chunk_shape[i]);

        scatter->lengths[i] = high - low;
        scatter->to[i] = stride;
        ret_overlap->from += (low - chunk_begin) * scatter->from[i];
        ret_overlap->to += (low - want_begin) * stride;
        stride *= want_end - want_begin;
        if (i == 0) {
            ret_overlap->first = low - want_begin;
            ret_overlap->count = high - low;
        }
    }
    scatter_merge(scatter);
}

/* Whether samples [begin, end) take one run of bytes of the chunk, as it is decoded, which can be
 * read (of a raw chunk) or decoded without the rest; if so, which. */
static bool chunk_range(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, size_t *ret_begin, size_t *ret_bytes)
{
    uint64_t chunk_begin = chunk_index[0] * array->chunk_shape[0], length = array->chunk_shape[0];
    uint64_t low = chunk_begin > begin ? 0 : begin - chunk_begin;
    uint64_t high = end - chunk_begin < length ? end - chunk_begin : length;
    bool raw = codec_chain_is_raw(&array->codecs);
    /* Partial decoding costs a copy more; a half of the chunk is well worth it. */
    bool helps = raw ? high - low < length
                     : codec_chain_has_partial(&array->codecs) && high - low <= length / 2;
    size_t strides[ZARR_MAX_RANK] = {0};

    chunk_strides(array, strides);
    if (!helps || strides[0] * length != array->chunk_bytes)
        return false;
    *ret_begin = low * strides[0];
    *ret_bytes = (high - low) * strides[0];
    return true;
}

struct stored_chunk chunk_of(const struct zarr_array *array, const uint64_t *chunk_index,
                             const char *key, uint64_t begin, uint64_t end)
{
    struct stored_chunk chunk = {.array = array, .key = key, .wanted = array->chunk_bytes};

    memcpy(chunk.index, chunk_index, sizeof chunk.index);
    if (array->shard_level_count > 0) {
        chunk_range(array, chunk_index, begin, end, &chunk.begin, &chunk.wanted);
        return chunk;
    }
    chunk.located = true;
    chunk.is_range = chunk_range(array, chunk_index, begin, end, &chunk.begin, &chunk.wanted) &&
                     codec_chain_is_raw(&array->codecs);
    chunk.offset = chunk.begin;
    chunk.bytes = chunk.wanted;
    return chunk;
}

/* Chunks that the value has which holds that one, of those that the array has. */
static uint64_t chunks_in_value(const struct zarr_array *array, const uint64_t *chunk_index)
{
    uint64_t count = 1;

    for (int i = 0; i < array->rank && array->shard_level_count > 0; i++) {
        uint64_t span = array->shard_levels[0].spans[i];
        uint64_t left = array->chunk_counts[i] - chunk_index[i] / span * span;
        count *= left < span ? left : span;
    }
    return count;
}

uint64_t zarr_range_stored_bytes(const struct zarr_array *array, const uint64_t *chunk_index,
                                 uint64_t begin, uint64_t end, uint64_t value_bytes)
{
    size_t range_begin, range_bytes;

    if (codec_chain_is_raw(&array->codecs) &&
        chunk_range(array, chunk_index, begin, end, &range_begin, &range_bytes))
        return range_bytes < value_bytes ? range_bytes : value_bytes;
    return value_bytes / chunks_in_value(array, chunk_index);
}

/* Where the chunk is decoded to, and read to where that was not done: straight to where it belongs
 * if it is one run there. */
static unsigned char *choose_memory(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                    const struct overlap *overlap, unsigned char *destination)
{
    bool direct = chunk->array->convert.to == DTYPE_NONE && scatter_is_run(&overlap->scatter) &&
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
 * or of several fields that convert the same items. */
static bool is_decoded(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    bool may_be = zarr_array_is_member(chunk->array) || chunk->array->convert.to != DTYPE_NONE;

    return may_be && chunk->wanted == chunk->array->chunk_bytes &&
           strcmp(reader->scratch_key, chunk->key) == 0;
}

/* Notes what scratch memory holds now; what was decoded partially is not worth it. */
static void note_decoded(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    if (chunk->array->shard_level_count == 0 && chunk->wanted == chunk->array->chunk_bytes)
        memcpy(reader->scratch_key, chunk->key, strlen(chunk->key) + 1);
}

static void put_overlap(const struct zarr_array *array, const struct stored_chunk *chunk,
                        const struct overlap *overlap, const unsigned char *decoded,
                        unsigned char *destination)
{
    const struct scatter *scatter = &overlap->scatter;
    bool swaps = array->byte_swapped && zarr_array_is_member(array);

    if (array->convert.to != DTYPE_NONE) {
        scatter_convert(scatter, &array->convert, swaps ? dtype_swap_bytes(array->convert.from) : 1,
                        decoded + (overlap->from - chunk->begin), destination + overlap->to);
        return;
    }
    scatter_copy(scatter, decoded + (overlap->from - chunk->begin), destination + overlap->to);
    if (swaps)
        scatter_swap(scatter, dtype_swap_bytes(array->dtype), destination + overlap->to);
}

static enum status read_overlap(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                const struct overlap *overlap, unsigned char *destination,
                                struct zarr_read_stats *stats, struct error *err)
{
    const struct zarr_array *array = chunk->array;
    bool missing = false;

    unsigned char *decoded = choose_memory(reader, chunk, overlap, destination);
    if (!is_decoded(reader, chunk)) {
        if (decoded == reader->scratch)
            reader->scratch_key[0] = '\0';
        enum status status = chunk_load(reader, chunk, decoded, &missing, stats, err);
        if (status != STATUS_OK)
            return status;
        if (decoded == reader->scratch && !missing)
            note_decoded(reader, chunk);
    }
    stats->decoded_bytes += scatter_bytes(&overlap->scatter);
    uint64_t start_ns = clock_now_ns();
    if (missing)
        scatter_fill(&overlap->scatter, array->fill, destination + overlap->to);
    else if (decoded == reader->scratch)
        put_overlap(array, chunk, overlap, decoded, destination);
    else
        return STATUS_OK;
    stats->decode_ns += clock_now_ns() - start_ns;
    return STATUS_OK;
}

/* Leaves out an overlap that cannot be had, if whoever reads can do without. Memory that is short
 * and a store that hangs are no fault of the chunk. */
static enum status skip_overlap(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                                uint64_t begin, const struct overlap *overlap,
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

/* A range of samples that is being read. */
struct request {
    const struct zarr_array *array;
    uint64_t begin, end;
    unsigned char *destination;
    struct zarr_read_stats *stats;
};

static enum status read_chunk(struct zarr_chunk_reader *reader, const struct request *request,
                              struct stored_chunk *chunk, struct error *err)
{
    struct overlap overlap;
    struct error cause;

    find_overlap(request->array, chunk->index, request->begin, request->end, &overlap);
    enum status status =
        read_overlap(reader, chunk, &overlap, request->destination, request->stats, &cause);
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
        size_t count = chunk_next_batch(reader, walk, key, request->begin, request->end, &more);

        for (size_t done = 0; done < count && status == STATUS_OK;) {
            size_t ready = count - done;

            if (from_store)
                ready = chunk_fetch_batch(reader, reader->batch + done, ready, request->stats);
            for (size_t i = 0; i < ready && status == STATUS_OK; i++)
                status = read_chunk(reader, request, &reader->batch[done + i], err);
            done += ready;
        }
    }
    return status;
}

enum status zarr_read_samples(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                              uint64_t begin, uint64_t end, void *destination,
                              struct zarr_read_stats *stats, struct error *err)
{
    struct request request = {array, begin, end, destination, stats};
    enum status status = STATUS_OK;
    struct chunk_walk walk;

    assert(begin < end && end <= array->shape[0]);
    reader->bad_shard.array = NULL;
    chunk_walk_begin(&walk, array, begin, end);
    do {
        char key[ZARR_KEY_BYTES];

        zarr_chunk_key(array, walk.chunk, key);
        if (array->shard_level_count > 0) {
            status = read_shard(reader, &request, &walk, key, err);
            continue;
        }
        struct stored_chunk chunk = chunk_of(array, walk.chunk, key, begin, end);
        status = read_chunk(reader, &request, &chunk, err);
    } while (status == STATUS_OK && chunk_walk_next_value(&walk));
    return status;
}
