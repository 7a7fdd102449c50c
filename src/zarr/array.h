/* One Zarr array: what its metadata document says, checked and ready for reading.
 *
 * Parses v2 `.zarray` and v3 `zarr.json` documents. They are foreign bytes: every number is
 * checked, all sizes are computed with overflow checks, and what we cannot read is refused here, by
 * name, rather than at the first batch.
 *
 * Pure functions over the caller's memory, safe from any thread.
 */
#ifndef PENSTOCK_ZARR_ARRAY_H
#define PENSTOCK_ZARR_ARRAY_H

#include "base/convert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "codec/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZARR_MAX_RANK = 8,
    ZARR_PATH_BYTES = 512, /* of an array's path, with its NUL */
    ZARR_KEY_BYTES = 768,  /* of a chunk's key, with its NUL */
    ZARR_TYPE_BYTES = 48,  /* of a dtype as stored, with its NUL */
    ZARR_MAX_ITEM_BYTES = 1024,
    ZARR_MAX_SHARD_LEVELS = 3, /* of shards in shards */
};

/* Shard indices beyond this are refused: 4 million inner chunks. */
#define ZARR_MAX_INDEX_BYTES ((size_t)64 << 20)

/* Decoded chunks beyond this are refused: codecs count in 32 bits. */
#define ZARR_MAX_CHUNK_BYTES ((size_t)2147483647)

/* The values are those of "zarr_format". */
enum zarr_format { ZARR_V2 = 2, ZARR_V3 = 3 };

/* One level of shards: how a shard is divided into chunks of the next level, and how its index is
 * stored. See shard.h. */
struct zarr_shard_level {
    uint64_t counts[ZARR_MAX_RANK]; /* chunks of the next level along each axis of a shard */
    uint64_t spans[ZARR_MAX_RANK];  /* the innermost chunks along each axis of a shard */
    uint8_t axes[ZARR_MAX_RANK]; /* in which order the index goes through them, outermost first */
    uint64_t entry_count;        /* all counts multiplied */
    size_t index_bytes;          /* as stored, at most ZARR_MAX_INDEX_BYTES */
    bool index_at_start;         /* of the shard; else at its end */
    bool index_swapped;          /* in the other endianness than this machine's */
    struct codec_chain index_codecs;
};

struct zarr_array {
    char path[ZARR_PATH_BYTES]; /* "group/name"; "" for an array that is the root; with ".member"
                                 * behind it for a member of a structured dtype */
    size_t key_path_bytes;      /* of `path`, that stand in keys: all but ".member" */
    size_t member_index;        /* of a member among its array's; else 0 */
    size_t member_count;        /* that a structured dtype has; else 0 */
    enum zarr_format format;
    int rank;                             /* 1..8; 0 where the shape could not be read */
    uint64_t shape[ZARR_MAX_RANK];        /* in items */
    uint64_t chunk_shape[ZARR_MAX_RANK];  /* in items; may exceed the shape. Of inner chunks where
                                           * there are shards: chunks are what is decoded */
    uint64_t chunk_counts[ZARR_MAX_RANK]; /* ceil(shape / chunk_shape) */
    enum dtype dtype;
    uint64_t item_length; /* 0: an item is one value of `dtype`. Else it is that many, which come as
                           * a last axis: strings and raw bytes (uint8), unicode (uint32) and
                           * sub-arrays */
    size_t item_bytes;    /* of one item */
    size_t stored_item_bytes; /* from one item to the next in a decoded chunk: `item_bytes`, more
                               * for a member of a structured dtype */
    size_t item_offset;       /* of the item in these; else 0 */
    char stored_type[ZARR_TYPE_BYTES]; /* "<M8[ns]", "|S10": where `dtype` does not say it all; else
                                        * "" */
    bool byte_swapped;                 /* stored in the other endianness than this machine's: each
                                        * dtype_swap_bytes() of each item */
    unsigned char fill[ZARR_MAX_ITEM_BYTES]; /* one item, native byte order */
    /* The axes of a decoded chunk as they lie in memory, outermost first: a permutation of [0,
     * rank), 0, 1, 2 for C order, 2, 1, 0 for Fortran's. */
    uint8_t storage_axes[ZARR_MAX_RANK];
    uint8_t key_axes[ZARR_MAX_RANK]; /* the axes in the order of keys; 0, 1, 2 but in views */
    bool key_prefixed;               /* keys start with "c": v3's default encoding */
    char key_separator;              /* '.' or '/' */
    struct codec_chain codecs;       /* bytes -> bytes */
    size_t chunk_bytes;              /* of one decoded chunk, stored_item_bytes an item; at most
                                      * ZARR_MAX_CHUNK_BYTES */
    uint64_t total_bytes;            /* of the whole array, item_bytes an item */
    int shard_level_count;           /* 0: each chunk is a value of its own */
    struct zarr_shard_level shard_levels[ZARR_MAX_SHARD_LEVELS]; /* outermost first */
    /* `to` DTYPE_NONE: none, as in all arrays but views (view.h). Else decoded chunks have items of
     * `from` (so chunk_bytes, stored_item_bytes, byte_swapped), and become what all else here says.
     */
    struct convert convert;
};

