/* Reading chunks. See chunk.h.
 *
 * A reader's memory is one mapping: the stored bytes of a chunk, then scratch for one decoded
 * chunk, and for one whose items are converted.
 *
 *     | stored: largest bound of the codecs | pad to 64 | scratch: largest decoded chunk | pad to
 * 64 | | converted: largest chunk of a view that converts |
 */
#include "zarr/chunk.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "store/disk_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct zarr_chunk_reader {
    const struct store *store;  /* borrowed, as are the next two */
    struct zarr_tape *tape;     /* NULL: none */
    struct disk_cache *cache;   /* NULL: none */
    struct zarr_faults *faults; /* NULL: none */
    struct codec_context *context;
    unsigned char *stored; /* start of the mapping */
    size_t stored_capacity;
    unsigned char *scratch;
    unsigned char *converted;
    size_t mapped_bytes;
};

/* What a reader for some arrays needs. */
struct demand {
    const struct codec_chain *chains[ZARR_READER_MAX_ARRAYS];
    size_t stored_bytes;  /* multiple of 64 */
    size_t decoded_bytes; /* multiple of 64 */
    size_t converted_bytes;
    size_t context_bytes; /* largest chunk that passes through a codec */
};

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Bytes of an item as decoded, before any conversion. */
static size_t decoded_item_bytes(const struct zarr_array *array)
{
    return array->convert.to == DTYPE_NONE ? array->item_bytes : dtype_bytes(array->convert.from);
}

static size_t converted_chunk_bytes(const struct zarr_array *array)
{
    return array->chunk_bytes / decoded_item_bytes(array) * array->item_bytes;
}

static void sum_demand(const struct zarr_array *const *arrays, size_t array_count,
                       struct demand *ret_demand)
{
    assert(array_count > 0 && array_count <= ZARR_READER_MAX_ARRAYS);
    memset(ret_demand, 0, sizeof *ret_demand);
    for (size_t i = 0; i < array_count; i++) {
        const struct zarr_array *array = arrays[i];

        ret_demand->chains[i] = &array->codecs;
        ret_demand->decoded_bytes = larger(ret_demand->decoded_bytes, array->chunk_bytes);
        if (array->convert.to != DTYPE_NONE)
            ret_demand->converted_bytes =
                larger(ret_demand->converted_bytes, converted_chunk_bytes(array));
        if (codec_chain_is_raw(&array->codecs))
            continue;
        size_t bound = codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
        ret_demand->stored_bytes = larger(ret_demand->stored_bytes, bound);
        ret_demand->context_bytes = larger(ret_demand->context_bytes, array->chunk_bytes);
    }
    ret_demand->stored_bytes = size_round_up(ret_demand->stored_bytes, MEMORY_LINE_BYTES);
    ret_demand->decoded_bytes = size_round_up(ret_demand->decoded_bytes, MEMORY_LINE_BYTES);
}

static size_t buffer_bytes(const struct demand *demand)
{
    return demand->stored_bytes + demand->decoded_bytes + demand->converted_bytes;
}

size_t zarr_chunk_reader_bytes(const struct zarr_array *const *arrays, size_t array_count)
{
    struct demand demand;

    sum_demand(arrays, array_count, &demand);
    return size_round_up(buffer_bytes(&demand), MEMORY_PAGE_BYTES) +
           codec_context_bytes(demand.chains, array_count, demand.context_bytes);
}

enum status zarr_chunk_reader_new(const struct store *store, const struct zarr_array *const *arrays,
                                  size_t array_count, struct zarr_chunk_reader **ret_reader,
                                  struct error *err)
{
    struct zarr_chunk_reader *reader = calloc(1, sizeof *reader);
    struct demand demand;
    enum status status;
    void *memory;

