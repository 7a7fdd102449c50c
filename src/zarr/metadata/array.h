/* One Zarr array: what its metadata document says, checked and ready for reading.
 *
 * Parses v2 `.zarray` and v3 `zarr.json` documents, which are foreign bytes. Every number is
 * checked, and all sizes are computed with overflow checks. An array that cannot be read is refused
 * here, by name, not at the first batch.
 *
 * Pure functions over the caller's memory: any thread, and none blocks.
 */
#ifndef PENSTOCK_ZARR_METADATA_ARRAY_H
#define PENSTOCK_ZARR_METADATA_ARRAY_H

#include "base/convert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "codec/codec.h"
#include "zarr/metadata/normal.h"
#include "zarr/metadata/selection.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ZARR_MAX_RANK = 8,
    ZARR_PATH_BYTES = 512, /* of an array's path, with its NUL */
    ZARR_KEY_BYTES = 768,  /* of a chunk's key, with its NUL */
    ZARR_TYPE_BYTES = 48,  /* of a stored dtype's text, with its NUL */
    ZARR_MAX_ITEM_BYTES = 1024,
    ZARR_MAX_SHARD_LEVELS = 3, /* levels of shards in shards */
};

/* The largest shard index that is read: 4 million inner chunks. */
#define ZARR_MAX_INDEX_BYTES ((size_t)64 << 20)

/* The largest decoded chunk that is read: codecs count in 32 bits. */
#define ZARR_MAX_CHUNK_BYTES ((size_t)2147483647)

/* The values are those of "zarr_format". */
enum zarr_format { ZARR_V2 = 2, ZARR_V3 = 3 };

/* One level of shards: how a shard is divided into chunks of the next level, and how its index is
 * stored. See shard.h. */
struct zarr_shard_level {
    uint64_t counts[ZARR_MAX_RANK]; /* chunks of the next level along each axis of a shard */
    uint64_t spans[ZARR_MAX_RANK];  /* chunks of the innermost level along each axis of a shard */
    uint8_t axes[ZARR_MAX_RANK];    /* the axes in the index's order, outermost first */
    uint64_t entry_count;           /* all counts multiplied */
    size_t index_bytes;             /* as stored, at most ZARR_MAX_INDEX_BYTES */
    bool index_at_start;            /* else the index is at the shard's end */
    bool index_swapped;             /* the index has the other endianness than this machine's */
    struct codec_chain index_codecs;
};

struct zarr_array {
    /* "group/name"; "" for an array that is the root; "group/name.member" for a member of a
     * structured dtype. */
    char path[ZARR_PATH_BYTES];
    size_t key_path_bytes; /* length of the part of `path` that keys have: without ".member" */
    size_t member_index;   /* of a member of a structured dtype; else 0 */
    size_t member_count;   /* how many members the structured dtype has; else 0 */
    enum zarr_format format;
    int rank;                             /* 1..8; 0 where the shape could not be read */
    uint64_t shape[ZARR_MAX_RANK];        /* in items */
    uint64_t chunk_shape[ZARR_MAX_RANK];  /* in items; may exceed the shape; of a sharded array, of
                                           * the  innermost chunks, which are decoded */
    uint64_t chunk_counts[ZARR_MAX_RANK]; /* ceil(shape / chunk_shape) */
    /* Of a rectilinear grid: how long the last chunk along each axis is, where it is shorter than
     * the others; else 0, and the last chunk is as long as the others, beyond the shape. */
    uint64_t last_lengths[ZARR_MAX_RANK];
    enum dtype dtype;
    /* 0: an item is one value of `dtype`. Else an item has so many values, which are a last axis:
     * strings and raw bytes (uint8), unicode (uint32) and sub-arrays. */
    uint64_t item_length;
    size_t item_bytes; /* of one item */
    /* From one item to the next in a decoded chunk: `item_bytes`, or more for a member of a
     * structured dtype. */
    size_t stored_item_bytes;
    size_t item_offset;                /* of the item in stored_item_bytes; 0 if not a member */
    char stored_type[ZARR_TYPE_BYTES]; /* "<M8[ns]", "|S10"; "" where `dtype` says everything */
    /* Values have variable length: the codec of stored_type ("vlen-utf8") comes before `codecs`,
     * and dtype, shape and grid are of values whose items have that dtype. Such an array is refused
     * (UNSUPPORTED), so that no reader of chunks meets one; who can read it looks at this. Sizes in
     * bytes mean nothing. */
    bool is_vlen;
    bool vlen_has_fill; /* the fill value is not empty: no chunk may be missing */
    /* Of a view of such values that rows are read from: where the values begin, in items, [shape[0]
     * + 1], borrowed; and the items of values beyond the shape, in the last chunk. A decoded chunk
     * then has the size that follows from these, chunk_bytes at most. NULL: not known, and chunks
     * are read by zarr/chunk/values.h alone. */
    const uint64_t *value_offsets;
    uint64_t values_beyond;
    /* There are no axes. Shape and chunks are those of one axis of length 1. Such an array is
     * refused (UNSUPPORTED), too: who can read one value looks at this. */
    bool is_scalar;
    /* An axis has the length 0: there are no items and no chunks. Such an array is refused
     * (INVALID), too: who can do without items looks at this. */
    bool is_empty;
    bool byte_swapped; /* each run of dtype_swap_bytes() of an item is stored in the other
                        * endianness than this machine's */
    unsigned char fill[ZARR_MAX_ITEM_BYTES]; /* one item, native byte order */
    /* The axes of a decoded chunk in memory, outermost first: a permutation of [0, rank). 0, 1, 2
     * is C order; 2, 1, 0 is Fortran order. */
    uint8_t storage_axes[ZARR_MAX_RANK];
    uint8_t key_axes[ZARR_MAX_RANK]; /* the axes in the order of keys; other than 0, 1, 2 in views
                                        alone */
    bool key_prefixed;               /* keys begin with "c": v3's default encoding */
    char key_separator;              /* '.' or '/' */
    struct codec_chain codecs;       /* bytes -> bytes */
    size_t chunk_bytes;              /* of one decoded chunk, stored_item_bytes an item; at most
                                      * ZARR_MAX_CHUNK_BYTES */
    uint64_t total_bytes;            /* of the whole array, item_bytes an item */
    int shard_level_count;           /* 0: each chunk is a value of its own */
    struct zarr_shard_level shard_levels[ZARR_MAX_SHARD_LEVELS]; /* outermost first */
    /* How items are converted. `to` is DTYPE_NONE in all arrays but views (view.h): no conversion.
     * In a view that converts, decoded chunks have items of `from`, and so do chunk_bytes,
     * stored_item_bytes and byte_swapped. All other members are of the converted items. */
    struct convert convert;
    /* Of a view: what is decoded to where it belongs is read so late that the caches have forgotten
     * it (codec_output.streams). */
    bool is_read_late;
    /* The indices along each axis but the first that a view has; NULL: all. Borrowed. `shape` and
     * `total_bytes` count these alone; the chunk grid is that of the array. */
    const struct zarr_selection *selections[ZARR_MAX_RANK];
    /* How items are normalised, in a view that converts; NULL: not. Borrowed. Then `fill` is as the
     * array has it. */
    const struct zarr_normal *normal;
};

