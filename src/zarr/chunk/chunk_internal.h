/* The inside of a chunk reader, shared by its files:
 *
 *     chunk_reader.c    the reader and its memory
 *     samples.c         reading a range of samples: each item where it belongs
 *     chunk_walk.c      the chunks that hold a range of samples, one after another
 *     chunk_overlap.c   the part of a chunk that a range of samples wants
 *     stored_chunk.c    one chunk: got from tape, disk cache or store, and decoded
 *     chunk_cut.c       ranges of chunks that lie plain behind a head
 *     chunk_batch.c     inner chunks that are fetched together
 *     pieces.c          the requests that reads will make, listed beforehand
 *     chunk_extent.c    where an inner chunk lies in its value, for values.c, too
 *     shard_lookup.c    looking up in the indices of shards
 *     chunk_disk.c      chunks and indices in the disk cache
 *
 * chunk_walk.c and chunk_overlap.c are pure. The reader's thread calls the functions of the other
 * files. */
#ifndef PENSTOCK_ZARR_CHUNK_CHUNK_INTERNAL_H
#define PENSTOCK_ZARR_CHUNK_CHUNK_INTERNAL_H

#include "zarr/chunk/chunk.h"
#include "zarr/chunk/scatter.h"
#include "zarr/chunk/shard.h"
#include "zarr/chunk/shard_cache.h"

/* The most inner chunks that are looked up, and then fetched, together. */
enum { BATCH_CHUNKS = 512 };

/* A chunk as the store has it, or the wanted range of a chunk: where its bytes are to go and, once
 * fetched, how many there are. */
struct stored_chunk {
    const struct zarr_array *array;
    uint64_t index[ZARR_MAX_RANK];
    const char *key;      /* of the value */
    size_t whole;         /* bytes of the decoded chunk */
    size_t begin, wanted; /* the range of the decoded chunk that is read or decoded */
    bool located;         /* is_range, offset and bytes are known */
    bool is_range;        /* the chunk is `bytes` at `offset` of the value; else all of the value */
    uint64_t offset, bytes; /* of the chunk in the value */
    void *memory;
    size_t capacity, size;
    const void *lent; /* the stored bytes, in memory of a fetch or a tape; NULL: in `memory` */
    bool is_missing;  /* there is no such chunk */
    bool is_new;      /* the store was asked, so the disk cache does not have the chunk */
    bool fetched;     /* the stored bytes are there, and may not decode */
    enum narrow_width *width; /* borrowed: set by decoding; NULL: items are whole */
};

/* The chunk's stored bytes, once fetched. */
static inline const void *chunk_stored(const struct stored_chunk *chunk)
{
    return chunk->lent ? chunk->lent : chunk->memory;
}

struct zarr_chunk_reader {
    const struct store *store;        /* borrowed */
    struct zarr_tape *tape;           /* borrowed; NULL: none */
    struct fetched *fetched;          /* borrowed; NULL: nothing was */
    struct disk_cache *cache;         /* borrowed; NULL: none */
    struct zarr_faults *faults;       /* borrowed; NULL: none */
    struct zarr_read_options options; /* its cache of indices is borrowed */
    struct codec_context *context;
    unsigned char *memory; /* one mapping; each part begins on a page */
    size_t memory_bytes;
    size_t inflate_bytes;  /* reserved in the store */
    unsigned char *stored; /* in the mapping: a chunk as stored */
    size_t stored_capacity;
    unsigned char *ahead; /* in the mapping: inner chunks that were fetched together; NULL: there
                             are no shards */
    size_t ahead_capacity;
    unsigned char *scratch;   /* in the mapping: a decoded chunk */
    unsigned char *raw_index; /* in the mapping: a shard's index as stored */
    /* The indices used last. Entries are in the mapping, with room for a uint64 behind them. */
    struct shard_index indices[ZARR_MAX_SHARD_LEVELS];
    /* The shard whose index could not be had last, and why, while one range of samples is read. The
     * index is not asked for again for each chunk of the shard. `array` NULL: none. */
    struct shard_name bad_shard;
    struct error bad_cause;
    struct stored_chunk *batch; /* in the mapping: [BATCH_CHUNKS] */
    bool cuts;                  /* ranges of values are read: not from remote stores */
    /* A bit for each array, by its address: set if the last chunk of the array that was looked at
     * is compressed. */
    uint64_t compressed_arrays;
    /* The key of the value that scratch memory holds decoded, or of which it holds the chunk of
     * this index; "": none. Several members of a structured dtype are read one after another. */
    char scratch_key[ZARR_KEY_BYTES];
    uint64_t scratch_index[ZARR_MAX_RANK];
};

