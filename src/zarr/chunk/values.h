/* Chunks of arrays of values of variable length (zarr_array.is_vlen): fetched and decoded into
 * memory of their own, since only the bytes tell their size. Any thread; blocks on the store. */
#ifndef PENSTOCK_ZARR_CHUNK_VALUES_H
#define PENSTOCK_ZARR_CHUNK_VALUES_H

#include "codec/codec.h"
#include "store/store.h"
#include "zarr/chunk/chunk.h"

struct zarr_values {
    void *bytes; /* as of vlen_measure(); malloc'ed, the caller's */
    size_t size;
    uint64_t stored_bytes; /* of the chunk in the store; set on failure, too, where it was found */
};

/* Reads the chunk at `chunk_index` of `array`, whose key is `key`. `shards` is a reader of the
 * array (lists_only will do); NULL: the array has no shards. Stored and decoded bytes are taken
 * from `memory`, whose limit is for both together; what is decoded stays taken, and on failure all
 * that was taken and not given back is the caller's to count. NOT_FOUND: the chunk is missing.
 * CORRUPT: the chunk does not decode, or, with memory->is_short, not in that limit. Other errors as
 * of store_get_ranges(), zarr_locate_chunk() and codec_decode_unsized(). Messages do not name array
 * and chunk. */
MUST_USE enum status zarr_values_read(const struct store *store, struct zarr_chunk_reader *shards,
                                      const struct zarr_array *array, const uint64_t *chunk_index,
                                      const char *key, struct codec_memory *memory,
                                      struct zarr_values *ret_values, struct error *err);

#endif
