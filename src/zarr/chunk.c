/* Reading chunks. See chunk.h; chunk_shard.c knows where they lie in shards. */
#include "zarr/chunk_internal.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "zarr/scatter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct zarr_read_options zarr_read_defaults = {
    .coalesce_gap = 64 << 10,
    .coalesce_bytes = 4 << 20,
};

/* A reader and its memory
 * ------------------------------------------------------------------------------------------- */

/* What a reader for some arrays needs; its memory is one mapping of these, one after another. */
struct demand {
    const struct codec_chain *chains[ZARR_READER_MAX_ARRAYS * (1 + ZARR_MAX_SHARD_LEVELS)];
    size_t chain_count;
    size_t context_bytes; /* largest chunk or index that passes through a codec */
    size_t stored_bytes, ahead_bytes, decoded_bytes, raw_index_bytes, batch_bytes;
    size_t entries_bytes[ZARR_MAX_SHARD_LEVELS];
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void add_shards(struct demand *demand, const struct zarr_array *array)
{
    for (int i = 0; i < array->shard_level_count; i++) {
        const struct zarr_shard_level *level = &array->shard_levels[i];
        size_t bytes = level->entry_count * sizeof(struct shard_entry) + sizeof(uint64_t);

        demand->chains[demand->chain_count++] = &level->index_codecs;
        demand->entries_bytes[i] = larger(demand->entries_bytes[i], bytes);
        demand->raw_index_bytes = larger(demand->raw_index_bytes, level->index_bytes);
    }
}

static void sum_demand(const struct zarr_array *const *arrays, size_t array_count,
                       const struct zarr_read_options *options, struct demand *ret_demand)
{
    size_t shard_bound = 0;

    assert(array_count > 0 && array_count <= ZARR_READER_MAX_ARRAYS);
    memset(ret_demand, 0, sizeof *ret_demand);
    for (size_t i = 0; i < array_count; i++) {
        const struct zarr_array *array = arrays[i];
        bool raw = codec_chain_is_raw(&array->codecs);
        size_t bound = codec_chain_stored_bound(&array->codecs, array->chunk_bytes);

        ret_demand->chains[ret_demand->chain_count++] = &array->codecs;
        ret_demand->decoded_bytes = larger(ret_demand->decoded_bytes, array->chunk_bytes);
        ret_demand->context_bytes = larger(ret_demand->context_bytes, raw ? 0 : array->chunk_bytes);
        ret_demand->stored_bytes = larger(ret_demand->stored_bytes, raw ? 0 : bound);
        shard_bound = larger(shard_bound, array->shard_level_count > 0 ? bound : 0);
        add_shards(ret_demand, array);
    }
    if (shard_bound > 0) {
        ret_demand->ahead_bytes = larger(shard_bound, options->coalesce_bytes);
        ret_demand->batch_bytes = BATCH_CHUNKS * sizeof(struct stored_chunk);
    }
}

/* Takes the next `bytes` of a mapping of which `*used` are taken; NULL if there are none to take.
 */
static void *take(unsigned char *memory, size_t *used, size_t bytes)
{
    void *taken = memory && bytes > 0 ? memory + *used : NULL;

    *used += size_round_up(bytes, MEMORY_LINE_BYTES);
    return taken;
}

/* Lays the memory out, or only sums it up where there is none yet. */
static size_t lay_out(struct zarr_chunk_reader *reader, const struct demand *demand)
{
    size_t used = 0;

    reader->stored = take(reader->memory, &used, demand->stored_bytes);
    reader->stored_capacity = demand->stored_bytes;
    reader->ahead = take(reader->memory, &used, demand->ahead_bytes);
    reader->ahead_capacity = demand->ahead_bytes;
    reader->scratch = take(reader->memory, &used, demand->decoded_bytes);
    reader->raw_index = take(reader->memory, &used, demand->raw_index_bytes);
    for (int i = 0; i < ZARR_MAX_SHARD_LEVELS; i++)
        reader->indices[i].entries = take(reader->memory, &used, demand->entries_bytes[i]);
    reader->batch = take(reader->memory, &used, demand->batch_bytes);
    return used;
}

size_t zarr_chunk_reader_bytes_with(const struct zarr_array *const *arrays, size_t array_count,
                                    const struct zarr_read_options *options)
{
    struct zarr_chunk_reader reader = {0};
    struct demand demand;

    sum_demand(arrays, array_count, options, &demand);
    return size_round_up(lay_out(&reader, &demand), MEMORY_PAGE_BYTES) +
           codec_context_bytes(demand.chains, demand.chain_count, demand.context_bytes);
}

size_t zarr_chunk_reader_bytes(const struct zarr_array *const *arrays, size_t array_count)
{
    return zarr_chunk_reader_bytes_with(arrays, array_count, &zarr_read_defaults);
}

enum status zarr_chunk_reader_new_with(const struct store *store,
                                       const struct zarr_array *const *arrays, size_t array_count,
                                       const struct zarr_read_options *options,
                                       struct zarr_chunk_reader **ret_reader, struct error *err)
{
    struct zarr_chunk_reader *reader = calloc(1, sizeof *reader);
    struct demand demand;
    enum status status;
    void *memory;

