/* Zarr v3 `zarr.json` documents of arrays.
 *
 * The v3 rule for extensions: a member that a reader does not know must stop it, unless the member
 * is an object that says "must_understand": false. Pure.
 */
#include "zarr/document.h"
#include "zarr/item.h"

#include "base/size.h"

#include <string.h>

static bool is_known_member(const char *name)
{
    static const char *const known[] = {
        "zarr_format",
        "node_type",
        "shape",
        "data_type",
        "chunk_grid",
        "fill_value",
        "codecs",
        "chunk_key_encoding",
        "attributes",
        "dimension_names",
        "storage_transformers",
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(name, known[i]) == 0)
            return true;
    return false;
}

static enum status refuse_unknown_members(struct json_object *root, struct error *err)
{
    json_object_object_foreach(root, name, value)
    {
        struct json_object *must = NULL;

        if (is_known_member(name))
            continue;
        if (json_object_is_type(value, json_type_object) &&
            json_object_object_get_ex(value, "must_understand", &must) &&
            json_object_is_type(must, json_type_boolean) && !json_object_get_boolean(must))
            continue;
        return error_set(err, STATUS_UNSUPPORTED, "extension '%.60s'", name);
    }
    return STATUS_OK;
}

static enum status refuse_transformers(struct json_object *root, struct error *err)
{
    struct json_object *list, *configuration;
    const char *name;

