/* See blosc_frame.h: headers, blocks and streams. Streams are decoded one after another into the
 * decoder's room, and from there unshuffled to where the bytes belong; streams that are stored as
 * they are are unshuffled from where they lie. Blocks without a filter are decoded to where the
 * bytes belong, if all of them are wanted. */
#include "codec/blosc/blosc_frame.h"

#include "base/memory.h"
#include "base/number.h"
#include "codec/blosc/unshuffle.h"

#include <blosc.h>
#include <endian.h>
#include <libdeflate.h>
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum {
    HEADER_BYTES = BLOSC_MIN_HEADER_LENGTH,
    NUMBER_BYTES = 4,
    STREAM_VERSION = 1, /* of all compressors' streams */
    FLAG_RESERVED = 0x08,
    FLAG_DONT_SPLIT = 0x10,
    MOST_STREAMS = 16,
    LEAST_ELEMENTS = 128, /* of a block in streams */
    MOST_ROOM_BYTES = 2 << 20
};

static size_t read_number(const uint8_t *at)
{
    uint32_t number;
    memcpy(&number, at, sizeof number);
    return le32toh(number);
}

/* Headers
 * ------------------------------------------------------------------------------------------ */

static enum status check_sizes(const struct blosc_frame *frame, const uint8_t *head,
                               struct error *err)
{
    if (frame->type_bytes == 0)
        return error_set(err, STATUS_CORRUPT, "header says elements of 0 bytes");
    if (frame->block_bytes == 0 || frame->block_bytes > frame->decoded_bytes ||
        frame->block_bytes > BLOSC_MAX_BLOCKSIZE)
        return error_set(err, STATUS_CORRUPT, "header says blocks of %zu bytes, of %zu bytes",
                         frame->block_bytes, frame->decoded_bytes);
    if (head[2] & FLAG_RESERVED)
        return error_set(err, STATUS_CORRUPT, "header has unknown flags 0x%02x", head[2]);
    if (frame->is_plain && frame->stored_bytes != HEADER_BYTES + frame->decoded_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "header says %zu stored bytes for %zu bytes that are not compressed",
                         frame->stored_bytes, frame->decoded_bytes);
    if (!frame->is_plain &&
        frame->block_count > (frame->stored_bytes - HEADER_BYTES) / NUMBER_BYTES)
        return error_set(err, STATUS_CORRUPT, "header says %zu blocks in %zu stored bytes",
                         frame->block_count, frame->stored_bytes);
    if (!frame->is_plain && head[1] != STREAM_VERSION)
        return error_set(err, STATUS_CORRUPT, "header has compressor version %u, not %u", head[1],
                         STREAM_VERSION);
    return STATUS_OK;
}

enum status blosc_frame_open(struct bytes stored, size_t capacity, struct blosc_frame *ret_frame,
                             struct error *err)
{
    const uint8_t *head = stored.data;
    if (stored.size < HEADER_BYTES)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes have no room for a header",
                         stored.size);
    struct blosc_frame frame = {.data = head,
                                .type_bytes = head[3],
                                .decoded_bytes = read_number(head + 4),
                                .block_bytes = read_number(head + 8),
                                .stored_bytes = read_number(head + 12),
                                .format = head[2] >> 5,
                                .is_plain = head[2] & BLOSC_MEMCPYED,
                                .splits = !(head[2] & FLAG_DONT_SPLIT)};
    if (head[0] != BLOSC_VERSION_FORMAT)
        return error_set(err, STATUS_CORRUPT, "header has format version %u, not %u", head[0],
                         BLOSC_VERSION_FORMAT);
    if (frame.stored_bytes < HEADER_BYTES || frame.stored_bytes > stored.size ||
        frame.stored_bytes > INT32_MAX)
        return error_set(err, STATUS_CORRUPT, "header says %zu stored bytes, there are %zu",
                         frame.stored_bytes, stored.size);
    if (frame.decoded_bytes > capacity || frame.decoded_bytes > BLOSC_MAX_BUFFERSIZE)
        return error_set(err, STATUS_CORRUPT, "header says %zu bytes, chunk holds %zu",
                         frame.decoded_bytes, capacity);
    if (frame.block_bytes > 0)
        frame.block_count = (frame.decoded_bytes + frame.block_bytes - 1) / frame.block_bytes;
    if (head[2] & BLOSC_DOSHUFFLE && frame.type_bytes > 1)
        frame.filter = BLOSC_BYTES;
    else if (head[2] & BLOSC_DOBITSHUFFLE)
        frame.filter = BLOSC_BITS;
    enum status status = frame.decoded_bytes > 0 ? check_sizes(&frame, head, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    *ret_frame = frame;
    return STATUS_OK;
}

