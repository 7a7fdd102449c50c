/* Checked access to JSON metadata, and the parts that v2 and v3 documents share. Pure. */
#include "zarr/metadata/document.h"

#include "base/number.h"
#include "base/size.h"
#include "zarr/metadata/json.h"

#include <string.h>

static bool is_page(const char *text, size_t size)
{
    size_t i = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < size && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i < size && text[i] == '<';
}

enum status document_parse(const char *text, size_t size, struct json_object **ret_root,
                           struct error *err)
{
    struct json_object *root = NULL;
    size_t offset = 0;
    const char *problem = json_read(text, size, DOCUMENT_MAX_DEPTH, &root, &offset);
    if (problem && is_page(text, size))
        return error_set(err, STATUS_CORRUPT,
                         "an HTML or XML page instead of JSON, as of an error or a login: the uri "
                         "has to name the store itself");
    if (problem)
        return error_set(err, STATUS_CORRUPT, "not valid JSON at byte %zu: %s", offset, problem);
    if (!json_object_is_type(root, json_type_object)) {
        json_object_put(root);
        return error_set(err, STATUS_CORRUPT, "not a JSON object");
    }
    *ret_root = root;
    return STATUS_OK;
}

enum status document_member(struct json_object *object, const char *name, enum json_type type,
                            struct json_object **ret_member, struct error *err)
{
    struct json_object *member;
    if (!json_object_object_get_ex(object, name, &member))
        return error_set(err, STATUS_CORRUPT, "'%s' is missing", name);
    if (!json_object_is_type(member, type))
        return error_set(err, STATUS_CORRUPT, "'%s' is a JSON %s, expected %s", name,
                         json_type_to_name(json_object_get_type(member)), json_type_to_name(type));
    *ret_member = member;
    return STATUS_OK;
}

enum status document_expect(struct json_object *object, const char *name, int64_t value,
                            struct error *err)
{
    struct json_object *member;
    enum status status = document_member(object, name, json_type_int, &member, err);
    if (status != STATUS_OK)
        return status;
    if (json_object_get_int64(member) != value)
        return error_set(err, STATUS_UNSUPPORTED, "'%s' is %lld, expected %lld", name,
                         (long long)json_object_get_int64(member), (long long)value);
    return STATUS_OK;
}

