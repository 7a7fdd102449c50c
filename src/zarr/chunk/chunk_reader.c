/* See chunk.h and chunk_internal.h: a chunk reader and its memory.
 *
 * Sizes are summed up over all arrays of the reader. Then one mapping is cut into parts. The same
 * walk without a mapping tells how much memory a reader would take.
 */
#include "zarr/chunk/chunk_internal.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct zarr_read_options zarr_read_defaults = {
    .coalesce_gap = 64 << 10,
    .coalesce_bytes = 4 << 20,
};

/* What a reader for some arrays needs; its memory is one mapping of these, one after another. */
struct demand {
    const struct codec_chain *chains[ZARR_READER_MAX_ARRAYS * (1 + ZARR_MAX_SHARD_LEVELS)];
    size_t chain_count;
    size_t context_bytes; /* largest chunk or index that passes through a codec */
    size_t stored_bytes, ahead_bytes, decoded_bytes, raw_index_bytes, batch_bytes;
    size_t entries_bytes[ZARR_MAX_SHARD_LEVELS];
};

static void add_shards(struct demand *demand, const struct zarr_array *array)
{
    for (int i = 0; i < array->shard_level_count; i++) {
        const struct zarr_shard_level *level = &array->shard_levels[i];
        size_t bytes = level->entry_count * sizeof(struct shard_entry) + sizeof(uint64_t);
        demand->chains[demand->chain_count++] = &level->index_codecs;
        demand->entries_bytes[i] = max_u64(demand->entries_bytes[i], bytes);
        demand->raw_index_bytes = max_u64(demand->raw_index_bytes, level->index_bytes);
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
        ret_demand->decoded_bytes = max_u64(ret_demand->decoded_bytes, array->chunk_bytes);
        ret_demand->context_bytes =
            max_u64(ret_demand->context_bytes, raw ? 0 : array->chunk_bytes);
        bool direct = raw && !chunk_goes_direct(options, array);
        ret_demand->stored_bytes = max_u64(ret_demand->stored_bytes, direct ? 0 : bound);
        shard_bound = max_u64(shard_bound, array->shard_level_count > 0 ? bound : 0);
        add_shards(ret_demand, array);
    }
    if (options->lists_only)
        ret_demand->decoded_bytes = ret_demand->context_bytes = ret_demand->stored_bytes = 0;
    if (shard_bound > 0) {
        ret_demand->ahead_bytes = max_u64(shard_bound, options->coalesce_bytes);
        ret_demand->batch_bytes = BATCH_CHUNKS * sizeof(struct stored_chunk);
    }
}

/* Takes the next `bytes` of a mapping of which `*used` are taken; NULL if there are none to take.
 */
static void *take(unsigned char *memory, size_t *used, size_t bytes)
{
    void *taken = memory && bytes > 0 ? memory + *used : NULL;
    *used += size_round_up(bytes, MEMORY_PAGE_BYTES);
    return taken;
}

/* Lays the memory out, or only sums it up where there is none yet. */
static size_t lay_out(struct zarr_chunk_reader *reader, const struct demand *demand)
{
    size_t used = 0;
    reader->stored = take(reader->memory, &used, demand->stored_bytes);
    reader->stored_capacity = demand->stored_bytes;
    reader->ahead =
        take(reader->memory, &used, reader->options.lists_only ? 0 : demand->ahead_bytes);
    reader->ahead_capacity = demand->ahead_bytes;
    reader->scratch = take(reader->memory, &used, demand->decoded_bytes);
    reader->raw_index = take(reader->memory, &used, demand->raw_index_bytes);
    for (int i = 0; i < ZARR_MAX_SHARD_LEVELS; i++)
        reader->indices[i].entries = take(reader->memory, &used, demand->entries_bytes[i]);
    reader->batch = take(reader->memory, &used, demand->batch_bytes);
    return max_u64(used, MEMORY_LINE_BYTES); /* no mapping is empty */
}

static size_t inflate_bytes(const struct store *store, const struct zarr_array *const *arrays,
                            size_t array_count)
{
    uint64_t most = 0;
    for (size_t i = 0; store && i < array_count; i++)
        most = max_u64(
            most, store_inflate_below(store, zarr_array_store_path(arrays[i]).text).most_bytes);
    return most;
}

size_t zarr_chunk_reader_bytes_with(const struct store *store,
                                    const struct zarr_array *const *arrays, size_t array_count,
                                    const struct zarr_read_options *options)
{
    struct zarr_chunk_reader reader = {.options = *options};
    struct demand demand;
    sum_demand(arrays, array_count, options, &demand);
    return size_round_up(lay_out(&reader, &demand), MEMORY_PAGE_BYTES) +
           codec_context_bytes(demand.chains, demand.chain_count, demand.context_bytes) +
           inflate_bytes(store, arrays, array_count);
}

size_t zarr_chunk_reader_bytes(const struct store *store, const struct zarr_array *const *arrays,
                               size_t array_count)
{
    return zarr_chunk_reader_bytes_with(store, arrays, array_count, &zarr_read_defaults);
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
    reader->cuts = !store_is_remote(store);
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
    reader->inflate_bytes = inflate_bytes(store, arrays, array_count);
    store_reserve(store, (int64_t)reader->inflate_bytes);
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
    if (reader->inflate_bytes > 0)
        store_reserve(reader->store, -(int64_t)reader->inflate_bytes);
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

void zarr_chunk_reader_use_fetched(struct zarr_chunk_reader *reader, struct fetched *fetched)
{
    reader->fetched = fetched;
}

void zarr_chunk_reader_use_cache(struct zarr_chunk_reader *reader, struct disk_cache *cache)
{
    reader->cache = cache;
}

void zarr_chunk_reader_use_faults(struct zarr_chunk_reader *reader, struct zarr_faults *faults)
{
    reader->faults = faults;
}
