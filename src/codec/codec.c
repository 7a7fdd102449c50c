/* The table of codecs, and chains of them: built from metadata once, then only read. See codec.h.
 */
#include "codec/codec_internal.h"
#include "codec/values.h"

#include <assert.h>
#include <json-c/json.h>
#include <string.h>

#define CODEC_ROW(name) &codec_##name,
static const struct codec *const table[CODEC_COUNT] = {CODEC_TABLE(CODEC_ROW)};
#undef CODEC_ROW

/* Codecs that we know of but do not read: what they hold, and what would help. */
static const struct {
    const char *name, *content, *help;
} refused[] = {
    {"vlen-utf8", "strings of variable length", "store strings of fixed length, or token numbers"},
    {"vlen-bytes", "byte strings of variable length",
     "store byte strings of fixed length, or decode them into an array"},
    {"vlen-array", "arrays of variable length",
     "store all values in one flat array, and the ends in another"},
    {"pickle", "Python objects", "store arrays of numbers"},
    {"json2", "objects as JSON", "store arrays of numbers"},
    {"json", "objects as JSON", "store arrays of numbers"},
    {"msgpack2", "objects as MessagePack", "store arrays of numbers"},
    {"msgpack", "objects as MessagePack", "store arrays of numbers"},
    {"categorize", "strings as numbers of labels", "store the numbers without the filter"},
    {"base64", "bytes as text", "store the bytes themselves"},
    {"zfp", "values compressed by ZFP", "store them through blosc, with bitround before it"},
    {"pcodec", "values compressed by Pcodec", "store them through blosc or zstd"},
    {"pco", "values compressed by Pcodec", "store them through blosc or zstd"},
    {"gdeflate", "bytes compressed by GDeflate", "store them through blosc or zstd"},
    {"optional", "values that may be absent",
     "store the values, and in another array which are there"},
    {"lzf", "values compressed by LZF", "write the HDF5 file anew with gzip (h5repack -f GZIP=4)"},
    {"szip", "values compressed by SZIP",
     "write the HDF5 file anew with gzip (h5repack -f GZIP=4)"},
    {"scaleoffset", "numbers of few bits", "write the HDF5 file anew without (h5repack -f NONE)"},
    {"nbit", "numbers of few bits", "write the HDF5 file anew without (h5repack -f NONE)"},
    {"grib", "messages of GRIB", "write a Zarr store, as with xarray.open_dataset(...).to_zarr()"},
    {"jenkins_lookup3", "another checksum than those we check", "use crc32c"},
};

/* zarr-python's v3 names for the codecs of numcodecs. */
static const char v3_prefix[] = "numcodecs.";

/* imagecodecs' names, in both formats. */
static const char image_prefix[] = "imagecodecs_";

size_t codec_index(const struct codec *codec)
{
    size_t index = 0;
    while (index + 1 < CODEC_COUNT && table[index] != codec)
        index++;
    return index;
}

static const struct codec *find(enum codec_format format, const char *name)
{
    bool prefixed = format == CODEC_ZARR_V3 && strncmp(name, v3_prefix, strlen(v3_prefix)) == 0;
    const char *bare = prefixed ? name + strlen(v3_prefix) : name;
    bool of_images = strncmp(bare, image_prefix, strlen(image_prefix)) == 0;
    bare += of_images ? strlen(image_prefix) : 0;
    if (of_images && strcmp(bare, "zfp") == 0)
        bare = "zfpy";
    for (size_t i = 0; i < CODEC_COUNT; i++) {
        bool named = of_images ? table[i]->is_image
                               : format == CODEC_ZARR_V2 || prefixed || table[i]->is_zarr_v3_core;
        if (named && strcmp(table[i]->name, bare) == 0)
            return table[i];
    }
    return NULL;
}

bool codec_is_image(enum codec_format format, const char *name)
{
    const struct codec *codec = find(format, name);
    return codec && codec->is_image;
}

