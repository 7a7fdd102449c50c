/* Shards: values that hold many chunks (Zarr v3's sharding_indexed), and where a chunk lies in one.
 *
 * A shard is a box of inner chunks in any order and with any gaps, and an index: for each inner
 * chunk, in C order of the box, where it begins and how many bytes it has, two uint64. Both are
 * 2^64-1 for one that is not there. The index is at the shard's end or start, with or without a
 * checksum.
 *
 *     a/c/0/1   | chunk 1 | gap | chunk 0 | chunk 3 | index: 4 x (offset, bytes) | crc32c |
 *
 * An inner chunk may be a shard again, whose offsets count from its own start. `struct zarr_array`
 * counts chunks of the innermost kind, which are what is decoded; its levels say how to get there.
 *
 * Indices are read once and kept in a cache (shard_cache.h).
 * Everything in an index is foreign: what does not lie within its shard, or shares bytes with
 * another inner chunk, is refused when that inner chunk is wanted, others are read all the same.
 */
#ifndef PENSTOCK_ZARR_SHARD_H
#define PENSTOCK_ZARR_SHARD_H

#include "base/error.h"
#include "codec/codec.h"
#include "zarr/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where an inner chunk lies in its shard. */
struct shard_entry {
    uint64_t offset, bytes; /* both SHARD_MISSING: it is not there */
};

#define SHARD_MISSING UINT64_MAX

/* Which shard: of an array, at a level (0: those that are values), counted in C order of all of
 * that level. */
struct shard_name {
    const struct zarr_array *array;
    int level;
    uint64_t number;
};

bool shard_is_same(struct shard_name a, struct shard_name b);

/* The shard at that level which holds the chunk at `chunk_index`, and the chunk's entry (or the
 * entry of the next level's shard) in its index. */
struct shard_name shard_of(const struct zarr_array *array, int level, const uint64_t *chunk_index);
uint64_t shard_entry_number(const struct zarr_array *array, int level, const uint64_t *chunk_index);

/* The index of one shard. */
struct shard_index {
    struct shard_name name;      /* array NULL: holds nothing yet */
    bool absent;                 /* there is no such shard: all its chunks are missing */
    bool is_new;                 /* no disk cache was given it yet */
    uint64_t shard_bytes;        /* of the whole shard; UINT64_MAX: not known */
    struct shard_entry *entries; /* [entry_count] of the level */
};

/* Reads an index out of its stored bytes, which are used as scratch memory; entries, name and
 * shard_bytes are set by the caller. CORRUPT: the checksum is wrong. Entries that share bytes with
 * others are turned into such as shard_index_entry() refuses. */
MUST_USE enum status shard_index_parse(struct shard_index *index, struct codec_context *context,
                                       void *stored, struct error *err);

/* What an index says of one of its chunks. */
struct shard_look {
    bool absent, is_new;      /* as of the index */
    uint64_t shard_bytes;     /* as of the index */
    struct shard_entry entry; /* missing where the shard is */
};

/* The entry of that number. */
struct shard_look shard_index_look(const struct shard_index *index, uint64_t number);

/* Whether what the entry of that number says can be: within the shard, not over its index, and
 * nowhere over another inner chunk. CORRUPT: it cannot. One that is missing is fine. */
MUST_USE enum status shard_look_check(struct shard_name name, uint64_t number,
                                      const struct shard_look *look, struct error *err);

#endif
