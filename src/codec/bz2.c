/* bz2: one or several streams of bzip2, whose contents follow one another.
 *
 * libbz2 asks for its memory at the start of each stream, at most about 3.7 MiB; it is taken from
 * an arena of the thread's context.
 */
#include "base/number.h"
#include "codec/arena.h"
#include "codec/codec_internal.h"

#include <bzlib.h>
#include <limits.h>
#include <stdlib.h>

enum { LEVEL };
enum { ARENA_BYTES = 4 << 20 };

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    return codec_setting(configuration, "level", 1, 1, 9, &step->parameters[LEVEL], err);
}

/* bzip2's manual: one percent and 600 bytes; more, for encoders that make many streams. */
static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes + decoded_bytes / 50 + 1024;
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    (void)decoded_bytes;
    struct arena *arena = malloc(sizeof *arena);
    if (!arena)
        return error_set(err, STATUS_NO_MEMORY, "bz2: no memory for a decompressor");
    enum status status = arena_init(arena, ARENA_BYTES, "bz2's memory", err);
    if (status != STATUS_OK) {
        free(arena);
        return status;
    }
    *ret_state = arena;
    return STATUS_OK;
}

static void state_free(void *state)
{
    arena_done(state);
    free(state);
}

static void *take(void *opaque, int count, int size)
{
    if (count < 0 || size < 0)
        return NULL;
    return arena_take(opaque, (size_t)count * (size_t)size);
}

static void give_back(void *opaque, void *memory)
{
    (void)opaque, (void)memory; /* as a whole, before the next stream */
}

/* One stream, from stream->next_in to stream->next_out. */
static enum status decode_stream(struct arena *arena, bz_stream *stream, size_t offset,
                                 size_t capacity, struct error *err)
{
    arena_reset(arena);
    int result = BZ2_bzDecompressInit(stream, 0, 0);
    if (result == BZ_OK)
        result = BZ2_bzDecompress(stream);
    BZ2_bzDecompressEnd(stream);
    if (result == BZ_STREAM_END)
        return STATUS_OK;
    if (result == BZ_OK && stream->avail_out == 0)
        return error_set(err, STATUS_CORRUPT, "decodes to more than the %zu bytes of a chunk",
                         capacity);
    if (result == BZ_MEM_ERROR)
        return error_set(err, STATUS_CORRUPT, "stream at byte %zu needs more memory than bzip2 may",
                         offset);
    return error_set(err, STATUS_CORRUPT,
                     "stream at byte %zu is damaged or cut short, or its checksum is wrong",
                     offset);
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)step;
    if (stored.size > UINT_MAX)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes cannot be a chunk", stored.size);
    size_t capacity = min_u64(room.capacity, UINT_MAX);
    char nothing = 0; /* libbz2 wants an address even for no bytes */
    bz_stream stream = {.bzalloc = take,
                        .bzfree = give_back,
                        .opaque = state,
                        .next_in = (char *)stored.data,
                        .avail_in = (unsigned)stored.size,
                        .next_out = capacity > 0 ? (char *)room.data : &nothing,
                        .avail_out = (unsigned)capacity};
    do {
        enum status status =
            decode_stream(state, &stream, stored.size - stream.avail_in, room.capacity, err);
        if (status != STATUS_OK)
            return status;
    } while (stream.avail_in > 0);
    *ret_decoded = (struct bytes){room.data, capacity - stream.avail_out};
    return STATUS_OK;
}

static enum status encode(const struct codec_step *step, struct bytes decoded,
                          struct codec_output room, size_t *ret_size, struct error *err)
{
    unsigned size = room.capacity < UINT_MAX ? (unsigned)room.capacity : UINT_MAX;
    char nothing = 0;
    char *from = decoded.size > 0 ? (char *)decoded.data : &nothing;
    if (decoded.size > UINT_MAX)
        return error_set(err, STATUS_INVALID, "%zu bytes are more than a chunk can hold",
                         decoded.size);
    int result = BZ2_bzBuffToBuffCompress((char *)room.data, &size, from, (unsigned)decoded.size,
                                          step->parameters[LEVEL], 0, 0);
    if (result == BZ_MEM_ERROR)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a compressor");
    if (result != BZ_OK)
        return error_set(err, STATUS_INVALID, "%zu bytes do not fit into %zu", decoded.size,
                         room.capacity);
    *ret_size = size;
    return STATUS_OK;
}

const struct codec codec_bz2 = {
    .name = "bz2",
    .parse = parse,
    .stored_bound = stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = ARENA_BYTES,
    .decode = decode,
    .encode = encode,
    .describe = codec_level_describe,
    .write_json = codec_level_write_json,
};