/* chunk_walk.c: goes through the chunks that hold something of a range of samples: value by value
 * in C order, and within a value chunk by chunk in C order. Chunks that a view does not select are
 * left out. */
struct chunk_walk {
    const struct zarr_array *array;
    /* Ordinals (chunk_walk.c): of all wanted chunks, and of those in the present value. */
    uint64_t low[ZARR_MAX_RANK], high[ZARR_MAX_RANK];
    uint64_t value_low[ZARR_MAX_RANK], value_high[ZARR_MAX_RANK];
    uint64_t ordinal[ZARR_MAX_RANK];
    uint64_t chunk[ZARR_MAX_RANK]; /* the index of the present chunk */
};

void chunk_walk_begin(struct chunk_walk *walk, const struct zarr_array *array, uint64_t begin,
                      uint64_t end);

/* Goes to the next chunk of the value. False: there is none. */
bool chunk_walk_next(struct chunk_walk *walk);

/* Goes to the first chunk of the next value. False: there is none. */
bool chunk_walk_next_value(struct chunk_walk *walk);

/* chunk_overlap.c: a box of a chunk's items that is wanted at a destination: how the items lie on
 * both sides, and where each side begins. A view that selects indices may want several boxes of a
 * chunk: one of each portion of each axis. */
struct chunk_overlap {
    struct scatter scatter; /* merged */
    size_t from, to;        /* bytes from the start of the decoded chunk, and of the destination */
    size_t entry;           /* of a normal's tables */
    uint64_t first, count;  /* along axis 0 of the destination */
    bool is_only;           /* there is no other box of the chunk */
    size_t portions[ZARR_MAX_RANK]; /* of axes with a selection: which portion of the chunk's */
};

/* The first box. */
void chunk_overlap_find(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, struct chunk_overlap *ret_overlap);

/* Goes to the next box. False: there is none. */
bool chunk_overlap_next(const struct zarr_array *array, const uint64_t *chunk_index, uint64_t begin,
                        uint64_t end, struct chunk_overlap *overlap);

/* chunk_overlap.c: the chunk before it is located and fetched. `key` is borrowed; without a reader
 * (NULL), as most readers have it. */
struct stored_chunk chunk_of(const struct zarr_chunk_reader *reader, const struct zarr_array *array,
                             const uint64_t *chunk_index, const char *key, uint64_t begin,
                             uint64_t end);

/* stored_chunk.c: writes the wanted range of a chunk to `decoded`, fetching the chunk unless that
 * was done. Byte order is native if the chunk has no other array's members. If the chunk is
 * missing, sets *ret_missing and nothing else. Errors as of zarr_read_samples(), with array and
 * chunk. */
MUST_USE enum status chunk_load(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                void *decoded, bool *ret_missing, struct zarr_read_stats *stats,
                                struct error *err);

/* Whether the array's chunks are read past the page cache when they are read whole. Chunks without
 * codecs go through `stored` then, too, unless their destination begins on a page. */
static inline bool chunk_goes_direct(const struct zarr_read_options *options,
                                     const struct zarr_array *array)
{
    return options->direct && array->shard_level_count == 0 &&
           array->chunk_bytes >= STORE_DIRECT_BYTES;
}

/* chunk_cut.c: whether to look for a range to cut out. Not if the disk cache is to have the whole
 * chunk, nor if the cut would save less than one more read costs. */
bool chunk_may_be_cut(const struct zarr_chunk_reader *reader, const struct stored_chunk *chunk);

/* chunk_cut.c: reads the chunk's head, then the range; *ret_done is false if the chunk has to be
 * read whole. Errors are those of store_get_ranges(). */
MUST_USE enum status chunk_read_cut(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                    bool *ret_done, struct zarr_read_stats *stats,
                                    struct error *err);

/* chunk_cut.c: notes whether the array's chunks seem to be compressed, from the head of a chunk.
 * True: the chunk's bytes lie plain, from *ret_offset on. */
bool chunk_note_head(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                     const void *head, size_t *ret_offset);

/* chunk_cut.c: copies the wanted range of a chunk that was read as a cut. False: the chunk was read
 * whole. */
bool chunk_copy_cut(const struct stored_chunk *chunk, void *decoded);

/* A shard that holds a chunk, and the bytes of the value that are the shard (or the chunk). */
struct shard_extent {
    struct shard_name name;
    const char *key;
    uint64_t offset, bytes; /* UINT64_MAX bytes: all of the value, however long */
};

/* chunk_extent.c: finds out where the chunk lies, reading indices as needed; sets is_missing if
 * there is no such chunk. CORRUPT: an index is not valid. Other errors as of store_get_ranges(). */
MUST_USE enum status chunk_locate(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                                  struct zarr_read_stats *stats, struct error *err);