    if (!reader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a chunk reader");
    sum_demand(arrays, array_count, options, &demand);
    reader->store = store;
    reader->options = *options;
    status = codec_context_new(demand.chains, demand.chain_count, demand.context_bytes,
                               &reader->context, err);
    if (status != STATUS_OK)
        goto fail;
    size_t bytes = lay_out(reader, &demand);
    status = memory_map(bytes, "chunk buffers", &memory, err);
    if (status != STATUS_OK)
        goto fail;
    memory_touch(memory, bytes);
    reader->memory = memory;
    reader->memory_bytes = bytes;
    lay_out(reader, &demand);
    *ret_reader = reader;
    return STATUS_OK;

fail:
    zarr_chunk_reader_free(reader);
    return status;
}

enum status zarr_chunk_reader_new(const struct store *store, const struct zarr_array *const *arrays,
                                  size_t array_count, struct zarr_chunk_reader **ret_reader,
                                  struct error *err)
{
    return zarr_chunk_reader_new_with(store, arrays, array_count, &zarr_read_defaults, ret_reader,
                                      err);
}

void zarr_chunk_reader_free(struct zarr_chunk_reader *reader)
{
    if (!reader)
        return;
    memory_unmap(reader->memory, reader->memory_bytes);
    codec_context_free(reader->context);
    free(reader);
}

/* A tape begins with nothing decoded: what is asked of it must not depend on what was read before.
 */
void zarr_chunk_reader_use_tape(struct zarr_chunk_reader *reader, struct zarr_tape *tape)
{
    reader->tape = tape;
    reader->scratch_key[0] = '\0';
}

void zarr_chunk_reader_use_cache(struct zarr_chunk_reader *reader, struct disk_cache *cache)
{
    reader->cache = cache;
}

void zarr_chunk_reader_use_faults(struct zarr_chunk_reader *reader, struct zarr_faults *faults)
{
    reader->faults = faults;
}

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

/* Getting them
 * ------------------------------------------------------------------------------------------- */

static enum status ask_store(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             struct zarr_read_stats *stats, struct error *err)
{
    enum status status;

    if (chunk->is_range) {
        struct store_range range = {chunk->offset, chunk->bytes, chunk->memory};
        status = store_get_ranges(reader->store, chunk->key, &range, 1, err);
        chunk->size = chunk->bytes;
    } else {
        status =
            store_get(reader->store, chunk->key, chunk->memory, chunk->capacity, &chunk->size, err);
    }
    if (status != STATUS_OK)
        return status;
    chunk->is_new = true;
    stats->stored_bytes += chunk->size;
    return STATUS_OK;
}

/* From the nearest place that has it, with store_get()'s contract. */
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

/* Decodes the wanted part alone, or all of the chunk where that cannot be done. */
static enum status decode_part(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                               void *decoded, struct error *err)
{
    const struct codec_chain *codecs = &chunk->array->codecs;
    size_t chunk_bytes = chunk->array->chunk_bytes;
    bool done;
    enum status status = codec_decode_part(codecs, chunk->memory, chunk->size, chunk_bytes,
                                           chunk->begin, decoded, chunk->wanted, &done, err);