static bool list_images(bool built, const char *title, struct text *out)
{
    const char *between = title;
    for (size_t i = 0; i < CODEC_COUNT; i++) {
        const struct codec *codec = table[i];
        if (!codec->is_image || built != !codec->package)
            continue;
        text_append(out, "%s%s", between, codec->name);
        if (codec->package)
            text_append(out, " (%s)", codec->package);
        between = ", ";
    }
    return between != title;
}

void codec_list_optional(struct text *out)
{
    text_append(out, "codecs with libraries of their own: ");
    if (!list_images(true, "", out))
        text_append(out, "none");
    list_images(false, "; left out: ", out);
}

bool codec_is_filter(const char *v3_name)
{
    const struct codec *codec = find(CODEC_ZARR_V3, v3_name);
    return codec && codec->is_filter;
}

bool codec_chain_swapped(const struct codec_chain *chain, bool fallback)
{
    for (size_t i = 0; i < chain->step_count && chain->steps[i].codec->is_filter; i++)
        if (chain->steps[i].codec->decoded_unit)
            return chain->steps[i].parameters[VALUES_DECODED] & VALUES_SWAPPED;
    return fallback;
}

/* "numcodecs.vlen-utf8", "imagecodecs_jpegxl" and "jpegxl" name what they end in. */
static bool names(const char *name, const char *codec)
{
    size_t length = strlen(name), tail = strlen(codec);
    if (length < tail || strcmp(name + length - tail, codec) != 0)
        return false;
    return length == tail || name[length - tail - 1] == '.' || name[length - tail - 1] == '_';
}

enum status codec_refuse(const char *name, struct error *err)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (names(name, refused[i].name))
            return error_set(err, STATUS_UNSUPPORTED,
                             "codec '%.60s' (%s) is not supported: rewrite the array; %s", name,
                             refused[i].content, refused[i].help);
    if (find(CODEC_ZARR_V2, name)) /* of v3, then: v2 reads all of them */
        return error_set(err, STATUS_UNSUPPORTED,
                         "codec '%.60s' is not one of Zarr v3's: rewrite the array with '%s%.60s', "
                         "which is read",
                         name, v3_prefix, name);
    struct text names = {0};
    for (size_t i = 0; i < CODEC_COUNT; i++)
        text_append(&names, "%s%s", i ? ", " : "", table[i]->name);
    error_set(err, STATUS_UNSUPPORTED, "codec '%.60s' is not supported, only %s are", name,
              names.data);
    text_done(&names);
    return STATUS_UNSUPPORTED;
}

bool codec_is_known(enum codec_format format, const char *name)
{
    return find(format, name);
}

enum status codec_chain_add(struct codec_chain *chain, enum codec_format format, const char *name,
                            struct json_object *configuration, size_t item_bytes, struct error *err)
{
    const struct codec *codec = find(format, name);
    if (!codec)
        return codec_refuse(name, err);
    if (chain->step_count == CODEC_MAX_STEPS)
        return error_set(err, STATUS_UNSUPPORTED, "more than %d codecs in a row", CODEC_MAX_STEPS);
    if (codec->package)
        return error_set(
            err, STATUS_UNSUPPORTED,
            "codec '%.60s' was left out when this Penstock was built: install Debian's "
            "%s, and build Penstock again",
            name, codec->package);
    if (codec->is_image && chain->step_count > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "codec '%.60s' behind another one: images are made of values alone", name);
    if (configuration && !json_object_is_type(configuration, json_type_object))
        return error_set(err, STATUS_CORRUPT, "codec '%s': its configuration is not an object",
                         name);
    struct codec_step step = {.codec = codec};
    enum status status =
        codec->parse ? codec->parse(configuration, item_bytes, &step, err) : STATUS_OK;
    if (status != STATUS_OK)
        return error_prefix(err, status, "codec '%s': ", name);
    chain->steps[chain->step_count++] = step;
    return STATUS_OK;
}