/* Where the stored bytes of an inner chunk lie in the value of `key`. */
struct zarr_extent {
    bool is_missing;
    uint64_t offset, bytes; /* of values of variable length, any number of them */
};

/* chunk_extent.c: finds the chunk at `chunk_index` of an array with shards, of values of variable
 * length too. Blocks on the store for an index that is not known. The reader needs no memory for
 * chunks (lists_only). CORRUPT: an index that is not valid. Other errors as of store_get_ranges();
 * none names array or chunk. */
MUST_USE enum status zarr_locate_chunk(struct zarr_chunk_reader *reader,
                                       const struct zarr_array *array, const uint64_t *chunk_index,
                                       const char *key, struct zarr_extent *ret_extent,
                                       struct error *err);

/* chunk_extent.c: as chunk_locate(), with the known indices alone. If an index is not known,
 * *ret_known is false, and *ret_index is the index that has to be got first. Asks the store for
 * nothing. */
MUST_USE enum status chunk_locate_known(struct zarr_chunk_reader *reader,
                                        struct stored_chunk *chunk, bool *ret_known,
                                        struct zarr_piece *ret_index, struct error *err);

/* shard_lookup.c: looks up entry `number` of the shard's index, reading the index if need be.
 * CORRUPT: the index is not valid. Other errors as of store_get_ranges(). */
MUST_USE enum status shard_look_up(struct zarr_chunk_reader *reader,
                                   const struct shard_extent *extent, uint64_t number,
                                   struct shard_look *ret_look, struct zarr_read_stats *stats,
                                   struct error *err);

/* shard_lookup.c: as shard_look_up(), without the store. False: the index is not known. */
bool shard_look_up_known(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                         uint64_t number, struct shard_look *ret_look);

/* shard_lookup.c: the request for the shard's index. CORRUPT: the shard is too short for an index.
 */
MUST_USE enum status shard_index_piece(const struct shard_extent *extent,
                                       struct zarr_piece *ret_piece, struct error *err);

/* chunk_disk.c: gets a chunk from the disk cache. False: the cache does not have the chunk, or
 * there is no cache. */
bool chunk_from_disk(struct zarr_chunk_reader *reader, struct stored_chunk *chunk,
                     struct zarr_read_stats *stats);

/* chunk_disk.c: writes a chunk to the disk cache, if there is one. */
void chunk_to_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk,
                   struct zarr_read_stats *stats);

/* chunk_disk.c: whether the disk cache has the chunk. */
bool chunk_is_on_disk(struct zarr_chunk_reader *reader, const struct stored_chunk *chunk);

/* chunk_disk.c: gets a shard's index from the disk cache. False: as of chunk_from_disk(). */
bool shard_index_from_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                           struct shard_index *index, struct zarr_read_stats *stats);

/* chunk_disk.c: writes a shard's index to the disk cache, if there is one. */
void shard_index_to_disk(struct zarr_chunk_reader *reader, const struct shard_extent *extent,
                         const struct shard_index *index);

/* chunk_batch.c: chunks of one value that are fetched together. */
struct chunk_batch {
    struct stored_chunk *wanted[BATCH_CHUNKS]; /* chunks that the store is asked for */
    size_t wanted_count, wanted_bytes;
    size_t cached_bytes; /* of chunks that the disk cache has, which come first in memory */
    struct store_range ranges[BATCH_CHUNKS];
    size_t range_count;
};

void chunk_batch_init(struct chunk_batch *batch);
bool chunk_batch_has_room(const struct zarr_chunk_reader *reader, const struct chunk_batch *batch,
                          const struct stored_chunk *chunk);
void chunk_batch_add(struct chunk_batch *batch, struct stored_chunk *chunk);

/* Joins chunks that lie close together into one range, as long as there is memory for the gaps. The
 * ranges' buffers, and the chunks in them, lie one behind another in `ahead`, if there is `ahead`.
 */
void chunk_batch_coalesce(const struct zarr_chunk_reader *reader, struct chunk_batch *batch);

/* Puts the next chunks of the walk's value into reader->batch, BATCH_CHUNKS at most; returns how
 * many. *ret_more: the value has further chunks. */
size_t chunk_batch_next(struct zarr_chunk_reader *reader, struct chunk_walk *walk, const char *key,
                        uint64_t begin, uint64_t end, bool *ret_more);

/* Fetches as many of `count` chunks, all of one value, as `ahead` has room for, up to the first
 * chunk that cannot be located. Returns how many chunks these are, that chunk included: at least
 * one. A chunk that could not be fetched with the others is not marked `fetched`, and is to be
 * fetched by itself. */
size_t chunk_batch_fetch(struct zarr_chunk_reader *reader, struct stored_chunk *chunks,
                         size_t count, struct zarr_read_stats *stats);

#endif