    if (!reader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a chunk reader");
    sum_demand(arrays, array_count, &demand);
    reader->store = store;
    reader->stored_capacity = demand.stored_bytes;
    status =
        codec_context_new(demand.chains, array_count, demand.context_bytes, &reader->context, err);
    if (status != STATUS_OK)
        goto fail;
    size_t bytes = buffer_bytes(&demand);
    status = memory_map(bytes, "chunk buffers", &memory, err);
    if (status != STATUS_OK)
        goto fail;
    memory_touch(memory, bytes);
    reader->mapped_bytes = bytes;
    reader->stored = memory;
    reader->scratch = reader->stored + demand.stored_bytes;
    reader->converted = reader->scratch + demand.decoded_bytes;
    *ret_reader = reader;
    return STATUS_OK;

fail:
    zarr_chunk_reader_free(reader);
    return status;
}

void zarr_chunk_reader_free(struct zarr_chunk_reader *reader)
{
    if (!reader)
        return;
    memory_unmap(reader->stored, reader->mapped_bytes);
    codec_context_free(reader->context);
    free(reader);
}

void zarr_chunk_reader_use_tape(struct zarr_chunk_reader *reader, struct zarr_tape *tape)
{
    reader->tape = tape;
}

void zarr_chunk_reader_use_cache(struct zarr_chunk_reader *reader, struct disk_cache *cache)
{
    reader->cache = cache;
}

void zarr_chunk_reader_use_faults(struct zarr_chunk_reader *reader, struct zarr_faults *faults)
{
    reader->faults = faults;
}

/* A chunk as stored: where its bytes are to go and, once fetched, how many there are. */
struct stored_chunk {
    const char *key;
    void *bytes;
    size_t capacity, size;
    bool is_new;  /* the store had to be asked: the disk cache does not have it */
    bool fetched; /* `bytes` holds it, whether or not it decodes */
};

/* From the disk cache, else from the store. */
static enum status fetch_from_disk(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                   struct zarr_read_stats *stats, struct error *err)
{
    if (reader->cache &&
        disk_cache_get(reader->cache, chunk->key, chunk->bytes, chunk->capacity, &chunk->size)) {
        stats->disk_bytes += chunk->size;
        stats->disk_chunk_count++;
        return STATUS_OK;
    }
    enum status status =
        store_get(reader->store, chunk->key, chunk->bytes, chunk->capacity, &chunk->size, err);
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
    enum status status;

    if (tape && tape->play) {
        status = tape->play(tape, chunk->bytes, chunk->capacity, &chunk->size, err);
        stats->memory_chunk_count++;
        if (status == STATUS_OK)
            stats->memory_bytes += chunk->size;
    } else {
        status = fetch_from_disk(reader, chunk, stats, err);
    }
    stats->read_ns += clock_now_ns() - start_ns;
    return status;
}

/* Tells the tape what became of a chunk that the store or its cache was asked for. */
static void record(struct zarr_tape *tape, const struct stored_chunk *chunk, enum status status)
{
    if (!tape || tape->play)
        return;
    if (chunk->fetched)
        tape->record(tape, STATUS_OK, chunk->bytes, chunk->size);
    else
        tape->record(tape, status == STATUS_NOT_FOUND ? STATUS_OK : status, NULL, 0);
}

/* Offers a chunk to the disk cache: one that decodes, so that damage is not spread. */
static void keep_on_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                         struct zarr_read_stats *stats)
{
    if (!reader->cache || !chunk->is_new)
        return;
    uint64_t start_ns = clock_now_ns();
    disk_cache_put(reader->cache, chunk->key, chunk->bytes, chunk->size);
    stats->read_ns += clock_now_ns() - start_ns;
}

/* Fetches a chunk and decodes it. Chunks that have no codec are read into place; their size is the
 * only thing that can be wrong. */
static enum status load_stored(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                               struct stored_chunk *chunk, void *decoded,
                               struct zarr_read_stats *stats, struct error *err)
{
    enum status status = fetch(reader, chunk, stats, err);

    chunk->fetched = status == STATUS_OK;
    if (status != STATUS_OK)
        return status;
    if (codec_chain_is_raw(&array->codecs)) {
        if (chunk->size != array->chunk_bytes)
            return error_set(err, STATUS_CORRUPT,
                             "chunk holds %zu bytes, the array's chunks have %zu", chunk->size,
                             array->chunk_bytes);
        return STATUS_OK;
    }
    uint64_t start_ns = clock_now_ns();
    status = codec_decode(&array->codecs, reader->context, chunk->bytes, chunk->size, decoded,
                          array->chunk_bytes, err);
    stats->decode_ns += clock_now_ns() - start_ns;
    return status;
}