void codec_chain_describe(const struct codec_chain *chain, struct text *out)
{
    if (chain->step_count == 0)
        text_append(out, "none");
    for (size_t i = 0; i < chain->step_count; i++) {
        const struct codec_step *step = &chain->steps[i];
        text_append(out, "%s%s", i ? " " : "", step->codec->name);
        if (step->codec->describe)
            step->codec->describe(step, out);
    }
}

/* Names alone: codecs decode by what the chunk says. Filters decode by their settings. */
void codec_chain_identify(const struct codec_chain *chain, struct text *out)
{
    if (chain->step_count == 0)
        text_append(out, "raw");
    for (size_t i = 0; i < chain->step_count; i++) {
        const struct codec_step *step = &chain->steps[i];
        text_append(out, "%s%s", i ? "+" : "", step->codec->name);
        if (step->codec->is_filter && step->codec->describe)
            step->codec->describe(step, out);
    }
}

size_t codec_chain_bound_after(const struct codec_chain *chain, size_t step_count,
                               size_t decoded_bytes)
{
    size_t bytes = decoded_bytes;
    for (size_t i = 0; i < step_count; i++)
        bytes = chain->steps[i].codec->stored_bound(&chain->steps[i], bytes);
    return bytes;
}

enum status codec_chain_settle(struct codec_chain *chain, const struct codec_chunk *chunk,
                               struct error *err)
{
    size_t bytes = chunk->bytes;
    for (size_t i = 0; i < chain->step_count; i++) {
        struct codec_step *step = &chain->steps[i];
        enum status status =
            step->codec->settle ? step->codec->settle(step, chunk, err) : STATUS_OK;
        if (status != STATUS_OK)
            return error_prefix(err, status, "codec '%s': ", step->codec->name);
        if (!step->codec->is_filter)
            return STATUS_OK; /* from here on sizes are not known beforehand */
        size_t unit = step->codec->decoded_unit ? step->codec->decoded_unit(step) : 1;
        if (bytes % unit != 0)
            return error_set(err, STATUS_CORRUPT,
                             "codec '%s': its values have %zu bytes, which chunks of %zu bytes are "
                             "no multiple of",
                             step->codec->name, unit, bytes);
        bytes = step->codec->stored_bound(step, bytes);
    }
    return STATUS_OK;
}

size_t codec_chain_stored_bound(const struct codec_chain *chain, size_t decoded_bytes)
{
    return codec_chain_bound_after(chain, chain->step_count, decoded_bytes);
}

bool codec_chain_is_image(const struct codec_chain *chain)
{
    return chain->step_count > 0 && chain->steps[0].codec->is_image;
}

bool codec_chain_is_raw(const struct codec_chain *chain)
{
    return chain->step_count == 0;
}

static void write_v2(const struct codec_step *step, struct text *out)
{
    text_append(out, "{\"id\": \"%s\"", step->codec->name);
    if (step->codec->write_json) {
        text_append(out, ", ");
        step->codec->write_json(step, CODEC_ZARR_V2, out);
    }
    text_append(out, "}");
}

static void write_v3(const struct codec_step *step, struct text *out)
{
    text_append(out, ", {\"name\": \"%s%s\"", step->codec->is_zarr_v3_core ? "" : v3_prefix,
                step->codec->name);
    if (step->codec->write_json) {
        text_append(out, ", \"configuration\": {");
        step->codec->write_json(step, CODEC_ZARR_V3, out);
        text_append(out, "}");
    }
    text_append(out, "}");
}

void codec_chain_write_json(const struct codec_chain *chain, enum codec_format format,
                            struct text *out)
{
    if (format == CODEC_ZARR_V3) {
        for (size_t i = 0; i < chain->step_count; i++)
            write_v3(&chain->steps[i], out);
        return;
    }
    assert(chain->step_count <= 1 && "v2 has one compressor");
    if (chain->step_count == 0)
        text_append(out, "null");
    else
        write_v2(&chain->steps[0], out);
}
