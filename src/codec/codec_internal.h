/* The functions of a codec: one `struct codec` in a file of its own, listed in CODEC_TABLE.
 *
 * A codec's functions see one step: settings from metadata, or bytes in and bytes out. Chains and
 * threads are the caller's business. `state` is what state_new() made for the calling thread's
 * context, NULL for codecs without one. docs/inside/adding-a-codec.md goes through one.
 */
#ifndef PENSTOCK_CODEC_CODEC_INTERNAL_H
#define PENSTOCK_CODEC_CODEC_INTERNAL_H

#include "codec/codec.h"

#include <stdint.h>

struct bytes {
    const uint8_t *data; /* may be NULL only if size is 0 */
    size_t size;
};

struct codec {
    const char *name;     /* v2's id, and what messages say */
    bool is_zarr_v3_core; /* v3 knows it by `name`; otherwise as "numcodecs." and the name only */
    bool is_filter;       /* changes values, not bytes: in v3 it stands before 'bytes' */
    bool trims;           /* decoding gives a part of its input and writes nothing */
    bool narrows;         /* decoding knows codec_output.width */
    bool is_image;        /* an image, or likewise from array to bytes: v3 has it in the place of
                             'bytes'. Known as "imagecodecs_" and the name, too */
    const char *package;  /* Debian's, with the library that this build lacks; NULL: all is there */

    /* Settings from a configuration (may be NULL) into the step's parameters and reals; all zero
     * on entry. NULL: the codec has no settings. */
    enum status (*parse)(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err);

    /* Fits the step to the chunks: codec_chain_settle(). NULL: they do not matter. */
    enum status (*settle)(struct codec_step *step, const struct codec_chunk *chunk,
                          struct error *err);

    /* The most bytes that `decoded_bytes` can take; a filter's exact number. */
    size_t (*stored_bound)(const struct codec_step *step, size_t decoded_bytes);

    /* The size of which decoded bytes are a multiple. NULL: 1. */
    size_t (*decoded_unit)(const struct codec_step *step);

    /* A thread's reused decompressor, for chunks of up to `decoded_bytes`; NULL and 0 if there is
     * none. */
    enum status (*state_new)(size_t decoded_bytes, void **ret_state, struct error *err);
    void (*state_free)(void *state);
    size_t state_bytes;                         /* about what it takes, for budgets */
    size_t (*state_room)(size_t decoded_bytes); /* and what decoding takes; NULL: nothing */

    /* Decodes into `room`, whose *width, if any, is NARROW_NOT, or, if it trims, returns a part of
     * `stored`. Allocates nothing itself. Whether the size is the right one is for the caller to
     * check. */
    enum status (*decode)(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err);

    /* Decodes `room.capacity` bytes from byte `begin` on of `decoded_bytes`:
     * codec_decode_partial(). NULL: nothing is gained by that. */
    enum status (*decode_partial)(void *state, struct bytes stored, size_t decoded_bytes,
                                  size_t begin, struct codec_output room, bool *ret_done,
                                  struct error *err);

    /* codec_chain_stores_plain(). NULL: never. */
    bool (*stores_plain)(const uint8_t *head, size_t decoded_bytes, size_t *ret_offset);

    /* codec_chain_begins(). NULL: not known. */
    bool (*begins)(const void *bytes, size_t size);

    /* Encodes into `room` of stored_bound() bytes. May allocate. NULL: Penstock only reads this
     * codec.
     */
    enum status (*encode)(const struct codec_step *step, struct bytes decoded,
                          struct codec_output room, size_t *ret_size, struct error *err);

    /* Appends the settings to the name in a description: "(level 3)". NULL: nothing to append. A
     * filter appends every setting that decoding depends on. */
    void (*describe)(const struct codec_step *step, struct text *out);

    /* The members of the configuration, without braces. NULL: there are none. */
    void (*write_json)(const struct codec_step *step, enum codec_format format, struct text *out);
};

/* All codecs, each `codec_<name>`: compressors, checksums, filters, images. */
// clang-format off
#define CODEC_TABLE(X)                                                                     \
    X(blosc) X(zstd) X(gzip) X(zlib) X(lz4) X(bz2) X(lzma)                                 \
    X(crc32c) X(crc32) X(adler32) X(fletcher32)                                            \
    X(shuffle) X(delta) X(fixedscaleoffset) X(quantize) X(astype) X(bitround) X(packbits) \
    X(jpeg) X(jpegxl) X(jpeg2k) X(png) X(webp) X(zfpy)
// clang-format on

#define CODEC_DECLARE(name) extern const struct codec codec_##name;
CODEC_TABLE(CODEC_DECLARE)
#undef CODEC_DECLARE

#define CODEC_ONE(name) +1
enum { CODEC_COUNT = 0 CODEC_TABLE(CODEC_ONE) };
#undef CODEC_ONE

/* The codec's index in the table: [0, CODEC_COUNT). */
size_t codec_index(const struct codec *codec);

/* The most bytes that `decoded_bytes` can take after the first `step_count` steps. */
size_t codec_chain_bound_after(const struct codec_chain *chain, size_t step_count,
                               size_t decoded_bytes);

/* The integer `key` of a configuration that may be NULL or lack it. CORRUPT: not an integer within
 * [low, high]. */
MUST_USE enum status codec_setting(struct json_object *configuration, const char *key, int fallback,
                                   int low, int high, int *ret_value, struct error *err);

/* The boolean `key`, 0 or 1; 0 where it is absent. CORRUPT: not a boolean. */
MUST_USE enum status codec_setting_bool(struct json_object *configuration, const char *key,
                                        int *ret_value, struct error *err);

/* The string `key`, borrowed from the configuration. CORRUPT: not a string. */
MUST_USE enum status codec_setting_text(struct json_object *configuration, const char *key,
                                        const char *fallback, const char **ret_text,
                                        struct error *err);

/* The number `key`, which must be there. CORRUPT: not a finite number. */
MUST_USE enum status codec_setting_real(struct json_object *configuration, const char *key,
                                        double *ret_value, struct error *err);

/* A configuration whose only setting is "level", in [low, high]. */
void codec_level_describe(const struct codec_step *step, struct text *out);
void codec_level_write_json(const struct codec_step *step, enum codec_format format,
                            struct text *out);

#endif
