/* blosc: the Blosc 1 container: a header, then blocks that are shuffled and compressed one by one.
 * See blosc_frame.h.
 *
 * The header decides how a chunk is decoded; metadata counts for encoding only. Bytes behind the
 * frame are passed over: some writers leave them. Frames of zstd, lz4 and zlib are decoded by
 * blosc_frame.c. libblosc is left with what is rare: its other compressors, and blocks that are
 * larger than the room that a thread keeps. Only libblosc's context functions are used, with one
 * thread: they share no state and start no threads.
 */
#include "codec/blosc/blosc_frame.h"
#include "codec/codec_internal.h"

#include <blosc.h>
#include <json-c/json.h>
#include <string.h>

enum { COMPRESSOR, LEVEL, SHUFFLE, BLOCK_BYTES, TYPE_BYTES };
enum { AUTO_SHUFFLE = -1 }; /* numcodecs: bits for single bytes, else bytes */

static const char *const compressors[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};
static const char *const shuffles[] = {"noshuffle", "shuffle", "bitshuffle"};

/* The formats in the upper three bits of the flags. There are fewer formats than compressors. */
static const char *const formats[] = {"blosclz", "lz4", "snappy", "zlib", "zstd"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static enum status choose(const char *key, const char *name, const char *const *names, size_t count,
                          int *ret_index, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            *ret_index = (int)i;
            return STATUS_OK;
        }
    }
    return error_set(err, STATUS_CORRUPT, "%s '%s' is unknown", key, name);
}

static enum status parse_compressor(struct json_object *configuration, int *ret_compressor,
                                    struct error *err)
{
    const char *name = NULL;
    enum status status = codec_setting_text(configuration, "cname", "lz4", &name, err);
    if (status != STATUS_OK)
        return status;
    return choose("cname", name, compressors, COUNT(compressors), ret_compressor, err);
}

/* A number in v2, a name in v3. */
static enum status parse_shuffle(struct json_object *configuration, int type_bytes,
                                 int *ret_shuffle, struct error *err)
{
    struct json_object *json = NULL;
    json_object_object_get_ex(configuration, "shuffle", &json);
    if (json_object_is_type(json, json_type_string))
        return choose("shuffle", json_object_get_string(json), shuffles, COUNT(shuffles),
                      ret_shuffle, err);
    int shuffle = 0;
    enum status status = codec_setting(configuration, "shuffle", BLOSC_SHUFFLE, AUTO_SHUFFLE,
                                       BLOSC_BITSHUFFLE, &shuffle, err);
    if (status != STATUS_OK)
        return status;
    if (shuffle == AUTO_SHUFFLE)
        shuffle = type_bytes == 1 ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE;
    *ret_shuffle = shuffle;
    return STATUS_OK;
}

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    int item = item_bytes > 0 && item_bytes <= BLOSC_MAX_TYPESIZE ? (int)item_bytes : 1;
    enum status status = parse_compressor(configuration, &step->parameters[COMPRESSOR], err);
    if (status == STATUS_OK)
        status = codec_setting(configuration, "clevel", 5, 0, 9, &step->parameters[LEVEL], err);
    if (status == STATUS_OK)
        status = codec_setting(configuration, "blocksize", 0, 0, BLOSC_MAX_BLOCKSIZE,
                               &step->parameters[BLOCK_BYTES], err);
    if (status == STATUS_OK)
        status = codec_setting(configuration, "typesize", item, 1, INT_MAX,
                               &step->parameters[TYPE_BYTES], err);
    if (status == STATUS_OK)
        status = parse_shuffle(configuration, step->parameters[TYPE_BYTES],
                               &step->parameters[SHUFFLE], err);
    return status;
}

static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes + decoded_bytes / 64 + 1024;
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    struct blosc_decoder *decoder = NULL;
    enum status status = blosc_decoder_new(decoded_bytes, &decoder, err);
    if (status != STATUS_OK)
        return status;
    *ret_state = decoder;
    return STATUS_OK;
}

static void state_free(void *state)
{
    blosc_decoder_free(state);
}

/* libblosc can be built without some compressors; Debian's lacks snappy. */
static enum status check_compressor(const struct blosc_frame *frame, struct error *err)
{
    if (frame->format >= COUNT(formats))
        return error_set(err, STATUS_CORRUPT, "header has unknown compressor %u", frame->format);
    if (blosc_compname_to_compcode(formats[frame->format]) < 0)
        return error_set(err, STATUS_UNSUPPORTED, "chunk needs %s, which this libblosc lacks",
                         formats[frame->format]);
    return STATUS_OK;
}

/* What blosc_frame.h leaves. */
static enum status decode_by_library(const struct blosc_frame *frame, uint8_t *out,
                                     struct error *err)
{
    enum status status = check_compressor(frame, err);
    if (status != STATUS_OK)
        return status;
    size_t size = frame->decoded_bytes;
    if (blosc_decompress_ctx(frame->data, out, size, 1) != (int)size)
        return error_set(err, STATUS_CORRUPT,
                         "%zu stored bytes are damaged: not the %zu bytes of the header",
                         frame->stored_bytes, size);
    return STATUS_OK;
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    (void)step;
    struct blosc_frame frame = {0};
    enum status status = blosc_frame_open(stored, room.capacity, &frame, err);
    if (status != STATUS_OK)
        return status;
    struct codec_output exact = room;
    exact.capacity = frame.decoded_bytes;
    status = blosc_decoder_takes(state, &frame) ? blosc_decoder_decode(state, &frame, 0, exact, err)
                                                : decode_by_library(&frame, room.data, err);
    if (status != STATUS_OK)
        return status;
    *ret_decoded = (struct bytes){exact.data, exact.capacity};
    return STATUS_OK;
}