/* The same, with one more try from the store, for the tape and the disk cache. */
static enum status load(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                        const char *key, void *decoded, struct zarr_read_stats *stats,
                        struct error *err)
{
    bool raw = codec_chain_is_raw(&array->codecs);
    struct stored_chunk chunk = {.key = key,
                                 .bytes = raw ? decoded : reader->stored,
                                 .capacity = raw ? array->chunk_bytes : reader->stored_capacity};
    enum status status = load_stored(reader, array, &chunk, decoded, stats, err);

    if (status == STATUS_CORRUPT && chunk.is_new && store_retry(reader->store, 0, err))
        status = load_stored(reader, array, &chunk, decoded, stats, err);
    record(reader->tape, &chunk, status);
    if (status == STATUS_OK)
        keep_on_disk(reader, &chunk, stats);
    return status;
}

/* A whole chunk in native byte order at `decoded`. A chunk that is not there sets *ret_missing and
 * nothing else. */
static enum status load_chunk(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                              const uint64_t *chunk_index, unsigned char *decoded,
                              bool *ret_missing, struct zarr_read_stats *stats, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    struct error cause;
    enum status status;

    zarr_chunk_key(array, chunk_index, key);
    error_clear(&cause);
    status = load(reader, array, key, decoded, stats, &cause);
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
                           "the store has no '%s', and errors.missing_chunk is fail", key);
    }
    if (status != STATUS_OK) {
        if (err)
            *err = cause;
        return error_prefix(err, status, "array '%s' chunk %s: ", array->path,
                            zarr_index_format(array, chunk_index).text);
    }
    if (array->byte_swapped) {
        uint64_t start_ns = clock_now_ns();
        bytes_swap(
            decoded, array->chunk_bytes,
            dtype_swap_bytes(array->convert.to == DTYPE_NONE ? array->dtype : array->convert.from));
        stats->decode_ns += clock_now_ns() - start_ns;
    }
    *ret_missing = false;
    return STATUS_OK;
}

/* Repeats the fill value over `size` bytes, doubling what is already there. */
static void put_fill(const struct zarr_array *array, unsigned char *out, size_t size)
{
    size_t done = array->item_bytes;

    memcpy(out, array->fill, done);
    while (done < size) {
        size_t count = done < size - done ? done : size - done;
        memcpy(out + done, out, count);
        done += count;
    }
}

enum status zarr_read_chunk(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                            const uint64_t *chunk_index, void *decoded,
                            struct zarr_read_stats *stats, struct error *err)
{
    bool missing;
    enum status status = load_chunk(reader, array, chunk_index, decoded, &missing, stats, err);

    if (status != STATUS_OK)
        return status;
    if (missing)
        put_fill(array, decoded, array->chunk_bytes);
    stats->decoded_bytes += array->chunk_bytes;
    return STATUS_OK;
}

/* One chunk's share of a destination: a box of `extent` items at `from` in the chunk, at `to` in
 * the destination of `shape`. */
struct part {
    int rank;
    uint64_t from[ZARR_MAX_RANK];
    uint64_t to[ZARR_MAX_RANK];
    uint64_t extent[ZARR_MAX_RANK];
    uint64_t shape[ZARR_MAX_RANK];
};

static void cut_part(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                     uint64_t end, struct part *ret_part)
{
    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    ret_part->rank = array->rank;
    for (int i = 0; i < ret_part->rank; i++) {
        uint64_t want_begin = i == 0 ? begin : 0;
        uint64_t want_end = i == 0 ? end : array->shape[i];
        uint64_t chunk_begin = chunk_index[i] * array->chunk_shape[i];
        uint64_t chunk_end = chunk_begin + array->chunk_shape[i];
        uint64_t low = chunk_begin > want_begin ? chunk_begin : want_begin;
        uint64_t high = chunk_end < want_end ? chunk_end : want_end;

        ret_part->from[i] = low - chunk_begin;
        ret_part->to[i] = low - want_begin;
        ret_part->extent[i] = high - low;
        ret_part->shape[i] = want_end - want_begin;
    }
}