    if (status != STATUS_OK || done)
        return status;
    status = codec_decode(codecs, reader->context, chunk->memory, chunk->size, reader->scratch,
                          chunk_bytes, err);
    if (status == STATUS_OK)
        memmove(decoded, reader->scratch + chunk->begin, chunk->wanted);
    return status;
}

/* Decodes what was fetched. Chunks that have no codec are read into place; their size is the only
 * thing that can be wrong. */
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
                             : decode_part(reader, chunk, decoded, err);
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

/* The wanted part of a chunk at `decoded`, in native byte order where the chunk is the array's
 * alone. A chunk that is not there sets *ret_missing and nothing else. */
static enum status load_chunk(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                              void *decoded, bool *ret_missing, struct zarr_read_stats *stats,
                              struct error *err)
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

/* Putting them where they belong
 * ------------------------------------------------------------------------------------------- */

/* One chunk's share of a destination: how it lies on both sides, and where each begins. */
struct part {
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

static void cut_part(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                     uint64_t end, struct part *ret_part)
{
    struct scatter *scatter = &ret_part->scatter;
    size_t stride = array->item_bytes;

    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    *ret_part = (struct part){
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

        scatter->extents[i] = high - low;
        scatter->to[i] = stride;
        ret_part->from += (low - chunk_begin) * scatter->from[i];
        ret_part->to += (low - want_begin) * stride;
        stride *= want_end - want_begin;
        if (i == 0) {
            ret_part->first = low - want_begin;
            ret_part->count = high - low;
        }
    }
    scatter_merge(scatter);
}

bool chunk_part(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                uint64_t end, size_t *ret_begin, size_t *ret_bytes)
{
    uint64_t chunk_begin = chunk_index[0] * array->chunk_shape[0], length = array->chunk_shape[0];
    uint64_t low = chunk_begin > begin ? 0 : begin - chunk_begin;
    uint64_t high = end - chunk_begin < length ? end - chunk_begin : length;
    bool raw = codec_chain_is_raw(&array->codecs);
    /* Decoding a part costs a copy more; a half of the chunk is well worth it. */
    bool helps = raw ? high - low < length
                     : codec_chain_has_parts(&array->codecs) && high - low <= length / 2;
    size_t strides[ZARR_MAX_RANK];

    chunk_strides(array, strides);
    if (!helps || strides[0] * length != array->chunk_bytes)
        return false;
    *ret_begin = low * strides[0];
    *ret_bytes = (high - low) * strides[0];
    return true;
}

/* The chunk as it is going to be asked for. */
static struct stored_chunk chunk_of(const struct zarr_array *array, const uint64_t *chunk_index,
                                    const char *key, uint64_t begin, uint64_t end)
{
    struct stored_chunk chunk = {.array = array, .key = key, .wanted = array->chunk_bytes};

    memcpy(chunk.index, chunk_index, sizeof chunk.index);
    if (array->shard_level_count > 0) {
        chunk_part(array, chunk_index, begin, end, &chunk.begin, &chunk.wanted);
        return chunk;
    }
    chunk.located = true;
    chunk.is_range = chunk_part(array, chunk_index, begin, end, &chunk.begin, &chunk.wanted) &&
                     codec_chain_is_raw(&array->codecs);
    chunk.offset = chunk.begin;
    chunk.bytes = chunk.wanted;
    return chunk;
}

/* Chunks that the value at that place has, of those that the array has. */
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

uint64_t zarr_part_stored_bytes(const struct zarr_array *array, const uint64_t *chunk_index,
                                uint64_t begin, uint64_t end, uint64_t value_bytes)
{
    size_t part_begin, part_bytes;

    if (codec_chain_is_raw(&array->codecs) &&
        chunk_part(array, chunk_index, begin, end, &part_begin, &part_bytes))
        return part_bytes < value_bytes ? part_bytes : value_bytes;
    return value_bytes / chunks_in_value(array, chunk_index);
}

/* Where the chunk is decoded to, and read to where that was not done: straight into its place if it
 * is one run there. */
static unsigned char *choose_memory(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                    const struct part *part, unsigned char *destination)
{
    bool direct = chunk->array->convert.to == DTYPE_NONE && scatter_is_run(&part->scatter) &&
                  scatter_bytes(&part->scatter) == chunk->wanted;
    unsigned char *decoded = direct ? destination + part->to : reader->scratch;

    if (chunk->fetched)
        return decoded;
    bool raw = codec_chain_is_raw(&chunk->array->codecs);
    chunk->memory = raw ? decoded : reader->stored;
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

/* Notes what scratch memory holds now; parts of chunks are not worth it. */
static void note_decoded(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk)
{
    if (chunk->array->shard_level_count == 0 && chunk->wanted == chunk->array->chunk_bytes)
        memcpy(reader->scratch_key, chunk->key, strlen(chunk->key) + 1);
}

static void put_part(const struct zarr_array *array, const struct stored_chunk *chunk,
                     const struct part *part, const unsigned char *decoded,
                     unsigned char *destination)
{
    const struct scatter *scatter = &part->scatter;
    bool swaps = array->byte_swapped && zarr_array_is_member(array);

    if (array->convert.to != DTYPE_NONE) {
        scatter_convert(scatter, &array->convert, swaps ? dtype_swap_bytes(array->convert.from) : 1,
                        decoded + (part->from - chunk->begin), destination + part->to);
        return;
    }
    scatter_copy(scatter, decoded + (part->from - chunk->begin), destination + part->to);
    if (swaps)
        scatter_swap(scatter, dtype_swap_bytes(array->dtype), destination + part->to);
}

static enum status read_part(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                             const struct part *part, unsigned char *destination,
                             struct zarr_read_stats *stats, struct error *err)
{
    const struct zarr_array *array = chunk->array;
    bool missing = false;

    unsigned char *decoded = choose_memory(reader, chunk, part, destination);
    if (!is_decoded(reader, chunk)) {
        if (decoded == reader->scratch)
            reader->scratch_key[0] = '\0';
        enum status status = load_chunk(reader, chunk, decoded, &missing, stats, err);
        if (status != STATUS_OK)
            return status;
        if (decoded == reader->scratch && !missing)
            note_decoded(reader, chunk);
    }
    stats->decoded_bytes += scatter_bytes(&part->scatter);
    uint64_t start_ns = clock_now_ns();
    if (missing)
        scatter_fill(&part->scatter, array->fill, destination + part->to);
    else if (decoded == reader->scratch)
        put_part(array, chunk, part, decoded, destination);
    else
        return STATUS_OK;
    stats->decode_ns += clock_now_ns() - start_ns;
    return STATUS_OK;
}

/* Leaves out a part that cannot be had, if whoever reads can do without. Memory that is short and a
 * store that hangs are no fault of the chunk. */
static enum status skip_part(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                             uint64_t begin, const struct part *part, const struct error *cause,
                             struct error *err)
{
    struct zarr_faults *faults = reader->faults;
    enum status status = (enum status)cause->status;
    bool bad = status == STATUS_CORRUPT || status == STATUS_IO || status == STATUS_UNSUPPORTED;

    if (bad && faults && faults->skip)
        return faults->skip(faults, chunk->array, chunk->index, begin + part->first,
                            begin + part->first + part->count, cause, err);
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
    struct part part;
    struct error cause;

    cut_part(request->array, chunk->index, request->begin, request->end, &part);
    enum status status =
        read_part(reader, chunk, &part, request->destination, request->stats, &cause);
    return status == STATUS_OK ? status
                               : skip_part(reader, chunk, request->begin, &part, &cause, err);
}

/* The chunks of one shard, as many at once as are fetched together. */
static enum status read_shard(struct zarr_chunk_reader *reader, const struct request *request,
                              struct chunk_walk *walk, const char *key, struct error *err)
{
    bool from_store = !reader->tape || !reader->tape->play, more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        size_t count = 0;

        while (more && count < BATCH_CHUNKS) {
            reader->batch[count++] =
                chunk_of(request->array, walk->chunk, key, request->begin, request->end);
            more = chunk_walk_next(walk);
        }
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

enum status zarr_list_pieces(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             uint64_t begin, uint64_t end, zarr_visit_piece *visit, void *argument,
                             bool *ret_complete, struct error *err)
{
    enum status status = STATUS_OK;
    struct shard_name last = {0};
    struct chunk_walk walk;
    bool complete = true;

    assert(begin < end && end <= array->shape[0]);
    chunk_walk_begin(&walk, array, begin, end);
    do {
        char key[ZARR_KEY_BYTES];

        zarr_chunk_key(array, walk.chunk, key);
        do {
            struct stored_chunk chunk = chunk_of(array, walk.chunk, key, begin, end);
            status = chunk_tell_piece(reader, &chunk, visit, argument, &last, &complete, err);
        } while (status == STATUS_OK && chunk_walk_next(&walk));
    } while (status == STATUS_OK && chunk_walk_next_value(&walk));
    if (status == STATUS_OK)
        *ret_complete = complete;
    return status;
}
