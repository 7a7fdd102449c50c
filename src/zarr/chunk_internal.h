/* The inside of a chunk reader, shared by its files:
 *
 *     chunk_reader.c    the reader and its memory
 *     samples.c         reading a range of samples: each item where it belongs
 *     chunk_walk.c      the chunks that hold a range of samples, one after another
 *     chunk_overlap.c   what of a chunk a range of samples wants
 *     stored_chunk.c    one chunk: got from where it is, and decoded
 *     chunk_cut.c       ranges of chunks that lie plain behind a head
 *     chunk_batch.c     inner chunks that are fetched together
 *     pieces.c          what reads will ask the store for, told beforehand
 *     chunk_extent.c    where an inner chunk lies in its value
 *     shard_lookup.c    looking up in the indices of shards
 *     chunk_disk.c      what the disk cache holds
 *
 * All but chunk_walk.c and chunk_overlap.c, which are pure: the reader's thread. */
#ifndef PENSTOCK_ZARR_CHUNK_INTERNAL_H
#define PENSTOCK_ZARR_CHUNK_INTERNAL_H

#include "zarr/chunk.h"
#include "zarr/scatter.h"
#include "zarr/shard.h"
#include "zarr/shard_cache.h"

/* Inner chunks that are looked up, then fetched together, at once. */
enum { BATCH_CHUNKS = 512 };

/* A chunk, or the range of one that is wanted, as the store has it: where its bytes are to go and,
 * once fetched, how many there are. */
struct stored_chunk {
    const struct zarr_array *array;
    uint64_t index[ZARR_MAX_RANK];
    const char *key;        /* of the value */
    size_t begin, wanted;   /* the range of the decoded chunk that is read or decoded */
    bool located;           /* is_range, offset and bytes are known */
    bool is_range;          /* it has `bytes` at `offset` of the value; else it is the value */
    uint64_t offset, bytes; /* in the value */
    void *memory;
    size_t capacity, size;
    bool is_missing; /* there is no such chunk */
    bool is_new;     /* the store had to be asked: the disk cache does not have it */
    bool fetched;    /* `memory` holds it, whether or not it decodes */
};

struct zarr_chunk_reader {
    const struct store *store;        /* borrowed */
    struct zarr_tape *tape;           /* borrowed; NULL: none */
    struct fetched *fetched;          /* borrowed; NULL: nothing was */
    struct disk_cache *cache;         /* borrowed; NULL: none */
    struct zarr_faults *faults;       /* borrowed; NULL: none */
    struct zarr_read_options options; /* its cache of indices is borrowed */
    struct codec_context *context;
    unsigned char *memory; /* one mapping; what lies in it begins on pages */
    size_t memory_bytes;
    unsigned char *stored; /* in the mapping: a chunk as stored */
    size_t stored_capacity;
    unsigned char *ahead; /* in the mapping: inner chunks that were fetched together; NULL: there
                             are no shards */
    size_t ahead_capacity;
    unsigned char *scratch;   /* in the mapping: a decoded chunk */
    unsigned char *raw_index; /* in the mapping: a shard's index as stored */
    /* Those used last. Entries are in the mapping; behind them is room for a uint64. */
    struct shard_index indices[ZARR_MAX_SHARD_LEVELS];
    /* Whose index could not be had last, while one range of samples is read, and why: it is not
     * asked for again for each of its chunks. `array` NULL: none. */
    struct shard_name bad_shard;
    struct error bad_cause;
    struct stored_chunk *batch; /* in the mapping: [BATCH_CHUNKS] */
    bool cuts;                  /* ranges of values are read: not from remote stores */
    /* A bit for an array, by its address: set where the chunk of it that was looked at last is
     * compressed indeed. */
    uint64_t compressed_arrays;
    /* The value that scratch memory holds decoded, "" for none: several members of a structured
     * dtype are read one after another. */
    char scratch_key[ZARR_KEY_BYTES];
};

/* chunk_walk.c: the chunks of a range of samples: value by value, and within a value chunk by
 * chunk, each in C order. */
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

/* chunk_overlap.c: what of a chunk is wanted at a destination: how the items lie on both sides, and
 * where each begins. */
struct chunk_overlap {
    struct scatter scatter; /* merged */
    size_t from, to;        /* bytes from the start of the decoded chunk, and of the destination */
    uint64_t first, count;  /* along axis 0 of the destination */
};
void chunk_overlap_find(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, struct chunk_overlap *ret_overlap);

/* chunk_overlap.c: the chunk as it is going to be asked for; `key` is borrowed. */
struct stored_chunk chunk_of(const struct zarr_array *array, const uint64_t *chunk_index,
                             const char *key, uint64_t begin, uint64_t end);

/* stored_chunk.c: the wanted range of a chunk at `decoded`, in native byte order where the chunk is
 * the array's alone; fetched, unless that was done. A chunk that is not there sets *ret_missing and
 * nothing else. CORRUPT and IO: named by array and chunk. */
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