/* The place of the item at `position` in a C-order box of `shape`, in items. */
static size_t item_at(int rank, const uint64_t *shape, const uint64_t *position)
{
    uint64_t item = 0;

    for (int i = 0; i < rank; i++)
        item = item * shape[i] + position[i];
    return item;
}

/* Items from one index to the next along each axis: of a decoded chunk, and of the destination. */
struct strides {
    uint64_t chunk[ZARR_MAX_RANK];
    uint64_t destination[ZARR_MAX_RANK];
};

static void find_strides(const struct zarr_array *array, const struct part *part,
                         struct strides *ret_strides)
{
    uint64_t chunk = 1, destination = 1;

    for (int i = part->rank - 1; i >= 0; i--) {
        int axis = array->storage_axes[i];

        ret_strides->chunk[axis] = chunk;
        ret_strides->destination[i] = destination;
        chunk *= array->chunk_shape[axis];
        destination *= part->shape[i];
    }
}

/* The outermost axis from which on the part is one run in chunk and destination alike, which has
 * *ret_items; the rank if not even the last axis is. */
static int run_axis(const struct part *part, const struct strides *strides, uint64_t *ret_items)
{
    uint64_t items = 1;
    int axis = part->rank;

    while (axis > 0 && (part->extent[axis - 1] == 1 || (strides->chunk[axis - 1] == items &&
                                                        strides->destination[axis - 1] == items)))
        items *= part->extent[--axis];
    *ret_items = items;
    return axis;
}

/* Whether the part is the whole chunk and one run of the destination, so that it can be decoded in
 * place. */
static bool is_direct(const struct zarr_array *array, const struct part *part)
{
    struct strides strides;
    uint64_t items;

    for (int i = 0; i < part->rank; i++)
        if (part->extent[i] != array->chunk_shape[i])
            return false;
    find_strides(array, part, &strides);
    return run_axis(part, &strides, &items) == 0;
}

static size_t part_bytes(const struct zarr_array *array, const struct part *part)
{
    size_t bytes = array->item_bytes;

    for (int i = 0; i < part->rank; i++)
        bytes *= part->extent[i];
    return bytes;
}

/* Steps `position` through a box of `extent` over axes [0, axis_count); false after the last. */
static bool next_position(uint64_t *position, const uint64_t *extent, int axis_count)
{
    for (int i = axis_count - 1; i >= 0; i--) {
        if (++position[i] < extent[i])
            return true;
        position[i] = 0;
    }
    return false;
}

/* `count` runs of `run_bytes`, `out_step` and `in_step` bytes apart. */
static void copy_runs(unsigned char *out, size_t out_step, const unsigned char *in, size_t in_step,
                      uint64_t count, size_t run_bytes)
{
#define COPY_OF(bytes)               \
    case bytes:                      \
        for (; count > 0; count--) { \
            memcpy(out, in, bytes);  \
            out += out_step;         \
            in += in_step;           \
        }                            \
        return;
    switch (run_bytes) {
        COPY_OF(1)
        COPY_OF(2)
        COPY_OF(4)
        COPY_OF(8)
    default:
        for (; count > 0; count--, out += out_step, in += in_step)
            memcpy(out, in, run_bytes);
    }
#undef COPY_OF
}

/* Copies the part run by run from `chunk`, or fills it where `chunk` is NULL. */
static void put_part(const struct zarr_array *array, const struct part *part,
                     const unsigned char *chunk, unsigned char *destination)
{
    uint64_t position[ZARR_MAX_RANK] = {0}, run_items;
    size_t item_bytes = array->item_bytes;
    struct strides strides;

    find_strides(array, part, &strides);
    int axis = run_axis(part, &strides, &run_items) - 1; /* along which runs follow one another */
    uint64_t count = axis >= 0 ? part->extent[axis] : 1;
    size_t out_step = axis >= 0 ? strides.destination[axis] * item_bytes : 0;
    size_t in_step = axis >= 0 ? strides.chunk[axis] * item_bytes : 0;
    do {
        uint64_t from = 0, to = 0;

        for (int i = 0; i < part->rank; i++) {
            from += (part->from[i] + position[i]) * strides.chunk[i];
            to += (part->to[i] + position[i]) * strides.destination[i];
        }
        unsigned char *out = destination + to * item_bytes;
        if (chunk)
            copy_runs(out, out_step, chunk + from * item_bytes, in_step, count,
                      run_items * item_bytes);
        for (uint64_t i = 0; !chunk && i < count; i++)
            put_fill(array, out + i * out_step, run_items * item_bytes);
    } while (axis > 0 && next_position(position, part->extent, axis));
}

