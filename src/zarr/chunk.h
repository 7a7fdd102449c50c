/* Reading chunks: from the store through the codecs to where the samples have to be.
 *
 * A chunk of which one run of bytes is wanted that is also one run of the destination is decoded
 * (or, without codecs, read) straight into it. Any other goes through scratch memory, from which
 * the wanted range is copied, its axes turned round where they are stored so, its items converted
 * where a view says so (view.h). Of a chunk without codecs only the indices along axis 0 that are
 * wanted are read. Byte order is changed
 * after decoding. A chunk that the store does not have is the fill value, unless asked otherwise;
 * any other failure of the store is a failure here. Bytes that do not decode, and a shard's
 * index that is cut short, are read from the store once more: a read that ended early looks the
 * same. A value that ends before a chunk's range of it does is CORRUPT at once.
 *
 * Inner chunks of shards (shard.h) are looked up in the shard's index and read by ranges, those
 * that lie close together by one. They are read shard by shard; chunks within one, and shards, in C
 * order.
 *
 * A reader belongs to one thread. All its memory is allocated at zarr_chunk_reader_new(); reading
 * allocates nothing, but for what libblosc takes within a call (codec.h).
 */
#ifndef PENSTOCK_ZARR_CHUNK_H
#define PENSTOCK_ZARR_CHUNK_H

#include "base/error.h"
#include "store/store.h"
#include "zarr/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time and bytes that reading took. Added to, never reset. */
struct zarr_read_stats {
    uint64_t stored_bytes;        /* read from the store, shard indices and gaps included */
    uint64_t memory_bytes;        /* stored bytes that a tape gave instead */
    uint64_t disk_bytes;          /* stored bytes that a disk cache gave instead */
    uint64_t decoded_bytes;       /* written to destinations */
    uint64_t chunk_count;         /* looked up anywhere */
    uint64_t memory_chunk_count;  /* of those, on a tape */
    uint64_t disk_chunk_count;    /* of those, found in the disk cache */
    uint64_t missing_chunk_count; /* of those, filled with the fill value */
    uint64_t read_ns;             /* in the store and its caches */
    uint64_t decode_ns;           /* in codecs and copies */
};

enum { ZARR_READER_MAX_ARRAYS = 2048 };

/* What the store answered to a sequence of chunk reads: told while they happen, or giving the
 * answers when the same reads are made again. Whoever keeps tapes embeds this struct.
 *
 * Chunks are counted by order alone, so a tape fits the very reads that it was made with: the same
 * arrays, the same ranges, in the same order. */
struct zarr_tape {
    /* NULL on a tape that is being recorded. Otherwise the next answer, as store_get() gives it:
     * NOT_FOUND for a chunk that is missing. */
    enum status (*play)(struct zarr_tape *tape, void *buffer, size_t capacity, size_t *ret_size,
                        struct error *err);
    /* Told of each answer, of the last one where the store was asked again; `bytes` is NULL for a
     * chunk that is missing (`failure` OK), or that could not be read. */
    void (*record)(struct zarr_tape *tape, enum status failure, const void *bytes, size_t size);
};

/* What becomes of chunks that cannot be had. Whoever wants to go on without them embeds this. */
struct zarr_faults {
    bool missing_is_bad; /* a chunk that is not there is CORRUPT, not the fill value */
    /* NULL: none. Asked where a chunk is not there, or does not decode: not OK if the array is no
     * longer what it was; reading ends with that. */
    enum status (*check)(struct zarr_faults *faults, const struct zarr_array *array,
                         struct error *err);
    /* NULL: reading ends with the error. Otherwise told that indices [begin, end) along axis 0
     * cannot be had from that chunk, whose part of the destination stays undefined; reading ends
     * with what it returns, unless that is OK. */
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
    size_t coalesce_gap;         /* inner chunks that far apart are still read by one range */
    size_t coalesce_bytes;       /* of one range at most; and of what is read ahead of decoding */
    struct shard_cache *indices; /* borrowed; NULL: a reader keeps the index that it used last */
    bool lists_only;             /* no memory for chunks: for zarr_list_pieces() alone */
    bool direct;                 /* large values are read into memory that fits O_DIRECT */
};
extern const struct zarr_read_options zarr_read_defaults;

/* A reader for chunks of any of `arrays` (1 to ZARR_READER_MAX_ARRAYS); they and the store are
 * borrowed while it lives. Its memory is touched by the calling thread. NO_MEMORY. */
MUST_USE enum status
zarr_chunk_reader_new(const struct store *store, const struct zarr_array *const *arrays,
                      size_t array_count, struct zarr_chunk_reader **ret_reader, struct error *err);