/* blosc_getitem() takes whole items. */
static enum status items_by_library(const struct blosc_frame *frame, size_t begin,
                                    struct codec_output room, bool *ret_done, struct error *err)
{
    enum status status = check_compressor(frame, err);
    if (status != STATUS_OK)
        return status;
    size_t item = frame->type_bytes, size = room.capacity;
    *ret_done = begin % item == 0 && size % item == 0 && frame->decoded_bytes % item == 0;
    if (*ret_done &&
        blosc_getitem(frame->data, (int)(begin / item), (int)(size / item), room.data) != (int)size)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes are damaged: not %zu bytes at %zu",
                         frame->stored_bytes, size, begin);
    return STATUS_OK;
}

/* Only the blocks that have some of the range. */
static enum status decode_partial(void *state, struct bytes stored, size_t decoded_bytes,
                                  size_t begin, struct codec_output room, bool *ret_done,
                                  struct error *err)
{
    struct blosc_frame frame = {0};
    enum status status = blosc_frame_open(stored, decoded_bytes, &frame, err);
    if (status != STATUS_OK)
        return status;
    *ret_done = frame.decoded_bytes == decoded_bytes;
    if (!*ret_done || room.capacity == 0)
        return STATUS_OK;
    return blosc_decoder_takes(state, &frame)
               ? blosc_decoder_decode(state, &frame, begin, room, err)
               : items_by_library(&frame, begin, room, ret_done, err);
}

/* A chunk that does not get smaller is copied behind the header, not shuffled, not in blocks. */
static bool stores_plain(const uint8_t *head, size_t decoded_bytes, size_t *ret_offset)
{
    struct blosc_frame frame = {0};
    size_t stored_bytes = BLOSC_MIN_HEADER_LENGTH + decoded_bytes;
    _Static_assert(BLOSC_MIN_HEADER_LENGTH == CODEC_HEAD_BYTES, "all of the header");
    if (blosc_frame_open((struct bytes){head, stored_bytes}, decoded_bytes, &frame, NULL) !=
            STATUS_OK ||
        !frame.is_plain || frame.decoded_bytes != decoded_bytes ||
        frame.stored_bytes != stored_bytes)
        return false;
    *ret_offset = BLOSC_MIN_HEADER_LENGTH;
    return true;
}

static enum status encode(const struct codec_step *step, struct bytes decoded,
                          struct codec_output room, size_t *ret_size, struct error *err)
{
    const char *compressor = compressors[step->parameters[COMPRESSOR]];
    if (blosc_compname_to_compcode(compressor) < 0)
        return error_set(err, STATUS_UNSUPPORTED, "this libblosc lacks %s", compressor);
    if (decoded.size > BLOSC_MAX_BUFFERSIZE)
        return error_set(err, STATUS_INVALID, "%zu bytes are more than a chunk can hold",
                         decoded.size);
    int size = blosc_compress_ctx(step->parameters[LEVEL], step->parameters[SHUFFLE],
                                  (size_t)step->parameters[TYPE_BYTES], decoded.size, decoded.data,
                                  room.data, room.capacity, compressor,
                                  (size_t)step->parameters[BLOCK_BYTES], 1);
    if (size <= 0)
        return error_set(err, STATUS_INVALID, "%s cannot compress %zu bytes", compressor,
                         decoded.size);
    *ret_size = (size_t)size;
    return STATUS_OK;
}

static void describe(const struct codec_step *step, struct text *out)
{
    text_append(out, "(%s level %d, %s)", compressors[step->parameters[COMPRESSOR]],
                step->parameters[LEVEL], shuffles[step->parameters[SHUFFLE]]);
}

static void write_json(const struct codec_step *step, enum codec_format format, struct text *out)
{
    text_append(out, "\"cname\": \"%s\", \"clevel\": %d, \"blocksize\": %d, ",
                compressors[step->parameters[COMPRESSOR]], step->parameters[LEVEL],
                step->parameters[BLOCK_BYTES]);
    if (format == CODEC_ZARR_V3)
        text_append(out, "\"typesize\": %d, \"shuffle\": \"%s\"", step->parameters[TYPE_BYTES],
                    shuffles[step->parameters[SHUFFLE]]);
    else
        text_append(out, "\"shuffle\": %d", step->parameters[SHUFFLE]);
}

const struct codec codec_blosc = {
    .name = "blosc",
    .is_zarr_v3_core = true,
    .narrows = true,
    .parse = parse,
    .stored_bound = stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = 192 * 1024,
    .state_room = blosc_decoder_room,
    .decode = decode,
    .decode_partial = decode_partial,
    .stores_plain = stores_plain,
    .encode = encode,
    .describe = describe,
    .write_json = write_json,
};
