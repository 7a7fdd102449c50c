/* Codecs: how a chunk's bytes are stored. One file a codec, one row in the table of
 * codec_internal.h.
 *
 * A chain is the list of codecs of one array, in the order of encoding: v2's `filters` and
 * `compressor`; v3's `codecs`, but for those that move items (`transpose`, `sharding_indexed`) or
 * only name the byte order (`bytes`). All of them are steps from bytes to bytes, filters too: these
 * take the values of a chunk in the order of memory, whatever its axes are. Images alone look at
 * the axes. The sizes between
 * filters follow from the decoded size, so that each step decodes into a known size. A chain is
 * immutable once built and shared by threads; each thread decodes with a `struct codec_context` of
 * its own, which holds reused decompressors and scratch memory, so that decoding allocates nothing;
 * but libblosc, which decodes the Blosc chunks that are rare, takes room for a block in each call,
 * and gives it back.
 *
 * Foreign bytes are never trusted: sizes in headers are checked against the chunk and against what
 * the array expects before anything is written.
 */
#ifndef PENSTOCK_CODEC_CODEC_H
#define PENSTOCK_CODEC_CODEC_H

#include "base/dtype.h"
#include "base/error.h"
#include "base/narrow.h"
#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object; /* json-c */

enum { CODEC_MAX_STEPS = 8, CODEC_PARAMETERS = 16, CODEC_REALS = 2, CODEC_MAX_RANK = 8 };

struct codec; /* one row of the table */

/* One codec with its settings (level, shuffle, ...), whose meaning is the codec's own business. */
struct codec_step {
    const struct codec *codec;
    int parameters[CODEC_PARAMETERS];
    double reals[CODEC_REALS];
};

struct codec_chain {
    size_t step_count;
    struct codec_step steps[CODEC_MAX_STEPS];
};

enum codec_format { CODEC_ZARR_V2 = 2, CODEC_ZARR_V3 = 3 };

/* Appends the codec of that name with its configuration: v2 {"id": name, ...} (pass the whole
 * object), v3's "configuration" object (may be NULL). `item_bytes` of the array's dtype, for
 * encoders that shuffle. v3 names are the core ones and zarr-python's "numcodecs.zlib" and so on.
 * UNSUPPORTED: a codec or a dtype in a filter that we do not have, by name. CORRUPT: a
 * configuration that makes no sense. */
MUST_USE enum status codec_chain_add(struct codec_chain *chain, enum codec_format format,
                                     const char *name, struct json_object *configuration,
                                     size_t item_bytes, struct error *err);

/* Whether there is a codec of that name; and, where there is none, UNSUPPORTED: with what it is and
 * what would help, as far as that is known. */
bool codec_is_known(enum codec_format format, const char *name);
enum status codec_refuse(const char *name, struct error *err);

/* Whether a codec of that v3 name works on values rather than bytes: it stands before 'bytes' in
 * v3's list, and is added to the chain all the same. */
bool codec_is_filter(const char *v3_name);

/* Whether a codec of that name stores a chunk as images: in v3 it stands in the place of 'bytes'.
 * Such a codec is the first of its chain. */
bool codec_is_image(enum codec_format format, const char *name);

/* Appends which codecs this build has of those whose libraries a build may lack, and what the
 * others want: "codecs with libraries of their own: jpeg, png; left out: webp (libwebp-dev)". */
void codec_list_optional(struct text *out);

/* Whether the values that the chain decodes to are in the other endianness than this machine's, as
 * the first filter says; `fallback` for a chain that does not start with a filter that says it. In
 * v3 that counts, not 'bytes'; in v2 the array's dtype counts. */
bool codec_chain_swapped(const struct codec_chain *chain, bool fallback);

/* The chunks of an array, decoded. */
struct codec_chunk {
    size_t bytes;
    enum dtype dtype;                 /* DTYPE_NONE: items are not of one plain value each */
    bool is_swapped;                  /* values are in the other endianness than this machine's */
    int rank;                         /* 0: not known */
    uint64_t lengths[CODEC_MAX_RANK]; /* of axes as they lie in memory, outermost first */
};

/* The last step of building a chain: fits it to the chunks of its array. CORRUPT: such chunks
 * cannot have come through these filters, whose values have other sizes. UNSUPPORTED: images cannot
 * hold such values. */
MUST_USE enum status codec_chain_settle(struct codec_chain *chain, const struct codec_chunk *chunk,
                                        struct error *err);

/* "zstd(level 3) crc32c"; "none" for an empty chain. */
void codec_chain_describe(const struct codec_chain *chain, struct text *out);

/* A string that is equal only for chains that decode alike, for fingerprints: "zstd+crc32c", "raw".
 * Settings count for filters alone: other chunks are decoded by what they say themselves. */
void codec_chain_identify(const struct codec_chain *chain, struct text *out);

/* The most bytes that `decoded_bytes` can take when stored, with room for encoders less tight than
 * ours: the size of a read buffer. */
size_t codec_chain_stored_bound(const struct codec_chain *chain, size_t decoded_bytes);

/* Whether chunks are stored as images. */
bool codec_chain_is_image(const struct codec_chain *chain);

/* Whether stored bytes are the decoded bytes. */
bool codec_chain_is_raw(const struct codec_chain *chain);

struct codec_context;

/* A thread's context for chunks of up to `decoded_bytes` through any of `chains`. Scratch is
 * allocated here and touched by this thread. NO_MEMORY. */