/* The decoder
 * -------------------------------------------------------------------------------------- */

struct blosc_decoder {
    ZSTD_DCtx *zstd;
    struct libdeflate_decompressor *deflate;
    const struct unshuffle_loops *loops;
    uint8_t *room;
    size_t room_bytes;
};

size_t blosc_decoder_room(size_t decoded_bytes)
{
    return max_u64(min_u64(decoded_bytes, MOST_ROOM_BYTES), 1);
}

enum status blosc_decoder_new(size_t decoded_bytes, struct blosc_decoder **ret_decoder,
                              struct error *err)
{
    struct blosc_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return error_set(err, STATUS_NO_MEMORY, "blosc: no memory for a decoder");
    *decoder = (struct blosc_decoder){.zstd = ZSTD_createDCtx(),
                                      .deflate = libdeflate_alloc_decompressor(),
                                      .loops = unshuffle_best()};
    void *room = NULL;
    size_t room_bytes = blosc_decoder_room(decoded_bytes);
    enum status status = decoder->zstd && decoder->deflate
                             ? memory_map(room_bytes, "room for a Blosc block", &room, err)
                             : error_set(err, STATUS_NO_MEMORY, "blosc: no memory for a decoder");
    if (status != STATUS_OK) {
        blosc_decoder_free(decoder);
        return status;
    }
    memory_touch(room, room_bytes);
    decoder->room = room;
    decoder->room_bytes = room_bytes;
    *ret_decoder = decoder;
    return STATUS_OK;
}

void blosc_decoder_free(struct blosc_decoder *decoder)
{
    if (!decoder)
        return;
    memory_unmap(decoder->room, decoder->room_bytes);
    libdeflate_free_decompressor(decoder->deflate);
    ZSTD_freeDCtx(decoder->zstd);
    free(decoder);
}

bool blosc_decoder_takes(const struct blosc_decoder *decoder, const struct blosc_frame *frame)
{
    bool known = frame->format == BLOSC_IS_ZSTD || frame->format == BLOSC_IS_LZ4 ||
                 frame->format == BLOSC_IS_ZLIB;
    return frame->is_plain || frame->decoded_bytes == 0 ||
           (known && min_u64(frame->block_bytes, frame->decoded_bytes) <= decoder->room_bytes);
}

/* Streams
 * ------------------------------------------------------------------------------------------ */

/* What lies narrow of a range of elements (codec_output.width). The first block decides in which
 * width. If a block does not fit, all elements become whole. */
struct narrowing {
    enum narrow_width width;
    size_t element_bytes;
    bool has_begun;
    uint8_t *base;      /* where element 0 of the frame belongs */
    size_t first, next; /* the elements that are there so far */
};

/* One block, its place in the frame and the bytes of it that are wanted. */
struct block {
    const struct blosc_frame *frame;
    size_t index, bytes; /* `bytes` of all of it, decoded */
    size_t begin, end;   /* of what is wanted within it */
    size_t stream_count, stream_bytes;
    size_t element_count;
    enum blosc_filter filter;
    uint8_t *out;                /* where byte `begin` belongs */
    bool streams;                /* codec_output.streams */
    struct narrowing *narrowing; /* NULL: elements are whole */
};

static enum status damaged(const struct block *block, struct error *err)
{
    return error_prefix(err, STATUS_CORRUPT, "block %zu of %zu is damaged: ", block->index,
                        block->frame->block_count);
}

static enum status inflate_stream(struct blosc_decoder *decoder, struct bytes stored, uint8_t *out,
                                  size_t bytes, struct error *err)
{
    size_t done = 0, used = 0;
    enum libdeflate_result result = libdeflate_zlib_decompress_ex(
        decoder->deflate, stored.data, stored.size, out, bytes, &used, &done);
    if (result == LIBDEFLATE_SUCCESS && done == bytes)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT, "a zlib stream of %zu bytes does not decode to %zu",
                     stored.size, bytes);
}

