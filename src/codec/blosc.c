/* blosc: the Blosc 1 container: a 16-byte header, then blocks that are shuffled and compressed one
 * by one.
 *
 *     0        1          2      3         4       8          12
 *     version  versionlz  flags  typesize  nbytes  blocksize  cbytes     (uint32, little-endian)
 *
 * The header decides how a chunk is decoded; metadata counts for encoding only. The header is
 * checked against the bytes that are there and the room there is before libblosc sees it. Bytes
 * behind the frame are passed over: some writers leave them. Only libblosc's context functions are
 * used, with one thread: they share no state and start no threads.
 */
#include "codec/codec_internal.h"

#include <blosc.h>
#include <endian.h>
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
    if (status)
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
    if (status)
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
    if (!status)
        status = codec_setting(configuration, "clevel", 5, 0, 9, &step->parameters[LEVEL], err);
    if (!status)
        status = codec_setting(configuration, "blocksize", 0, 0, BLOSC_MAX_BLOCKSIZE,
                               &step->parameters[BLOCK_BYTES], err);
    if (!status)
        status = codec_setting(configuration, "typesize", item, 1, INT_MAX,
                               &step->parameters[TYPE_BYTES], err);
    if (!status)
        status = parse_shuffle(configuration, step->parameters[TYPE_BYTES],
                               &step->parameters[SHUFFLE], err);
    return status;
}

static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes + decoded_bytes / 64 + 1024;
}

struct header {
    uint8_t version, compressor_version, flags, type_bytes;
    uint32_t decoded_bytes, block_bytes, stored_bytes;
};
_Static_assert(sizeof(struct header) == BLOSC_MIN_HEADER_LENGTH, "the header as stored");

static enum status read_header(struct bytes stored, size_t capacity, struct header *ret_header,
                               struct error *err)
{
    struct header header;
    if (stored.size < sizeof header)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes have no room for a header",
                         stored.size);
    memcpy(&header, stored.data, sizeof header);
    header.decoded_bytes = le32toh(header.decoded_bytes);
    header.block_bytes = le32toh(header.block_bytes);
    header.stored_bytes = le32toh(header.stored_bytes);
    if (header.version != BLOSC_VERSION_FORMAT)
        return error_set(err, STATUS_CORRUPT, "header has format version %u, not %u",
                         header.version, BLOSC_VERSION_FORMAT);
    if (header.stored_bytes > stored.size)
        return error_set(err, STATUS_CORRUPT, "header says %u stored bytes, there are %zu",
                         header.stored_bytes, stored.size);
    if (header.decoded_bytes > capacity)
        return error_set(err, STATUS_CORRUPT, "header says %u bytes, chunk holds %zu",
                         header.decoded_bytes, capacity);
    *ret_header = header;
    return STATUS_OK;
}

/* libblosc can be built without some compressors; Debian's lacks snappy. */
static enum status check_compressor(const struct header *header, struct error *err)
{
    unsigned format = header->flags >> 5;
    if (header->flags & BLOSC_MEMCPYED)
        return STATUS_OK;
    if (format >= COUNT(formats))
        return error_set(err, STATUS_CORRUPT, "header has unknown compressor %u", format);
    if (blosc_compname_to_compcode(formats[format]) < 0)
        return error_set(err, STATUS_UNSUPPORTED, "chunk needs %s, which this libblosc lacks",
                         formats[format]);
    return STATUS_OK;
}

/* The header, found to fit the stored bytes, `capacity` and this libblosc. What it says counts from
 * here on, which may be less than is there. */
static enum status check_header(struct bytes stored, size_t capacity, struct header *ret_header,
                                struct error *err)
{
    enum status status = read_header(stored, capacity, ret_header, err);
    size_t size = 0;
    if (!status)
        status = check_compressor(ret_header, err);
    if (status)
        return status;
    if (blosc_cbuffer_validate(stored.data, ret_header->stored_bytes, &size) < 0 ||
        size != ret_header->decoded_bytes)
        return error_set(err, STATUS_CORRUPT, "header makes no sense");
    return STATUS_OK;
}

static enum status decode(const struct codec_step *step, void *state, struct bytes stored,
                          struct room room, struct bytes *ret_decoded, struct error *err)
{
    (void)step, (void)state;
    struct header header = {0};
    enum status status = check_header(stored, room.capacity, &header, err);
    if (status)
        return status;
    size_t size = header.decoded_bytes;
    if (size > 0 && blosc_decompress_ctx(stored.data, room.data, size, 1) != (int)size)
        return error_set(err, STATUS_CORRUPT,
                         "%zu stored bytes are damaged: not the %zu bytes of the header",
                         stored.size, size);
    *ret_decoded = (struct bytes){room.data, size};
    return STATUS_OK;
}

/* Only the blocks that have some of the range; not where it begins or ends within one of the items
 * that the blocks were shuffled by. */
static enum status decode_partial(struct bytes stored, size_t decoded_bytes, size_t begin,
                                  struct room room, bool *ret_done, struct error *err)
{
    struct header header = {0};
    enum status status = check_header(stored, decoded_bytes, &header, err);
    if (status)
        return status;
    size_t item = header.type_bytes, size = room.capacity;
    *ret_done = header.decoded_bytes == decoded_bytes && item > 0 && begin % item == 0 &&
                size % item == 0 && decoded_bytes % item == 0;
    if (*ret_done &&
        blosc_getitem(stored.data, (int)(begin / item), (int)(size / item), room.data) != (int)size)
        return error_set(err, STATUS_CORRUPT, "%zu stored bytes are damaged: not %zu bytes at %zu",
                         stored.size, size, begin);
    return STATUS_OK;
}

/* A chunk that does not get smaller is copied behind the header, not shuffled, not in blocks. */
static bool stores_plain(const uint8_t *head, size_t decoded_bytes, size_t *ret_offset)
{
    struct header header;
    _Static_assert(sizeof header == CODEC_HEAD_BYTES, "all of the header");
    memcpy(&header, head, sizeof header);
    if (header.version != BLOSC_VERSION_FORMAT || !(header.flags & BLOSC_MEMCPYED) ||
        le32toh(header.decoded_bytes) != decoded_bytes ||
        le32toh(header.stored_bytes) != sizeof header + decoded_bytes)
        return false;
    *ret_offset = sizeof header;
    return true;
}

static enum status encode(const struct codec_step *step, struct bytes decoded, struct room room,
                          size_t *ret_size, struct error *err)
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
    .parse = parse,
    .stored_bound = stored_bound,
    .decode = decode,
    .decode_partial = decode_partial,
    .stores_plain = stores_plain,
    .encode = encode,
    .describe = describe,
    .write_json = write_json,
};