/* Decodes a chunk and converts its items, to `converted`, as load_chunk(). */
static enum status load_converted(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                                  const uint64_t *chunk_index, unsigned char *converted,
                                  bool *ret_missing, struct zarr_read_stats *stats,
                                  struct error *err)
{
    enum status status =
        load_chunk(reader, array, chunk_index, reader->scratch, ret_missing, stats, err);

    if (status != STATUS_OK || *ret_missing)
        return status;
    uint64_t start_ns = clock_now_ns();
    convert_items(&array->convert, reader->scratch, array->chunk_bytes / decoded_item_bytes(array),
                  converted);
    stats->decode_ns += clock_now_ns() - start_ns;
    return STATUS_OK;
}

static enum status read_part(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             const uint64_t *chunk_index, const struct part *part,
                             unsigned char *destination, struct zarr_read_stats *stats,
                             struct error *err)
{
    bool converts = array->convert.to != DTYPE_NONE;
    bool direct = is_direct(array, part), missing;
    unsigned char *chunk =
        direct ? destination + item_at(part->rank, part->shape, part->to) * array->item_bytes
               : (converts ? reader->converted : reader->scratch);
    enum status status = (converts ? load_converted : load_chunk)(reader, array, chunk_index, chunk,
                                                                  &missing, stats, err);

    if (status != STATUS_OK)
        return status;
    stats->decoded_bytes += part_bytes(array, part);
    if (direct && !missing)
        return STATUS_OK;
    uint64_t start_ns = clock_now_ns();
    put_part(array, part, missing ? NULL : chunk, destination);
    stats->decode_ns += clock_now_ns() - start_ns;
    return STATUS_OK;
}

/* Leaves out a part that cannot be had, if whoever reads can do without. Memory that is short and a
 * store that hangs are no fault of the chunk. */
static enum status skip_part(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             const uint64_t *chunk_index, uint64_t begin, const struct part *part,
                             const struct error *cause, struct error *err)
{
    struct zarr_faults *faults = reader->faults;
    enum status status = (enum status)cause->status;
    bool bad = status == STATUS_CORRUPT || status == STATUS_IO || status == STATUS_UNSUPPORTED;

    if (bad && faults && faults->skip)
        return faults->skip(faults, array, chunk_index, begin + part->to[0],
                            begin + part->to[0] + part->extent[0], cause, err);
    if (err)
        *err = *cause;
    return status;
}

enum status zarr_read_samples(struct zarr_chunk_reader *reader, const struct zarr_array *array,
                              uint64_t begin, uint64_t end, void *destination,
                              struct zarr_read_stats *stats, struct error *err)
{
    assert(begin < end && end <= array->shape[0]);
    uint64_t first = begin / array->chunk_shape[0];
    uint64_t position[ZARR_MAX_RANK] = {0}, counts[ZARR_MAX_RANK];
    struct error cause;

    memcpy(counts, array->chunk_counts, sizeof counts);
    counts[0] = (end - 1) / array->chunk_shape[0] - first + 1;
    do {
        uint64_t chunk_index[ZARR_MAX_RANK];
        struct part part;

        memcpy(chunk_index, position, sizeof chunk_index);
        chunk_index[0] += first;
        cut_part(array, chunk_index, begin, end, &part);
        enum status status =
            read_part(reader, array, chunk_index, &part, destination, stats, &cause);
        if (status != STATUS_OK)
            status = skip_part(reader, array, chunk_index, begin, &part, &cause, err);
        if (status != STATUS_OK)
            return status;
    } while (next_position(position, counts, array->rank));
    return STATUS_OK;
}
