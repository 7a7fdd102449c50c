/* The inside of a chunk reader, shared by chunk_reader.c (which makes it), chunk.c (which chunks,
 * and where they go), chunk_load.c (getting one), chunk_shard.c (where they lie in shards) and
 * chunk_batch.c (several at once, and beforehand). Internal to src/zarr. */
#ifndef PENSTOCK_ZARR_CHUNK_INTERNAL_H
#define PENSTOCK_ZARR_CHUNK_INTERNAL_H

#include "zarr/chunk.h"
#include "zarr/shard.h"

/* Inner chunks that are looked up, then fetched together, at once. */
enum { BATCH_CHUNKS = 512 };

/* A chunk, or the range of one that is wanted, as the store has it: where its bytes are to go and,
 * once fetched, how many there are. */
struct stored_chunk {
    const struct zarr_array *array;
    uint64_t index[ZARR_MAX_RANK];
    const char *key;        /* of the value */
    size_t begin, wanted;   /* the range of the decoded chunk that is read or decoded */
    bool located;           /* the next two are known */
    bool is_range;          /* it lies in the value as below; else it is all of it */
    uint64_t offset, bytes; /* in the value */
    void *memory;
    size_t capacity, size;
    bool is_missing; /* there is no such chunk */
    bool is_new;     /* the store had to be asked: the disk cache does not have it */
    bool fetched;    /* `memory` holds it, whether or not it decodes */
};

struct zarr_chunk_reader {
    const struct store *store;  /* borrowed, as are the next four */
    struct zarr_tape *tape;     /* NULL: none */
    struct disk_cache *cache;   /* NULL: none */
    struct zarr_faults *faults; /* NULL: none */
    struct zarr_read_options options;
    struct codec_context *context;
    unsigned char *memory; /* one mapping: the next five, each on a page of its own */
    size_t memory_bytes;
    unsigned char *stored; /* a chunk as stored */
    size_t stored_capacity;
    unsigned char *ahead; /* inner chunks that were fetched together; NULL: there are no shards */
    size_t ahead_capacity;
    unsigned char *scratch;   /* a decoded chunk */
    unsigned char *raw_index; /* a shard's index as stored */
    /* Those used last; behind the entries is room for a uint64. */
    struct shard_index indices[ZARR_MAX_SHARD_LEVELS];
    /* Whose index could not be had last, while one range of samples is read, and why: it is not
     * asked for again for each of its chunks. `array` NULL: none. */
    struct shard_name bad_shard;
    struct error bad_cause;
    struct stored_chunk *batch; /* [BATCH_CHUNKS] */
    bool cuts;                  /* ranges of values are read: not from remote stores */
    /* A bit for an array, by its address: set where the chunk of it that was looked at last is
     * compressed indeed. */
    uint64_t compressed_arrays;
    /* The value that scratch memory holds decoded, "" for none: several members of a structured
     * dtype are read one after another. */
    char scratch_key[ZARR_KEY_BYTES];
};

/* The chunks of a range of samples: value by value, and within a value chunk by chunk, each in C
 * order. */
struct chunk_walk {
    const struct zarr_array *array;
    uint64_t low[ZARR_MAX_RANK], high[ZARR_MAX_RANK];             /* of all chunks */
    uint64_t value[ZARR_MAX_RANK];                                /* this one's index */
    uint64_t value_low[ZARR_MAX_RANK], value_high[ZARR_MAX_RANK]; /* of all values */
    uint64_t chunk_low[ZARR_MAX_RANK], chunk_high[ZARR_MAX_RANK]; /* of this value's chunks */
    uint64_t chunk[ZARR_MAX_RANK];
};

void chunk_walk_begin(struct chunk_walk *walk, const struct zarr_array *array, uint64_t begin,
                      uint64_t end);
bool chunk_walk_next(struct chunk_walk *walk);       /* within the value */
bool chunk_walk_next_value(struct chunk_walk *walk); /* to the first chunk of the next */

/* The chunk as it is going to be asked for; `key` is borrowed. chunk.c */
struct stored_chunk chunk_of(const struct zarr_array *array, const uint64_t *chunk_index,
                             const char *key, uint64_t begin, uint64_t end);

/* The wanted range of a chunk at `decoded`, in native byte order where the chunk is the array's
 * alone; fetched, unless that was done. A chunk that is not there sets *ret_missing and nothing
 * else. CORRUPT and IO: named by array and chunk. chunk_load.c */
MUST_USE enum status chunk_load(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                void *decoded, bool *ret_missing, struct zarr_read_stats *stats,
                                struct error *err);

/* Whether the array's chunks are read past the page cache, if they are read whole: then those
 * without codecs, too, go through `stored` unless their destination is as well aligned. */
static inline bool chunk_goes_direct(const struct zarr_read_options *options,
                                     const struct zarr_array *array)
{
    return options->direct && array->shard_level_count == 0 &&
           array->chunk_bytes >= STORE_DIRECT_BYTES;
}

/* Fills in where the chunk lies, reading indices as needed; is_missing where it is not there.
 * CORRUPT: an index makes no sense. chunk_shard.c */
MUST_USE enum status chunk_locate(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                  struct zarr_read_stats *stats, struct error *err);

/* The same as far as indices are known: else *ret_known is false, and *ret_index what has to be got
 * first. Asks the store for nothing. chunk_shard.c */
MUST_USE enum status chunk_locate_known(struct zarr_chunk_reader *reader,
                                        struct stored_chunk *chunk, bool *ret_known,
                                        struct zarr_piece *ret_index, struct error *err);

/* From the disk cache, and to it; whether it has the chunk. chunk_shard.c */
bool chunk_from_disk(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                     struct zarr_read_stats *stats);
void chunk_to_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                   struct zarr_read_stats *stats);
bool chunk_is_on_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk);

/* The next chunks of the value that the walk is in, into reader->batch: BATCH_CHUNKS at most.
 * *ret_more: there are others. chunk_batch.c */
size_t chunk_next_batch(struct zarr_chunk_reader *reader, struct chunk_walk *walk, const char *key,
                        uint64_t begin, uint64_t end, bool *ret_more);

/* Fetches as many of `count` chunks, all of one value, as `ahead` has room for, up to the first
 * that cannot be located; returns how many that are, that one included, one at least. Those that
 * could not be had together are not marked `fetched`, and have to be fetched one by one.
 * chunk_batch.c */
size_t chunk_fetch_batch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                         size_t count, struct zarr_read_stats *stats);

#endif