enum status document_named(struct json_object *object, const char *what, const char **ret_name,
                           struct json_object **ret_configuration, struct error *err)
{
    struct json_object *name, *configuration = NULL;
    enum status status;
    if (json_object_is_type(object, json_type_string)) {
        *ret_name = json_object_get_string(object);
        *ret_configuration = NULL;
        return STATUS_OK;
    }
    if (!json_object_is_type(object, json_type_object))
        return error_set(err, STATUS_CORRUPT, "'%s' is neither a name nor an object", what);
    status = document_member(object, "name", json_type_string, &name, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'%s': ", what);
    if (json_object_object_get_ex(object, "configuration", &configuration) &&
        !json_object_is_type(configuration, json_type_object))
        return error_set(err, STATUS_CORRUPT, "'%s': 'configuration' is not an object", what);
    *ret_name = json_object_get_string(name);
    *ret_configuration = configuration;
    return STATUS_OK;
}

/* One length. Beyond 2^63-1 json-c may have clamped the number, and nothing that long exists. */
static enum status parse_length(struct json_object *value, const char *what, size_t axis,
                                uint64_t *ret_length, struct error *err)
{
    if (!json_object_is_type(value, json_type_int))
        return error_set(err, STATUS_CORRUPT, "'%s' axis %zu is not an integer", what, axis);
    int64_t length = json_object_get_int64(value);
    if (length < 0)
        return error_set(err, STATUS_CORRUPT, "'%s' axis %zu is negative (%lld)", what, axis,
                         (long long)length);
    if (length == INT64_MAX)
        return error_set(err, STATUS_CORRUPT, "'%s' axis %zu does not fit 63 bits", what, axis);
    *ret_length = (uint64_t)length;
    return STATUS_OK;
}

enum status document_shape(struct json_object *root, struct zarr_array *array, struct error *err)
{
    uint64_t shape[ZARR_MAX_RANK] = {0};
    struct json_object *list;
    enum status status = document_member(root, "shape", json_type_array, &list, err);
    if (status != STATUS_OK)
        return status;
    size_t rank = json_object_array_length(list);
    if (rank == 0) { /* refused by zarr_array_parse_member() in the end */
        array->is_scalar = true;
        array->rank = 1;
        array->shape[0] = 1;
        return STATUS_OK;
    }
    if (rank > ZARR_MAX_RANK)
        return error_set(err, STATUS_UNSUPPORTED, "%zu dimensions; the limit is %d", rank,
                         ZARR_MAX_RANK);
    for (size_t i = 0; i < rank; i++) {
        status = parse_length(json_object_array_get_idx(list, i), "shape", i, &shape[i], err);
        if (status != STATUS_OK)
            return status;
    }
    array->rank = (int)rank;
    memcpy(array->shape, shape, sizeof shape);
    for (size_t i = 0; i < rank; i++)
        array->storage_axes[i] = array->key_axes[i] = (uint8_t)i;
    for (size_t i = 0; i < rank; i++)
        array->is_empty |= shape[i] == 0;
    return STATUS_OK;
}

enum status document_refuse_empty(const struct zarr_array *array, struct error *err)
{
    int axis = 0;
    while (array->shape[axis] > 0)
        axis++;
    return error_set(err, STATUS_INVALID, "empty: 'shape' axis %d is 0", axis);
}

enum status document_set_dtype(struct zarr_array *array, enum dtype dtype, bool little_endian,
                               struct error *err)
{
    uint64_t total_bytes = dtype_bytes(dtype);
    for (int i = 0; i < array->rank; i++)
        if (!size_multiply(total_bytes, max_u64(array->shape[i], 1), &total_bytes) ||
            total_bytes > INT64_MAX)
            return error_set(err, STATUS_CORRUPT,
                             "'shape' overflows: the array's size does not fit 63 bits");
    array->dtype = dtype;
    array->item_bytes = dtype_bytes(dtype);
    array->stored_item_bytes = array->item_bytes;
    array->total_bytes = array->is_empty ? 0 : total_bytes;
    array->byte_swapped =
        dtype_swap_bytes(dtype) > 1 && little_endian != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
    return STATUS_OK;
}

enum status document_lengths(struct json_object *list, const struct zarr_array *array,
                             uint64_t ret_lengths[ZARR_MAX_RANK], struct error *err)
{
    uint64_t lengths[ZARR_MAX_RANK] = {0};
    size_t rank = json_object_array_length(list);
    if (array->is_scalar && rank == 0) {
        ret_lengths[0] = 1;
        return STATUS_OK;
    }
    if (rank != (size_t)array->rank || array->is_scalar)
        return error_set(err, STATUS_CORRUPT, "chunks have %zu dimensions, the array %d", rank,
                         array->is_scalar ? 0 : array->rank);
    for (size_t i = 0; i < rank; i++) {
        enum status status =
            parse_length(json_object_array_get_idx(list, i), "chunks", i, &lengths[i], err);
        if (status != STATUS_OK)
            return status;
        if (lengths[i] == 0 && array->shape[i] == 0)
            lengths[i] = 1;
        if (lengths[i] == 0)
            return error_set(err, STATUS_CORRUPT, "'chunks' axis %zu is 0", i);
    }
    memcpy(ret_lengths, lengths, sizeof lengths);
    return STATUS_OK;
}

enum status document_set_chunks(struct zarr_array *array, struct error *err)
{
    uint64_t chunk_bytes = array->stored_item_bytes;
    for (int i = 0; i < array->rank; i++)
        if (!size_multiply(chunk_bytes, array->chunk_shape[i], &chunk_bytes))
            return error_set(err, STATUS_CORRUPT,
                             "'chunks' overflows: a chunk's size does not "
                             "fit 64 bits");
    if (chunk_bytes > ZARR_MAX_CHUNK_BYTES)
        return error_set(err, STATUS_UNSUPPORTED, "a chunk takes %s decoded; the limit is %s",
                         size_format(chunk_bytes).text, size_format(ZARR_MAX_CHUNK_BYTES).text);
    for (int i = 0; i < array->rank; i++)
        array->chunk_counts[i] = size_divide_up(array->shape[i], array->chunk_shape[i]);
    array->chunk_bytes = chunk_bytes;
    return STATUS_OK;
}

enum status document_chunk_shape(struct json_object *list, struct zarr_array *array,
                                 struct error *err)
{
    enum status status = document_lengths(list, array, array->chunk_shape, err);
    return status == STATUS_OK ? document_set_chunks(array, err) : status;
}

/* v2's order F turns the axes of an image round when zarr-python reads it, not when it writes it.
 */
enum status document_settle_codecs(struct zarr_array *array, struct error *err)
{
    bool has_short = false;
    for (int i = 0; i < array->rank; i++)
        has_short = has_short || array->last_lengths[i] > 0;
    if (has_short && (array->shard_level_count > 0 || codec_chain_is_image(&array->codecs)))
        return error_set(err, STATUS_UNSUPPORTED,
                         "chunk grid 'rectilinear' whose last chunk is shorter, of shards or "
                         "images: write the array with a regular grid");
    bool is_plain = array->item_length == 0 && array->member_count == 0;
    struct codec_chunk chunk = {.bytes = array->chunk_bytes,
                                .dtype = is_plain ? array->dtype : DTYPE_NONE,
                                .is_swapped = array->byte_swapped,
                                .rank = array->is_scalar ? 0 : array->rank};
    _Static_assert((int)ZARR_MAX_RANK == (int)CODEC_MAX_RANK, "axes fit");
    bool is_turned = array->format == ZARR_V2 && array->rank > 1 && array->storage_axes[0] != 0;
    if (is_turned && codec_chain_is_image(&array->codecs))
        return error_set(err, STATUS_UNSUPPORTED,
                         "chunks in order F of a codec that knows axes: write the array in order "
                         "C");
    for (int i = 0; i < chunk.rank; i++)
        chunk.lengths[i] = array->chunk_shape[array->storage_axes[i]];
    return codec_chain_settle(&array->codecs, &chunk, err);
}

enum status document_separator(struct json_object *value, char *ret_separator, struct error *err)
{
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    if (strcmp(text, ".") != 0 && strcmp(text, "/") != 0)
        return error_set(err, STATUS_CORRUPT, "chunk-key separator is %s, expected \".\" or \"/\"",
                         json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    *ret_separator = text[0];
    return STATUS_OK;
}
