/* Reading chunks: from the store, through the codecs, to the samples' memory.
 *
 * If the wanted bytes of a chunk are one run, and one run of the destination, the chunk is decoded
 * (or, without codecs, read) straight to the destination. Any other chunk is decoded to scratch
 * memory, and the wanted items are copied from there. The copy turns axes round as storage_axes
 * says, and converts items as a view says (view.h). Of a chunk without codecs, only the wanted
 * indices along axis 0 are read. Byte order is changed after decoding.
 *
 * A missing chunk is the fill value, unless missing_is_bad. Any other failure of the store is a
 * failure here. A chunk that does not decode, and a shard's index that is cut short, are read from
 * the store once more, if its options allow retries: a read that ended early looks the same. A
 * value that ends before a chunk's range does is CORRUPT at once.
 *
 * Inner chunks of shards (shard.h) are looked up in the shard's index and read by ranges. Inner
 * chunks that lie close together are read by one range. Shards are read in C order, and so are the
 * chunks of a shard.
 *
 * A reader belongs to one thread. zarr_chunk_reader_new() allocates all its memory. Reading
 * allocates nothing, but for memory that libblosc takes within a call (codec.h).
 */
#ifndef PENSTOCK_ZARR_CHUNK_CHUNK_H
#define PENSTOCK_ZARR_CHUNK_CHUNK_H

#include "base/error.h"
#include "store/store.h"
#include "zarr/chunk/read_stats.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ZARR_READER_MAX_ARRAYS = 2048 };

/* A tape: the store's answers to a sequence of chunk reads. A tape is recorded while the reads
 * happen. The tape is played when the same reads are made again. Whoever keeps tapes embeds this
 * struct.
 *
 * A tape has no names of chunks. So a tape fits only the reads that it was recorded with: the same
 * arrays and the same ranges in the same order. The reader's thread calls both functions. */
struct zarr_tape {
    /* Gives the next answer, as store_get() does: NOT_FOUND for a missing chunk. If `ret_lent` is
     * not NULL, *ret_lent may be set to the bytes on the tape, borrowed until the tape is put away,
     * instead of copying them into `buffer`. NULL on a tape that is being recorded. */
    enum status (*play)(struct zarr_tape *tape, void *buffer, size_t capacity,
                        const void **ret_lent, size_t *ret_size, struct error *err);
    /* Records an answer; if the store was asked again, the last one. `bytes` is NULL if the chunk
     * is missing
     * (`failure` OK) or could not be read. Borrowed during the call. */
    void (*record)(struct zarr_tape *tape, enum status failure, const void *bytes, size_t size);
};

/* What becomes of chunks that cannot be had. Whoever wants to go on without such chunks embeds this
 * struct. The reader's thread calls the functions. */
struct zarr_faults {
    bool missing_is_bad; /* a missing chunk is CORRUPT, not the fill value */
    /* Called when a chunk is missing or does not decode. A status other than OK means that the
     * array is no longer the same; reading ends with this status. NULL: no check. */
    enum status (*check)(struct zarr_faults *faults, const struct zarr_array *array,
                         struct error *err);
    /* Called when the indices [begin, end) along axis 0 cannot be had from the chunk at
     * `chunk_index`, whose part of the destination stays undefined. OK: reading goes on. Any other
     * status: reading ends with this status. NULL: reading ends with `cause`. */
    enum status (*skip)(struct zarr_faults *faults, const struct zarr_array *array,
                        const uint64_t *chunk_index, uint64_t begin, uint64_t end,
                        const struct error *cause, struct error *err);
};

struct disk_cache;
struct fetched;
struct shard_cache;
struct zarr_chunk_reader;

/* How shards are read. */
struct zarr_read_options {
    size_t coalesce_gap;   /* the largest gap between inner chunks that one range reads */
    size_t coalesce_bytes; /* the most bytes of one range, and of chunks read ahead of decoding */
    struct shard_cache *indices; /* borrowed; NULL: a reader keeps the index that it used last */
    bool lists_only;             /* no memory for chunks: for zarr_list_pieces() alone */
    bool keeps;                  /* the last chunk stays decoded, for ranges of samples that follow
                                  * one another: of what nobody writes meanwhile, without a tape */
    bool direct;                 /* large values are read into memory that fits O_DIRECT */
};
extern const struct zarr_read_options zarr_read_defaults;

