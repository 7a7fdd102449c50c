/* Shards: values that hold many chunks (Zarr v3's sharding_indexed), and where a chunk lies in a
 * shard.
 *
 * A shard is a box of inner chunks, in any order and with any gaps, and an index. For each inner
 * chunk, in C order of the box, the index has two uint64: where the chunk begins, and its number of
 * bytes. Both are 2^64-1 for a chunk that is not there. The index is at the shard's end or start,
 * with or without a checksum.
 *
 *     a/c/0/1   | chunk 1 | gap | chunk 0 | chunk 3 | index: 4 x (offset, bytes) | crc32c |
 *
 * An inner chunk may be a shard again. Its offsets count from its own start. `struct zarr_array`
 * counts chunks of the innermost level, which are decoded; its shard_levels say how to get there.
 *
 * Indices are read once and kept in a cache (shard_cache.h). An index is foreign bytes. If an entry
 * does not lie within its shard, or shares bytes with another entry, that inner chunk is refused
 * when it is wanted. Other inner chunks are read all the same.
 */
#ifndef PENSTOCK_ZARR_CHUNK_SHARD_H
#define PENSTOCK_ZARR_CHUNK_SHARD_H

#include "base/error.h"
#include "codec/codec.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where an inner chunk lies in its shard. */
struct shard_entry {
    uint64_t offset, bytes; /* both SHARD_MISSING: there is no such chunk */
};

#define SHARD_MISSING UINT64_MAX

/* Names a shard: its array (borrowed), its level (0: shards that are values), and its number in C
 * order of all shards of the level. */
struct shard_name {
    const struct zarr_array *array;
    int level;
    uint64_t number;
};

/* Arrays are the same if their addresses are. */
bool shard_is_same(struct shard_name a, struct shard_name b);

/* The shard at `level` that holds the chunk at `chunk_index`. */
struct shard_name shard_of(const struct zarr_array *array, int level, const uint64_t *chunk_index);

/* The number of the chunk's entry (or of the entry of the next level's shard) in the index of that
 * shard. */
uint64_t shard_entry_number(const struct zarr_array *array, int level, const uint64_t *chunk_index);

/* The index of one shard. */
struct shard_index {
    struct shard_name name;      /* array NULL: no index yet */
    bool absent;                 /* the shard is missing: so are all its chunks */
    bool is_new;                 /* the disk cache was not given the index yet */
    uint64_t shard_bytes;        /* of the whole shard; UINT64_MAX: not known */
    struct shard_entry *entries; /* [entry_count] of the level */
};

/* Reads an index from its stored bytes, which are used as scratch memory. The caller has set
 * `entries`, name and shard_bytes. Entries that share bytes with others are changed so that
 * shard_look_check() refuses them. CORRUPT: the checksum is wrong. */
MUST_USE enum status shard_index_parse(struct shard_index *index, struct codec_context *context,
                                       void *stored, struct error *err);

/* What an index says of one inner chunk. */
struct shard_look {
    bool absent, is_new;      /* as of the index */
    uint64_t shard_bytes;     /* as of the index */
    struct shard_entry entry; /* SHARD_MISSING if the shard is missing */
};

/* Looks up entry `number`. */
struct shard_look shard_index_look(const struct shard_index *index, uint64_t number);

/* Checks entry `number`. CORRUPT: the chunk does not lie within the shard, or shares bytes with the
 * index or another inner chunk. A missing chunk is fine. */
MUST_USE enum status shard_look_check(struct shard_name name, uint64_t number,
                                      const struct shard_look *look, struct error *err);

#endif
