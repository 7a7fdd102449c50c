/* Blosc 1 frames, decoded with libzstd, liblz4 and libdeflate. Internal to src/codec.
 *
 *     0        1          2      3         4       8          12      16
 *     version  versionlz  flags  typesize  nbytes  blocksize  cbytes  starts...  streams...
 *
 * Numbers are uint32, little-endian. `starts` has a number for each block: where in the frame the
 * block's streams begin. Each stream is its size, then as many bytes; a stream of just the size
 * that it decodes to is stored as it is. A block has one stream, or one for each byte of its
 * elements: then stream k has byte k of all elements. The last block may be shorter, and always
 * has one stream. A frame whose flags say so has no blocks: its bytes follow the header unchanged.
 *
 * Format: README_CHUNK_FORMAT.rst of c-blosc, and what its decoder (1.21) does where that is
 * silent:
 * - streams are split unless a flag says not to; but never in blocks of elements of more than 16
 *   bytes or of fewer than 128 elements, since older writers did not have the flag;
 * - bytes are shuffled where the flags say both; elements of one byte are not;
 * - bits are not shuffled in a block whose elements are not a multiple of 8 in number, or that is
 *   smaller than an element;
 * - bytes behind a block's last whole element are stored as they are.
 *
 * Nothing in a frame is trusted. What c-blosc takes and this does not: blocks that begin within the
 * header or within `starts`; no writer makes them.
 */
#ifndef PENSTOCK_CODEC_BLOSC_BLOSC_FRAME_H
#define PENSTOCK_CODEC_BLOSC_BLOSC_FRAME_H

#include "codec/codec_internal.h"

enum blosc_format { BLOSC_IS_BLOSCLZ, BLOSC_IS_LZ4, BLOSC_IS_SNAPPY, BLOSC_IS_ZLIB, BLOSC_IS_ZSTD };
enum blosc_filter { BLOSC_NO_FILTER, BLOSC_BYTES, BLOSC_BITS };

/* A header that makes sense, and fits the bytes that are there. */
struct blosc_frame {
    const uint8_t *data;
    size_t stored_bytes;  /* with the header, without what lies behind the frame */
    size_t decoded_bytes; /* 0: nothing below counts */
    size_t block_bytes, block_count;
    size_t type_bytes;
    enum blosc_format format;
    enum blosc_filter filter;
    bool is_plain; /* no blocks */
    bool splits;
};

/* Reads the header. CORRUPT: the header makes no sense, promises more than `capacity` bytes, or is
 * of another format version. */
MUST_USE enum status blosc_frame_open(struct bytes stored, size_t capacity,
                                      struct blosc_frame *ret_frame, struct error *err);

/* What a thread keeps to decode frames: contexts of libraries, and room for a block. */
struct blosc_decoder;

/* For frames of up to `decoded_bytes`. NO_MEMORY. Allocates all that decoding ever needs. */
MUST_USE enum status blosc_decoder_new(size_t decoded_bytes, struct blosc_decoder **ret_decoder,
                                       struct error *err);
void blosc_decoder_free(struct blosc_decoder *decoder);

/* The room for a block, for budgets. */
size_t blosc_decoder_room(size_t decoded_bytes);

/* Whether blosc_decoder_decode() knows the frame's compressor and has room for its blocks. */
bool blosc_decoder_takes(const struct blosc_decoder *decoder, const struct blosc_frame *frame);

/* Decodes the `range.capacity` bytes from `begin` on, which the frame must have: the blocks that
 * have some of them, and no others. Only for frames that it takes. CORRUPT: which block is damaged,
 * and how. */
MUST_USE enum status blosc_decoder_decode(struct blosc_decoder *decoder,
                                          const struct blosc_frame *frame, size_t begin,
                                          struct codec_output range, struct error *err);

#endif