/* chunk_cut.c: whether to look for a range to cut out: not where the disk cache would have the
 * whole chunk the next time, nor where a cut saves less than one more read is worth. */
bool chunk_may_be_cut(const struct zarr_chunk_reader *reader, const struct stored_chunk *chunk);

/* chunk_cut.c: reads the chunk's head, then the range; *ret_done is false where the chunk has to be
 * read whole. Errors are those of store_get_ranges(). */
MUST_USE enum status chunk_read_cut(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                    bool *ret_done, struct zarr_read_stats *stats,
                                    struct error *err);

/* chunk_cut.c: notes what a chunk that begins with `head` tells of its array's next ones; whether
 * its bytes lie plain, and from where on. */
bool chunk_note_head(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                     const void *head, size_t *ret_offset);

/* chunk_cut.c: copies the wanted range of a chunk that was read as a cut; false: it was not. */
bool chunk_copy_cut(const struct stored_chunk *chunk, void *decoded);

/* A shard that holds a chunk, and the bytes of the value that are the shard (or the chunk). */
struct shard_extent {
    struct shard_name name;
    const char *key;
    uint64_t offset, bytes; /* UINT64_MAX bytes: all of the value, however many it has */
};

/* chunk_extent.c: fills in where the chunk lies, reading indices as needed; is_missing where it is
 * not there. CORRUPT: an index makes no sense. */
MUST_USE enum status chunk_locate(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                  struct zarr_read_stats *stats, struct error *err);

/* chunk_extent.c: the same as far as indices are known: else *ret_known is false, and *ret_index
 * what has to be got first. Asks the store for nothing. */
MUST_USE enum status chunk_locate_known(struct zarr_chunk_reader *reader,
                                        struct stored_chunk *chunk, bool *ret_known,
                                        struct zarr_piece *ret_index, struct error *err);

/* shard_lookup.c: entry `number` of the shard's index, which is read if need be. CORRUPT: it makes
 * no sense. Errors of the store. */
MUST_USE enum status shard_look_up(struct zarr_chunk_reader *reader,
                                   const struct shard_extent *extent, uint64_t number,
                                   struct shard_look *ret_look, struct zarr_read_stats *stats,
                                   struct error *err);

/* shard_lookup.c: the same without the store; false: the index is not known. */
bool shard_look_up_known(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                         uint64_t number, struct shard_look *ret_look);

/* shard_lookup.c: what has to be got for the shard's index. CORRUPT: the shard is too short. */
MUST_USE enum status shard_index_piece(const struct shard_extent *extent,
                                       struct zarr_piece *ret_piece, struct error *err);

/* chunk_disk.c: a chunk from the disk cache, and to it; whether the disk cache has it. Without a
 * disk cache nothing is there, and nothing is kept. */
bool chunk_from_disk(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                     struct zarr_read_stats *stats);
void chunk_to_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                   struct zarr_read_stats *stats);
bool chunk_is_on_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk);

/* chunk_disk.c: a shard's index from the disk cache, and to it. */
bool shard_index_from_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                           struct shard_index *index, struct zarr_read_stats *stats);
void shard_index_to_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                         const struct shard_index *index);

/* chunk_batch.c: chunks of one value that are fetched together. */
struct chunk_batch {
    struct stored_chunk *wanted[BATCH_CHUNKS]; /* those of which the store is asked */
    size_t wanted_count, wanted_bytes;
    size_t cached_bytes; /* of those that the disk cache has, which come first in memory */
    struct store_range ranges[BATCH_CHUNKS];
    size_t range_count;
};

void chunk_batch_init(struct chunk_batch *batch);
bool chunk_batch_has_room(const struct zarr_chunk_reader *reader, const struct chunk_batch *batch,
                          const struct stored_chunk *chunk);
void chunk_batch_add(struct chunk_batch *batch, struct stored_chunk *chunk);

/* Joins what is close into one range, as long as there is memory for what lies between. The ranges'
 * buffers, and the chunks in them, lie one behind another in `ahead`, if there is that. */
void chunk_batch_coalesce(const struct zarr_chunk_reader *reader, struct chunk_batch *batch);

/* The next chunks of the value that the walk is in, into reader->batch: BATCH_CHUNKS at most.
 * *ret_more: there are others. */
size_t chunk_batch_next(struct zarr_chunk_reader *reader, struct chunk_walk *walk, const char *key,
                        uint64_t begin, uint64_t end, bool *ret_more);

/* Fetches as many of `count` chunks, all of one value, as `ahead` has room for, up to the first
 * that cannot be located; returns how many that are, that one included, one at least. Those that
 * could not be had together are not marked `fetched`, and have to be fetched one by one. */
size_t chunk_batch_fetch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                         size_t count, struct zarr_read_stats *stats);

#endif