MUST_USE enum status codec_context_new(const struct codec_chain *const *chains, size_t chain_count,
                                       size_t decoded_bytes, struct codec_context **ret_context,
                                       struct error *err);

/* The memory of such a context, for budgets. */
size_t codec_context_bytes(const struct codec_chain *const *chains, size_t chain_count,
                           size_t decoded_bytes);
void codec_context_free(struct codec_context *context);

/* Where decoded bytes go; of encoders, where stored bytes go: data and capacity alone. */
struct codec_output {
    uint8_t *data;
    size_t capacity;          /* bytes */
    bool streams;             /* the bytes are read so late that the caches have forgotten them.
                                 Codecs that can write past the caches do so, which costs less */
    size_t element_bytes;     /* with width: of an element, which narrow_takes() */
    enum narrow_width *width; /* borrowed; set by decoding. NULL: elements are whole */
};

/* For whole elements, which the caches may have. */
static inline struct codec_output codec_output_of(void *data, size_t capacity)
{
    return (struct codec_output){.data = data, .capacity = capacity};
}

/* Whether decoding may find elements of the chain's chunks narrow (base/narrow.h). */
bool codec_chain_may_be_narrow(const struct codec_chain *chain);

/* Decodes `stored_size` bytes into exactly `output.capacity` bytes. `stored` and the output must
 * not overlap; on failure the output holds anything.
 *
 * With output.width all elements of the chunk are narrow, if they can be, as *output.width says. If
 * this is not NARROW_NOT, it says which bytes of each element are kept: those of element i of the
 * chunk lie i * narrow_kept() behind where the chunk's first byte belongs, and bytes from there to
 * the output's end may have been written. On failure *output.width is NARROW_NOT.
 *
 * CORRUPT: whatever is wrong with the bytes, e.g. "blosc: header says 163840 bytes, chunk holds
 * 81920". UNSUPPORTED: a compressor that this libblosc lacks, a kind of image. INVALID: the context
 * was made for other chains or smaller chunks. */
MUST_USE enum status codec_decode(const struct codec_chain *chain, struct codec_context *context,
                                  const void *stored, size_t stored_size,
                                  struct codec_output output, struct error *err);

/* Who counts the memory of codec_decode_unsized(). Embedded by whoever keeps the count. */
struct codec_memory {
    /* Asked before memory is taken. A status other than OK ends the decoding, and is returned. */
    enum status (*take)(struct codec_memory *memory, size_t bytes, struct error *err);
    void (*give)(struct codec_memory *memory, size_t bytes); /* told after memory was freed */
    size_t limit;  /* the most bytes taken at any one time */
    bool is_short; /* set where the limit was in the way: more might have been enough */
};

/* Decodes a chunk whose decoded size nobody knows: the size is what the chunk's header says, or is
 * found by trying. *ret_decoded is malloc'ed (the caller's), *ret_size its bytes, which stay taken
 * from `memory` (borrowed during the call). On failure nothing stays taken. Allocates, and needs no
 * context: for what is read once. CORRUPT as codec_decode(), or more bytes than the limit.
 * UNSUPPORTED: a filter is among the codecs; and as codec_decode(). NO_MEMORY. Others as of take().
 */
MUST_USE enum status codec_decode_unsized(const struct codec_chain *chain, const void *stored,
                                          size_t stored_size, struct codec_memory *memory,
                                          void **ret_decoded, size_t *ret_size, struct error *err);

/* Returns the function that tells whether bytes begin like a chunk that the chain stored; NULL:
 * there is none. */
bool (*codec_chain_begins(const struct codec_chain *chain))(const void *bytes, size_t size);

/* Whether partial decoding of a chunk may take less work than all of it. */
bool codec_chain_has_partial(const struct codec_chain *chain);

/* Whether a chunk with `head`, its first CODEC_HEAD_BYTES stored bytes, stores its bytes unchanged
 * from byte *ret_offset to the end. For chains that decode partially. False, too, for a head that
 * makes no sense; codec_decode() tells why. */
enum { CODEC_HEAD_BYTES = 16 };
bool codec_chain_stores_plain(const struct codec_chain *chain, const void *head,
                              size_t decoded_size, size_t *ret_offset);

/* Decodes `range.capacity` bytes from byte `begin` on, of a chunk of `decoded_size`: for chains
 * that decode partially. *ret_done is false where these very bytes cannot be decoded partially:
 * then codec_decode() has to. range.streams is not looked at. Narrow elements and errors as above:
 * bytes that are kept may lie before range.data, as far as where the chunk's first byte belongs. */
MUST_USE enum status codec_decode_partial(const struct codec_chain *chain,
                                          struct codec_context *context, const void *stored,
                                          size_t stored_size, size_t decoded_size, size_t begin,
                                          struct codec_output range, bool *ret_done,
                                          struct error *err);

/* Encodes into `stored`, whose capacity must be at least codec_chain_stored_bound(). For writers:
 * may allocate. INVALID: more bytes than the codec can take, or less room. UNSUPPORTED: a
 * compressor that this libblosc lacks, a codec that we only read. NO_MEMORY. Safe from any thread.
 */
MUST_USE enum status codec_encode(const struct codec_chain *chain, const void *decoded,
                                  size_t decoded_size, void *stored, size_t capacity,
                                  size_t *ret_stored_size, struct error *err);

/* Appends the chain's metadata for an array of our own making: v2's compressor object or null, or
 * the bytes -> bytes part of v3's codecs, each with a leading comma. */
void codec_chain_write_json(const struct codec_chain *chain, enum codec_format format,
                            struct text *out);

#endif