/* Parses the metadata document (`text_bytes` of `text`) of the array at `path`. Messages do not
 * name the array: the caller puts "array '...': " in front.
 *
 * CORRUPT: the text is not JSON; a required member is missing, of the wrong type or out of range;
 * or sizes overflow. INVALID: the array has no items. UNSUPPORTED: something legal that we do not
 * read; the message names the thing. NO_MEMORY.
 *
 * On failure *ret_array is filled, too, as far as parsing came, so that the array can be listed.
 * Path and format are always set. Then come rank and shape, dtype, total_bytes and chunk_shape, in
 * this order; members that were not reached are zero. */
MUST_USE enum status zarr_array_parse(enum zarr_format format, const char *path, const char *text,
                                      size_t text_bytes, struct zarr_array *ret_array,
                                      struct error *err);

/* As zarr_array_parse(), for member number `member` of a structured dtype, in [0, member_count).
 * zarr_array_parse() gives the first member. An array of another dtype has
 * member 0 alone. */
MUST_USE enum status zarr_array_parse_member(enum zarr_format format, const char *path,
                                             const char *text, size_t text_bytes, size_t member,
                                             struct zarr_array *ret_array, struct error *err);

/* The folder of the array's document and chunks in the store: its path, without a member's name.
 * Returned by value, so that a call can be an argument. */
struct zarr_path {
    char text[ZARR_PATH_BYTES];
};
struct zarr_path zarr_array_store_path(const struct zarr_array *array);

/* Number of chunks in the grid. */
uint64_t zarr_array_chunk_count(const struct zarr_array *array);

/* Number of chunks along an axis that hold anything of the array, or of a view's selection. */
uint64_t zarr_array_chunks_along(const struct zarr_array *array, int axis);

/* The shape of a value in items: of an outermost shard, or of a chunk if there are no shards. */
void zarr_array_shard_shape(const struct zarr_array *array, uint64_t ret_shape[ZARR_MAX_RANK]);

/* Whether the array is one of values of variable length that a field can have: it has an axis, and
 * items. */
bool zarr_array_has_values(const struct zarr_array *array);

/* Whether the array is refused for nothing but its axis 0, which has the length 0. */
bool zarr_array_lacks_items(const struct zarr_array *array);

/* Bytes of all items at one index along axis 0, also where there is no index. */
uint64_t zarr_array_sample_bytes(const struct zarr_array *array);

/* The key of the value that is the chunk at `chunk_index` ([rank]), or is the shard that holds the
 * chunk: "base_frames/c/17/0/0". */
void zarr_chunk_key(const struct zarr_array *array, const uint64_t *chunk_index,
                    char ret_key[ZARR_KEY_BYTES]);

/* How long the chunk is along an axis, as stored: chunk_shape, but for last_lengths. */
uint64_t zarr_array_chunk_length(const struct zarr_array *array, int axis, uint64_t index);

/* How many bytes the chunk at `chunk_index` decodes to: chunk_bytes, but for last_lengths. */
size_t zarr_array_decoded_bytes(const struct zarr_array *array, const uint64_t *chunk_index);

/* With value_offsets: the items of all values of a chunk, but for those beyond the shape. */
uint64_t zarr_array_chunk_items(const struct zarr_array *array, uint64_t chunk);

/* The dtype of items in decoded chunks: `dtype`, or convert.from in a view that converts. */
enum dtype zarr_array_decoded_dtype(const struct zarr_array *array);

/* Whether the array is a member of a structured dtype, so that decoded chunks have other members'
 * items between its own. */
bool zarr_array_is_member(const struct zarr_array *array);

/* A chunk's index for messages: "17.0.0", in the order of keys. Returned by value, so that a call
 * can be an argument of printf(). */
struct zarr_index_text {
    char text[ZARR_MAX_RANK * 21];
};
struct zarr_index_text zarr_index_format(const struct zarr_array *array,
                                         const uint64_t *chunk_index);

/* Appends a text that is equal for two arrays only if their samples are stored alike: shape, dtype,
 * grid, fill value, codecs and selections. Path and chunk keys do not count. For fingerprints. */
void zarr_array_identify(const struct zarr_array *array, struct text *out);

#endif
