/* Codecs of Zarr v3.
 *
 * array -> array codecs turn axes round: all of them together are one permutation. Then comes what
 * makes bytes of an array: "bytes", or "sharding_indexed" (metadata_v3_sharding.c), which has
 * codecs of its own for its inner chunks. What follows is bytes -> bytes. Pure.
 */
#include "zarr/metadata/metadata_v3_codecs.h"

#include <string.h>

enum status v3_codecs_endian(struct json_object *configuration, size_t unit_bytes, const char *type,
                             bool *ret_is_little, struct error *err)
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
    enum status status = v3_codecs_endian(configuration, is_member ? 1 : unit_bytes,
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
                         "codec 'transpose': 'order' is not a permutation of %d axes", rank);
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

/* Behind filters 'bytes' tells the byte order of what they give, but zarr-python takes their own
 * types' word for it, which is the same only where all are little-endian. */
static enum status parse_bytes_after_filters(struct json_object *configuration,
                                             struct zarr_array *array, struct error *err)
{
    bool is_little;
    enum status status = v3_codecs_endian(configuration, 1, "", &is_little, err);
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
                                     struct v3_codecs *codecs, struct error *err)
{
    if (strcmp(name, "bitround") == 0) /* registered without numcodecs' prefix, too */
        name = "numcodecs.bitround";
    bool reshapes = strcmp(name, "reshape") == 0 || strcmp(name, "zarrs.squeeze") == 0;

    if (strcmp(name, "bytes") == 0) {
        codecs->has_bytes = true;
        return parse_bytes(configuration, codecs->array, err);
    }
    if (codec_is_filter(name)) {
        codecs->is_ordered = codecs->is_ordered || depends_on_order(name);
        return codec_chain_add(&codecs->array->codecs, CODEC_ZARR_V3, name, configuration,
                               codecs->array->stored_item_bytes, err);
    }
    if ((codecs->is_flat || codecs->is_ordered) && !reshapes)
        return error_set(err, STATUS_UNSUPPORTED, "codec '%.60s' after one that %s", name,
                         codecs->is_flat ? "changes the number of axes"
                                         : "needs the order of values");
    if (reshapes) {
        codecs->is_flat = true;
        return STATUS_OK;
    }
    if (codec_is_image(CODEC_ZARR_V3, name)) {
        codecs->has_bytes = true;
        return codec_chain_add(&codecs->array->codecs, CODEC_ZARR_V3, name, configuration,
                               codecs->array->stored_item_bytes, err);
    }
    if (strcmp(name, "transpose") == 0)
        return parse_transpose(configuration, codecs->array, err);
    if (strcmp(name, "sharding_indexed") == 0)
        return v3_sharding_parse(configuration, codecs, err);
    if (!codec_is_known(CODEC_ZARR_V3, name))
        return codec_refuse(name, err);
    return error_set(err, STATUS_UNSUPPORTED, "codec '%.60s' before 'bytes'", name);
}

static enum status parse_codec(struct json_object *value, struct v3_codecs *codecs,
                               struct error *err)
{
    struct json_object *configuration;
    const char *name;
    enum status status = document_named(value, "codecs", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    if (!codecs->has_bytes)
        return parse_array_codec(name, configuration, codecs, err);
    if (strcmp(name, "bytes") == 0)
        return error_set(err, STATUS_CORRUPT, "codec 'bytes' stands twice");
    if (codec_is_image(CODEC_ZARR_V3, name))
        return error_set(err, STATUS_UNSUPPORTED,
                         "codec '%.60s' behind 'bytes': images are made of values, in its place",
                         name);
    return codec_chain_add(&codecs->array->codecs, CODEC_ZARR_V3, name, configuration,
                           codecs->array->stored_item_bytes, err);
}

enum status v3_codecs_parse(struct json_object *list, struct v3_codecs *codecs, struct error *err)
{
    int level = codecs->array->shard_level_count;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < json_object_array_length(list); i++) {
        struct json_object *value = json_object_array_get_idx(list, i);
        if (codecs->array->shard_level_count > level)
            return error_set(err, STATUS_UNSUPPORTED,
                             "codecs behind 'sharding_indexed': whole shards would have to be read "
                             "and decoded for each inner chunk");
        status = parse_codec(value, codecs, err);
    }
    if (status == STATUS_OK && !codecs->has_bytes)
        return error_set(err, STATUS_CORRUPT, "'codecs' has no codec from array to bytes");
    return status;
}

enum status metadata_v3_codecs(struct json_object *root, struct zarr_array *array,
                               struct error *err)
{
    struct v3_codecs codecs = {.array = array};
    struct json_object *list;
    enum status status = document_member(root, "codecs", json_type_array, &list, err);
    if (status == STATUS_OK)
        status = v3_codecs_parse(list, &codecs, err);
    if (status == STATUS_OK)
        status = document_set_chunks(array, err);
    if (status == STATUS_OK)
        status = document_settle_codecs(array, err);
    for (int level = array->shard_level_count - 1; status == STATUS_OK && level >= 0; level--)
        for (int i = 0; i < array->rank; i++) {
            bool inner = level + 1 < array->shard_level_count;
            array->shard_levels[level].spans[i] =
                array->shard_levels[level].counts[i] *
                (inner ? array->shard_levels[level + 1].spans[i] : 1);
        }
    return status;
}