/* Makes a reader for chunks of any of `arrays` (1 to ZARR_READER_MAX_ARRAYS). Borrows the store and
 * the arrays (not the list) until zarr_chunk_reader_free(). The calling thread touches the memory.
 * NO_MEMORY. */
MUST_USE enum status
zarr_chunk_reader_new(const struct store *store, const struct zarr_array *const *arrays,
                      size_t array_count, struct zarr_chunk_reader **ret_reader, struct error *err);

/* As zarr_chunk_reader_new(), with other options than zarr_read_defaults. */
MUST_USE enum status
zarr_chunk_reader_new_with(const struct store *store, const struct zarr_array *const *arrays,
                           size_t array_count, const struct zarr_read_options *options,
                           struct zarr_chunk_reader **ret_reader, struct error *err);

/* The memory of such a reader, without the cache of indices, but with what the store takes to
 * inflate one value (store_inflate_below()), which the reader reserves. `store` NULL: nothing. */
size_t zarr_chunk_reader_bytes(const struct store *store, const struct zarr_array *const *arrays,
                               size_t array_count);
size_t zarr_chunk_reader_bytes_with(const struct store *store,
                                    const struct zarr_array *const *arrays, size_t array_count,
                                    const struct zarr_read_options *options);

/* NULL is fine. */
void zarr_chunk_reader_free(struct zarr_chunk_reader *reader);

/* From now on, reads go by `tape` (borrowed; NULL: none). A tape that plays is the only place where
 * reads look. Any other tape records the reads. */
void zarr_chunk_reader_use_tape(struct zarr_chunk_reader *reader, struct zarr_tape *tape);

/* From now on, reads look in `fetched` (store/kind/fetch.h; borrowed; NULL: nothing) before they
 * ask the store, and after the disk cache. */
void zarr_chunk_reader_use_fetched(struct zarr_chunk_reader *reader, struct fetched *fetched);

/* From now on, reads look in `cache` (borrowed; NULL: none) first, and write the chunks there that
 * the store was asked for. */
void zarr_chunk_reader_use_cache(struct zarr_chunk_reader *reader, struct disk_cache *cache);

/* From now on, `faults` (borrowed) decides on chunks that cannot be had. NULL, as at first: missing
 * chunks are the fill value, and bad chunks are errors. */
void zarr_chunk_reader_use_faults(struct zarr_chunk_reader *reader, struct zarr_faults *faults);

/* Reads indices [begin, end) along axis 0 (begin < end <= shape[0]) into `destination`: C order
 * [end - begin, shape[1], ...], native byte order. Blocks on the store. CORRUPT: bytes that do not
 * decode to a chunk, or a shard's index that is not valid. Other errors as of store_get_ranges(),
 * and those of `faults`. Messages name array, chunk and shard. After a failure the content of
 * `destination` is undefined. */
MUST_USE enum status zarr_read_samples(struct zarr_chunk_reader *reader,
                                       const struct zarr_array *array, uint64_t begin, uint64_t end,
                                       void *destination, struct zarr_read_stats *stats,
                                       struct error *err);

/* Whether zarr_read_narrow() may find items of the array narrow. Pure. */
bool zarr_array_may_be_narrow(const struct zarr_array *array);

/* As zarr_read_samples(), of such an array. Items of a chunk may be narrow (base/narrow.h):
 * ret_widths[k] says so of chunk number k from that of `begin` on. The items' kept bytes then lie
 * one after another from where the chunk's first item belongs, which may be before `destination`:
 * this memory is the caller's, too. `ret_widths` NULL: all items are whole. */