/* Parses the metadata document of the array at `path`.
 * Messages do not name the array: the caller puts "array '...': " in front.
 * CORRUPT: not JSON, a required member missing, of the wrong type or out of range, sizes that
 * overflow. INVALID: an array without items. UNSUPPORTED: something legal that we do not read, by
 * name.
 *
 * Unlike elsewhere *ret_array is filled on failure too, as far as parsing came, so that it can be
 * listed: path and format always; rank and shape, dtype, total_bytes, chunk_shape in this order,
 * each zero if not reached. */
MUST_USE enum status zarr_array_parse(enum zarr_format format, const char *path, const char *text,
                                      size_t text_bytes, struct zarr_array *ret_array,
                                      struct error *err);

/* The same for a member of a structured dtype, in [0, member_count); zarr_array_parse() gives the
 * first. The rest of an array of another dtype is not looked at: it has member 0 alone. */
MUST_USE enum status zarr_array_parse_member(enum zarr_format format, const char *path,
                                             const char *text, size_t text_bytes, size_t member,
                                             struct zarr_array *ret_array, struct error *err);

/* Where the array's document and chunks lie in the store: its path, less a member's name. Returned
 * by value so that it can stand in a call. */
struct zarr_path {
    char text[ZARR_PATH_BYTES];
};
struct zarr_path zarr_array_store_path(const struct zarr_array *array);

/* Number of chunks in the grid. */
uint64_t zarr_array_chunk_count(const struct zarr_array *array);

/* The shape of a value: of a shard, or of a chunk where there are none. */
void zarr_array_shard_shape(const struct zarr_array *array, uint64_t ret_shape[ZARR_MAX_RANK]);

/* Bytes of one index along axis 0: the product of the other axes. */
uint64_t zarr_array_sample_bytes(const struct zarr_array *array);

/* The store's key of the value that is the chunk at `chunk_index` (rank numbers), or the shard that
 * holds it: "base_frames/c/17/0/0". */
void zarr_chunk_key(const struct zarr_array *array, const uint64_t *chunk_index,
                    char ret_key[ZARR_KEY_BYTES]);

/* The dtype of items in decoded chunks: `dtype`, unless a view converts them. */
enum dtype zarr_array_decoded_dtype(const struct zarr_array *array);

/* Whether items in decoded chunks have others between them: those of a member of a structured
 * dtype. */
bool zarr_array_is_member(const struct zarr_array *array);

/* A chunk's index for messages: "17.0.0", as in keys. Returned by value so that it can stand in a
 * printf. */
struct zarr_index_text {
    char text[ZARR_MAX_RANK * 21];
};
struct zarr_index_text zarr_index_format(const struct zarr_array *array,
                                         const uint64_t *chunk_index);

/* A string that is equal only for arrays whose samples are stored alike (shape, dtype, grid, fill,
 * codecs); for fingerprints. The path and chunk keys are not part of it. */
void zarr_array_identify(const struct zarr_array *array, struct text *out);

#endif
