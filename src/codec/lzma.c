/* lzma: what Python's lzma module writes, through liblzma.
 *
 *     format 1  .xz: one or several streams, with padding
 *     format 2  .lzma ("alone"): one stream
 *     format 3  raw: only what the filters give; the metadata has to say which
 *
 * liblzma asks for memory in every call, above all for the dictionary: 64 MiB at preset 9, and as
 * much as a header says. An arena of the thread's context gives that memory, as much as preset 9
 * needs. Only pages that a chunk uses are ever touched.
 */
#include "codec/arena.h"
#include "codec/codec_internal.h"

#include <json-c/json.h>
#include <limits.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT, FILTER_COUNT, FIRST_FILTER };
enum { FORMAT_XZ = 1, FORMAT_ALONE, FORMAT_RAW };

/* A raw filter among the parameters. */
enum { FILTER_ID, FILTER_SIZE, FILTER_MODEL, FILTER_PARAMETERS };
enum { MAX_FILTERS = 4, ARENA_BYTES = 66 << 20 };
_Static_assert(MAX_FILTERS == LZMA_FILTERS_MAX, "liblzma's limit");
_Static_assert(FIRST_FILTER + MAX_FILTERS * FILTER_PARAMETERS <= CODEC_PARAMETERS, "filters fit");

/* Filters that are named by small numbers; LZMA1 has 2^62 + 1. */
enum { ID_LZMA1 = 1, ID_DELTA = 3, ID_LZMA2 = 33 };
static const uint64_t python_lzma1 = 0x4000000000000001;

/* The model of LZMA1: lc, lp, pb. LZMA2 carries it in the stream. */
static enum status parse_lzma(struct json_object *json, int *filter, struct error *err)
{
    lzma_options_lzma options;
    int preset = 0, size = 0, lc = 0, lp = 0, pb = 0;
    enum status status =
        codec_setting(json, "preset", LZMA_PRESET_DEFAULT, INT_MIN, INT_MAX, &preset, err);
    if (status != STATUS_OK)
        return status;
    if (lzma_lzma_preset(&options, (uint32_t)preset))
        return error_set(err, STATUS_CORRUPT, "filters: preset %d is unknown", preset);
    status = codec_setting(json, "dict_size", (int)options.dict_size, LZMA_DICT_SIZE_MIN, INT_MAX,
                           &size, err);
    if (status == STATUS_OK)
        status = codec_setting(json, "lc", (int)options.lc, LZMA_LCLP_MIN, LZMA_LCLP_MAX, &lc, err);
    if (status == STATUS_OK)
        status = codec_setting(json, "lp", (int)options.lp, LZMA_LCLP_MIN, LZMA_LCLP_MAX, &lp, err);
    if (status == STATUS_OK)
        status = codec_setting(json, "pb", (int)options.pb, LZMA_PB_MIN, LZMA_PB_MAX, &pb, err);
    filter[FILTER_SIZE] = size;
    filter[FILTER_MODEL] = lc | lp << 8 | pb << 16;
    return status;
}

static enum status parse_filter(struct json_object *json, int *filter, struct error *err)
{
    struct json_object *id = NULL;
    json_object_object_get_ex(json, "id", &id);
    if (!json_object_is_type(id, json_type_int))
        return error_set(err, STATUS_CORRUPT, "filters: one has no number as its id");
    uint64_t number = json_object_get_uint64(id);
    if (number == python_lzma1)
        filter[FILTER_ID] = ID_LZMA1;
    else if (number == ID_LZMA2 || number == ID_DELTA)
        filter[FILTER_ID] = (int)number;
    else
        return error_set(err, STATUS_UNSUPPORTED,
                         "filters: number %s is not supported, only LZMA1, LZMA2 and delta are",
                         json_object_get_string(id));
    if (filter[FILTER_ID] == ID_DELTA)
        return codec_setting(json, "dist", 1, LZMA_DELTA_DIST_MIN, LZMA_DELTA_DIST_MAX,
                             &filter[FILTER_SIZE], err);
    return parse_lzma(json, filter, err);
}

static enum status parse_filters(struct json_object *configuration, struct codec_step *step,
                                 struct error *err)
{
    struct json_object *list = NULL;
    json_object_object_get_ex(configuration, "filters", &list);
    size_t count = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
    if (count == 0 || count > MAX_FILTERS)
        return error_set(err, STATUS_CORRUPT, "format 3 (raw) needs 1 to %d filters", MAX_FILTERS);
    for (size_t i = 0; i < count; i++) {
        int *filter = &step->parameters[FIRST_FILTER + i * FILTER_PARAMETERS];
        enum status status = parse_filter(json_object_array_get_idx(list, i), filter, err);
        if (status != STATUS_OK)
            return status;
    }
    step->parameters[FILTER_COUNT] = (int)count;
    return STATUS_OK;
}

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)item_bytes;
    enum status status = codec_setting(configuration, "format", FORMAT_XZ, FORMAT_XZ, FORMAT_RAW,
                                       &step->parameters[FORMAT], err);
    if (status == STATUS_OK && step->parameters[FORMAT] == FORMAT_RAW)
        status = parse_filters(configuration, step, err);
    return status;
}

/* liblzma's own bound, generously, for many blocks. */
static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return decoded_bytes + decoded_bytes / 32 + 1024;
}

struct state {
    struct arena arena;
    lzma_allocator allocator;
};

static void *take(void *opaque, size_t count, size_t size)
{
    return arena_take(opaque, count * size);
}