MUST_USE enum status zarr_read_narrow(struct zarr_chunk_reader *reader,
                                      const struct zarr_array *array, uint64_t begin, uint64_t end,
                                      void *destination, enum narrow_width *ret_widths,
                                      struct zarr_read_stats *stats, struct error *err);

/* Called for the values [begin, end) of one chunk. `chunk` is decoded, and has the lengths that the
 * array's offsets say; NULL: it is missing, and all values are empty. */
typedef void zarr_take_values(void *argument, const struct zarr_array *array, uint64_t begin,
                              uint64_t end, const void *chunk);

/* Reads the values [begin, end) of an array of values of variable length, whose value_offsets are
 * known, and has them taken, chunk by chunk in the order of the chunks. Otherwise as
 * zarr_read_samples(). CORRUPT, too: a chunk has values of other lengths, or is missing and has
 * values that are not empty. */
MUST_USE enum status zarr_read_values(struct zarr_chunk_reader *reader,
                                      const struct zarr_array *array, uint64_t begin, uint64_t end,
                                      zarr_take_values *take, void *argument,
                                      struct zarr_read_stats *stats, struct error *err);

/* About how many stored bytes zarr_read_samples() reads for the chunk at `chunk_index`, which holds
 * some of the samples. `value_bytes` is the size of the chunk's value, or of the shard that holds
 * the chunk. Pure. */
uint64_t zarr_range_stored_bytes(const struct zarr_array *array, const uint64_t *chunk_index,
                                 uint64_t begin, uint64_t end, uint64_t value_bytes);

/* A piece: one request that zarr_read_samples() would make to the store, listed beforehand for
 * whoever fetches ahead of the read. Pieces come in the order of the reads. Inner chunks of shards
 * come as the ranges that read them. Chunks in the disk cache are left out. */
enum zarr_piece_kind {
    ZARR_PIECE_VALUE,  /* all of the value, at most `bytes` */
    ZARR_PIECE_RANGE,  /* `bytes` bytes at `offset` */
    ZARR_PIECE_SUFFIX, /* the last `bytes` bytes; the size of the value is wanted, too */
};
struct zarr_piece {
    enum zarr_piece_kind kind;
    const struct zarr_array *array; /* borrowed, as long as the reader does */
    const char *key;                /* borrowed, until the call returns */
    uint64_t offset;
    size_t bytes;
    bool is_index;        /* the index of a shard, which is not known yet: for zarr_take_index() */
    int level;            /* is_index: of the shard, in its array's levels */
    uint64_t number;      /* is_index: of the shard, in its level */
    uint64_t shard_bytes; /* is_index: of the whole shard; UINT64_MAX: not known */
    bool (*begins)(const void *bytes, size_t size); /* ZARR_PIECE_VALUE: codec_chain_begins() */
};
typedef enum status zarr_visit_piece(void *argument, const struct zarr_piece *piece,
                                     struct error *err);

/* Calls visit() for each piece. A status other than OK from visit() ends the list, and is returned.
 * If a shard's index is not known, the index is the only piece of that shard. The list is to be
 * made again after zarr_take_index(); with shards in shards, once for each level. For an array
 * without shards the reader may be NULL. Asks the store for nothing; may block on the disk cache.
 * CORRUPT: an index that is not valid. */
MUST_USE enum status zarr_list_pieces(struct zarr_chunk_reader *reader,
                                      const struct zarr_array *array, uint64_t begin, uint64_t end,
                                      zarr_visit_piece *visit, void *argument, struct error *err);

/* Gives the bytes of an index that zarr_list_pieces() listed to the cache of indices; without a
 * cache, to the reader alone. The disk cache gets the index later, from the read that is the first
 * to use the index. `bytes` is borrowed; NULL: the store has no such value. `value_bytes` is the
 * size of the whole value, for a ZARR_PIECE_SUFFIX. CORRUPT: the index does not decode. */
MUST_USE enum status zarr_take_index(struct zarr_chunk_reader *reader,
                                     const struct zarr_piece *piece, const void *bytes,
                                     uint64_t value_bytes, struct error *err);

#endif