static enum status decompress(struct blosc_decoder *decoder, enum blosc_format format,
                              struct bytes stored, uint8_t *out, size_t bytes, struct error *err)
{
    if (format == BLOSC_IS_ZLIB)
        return inflate_stream(decoder, stored, out, bytes, err);
    if (format == BLOSC_IS_LZ4) {
        int done = LZ4_decompress_safe((const char *)stored.data, (char *)out, (int)stored.size,
                                       (int)bytes);
        return done == (int)bytes ? STATUS_OK
                                  : error_set(err, STATUS_CORRUPT,
                                              "an lz4 stream of %zu bytes does not decode to %zu",
                                              stored.size, bytes);
    }
    size_t done = ZSTD_decompressDCtx(decoder->zstd, out, bytes, stored.data, stored.size);
    if (done == bytes)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT, "a zstd stream of %zu bytes does not decode to %zu%s%s",
                     stored.size, bytes, ZSTD_isError(done) ? ": " : "",
                     ZSTD_isError(done) ? ZSTD_getErrorName(done) : "");
}

/* The block's next stream, which begins at *at: its size, then its bytes. */
static enum status next_stream(const struct block *block, size_t *at, struct bytes *ret_stream,
                               struct error *err)
{
    const struct blosc_frame *frame = block->frame;
    if (*at > frame->stored_bytes - NUMBER_BYTES)
        return error_set(err, STATUS_CORRUPT, "a stream begins at byte %zu of %zu", *at,
                         frame->stored_bytes);
    size_t size = read_number(frame->data + *at);
    *at += NUMBER_BYTES;
    if (size > frame->stored_bytes - *at)
        return error_set(err, STATUS_CORRUPT, "a stream has %zu bytes, there are %zu", size,
                         frame->stored_bytes - *at);
    *ret_stream = (struct bytes){frame->data + *at, size};
    *at += size;
    return STATUS_OK;
}

/* Where the block's bytes come to lie, stream for stream: in `room`, of the block's size; or, if
 * `borrows`, in the frame itself where that has them as they are. */
