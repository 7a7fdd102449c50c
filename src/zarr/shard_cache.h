/* A cache of shards' indices, of fixed size, which all readers of a process share. Any number of
 * threads may call everything but making and freeing.
 */
#ifndef PENSTOCK_ZARR_SHARD_CACHE_H
#define PENSTOCK_ZARR_SHARD_CACHE_H

#include "base/error.h"
#include "zarr/shard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shard_cache;

/* Takes at most `limit_bytes`, but room for one index of each array's shards in any case, and no
 * more than all indices take: shard_cache_bytes() says how much. The arrays are borrowed while it
 * lives, and told apart by address; those without shards do not count. NO_MEMORY. */
size_t shard_cache_bytes(const struct zarr_array *const *arrays, size_t array_count,
                         size_t limit_bytes);
MUST_USE enum status shard_cache_new(const struct zarr_array *const *arrays, size_t array_count,
                                     size_t limit_bytes, struct shard_cache **ret_cache,
                                     struct error *err);
void shard_cache_free(struct shard_cache *cache); /* NULL is fine */

/* The entry of that number in the index of `name`; false: the index is not there. NULL has nothing.
 */
bool shard_cache_look(struct shard_cache *cache, struct shard_name name, uint64_t number,
                      struct shard_look *ret_look);

/* All of the index of `name` into *index, whose entries have room for it; false: it is not there,
 * and *index is as it was. NULL has nothing. */
bool shard_cache_get(struct shard_cache *cache, struct shard_name name, struct shard_index *index);

/* Keeps a copy, instead of another's. NULL does nothing. */
void shard_cache_put(struct shard_cache *cache, const struct shard_index *index);

#endif
