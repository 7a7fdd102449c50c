/* Reading chunks: from the store through the codecs to where the samples have to be.
 *
 * A chunk whose bytes are one run of the destination is decoded (or, without codecs, read) straight
 * into it. Any other goes through scratch memory, from which the wanted part is copied run by run.
 * Byte order is changed in place after decoding. Items that a view (view.h) converts are decoded to
 * scratch memory and converted from there, into the destination if they are one run of it. A chunk
 * that the store does not have is the fill value, unless asked otherwise; any other failure of the
 * store is a failure here. Bytes that do not decode are read from the store once more: a read that
 * ended early looks the same.
 *
 * A reader belongs to one thread. All its memory is allocated at zarr_chunk_reader_new(); reading
 * allocates nothing.
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
    uint64_t stored_bytes;        /* read from the store */
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

enum { ZARR_READER_MAX_ARRAYS = 1024 };

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
struct zarr_chunk_reader;

/* A reader for chunks of any of `arrays` (1 to ZARR_READER_MAX_ARRAYS); they and the store are
 * borrowed while it lives. Its memory is touched by the calling thread. NO_MEMORY. */
MUST_USE enum status
zarr_chunk_reader_new(const struct store *store, const struct zarr_array *const *arrays,
                      size_t array_count, struct zarr_chunk_reader **ret_reader, struct error *err);

/* The memory that zarr_chunk_reader_new() takes for these arrays. */
size_t zarr_chunk_reader_bytes(const struct zarr_array *const *arrays, size_t array_count);

void zarr_chunk_reader_free(struct zarr_chunk_reader *reader);

/* Where the next reads look before they ask the store: on `tape` alone if it plays (else it records
 * them), then in `cache`, which is given what the store had to be asked for. Both borrowed; NULL is
 * none. */
void zarr_chunk_reader_use_tape(struct zarr_chunk_reader *reader, struct zarr_tape *tape);
void zarr_chunk_reader_use_cache(struct zarr_chunk_reader *reader, struct disk_cache *cache);

/* Borrowed; NULL, as at first: missing chunks are filled, bad ones are errors. */
void zarr_chunk_reader_use_faults(struct zarr_chunk_reader *reader, struct zarr_faults *faults);

/* Decodes the whole chunk at `chunk_index` (rank numbers, inside the grid; not of a view) to
 * `decoded`: array->chunk_bytes, C order, native byte order; beyond the array's edge it holds
 * whatever is stored there. CORRUPT: bytes that do not decode to a chunk. IO: the store. Messages
 * name array and chunk. */
MUST_USE enum status zarr_read_chunk(struct zarr_chunk_reader *reader,
                                     const struct zarr_array *array, const uint64_t *chunk_index,
                                     void *decoded, struct zarr_read_stats *stats,
                                     struct error *err);

/* Reads indices [begin, end) along axis 0 (begin < end <= shape[0]) to `destination`: C order [end
 * - begin, shape[1], ...], native byte order. Errors as above. */
MUST_USE enum status zarr_read_samples(struct zarr_chunk_reader *reader,
                                       const struct zarr_array *array, uint64_t begin, uint64_t end,
                                       void *destination, struct zarr_read_stats *stats,
                                       struct error *err);

#endif
