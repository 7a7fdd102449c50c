/* See values.h. */
#include "zarr/chunk/values.h"

#include "base/number.h"
#include "base/size.h"
#include "zarr/chunk/chunk_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* Where the stored bytes lie in the value of `key`, and how many they are. */
static enum status locate(const struct store *store, struct zarr_chunk_reader *shards,
                          const struct zarr_array *array, const uint64_t *chunk_index,
                          const char *key, struct zarr_extent *ret_extent, struct error *err)
{
    struct store_info info;
    if (shards)
        return zarr_locate_chunk(shards, array, chunk_index, key, ret_extent, err);
    enum status status = store_stat(store, key, &info, err);
    if (status == STATUS_OK)
        *ret_extent = (struct zarr_extent){.bytes = info.bytes};
    return status;
}

/* Into malloc'ed memory. */
static enum status fetch(const struct store *store, bool is_range, const char *key,
                         const struct zarr_extent *extent, char **ret_stored, size_t *ret_size,
                         struct error *err)
{
    if (!is_range)
        return store_get_text(store, key, ZARR_MAX_CHUNK_BYTES, ret_stored, ret_size, err);
    char *stored = malloc(max_u64(extent->bytes, 1));
    if (!stored)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %" PRIu64 " stored bytes",
                         extent->bytes);
    struct store_range range = {extent->offset, extent->bytes, stored};
    enum status status = store_get_ranges(store, key, &range, 1, NULL, err);
    if (status != STATUS_OK) {
        free(stored);
        return status;
    }
    *ret_stored = stored;
    *ret_size = extent->bytes;
    return STATUS_OK;
}

/* The limit is without the stored bytes meanwhile. */
static enum status decode(const struct zarr_array *array, const void *stored, size_t stored_size,
                          struct codec_memory *memory, struct zarr_values *ret_values,
                          struct error *err)
{
    size_t limit = memory->limit;
    memory->limit = min_u64(limit - min_u64(limit, stored_size), ZARR_MAX_CHUNK_BYTES);
    enum status status = codec_decode_unsized(&array->codecs, stored, stored_size, memory,
                                              &ret_values->bytes, &ret_values->size, err);
    memory->is_short &= memory->limit < ZARR_MAX_CHUNK_BYTES;
    memory->limit = limit;
    return status;
}

enum status zarr_values_read(const struct store *store, struct zarr_chunk_reader *shards,
                             const struct zarr_array *array, const uint64_t *chunk_index,
                             const char *key, struct codec_memory *memory,
                             struct zarr_values *ret_values, struct error *err)
{
    struct zarr_extent extent;
    char *stored = NULL;
    size_t size = 0;
    memory->is_short = false;
    enum status status = locate(store, shards, array, chunk_index, key, &extent, err);
    if (status != STATUS_OK)
        return status;
    if (extent.is_missing)
        return error_set(err, STATUS_NOT_FOUND, "the shard has no such chunk");
    ret_values->stored_bytes = extent.bytes;
    if (extent.bytes > ZARR_MAX_CHUNK_BYTES)
        return error_set(err, STATUS_CORRUPT, "%s stored, and at most %s can be right",
                         size_format(extent.bytes).text, size_format(ZARR_MAX_CHUNK_BYTES).text);
    status = memory->take(memory, extent.bytes, err);
    if (status == STATUS_OK)
        status = fetch(store, shards != NULL, key, &extent, &stored, &size, err);
    if (status == STATUS_OK && size > extent.bytes) /* a server had it compressed once more */
        status = memory->take(memory, size - extent.bytes, err);
    if (status == STATUS_OK)
        status = decode(array, stored, size, memory, ret_values, err);
    free(stored);
    if (status == STATUS_OK)
        memory->give(memory, max_u64(size, extent.bytes));
    return status;
}