    if (!json_object_object_get_ex(root, "storage_transformers", &list) || !list)
        return STATUS_OK;
    if (!json_object_is_type(list, json_type_array))
        return error_set(err, STATUS_CORRUPT, "'storage_transformers' is not a list");
    if (json_object_array_length(list) == 0)
        return STATUS_OK;
    enum status status = document_named(json_object_array_get_idx(list, 0), "storage_transformers",
                                        &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    return error_set(err, STATUS_UNSUPPORTED, "storage transformer '%.60s'", name);
}

/* The values' lengths: chunks or, before the codecs tell that there are such, shards. */
static enum status parse_grid(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *grid, *configuration, *lengths;
    const char *name;

    if (!json_object_object_get_ex(root, "chunk_grid", &grid))
        return error_set(err, STATUS_CORRUPT, "'chunk_grid' is missing");
    enum status status = document_named(grid, "chunk_grid", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    if (strcmp(name, "regular") != 0)
        return error_set(err, STATUS_UNSUPPORTED, "chunk grid '%.60s' (only regular)", name);
    status = document_member(configuration, "chunk_shape", json_type_array, &lengths, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'chunk_grid': ");
    return document_lengths(lengths, array, array->chunk_shape, err);
}

/* "dimension_names": null, or for each axis a name or null. */
static enum status check_names(struct json_object *root, const struct zarr_array *array,
                               struct error *err)
{
    struct json_object *list;

    if (!json_object_object_get_ex(root, "dimension_names", &list) || !list)
        return STATUS_OK;
    if (!json_object_is_type(list, json_type_array))
        return error_set(err, STATUS_CORRUPT, "'dimension_names' is not a list");
    size_t count = json_object_array_length(list);
    if (count != (size_t)array->rank)
        return error_set(err, STATUS_CORRUPT, "'dimension_names' has %zu names for %d axes", count,
                         array->rank);
    for (size_t i = 0; i < count; i++) {
        struct json_object *name = json_object_array_get_idx(list, i);
        if (name && !json_object_is_type(name, json_type_string))
            return error_set(err, STATUS_CORRUPT,
                             "'dimension_names' axis %zu is neither a name nor null", i);
    }
    return STATUS_OK;
}

static enum status parse_keys(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *encoding, *configuration, *separator;
    const char *name;

    if (!json_object_object_get_ex(root, "chunk_key_encoding", &encoding))
        return error_set(err, STATUS_CORRUPT, "'chunk_key_encoding' is missing");
    enum status status = document_named(encoding, "chunk_key_encoding", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    if (strcmp(name, "default") == 0) {
        array->key_prefixed = true;
        array->key_separator = '/';
    } else if (strcmp(name, "v2") == 0) {
        array->key_prefixed = false;
        array->key_separator = '.';
    } else {
        return error_set(err, STATUS_UNSUPPORTED, "chunk key encoding '%.60s'", name);
    }
    if (!json_object_object_get_ex(configuration, "separator", &separator))
        return STATUS_OK;
    return document_separator(separator, &array->key_separator, err);
}

/* Codecs
 *
 * array -> array codecs turn axes round: all of them together are one permutation. Then comes what
 * makes bytes of an array: "bytes", or "sharding_indexed", which has codecs of its own for its
 * inner chunks. What follows is bytes -> bytes.
 * ---------------------------------------------------------------------------------------------- */

/* Where reading the codecs has come. */
struct chain {
    struct zarr_array *array;
    bool has_bytes;  /* codecs from array to bytes are complete */
    bool is_ordered; /* a filter needs the order that values have now: it must stay */
    bool is_flat;    /* a codec has changed the number of axes: only "bytes" may follow */
};

/* "endian" of a bytes codec. Without it, it can only be meant for items of one byte. */
static enum status parse_endian(struct json_object *configuration, size_t unit_bytes,
                                const char *type, bool *ret_is_little, struct error *err)
{
    struct json_object *endian = NULL;

    if (!json_object_object_get_ex(configuration, "endian", &endian) || !endian) {
        if (unit_bytes > 1)
            return error_set(err, STATUS_CORRUPT, "codec 'bytes' lacks 'endian', which %s needs",
                             type);
        *ret_is_little = true;
        return STATUS_OK;
    }
    const char *text =
        json_object_is_type(endian, json_type_string) ? json_object_get_string(endian) : "";
    *ret_is_little = strcmp(text, "little") == 0;
    if (!*ret_is_little && strcmp(text, "big") != 0)
        return error_set(err, STATUS_CORRUPT, "codec 'bytes': 'endian' is neither little nor big");
    return STATUS_OK;
}

static enum status parse_bytes_codec(struct json_object *configuration, struct zarr_array *array,
                                     struct error *err)
{
    size_t unit_bytes = dtype_swap_bytes(array->dtype);
    bool is_little,
        is_member = array->member_count > 0; /* those are little-endian where nobody says it */
    enum status status = parse_endian(configuration, is_member ? 1 : unit_bytes,
                                      dtype_name(array->dtype), &is_little, err);

    if (status == STATUS_OK)
        array->byte_swapped =
            unit_bytes > 1 && is_little != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    return status;
}

/* One axis of a permutation; `seen` has those that came before. */
static enum status parse_axis(struct json_object *value, int rank, bool *seen, int *ret_axis,
                              struct error *err)
{
    int64_t axis = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;

    if (axis < 0 || axis >= rank || seen[axis])
        return error_set(err, STATUS_CORRUPT,
                         "codec 'transpose': 'order' is no permutation of %d axes", rank);
    seen[axis] = true;
    *ret_axis = (int)axis;
    return STATUS_OK;
}

/* Axis i of what comes out is axis order[i] of what goes in. */
static enum status parse_transpose(struct json_object *configuration, struct zarr_array *array,
                                   struct error *err)
{
    uint8_t axes[ZARR_MAX_RANK] = {0};
    bool seen[ZARR_MAX_RANK] = {false};
    struct json_object *order;
    enum status status = document_member(configuration, "order", json_type_array, &order, err);

    if (status != STATUS_OK)
        return error_prefix(err, status, "codec 'transpose': ");
    size_t count = json_object_array_length(order);
    if (count != (size_t)array->rank)
        return error_set(err, STATUS_CORRUPT, "codec 'transpose': 'order' has %zu of %d axes",
                         count, array->rank);
    for (size_t i = 0; i < count; i++) {
        int axis;
        status = parse_axis(json_object_array_get_idx(order, i), array->rank, seen, &axis, err);
        if (status != STATUS_OK)
            return status;
        axes[i] = array->storage_axes[axis];
    }
    memcpy(array->storage_axes, axes, sizeof axes);
    return STATUS_OK;
}

static enum status parse_codecs(struct json_object *list, struct chain *chain, struct error *err);

/* The codecs of an index: bytes, and checksums behind it, so that its size is known. */
static enum status parse_index_codecs(struct json_object *list, struct zarr_shard_level *level,
                                      struct error *err)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *configuration;
        const char *name;
        bool is_little;
        enum status status = document_named(json_object_array_get_idx(list, i), "index_codecs",
                                            &name, &configuration, err);

        if (status != STATUS_OK)
            return status;
        bool is_bytes = strcmp(name, "bytes") == 0;
        if (is_bytes != (i == 0) || (i > 0 && strcmp(name, "crc32c") != 0))
            return error_set(err, STATUS_UNSUPPORTED,
                             "'index_codecs' has '%.60s' as number %zu (only bytes, then crc32c)",
                             name, i);
        if (is_bytes)
            status = parse_endian(configuration, sizeof(uint64_t), "uint64", &is_little, err);
        else
            status =
                codec_chain_add(&level->index_codecs, CODEC_ZARR_V3, name, configuration, 1, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "'index_codecs': ");
        if (is_bytes)
            level->index_swapped = is_little != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
        level->index_bytes += is_bytes ? 0 : sizeof(uint32_t);
    }
    if (json_object_array_length(list) == 0)
        return error_set(err, STATUS_CORRUPT, "'index_codecs' is empty");
    return STATUS_OK;
}

static enum status parse_index_location(struct json_object *configuration,
                                        struct zarr_shard_level *level, struct error *err)
{
    struct json_object *value;

    if (!json_object_object_get_ex(configuration, "index_location", &value))
        return STATUS_OK;
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    level->index_at_start = strcmp(text, "start") == 0;
    if (!level->index_at_start && strcmp(text, "end") != 0)
        return error_set(err, STATUS_CORRUPT, "'index_location' is neither start nor end");
    return STATUS_OK;
}

/* Divides the present chunk shape by that of the inner chunks, whose axes are those that came out
 * of the transposes before. */
static enum status divide_chunks(struct json_object *lengths, struct zarr_array *array,
                                 struct zarr_shard_level *level, struct error *err)
{
    uint64_t inner[ZARR_MAX_RANK] = {0}, index_bytes;
    enum status status = document_lengths(lengths, array, inner, err);

    if (status != STATUS_OK)
        return status;
    level->entry_count = 1;
    for (int i = 0; i < array->rank; i++) {
        int axis = array->storage_axes[i];
        uint64_t shard = array->chunk_shape[axis];

        if (shard % inner[i] != 0)
            return error_set(err, STATUS_CORRUPT,
                             "shards of %llu along axis %d are not made of inner chunks of %llu",
                             (unsigned long long)shard, axis, (unsigned long long)inner[i]);
        level->counts[axis] = shard / inner[i];
        level->axes[i] = (uint8_t)axis;
        array->chunk_shape[axis] = inner[i];
        if (!size_multiply(level->entry_count, level->counts[axis], &level->entry_count))
            level->entry_count = UINT64_MAX;
    }
    if (!size_multiply(level->entry_count, 2 * sizeof(uint64_t), &index_bytes) ||
        index_bytes > ZARR_MAX_INDEX_BYTES)
        return error_set(err, STATUS_UNSUPPORTED, "shards of more than %zu inner chunks",
                         ZARR_MAX_INDEX_BYTES / (2 * sizeof(uint64_t)));
    level->index_bytes += index_bytes;
    return STATUS_OK;
}

static enum status parse_sharding(struct json_object *configuration, struct chain *chain,
                                  struct error *err)
{
    struct zarr_array *array = chain->array;
    struct json_object *lengths, *codecs, *index_codecs;

    if (array->codecs.step_count > 0)
        return error_set(err, STATUS_UNSUPPORTED, "filters before 'sharding_indexed'");
    if (array->shard_level_count == ZARR_MAX_SHARD_LEVELS)
        return error_set(err, STATUS_UNSUPPORTED, "shards nested more than %d deep",
                         ZARR_MAX_SHARD_LEVELS);
    struct zarr_shard_level *level = &array->shard_levels[array->shard_level_count++];
    memset(level, 0, sizeof *level);
    enum status status =
        document_member(configuration, "chunk_shape", json_type_array, &lengths, err);
    if (status == STATUS_OK)
        status = document_member(configuration, "codecs", json_type_array, &codecs, err);
    if (status == STATUS_OK)
        status =
            document_member(configuration, "index_codecs", json_type_array, &index_codecs, err);
    if (status == STATUS_OK)
        status = parse_index_location(configuration, level, err);
    if (status == STATUS_OK)
        status = parse_index_codecs(index_codecs, level, err);
    if (status == STATUS_OK)
        status = divide_chunks(lengths, array, level, err);
    if (status == STATUS_OK)
        status = parse_codecs(codecs, chain, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "codec 'sharding_indexed': ");
    return STATUS_OK;
}

/* Behind filters 'bytes' tells the byte order of what they give, but zarr-python takes their own
 * types' word for it, which is the same only where all are little-endian. */
static enum status parse_bytes_after_filters(struct json_object *configuration,
                                             struct zarr_array *array, struct error *err)
{
    bool is_little;
    enum status status = parse_endian(configuration, 1, "", &is_little, err);

    if (status == STATUS_OK && !is_little)
        return error_set(err, STATUS_UNSUPPORTED, "codec 'bytes': 'endian' is big behind filters");
    array->byte_swapped =
        dtype_swap_bytes(array->dtype) > 1 && codec_chain_swapped(&array->codecs, false);
    return status;
}

/* Where no filter says a type, 'bytes' is as it is without them. */
static enum status parse_bytes(struct json_object *configuration, struct zarr_array *array,
                               struct error *err)
{
    const struct codec_chain *filters = &array->codecs;

    if (codec_chain_swapped(filters, false) == codec_chain_swapped(filters, true))
        return parse_bytes_after_filters(configuration, array, err);
    return parse_bytes_codec(configuration, array, err);
}

/* Most filters work on values one by one, whatever the axes are: transposes before and behind are
 * the same to them. Not those where a value depends on the one before. */
static bool depends_on_order(const char *filter)
{
    return strstr(filter, "delta") || strstr(filter, "packbits");
}

/* Codecs before the one that makes bytes: filters, and what turns axes round or divides the array.
 * Those that change only how many axes there are, not the order of items, have no effect on bytes.
 */
static enum status parse_array_codec(const char *name, struct json_object *configuration,
                                     struct chain *chain, struct error *err)
{
    if (strcmp(name, "bitround") == 0) /* registered without numcodecs' prefix, too */
        name = "numcodecs.bitround";
    bool reshapes = strcmp(name, "reshape") == 0 || strcmp(name, "zarrs.squeeze") == 0;

    if (strcmp(name, "bytes") == 0) {
        chain->has_bytes = true;
        return parse_bytes(configuration, chain->array, err);
    }
    if (codec_is_filter(name)) {
        chain->is_ordered = chain->is_ordered || depends_on_order(name);
        return codec_chain_add(&chain->array->codecs, CODEC_ZARR_V3, name, configuration,
                               chain->array->stored_item_bytes, err);
    }
    if ((chain->is_flat || chain->is_ordered) && !reshapes)
        return error_set(err, STATUS_UNSUPPORTED, "codec '%.60s' after one that %s", name,
                         chain->is_flat ? "changes the number of axes"
                                        : "needs the order of values");
    if (reshapes) {
        chain->is_flat = true;
        return STATUS_OK;
    }
    if (strcmp(name, "transpose") == 0)
        return parse_transpose(configuration, chain->array, err);
    if (strcmp(name, "sharding_indexed") == 0)
        return parse_sharding(configuration, chain, err);
    if (!codec_is_known(CODEC_ZARR_V3, name))
        return codec_refuse(name, err);
    return error_set(err, STATUS_UNSUPPORTED, "codec '%.60s' before 'bytes'", name);
}

static enum status parse_codec(struct json_object *value, struct chain *chain, struct error *err)
{
    struct json_object *configuration;
    const char *name;
    enum status status = document_named(value, "codecs", &name, &configuration, err);

    if (status != STATUS_OK)
        return status;
    if (!chain->has_bytes)
        return parse_array_codec(name, configuration, chain, err);
    if (strcmp(name, "bytes") == 0)
        return error_set(err, STATUS_CORRUPT, "codec 'bytes' stands twice");
    return codec_chain_add(&chain->array->codecs, CODEC_ZARR_V3, name, configuration,
                           chain->array->stored_item_bytes, err);
}

/* One list of codecs; that of inner chunks from within the one of their shards. */
static enum status parse_codecs(struct json_object *list, struct chain *chain, struct error *err)
{
    int level = chain->array->shard_level_count;
    enum status status = STATUS_OK;

    for (size_t i = 0; status == STATUS_OK && i < json_object_array_length(list); i++) {
        struct json_object *value = json_object_array_get_idx(list, i);

        if (chain->array->shard_level_count > level)
            return error_set(err, STATUS_UNSUPPORTED,
                             "codecs behind 'sharding_indexed': whole shards would have to be read "
                             "and decoded for each inner chunk");
        status = parse_codec(value, chain, err);
    }
    if (status == STATUS_OK && !chain->has_bytes)
        return error_set(err, STATUS_CORRUPT, "'codecs' has no codec from array to bytes");
    return status;
}

/* All codecs, and the chunk grid that comes of them. */
static enum status parse_all_codecs(struct json_object *root, struct zarr_array *array,
                                    struct error *err)
{
    struct chain chain = {.array = array};
    struct json_object *list;
    enum status status = document_member(root, "codecs", json_type_array, &list, err);

    if (status == STATUS_OK)
        status = parse_codecs(list, &chain, err);
    if (status == STATUS_OK)
        status = document_set_chunks(array, err);
    if (status == STATUS_OK)
        status = codec_chain_check(&array->codecs, array->chunk_bytes, err);
    for (int level = array->shard_level_count - 1; status == STATUS_OK && level >= 0; level--)
        for (int i = 0; i < array->rank; i++) {
            bool inner = level + 1 < array->shard_level_count;
            array->shard_levels[level].spans[i] =
                array->shard_levels[level].counts[i] *
                (inner ? array->shard_levels[level + 1].spans[i] : 1);
        }
    return status;
}

static enum status check_node_type(struct json_object *root, struct error *err)
{
    struct json_object *type;
    enum status status = document_member(root, "node_type", json_type_string, &type, err);

    if (status == STATUS_OK && strcmp(json_object_get_string(type), "array") != 0)
        return error_set(err, STATUS_CORRUPT, "'node_type' is '%.40s', expected 'array'",
                         json_object_get_string(type));
    return status;
}

enum status metadata_v3_parse(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *fill = NULL;
    enum status status = document_expect(root, "zarr_format", ZARR_V3, err);

    if (status == STATUS_OK)
        status = check_node_type(root, err);
    if (status == STATUS_OK)
        status = document_shape(root, array, err);
    if (status == STATUS_OK)
        status = metadata_v3_dtype(root, array, err);
    if (status == STATUS_OK)
        status = parse_grid(root, array, err);
    if (status == STATUS_OK)
        status = parse_all_codecs(root, array, err);
    if (status == STATUS_OK)
        status = parse_keys(root, array, err);
    if (status == STATUS_OK)
        status = check_names(root, array, err);
    if (status == STATUS_OK)
        status = refuse_transformers(root, err);
    if (status == STATUS_OK)
        status = refuse_unknown_members(root, err);
    if (status != STATUS_OK)
        return status;
    if (!json_object_object_get_ex(root, "fill_value", &fill))
        return error_set(err, STATUS_CORRUPT, "'fill_value' is missing");
    if (array->stored_type[0] == 'r')
        return metadata_v3_raw_fill(fill, array, err);
    return item_parse_fill(fill, array, err);
}