static enum status decode_streams(struct blosc_decoder *decoder, const struct block *block,
                                  uint8_t *room, bool borrows,
                                  const uint8_t *ret_streams[MOST_STREAMS], struct error *err)
{
    const struct blosc_frame *frame = block->frame;
    size_t at = read_number(frame->data + HEADER_BYTES + block->index * NUMBER_BYTES);
    if (at < HEADER_BYTES + frame->block_count * NUMBER_BYTES)
        return error_set(err, STATUS_CORRUPT, "its place is byte %zu, before the first block's",
                         at);
    for (size_t i = 0; i < block->stream_count; i++, room += block->stream_bytes) {
        struct bytes stream;
        enum status status = next_stream(block, &at, &stream, err);
        if (status != STATUS_OK)
            return status;
        ret_streams[i] = room;
        if (stream.size != block->stream_bytes)
            status = decompress(decoder, frame->format, stream, room, block->stream_bytes, err);
        else if (borrows)
            ret_streams[i] = stream.data;
        else
            memcpy(room, stream.data, stream.size);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* Blocks
 * ------------------------------------------------------------------------------------------- */

/* Bytes that no filter changed. */
static enum status decode_unfiltered(struct blosc_decoder *decoder, const struct block *block,
                                     struct error *err)
{
    const uint8_t *streams[MOST_STREAMS];
    size_t wanted = block->end - block->begin;
    if (wanted == block->bytes)
        return decode_streams(decoder, block, block->out, false, streams, err);
    enum status status =
        decode_streams(decoder, block, decoder->room, block->stream_count == 1, streams, err);
    if (status == STATUS_OK)
        memcpy(block->out, streams[0] + block->begin, wanted);
    return status;
}

/* Elements from `begin` to before `end` of the block. */
static void unshuffle(const struct blosc_decoder *decoder, const struct block *block,
                      const uint8_t *const *planes, size_t begin, size_t end, uint8_t *out)
{
    size_t type_bytes = block->frame->type_bytes;
    const uint8_t *from[UNSHUFFLE_MAX_TYPE_BYTES];
    if (block->filter == BLOSC_BITS) {
        unshuffle_bits(decoder->loops, planes, type_bytes, block->element_count, begin, end, out);
        return;
    }
    for (size_t k = 0; k < type_bytes; k++)
        from[k] = planes[k] + begin;
    unshuffle_bytes(decoder->loops, from, type_bytes, end - begin, block->streams, out);
}

/* One element, of which a part is wanted. */
static uint8_t *unshuffle_part(const struct blosc_decoder *decoder, const struct block *block,
                               const uint8_t *const *planes, size_t begin, size_t end, uint8_t *out)
{
    uint8_t element[UNSHUFFLE_MAX_TYPE_BYTES];
    size_t type_bytes = block->frame->type_bytes, index = begin / type_bytes;
    unshuffle(decoder, block, planes, index, index + 1, element);
    memcpy(out, element + begin % type_bytes, end - begin);
    return out + (end - begin);
}

/* The wanted bytes: a part of an element, whole ones, a part of one, and what lies behind the last
 * whole element of the block. */
static void unshuffle_wanted(const struct blosc_decoder *decoder, const struct block *block,
                             const uint8_t *const *planes, const uint8_t *behind)
{
    size_t type_bytes = block->frame->type_bytes;
    size_t whole_bytes = block->element_count * type_bytes;
    size_t begin = block->begin, end = min_u64(block->end, whole_bytes);
    uint8_t *out = block->out;
    if (begin < end && begin % type_bytes != 0) {
        size_t stop = min_u64((begin / type_bytes + 1) * type_bytes, end);
        out = unshuffle_part(decoder, block, planes, begin, stop, out);
        begin = stop;
    }
    if (begin < end) {
        unshuffle(decoder, block, planes, begin / type_bytes, end / type_bytes, out);
        out += (end / type_bytes - begin / type_bytes) * type_bytes;
        begin = end / type_bytes * type_bytes;
    }
    if (begin < end) {
        out = unshuffle_part(decoder, block, planes, begin, end, out);
        begin = end;
    }
    if (begin < block->end)
        memcpy(out, behind + (begin - whole_bytes), block->end - begin);
}

/* Narrow elements
 * --------------------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *bytes, size_t count)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0;
}

/* Whether the width keeps all that the planes have of the elements from `first` on. */
static bool fits(enum narrow_width width, size_t element_bytes, const uint8_t *const *planes,
                 size_t first, size_t count)
{
    size_t begin = narrow_first(width, element_bytes);
    size_t end = begin + narrow_kept(width, element_bytes);
    for (size_t k = 0; k < element_bytes; k++)
        if ((k < begin || k >= end) && !is_zero(planes[k] + first, count))
            return false;
    return true;
}

/* The width that keeps least. */
static enum narrow_width width_of(size_t element_bytes, const uint8_t *const *planes, size_t first,
                                  size_t count)
{
    for (enum narrow_width width = NARROW_LOW_2; width <= NARROW_HIGH_4; width++)
        if (narrow_kept(width, element_bytes) < element_bytes &&
            fits(width, element_bytes, planes, first, count))
            return width;
    return NARROW_NOT;
}

/* No element of the range is narrow any more. */
static void end_narrowing(struct narrowing *narrowing)
{
    if (narrowing->width != NARROW_NOT)
        narrow_widen(narrowing->base, narrowing->first, narrowing->next, narrowing->element_bytes,
                     narrowing->width);
    narrowing->width = NARROW_NOT;
}

/* Puts the wanted elements of the block where they belong, narrow. False: they are to be whole. */
static bool unshuffle_narrow(const struct blosc_decoder *decoder, const struct block *block,
                             const uint8_t *const *planes)
{
    struct narrowing *narrowing = block->narrowing;
    size_t element_bytes = narrowing->element_bytes;
    size_t begin = block->begin / element_bytes, count = block->end / element_bytes - begin;
    size_t number = block->index * (block->frame->block_bytes / element_bytes) + begin;
    if (!narrowing->has_begun) {
        narrowing->width = width_of(element_bytes, planes, begin, count);
        narrowing->first = number;
    } else if (narrowing->width != NARROW_NOT &&
               !fits(narrowing->width, element_bytes, planes, begin, count)) {
        end_narrowing(narrowing);
    }
    narrowing->has_begun = true;
    if (narrowing->width == NARROW_NOT)
        return false;
    const uint8_t *from[sizeof(uint64_t)];
    size_t kept = narrow_kept(narrowing->width, element_bytes);
    for (size_t k = 0; k < kept; k++)
        from[k] = planes[narrow_first(narrowing->width, element_bytes) + k] + begin;
    unshuffle_bytes(decoder->loops, from, kept, count, block->streams,
                    narrowing->base + number * kept);
    narrowing->next = number + count;
    return true;
}

/* Whether elements of the range can be narrow: whole ones, of shuffled bytes. */
static bool may_be_narrow(const struct blosc_frame *frame, size_t begin,
                          const struct codec_output *range)
{
    size_t bytes = range->element_bytes;
    return range->width && frame->filter == BLOSC_BYTES && frame->type_bytes == bytes &&
           frame->block_bytes % bytes == 0 && begin % bytes == 0 && range->capacity % bytes == 0;
}

static enum status decode_filtered(struct blosc_decoder *decoder, const struct block *block,
                                   struct error *err)
{
    const uint8_t *streams[MOST_STREAMS], *planes[UNSHUFFLE_MAX_TYPE_BYTES];
    enum status status = decode_streams(decoder, block, decoder->room, true, streams, err);
    if (status != STATUS_OK)
        return status;
    for (size_t k = 0; k < block->frame->type_bytes; k++)
        planes[k] = block->stream_count > 1 ? streams[k] : streams[0] + k * block->element_count;
    if (!block->narrowing || !unshuffle_narrow(decoder, block, planes))
        unshuffle_wanted(decoder, block, planes,
                         streams[0] + block->frame->type_bytes * block->element_count);
    return STATUS_OK;
}

static enum status decode_block(struct blosc_decoder *decoder, struct block *block,
                                struct error *err)
{
    const struct blosc_frame *frame = block->frame;
    size_t type_bytes = frame->type_bytes;
    block->element_count = block->bytes / type_bytes;
    block->filter = frame->filter;
    if (block->element_count == 0 || (block->filter == BLOSC_BITS && block->element_count % 8 != 0))
        block->filter = BLOSC_NO_FILTER;
    bool splits = frame->splits && type_bytes <= MOST_STREAMS &&
                  block->element_count >= LEAST_ELEMENTS && block->bytes == frame->block_bytes;
    block->stream_count = splits ? type_bytes : 1;
    block->stream_bytes = block->bytes / block->stream_count;
    if (block->stream_bytes * block->stream_count != block->bytes)
        return error_set(err, STATUS_CORRUPT, "its %zu bytes are no whole elements of %zu",
                         block->bytes, type_bytes);
    return block->filter == BLOSC_NO_FILTER ? decode_unfiltered(decoder, block, err)
                                            : decode_filtered(decoder, block, err);
}

enum status blosc_decoder_decode(struct blosc_decoder *decoder, const struct blosc_frame *frame,
                                 size_t begin, struct codec_output range, struct error *err)
{
    size_t end = begin + range.capacity;
    if (begin == end)
        return STATUS_OK;
    if (frame->is_plain) {
        memcpy(range.data, frame->data + HEADER_BYTES + begin, range.capacity);
        return STATUS_OK;
    }
    bool narrows = may_be_narrow(frame, begin, &range);
    struct narrowing narrowing = {.element_bytes = range.element_bytes,
                                  .base = narrows ? range.data - begin : NULL};
    for (size_t i = begin / frame->block_bytes; i * frame->block_bytes < end; i++) {
        size_t first = i * frame->block_bytes,
               next = min_u64(first + frame->block_bytes, frame->decoded_bytes);
        struct block block = {.frame = frame,
                              .index = i,
                              .bytes = next - first,
                              .begin = max_u64(begin, first) - first,
                              .end = min_u64(end, next) - first,
                              .streams = range.streams,
                              .narrowing = narrows ? &narrowing : NULL,
                              .out = range.data + (max_u64(begin, first) - begin)};
        enum status status = decode_block(decoder, &block, err);
        if (status != STATUS_OK)
            return damaged(&block, err);
    }
    if (narrows)
        *range.width = narrowing.width;
    return STATUS_OK;
}