MUST_USE enum status
zarr_chunk_reader_new_with(const struct store *store, const struct zarr_array *const *arrays,
                           size_t array_count, const struct zarr_read_options *options,
                           struct zarr_chunk_reader **ret_reader, struct error *err);

/* The memory that these take, without the cache of indices. */
size_t zarr_chunk_reader_bytes(const struct zarr_array *const *arrays, size_t array_count);
size_t zarr_chunk_reader_bytes_with(const struct zarr_array *const *arrays, size_t array_count,
                                    const struct zarr_read_options *options);

void zarr_chunk_reader_free(struct zarr_chunk_reader *reader);

/* Where the next reads look before they ask the store: on `tape` alone if it plays (else it records
 * them), then in `cache`, which is given what the store had to be asked for, then in what was
 * `fetched` (store/fetch.h). All borrowed; NULL is none. */
void zarr_chunk_reader_use_tape(struct zarr_chunk_reader *reader, struct zarr_tape *tape);
void zarr_chunk_reader_use_fetched(struct zarr_chunk_reader *reader, struct fetched *fetched);
void zarr_chunk_reader_use_cache(struct zarr_chunk_reader *reader, struct disk_cache *cache);

/* Borrowed; NULL, as at first: missing chunks are filled, bad ones are errors. */
void zarr_chunk_reader_use_faults(struct zarr_chunk_reader *reader, struct zarr_faults *faults);

/* Reads indices [begin, end) along axis 0 (begin < end <= shape[0]) to `destination`: C order [end
 * - begin, shape[1], ...], native byte order. CORRUPT: bytes that do not decode to a chunk, or a
 * shard's index that makes no sense. IO: the store. Messages name array, chunk and shard. */
MUST_USE enum status zarr_read_samples(struct zarr_chunk_reader *reader,
                                       const struct zarr_array *array, uint64_t begin, uint64_t end,
                                       void *destination, struct zarr_read_stats *stats,
                                       struct error *err);

/* About how many stored bytes zarr_read_samples() reads for the chunk at `chunk_index`, one of
 * those that hold the samples, whose value (the shard, if it is in one) has `value_bytes`. */
uint64_t zarr_range_stored_bytes(const struct zarr_array *array, const uint64_t *chunk_index,
                                 uint64_t begin, uint64_t end, uint64_t value_bytes);

/* What zarr_read_samples() would ask the store for, told beforehand to whoever gets it ahead of the
 * read: in the order of the reads, inner chunks of shards as the ranges that they are read by. What
 * the disk cache has is left out. */
enum zarr_piece_kind {
    ZARR_PIECE_VALUE, /* all of the value, at most `bytes` */
    ZARR_PIECE_RANGE, /* `bytes` bytes at `offset` */
    ZARR_PIECE_TAIL,  /* the last `bytes` bytes; how many the value has is wanted, too */
};
struct zarr_piece {
    enum zarr_piece_kind kind;
    const struct zarr_array *array; /* borrowed, as long as the reader's */
    const char *key;                /* borrowed, until the call returns */
    uint64_t offset;
    size_t bytes;
    bool is_index; /* of a shard that is not known yet: for zarr_take_index() */
    int level;     /* of the index, in its array's shards */
    uint64_t number, shard_bytes;
    bool (*begins)(const void *bytes, size_t size); /* of a whole value: codec_chain_begins() */
};
typedef enum status zarr_visit_piece(void *argument, const struct zarr_piece *piece,
                                     struct error *err);

/* Tells visit() the pieces; what it returns ends the list, unless that is OK. Of a shard whose
 * index is not known, that alone is told: the list is to be asked for again when zarr_take_index()
 * had it (with shards in shards, once for each level). For an array without shards the reader may
 * be NULL. Asks the store for nothing. CORRUPT: an index that makes no sense. */
MUST_USE enum status zarr_list_pieces(struct zarr_chunk_reader *reader,
                                      const struct zarr_array *array, uint64_t begin, uint64_t end,
                                      zarr_visit_piece *visit, void *argument, struct error *err);

/* Gives the bytes of an index that zarr_list_pieces() asked for to the cache of indices (without
 * one, to the reader alone); the disk cache gets it from the read that uses it first, not from
 * here. `bytes` NULL: the store has no such value. `value_bytes`: of the whole value, for a
 * ZARR_PIECE_TAIL. CORRUPT: it does not decode. */
MUST_USE enum status zarr_take_index(struct zarr_chunk_reader *reader,
                                     const struct zarr_piece *piece, const void *bytes,
                                     uint64_t value_bytes, struct error *err);

#endif
