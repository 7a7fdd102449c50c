/* A cache of shards' indices, of fixed size, which all chunk readers of a process share. Any number
 * of threads may look, get and put at once. Nothing blocks but for a mutex.
 */
#ifndef PENSTOCK_ZARR_CHUNK_SHARD_CACHE_H
#define PENSTOCK_ZARR_CHUNK_SHARD_CACHE_H

#include "base/error.h"
#include "zarr/chunk/shard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_cache;

/* How much memory a cache with this limit takes: `limit_bytes` at most, but room for one index of
 * each array's shards at least, and not more than all indices take. Arrays without shards do not
 * count. Pure. */
size_t shard_cache_bytes(const struct zarr_array *const *arrays, size_t array_count,
                         size_t limit_bytes);

/* Makes a cache. The arrays are borrowed until shard_cache_free(), and told apart by their
 * addresses. NO_MEMORY. */
MUST_USE enum status shard_cache_new(const struct zarr_array *const *arrays, size_t array_count,
                                     size_t limit_bytes, struct shard_cache **ret_cache,
                                     struct error *err);

/* No other call may be under way. NULL is fine. */
void shard_cache_free(struct shard_cache *cache);

/* Looks up entry `number` in the index of `name`. False: the cache does not have the index, or is
 * NULL. */
bool shard_cache_look(struct shard_cache *cache, struct shard_name name, uint64_t number,
                      struct shard_look *ret_look);

/* Copies the index of `name` into *index, whose `entries` have room for all entries. False: the
 * cache does not have the index, or is NULL; *index is unchanged. */
bool shard_cache_get(struct shard_cache *cache, struct shard_name name, struct shard_index *index);

/* Keeps a copy of an index, and drops another. NULL cache: does nothing. */
void shard_cache_put(struct shard_cache *cache, const struct shard_index *index);

#endif