static void give_back(void *opaque, void *memory)
{
    (void)opaque, (void)memory; /* as a whole, before the next chunk */
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    (void)decoded_bytes;
    struct state *state = malloc(sizeof *state);
    if (!state)
        return error_set(err, STATUS_NO_MEMORY, "lzma: no memory for a decompressor");
    enum status status = arena_init(&state->arena, ARENA_BYTES, "lzma's memory", err);
    if (status != STATUS_OK) {
        free(state);
        return status;
    }
    state->allocator = (lzma_allocator){take, give_back, &state->arena};
    *ret_state = state;
    return STATUS_OK;
}

static void state_free(void *memory)
{
    struct state *state = memory;
    arena_done(&state->arena);
    free(state);
}

/* What a filter points to. */
struct raw_options {
    lzma_options_lzma lzma;
    lzma_options_delta delta;
};

static lzma_ret start_raw(const struct codec_step *step, lzma_stream *stream)
{
    lzma_filter filters[MAX_FILTERS + 1];
    struct raw_options options[MAX_FILTERS];
    int count = step->parameters[FILTER_COUNT];
    memset(options, 0, sizeof options);
    for (int i = 0; i < count; i++) {
        const int *filter = &step->parameters[FIRST_FILTER + i * FILTER_PARAMETERS];
        bool is_delta = filter[FILTER_ID] == ID_DELTA;
        options[i].delta = (lzma_options_delta){.type = LZMA_DELTA_TYPE_BYTE,
                                                .dist = (uint32_t)filter[FILTER_SIZE]};
        options[i].lzma.dict_size = (uint32_t)filter[FILTER_SIZE];
        options[i].lzma.lc = (uint32_t)filter[FILTER_MODEL] & 0xff;
        options[i].lzma.lp = (uint32_t)filter[FILTER_MODEL] >> 8 & 0xff;
        options[i].lzma.pb = (uint32_t)filter[FILTER_MODEL] >> 16;
        filters[i].id = is_delta                        ? LZMA_FILTER_DELTA
                        : filter[FILTER_ID] == ID_LZMA1 ? LZMA_FILTER_LZMA1
                                                        : LZMA_FILTER_LZMA2;
        filters[i].options = is_delta ? (void *)&options[i].delta : (void *)&options[i].lzma;
    }
    filters[count] = (lzma_filter){.id = LZMA_VLI_UNKNOWN};
    return lzma_raw_decoder(stream, filters);
}

static lzma_ret start(const struct codec_step *step, lzma_stream *stream)
{
    switch (step->parameters[FORMAT]) {
    case FORMAT_ALONE:
        return lzma_alone_decoder(stream, ARENA_BYTES);
    case FORMAT_RAW:
        return start_raw(step, stream);
    default:
        return lzma_stream_decoder(stream, ARENA_BYTES, LZMA_CONCATENATED);
    }
}

static enum status explain(lzma_ret result, const lzma_stream *stream, size_t capacity,
                           struct error *err)
{
    switch (result) {
    case LZMA_MEM_ERROR:
    case LZMA_MEMLIMIT_ERROR:
        return error_set(err, STATUS_UNSUPPORTED,
                         "chunk needs more than %d MiB to be decoded: it was made with a larger "
                         "dictionary than preset 9 has",
                         ARENA_BYTES >> 20);
    case LZMA_OPTIONS_ERROR:
        return error_set(err, STATUS_UNSUPPORTED, "chunk needs filters that this liblzma lacks");
    case LZMA_FORMAT_ERROR:
        return error_set(err, STATUS_CORRUPT, "chunk is not of the format that the metadata says");
    default:
        if (stream->avail_out == 0 && result != LZMA_DATA_ERROR)
            return error_set(err, STATUS_CORRUPT, "decodes to more than the %zu bytes of a chunk",
                             capacity);
        return error_set(err, STATUS_CORRUPT, "damaged or cut short near byte %llu",
                         (unsigned long long)stream->total_in);
    }
}

static enum status decode(const struct codec_step *step, void *memory, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    struct state *state = memory;
    uint8_t nothing = 0; /* an address even for no bytes */
    lzma_stream stream = LZMA_STREAM_INIT;
    arena_reset(&state->arena);
    stream.allocator = &state->allocator;
    stream.next_in = stored.data;
    stream.avail_in = stored.size;
    stream.next_out = room.capacity > 0 ? room.data : &nothing;
    stream.avail_out = room.capacity;
    lzma_ret result = start(step, &stream);
    while (result == LZMA_OK)
        result = lzma_code(&stream, LZMA_FINISH); /* no progress in two calls: LZMA_BUF_ERROR */
    lzma_end(&stream);
    if (result != LZMA_STREAM_END)
        return explain(result, &stream, room.capacity, err);
    if (stream.avail_in > 0)
        return error_set(err, STATUS_CORRUPT, "stream ends at byte %zu of %zu",
                         stored.size - stream.avail_in, stored.size);
    *ret_decoded = (struct bytes){room.data, room.capacity - stream.avail_out};
    return STATUS_OK;
}

static void describe(const struct codec_step *step, struct text *out)
{
    static const char *const names[] = {"", "xz", "alone", "raw"};
    text_append(out, "(%s)", names[step->parameters[FORMAT]]);
}

const struct codec codec_lzma = {
    .name = "lzma",
    .parse = parse,
    .stored_bound = stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = ARENA_BYTES,
    .decode = decode,
    .describe = describe,
};
