/* See array.h: a Zarr array's grid and keys. metadata_v2.c and metadata_v3.c read the documents. */
#include "zarr/metadata/array.h"

#include "base/number.h"
#include "codec/vlen.h"
#include "zarr/metadata/document.h"

#include <inttypes.h>
#include <string.h>

static enum status set_path(struct zarr_array *array, const char *path, struct error *err)
{
    size_t length = strlen(path);
    if (length >= sizeof array->path)
        return error_set(err, STATUS_UNSUPPORTED, "path of %zu bytes; the limit is %zu", length,
                         sizeof array->path - 1);
    memcpy(array->path, path, length + 1);
    array->key_path_bytes = length;
    return STATUS_OK;
}

enum status zarr_array_parse(enum zarr_format format, const char *path, const char *text,
                             size_t text_bytes, struct zarr_array *ret_array, struct error *err)
{
    return zarr_array_parse_member(format, path, text, text_bytes, 0, ret_array, err);
}

/* Of an array of which all is known. */
static enum status refuse_shape(const struct zarr_array *array, struct error *err)
{
    if (array->is_scalar)
        return error_set(err, STATUS_UNSUPPORTED,
                         "zero-dimensional: read only as a constant, and as mean, std, scale or "
                         "offset of a field");
    return array->is_empty ? document_refuse_empty(array, err) : STATUS_OK;
}

enum status zarr_array_parse_member(enum zarr_format format, const char *path, const char *text,
                                    size_t text_bytes, size_t member, struct zarr_array *ret_array,
                                    struct error *err)
{
    struct json_object *root;
    enum status status;
    bool is_vlen;
    memset(ret_array, 0, sizeof *ret_array);
    ret_array->format = format;
    ret_array->member_index = member;
    status = set_path(ret_array, path, err);
    if (status != STATUS_OK)
        return status;
    status = document_parse(text, text_bytes, &root, err);
    if (status != STATUS_OK)
        return status;
    status = metadata_vlen_parse(root, &is_vlen, ret_array, err);
    if (!is_vlen)
        status = format == ZARR_V2 ? metadata_v2_parse(root, ret_array, err)
                                   : metadata_v3_parse(root, ret_array, err);
    json_object_put(root);
    if (status == STATUS_OK)
        return refuse_shape(ret_array, err);
    if (!ret_array->is_vlen) /* not all is known of it */
        ret_array->is_scalar = ret_array->is_empty = false;
    return status;
}

struct zarr_path zarr_array_store_path(const struct zarr_array *array)
{
    struct zarr_path path = {""};
    memcpy(path.text, array->path, array->key_path_bytes);
    return path;
}

uint64_t zarr_array_chunk_count(const struct zarr_array *array)
{
    uint64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= array->chunk_counts[i]; /* at most the number of items, which fits */
    return count;
}

uint64_t zarr_array_chunks_along(const struct zarr_array *array, int axis)
{
    const struct zarr_selection *selection = array->selections[axis];
    return selection ? selection->chunk_count : array->chunk_counts[axis];
}

uint64_t zarr_array_chunk_length(const struct zarr_array *array, int axis, uint64_t index)
{
    bool is_short = array->last_lengths[axis] > 0 && index + 1 == array->chunk_counts[axis];
    return is_short ? array->last_lengths[axis] : array->chunk_shape[axis];
}

uint64_t zarr_array_chunk_items(const struct zarr_array *array, uint64_t chunk)
{
    uint64_t first = chunk * array->chunk_shape[0];
    uint64_t end = min_u64(first + array->chunk_shape[0], array->shape[0]);
    return array->value_offsets[end] - array->value_offsets[first];
}

/* Of a chunk of values of variable length. */
static size_t values_bytes(const struct zarr_array *array, uint64_t chunk)
{
    bool is_last = chunk + 1 == array->chunk_counts[0];
    uint64_t items = zarr_array_chunk_items(array, chunk) + (is_last ? array->values_beyond : 0);
    return vlen_begin(array->chunk_shape[0], items * array->item_bytes);
}

size_t zarr_array_decoded_bytes(const struct zarr_array *array, const uint64_t *chunk_index)
{
    size_t bytes = array->chunk_bytes;
    if (array->value_offsets)
        return values_bytes(array, chunk_index[0]);
    for (int i = 0; i < array->rank; i++)
        if (array->last_lengths[i] > 0)
            bytes =
                bytes / array->chunk_shape[i] * zarr_array_chunk_length(array, i, chunk_index[i]);
    return bytes;
}

void zarr_array_shard_shape(const struct zarr_array *array, uint64_t ret_shape[ZARR_MAX_RANK])
{
    for (int i = 0; i < array->rank; i++)
        ret_shape[i] = array->chunk_shape[i] *
                       (array->shard_level_count > 0 ? array->shard_levels[0].spans[i] : 1);
}

bool zarr_array_has_values(const struct zarr_array *array)
{
    return array->is_vlen && !array->is_scalar && !array->is_empty;
}

bool zarr_array_lacks_items(const struct zarr_array *array)
{
    bool others = true;
    for (int i = 1; i < array->rank; i++)
        others = others && array->shape[i] > 0;
    return array->is_empty && !array->is_vlen && others;
}

uint64_t zarr_array_sample_bytes(const struct zarr_array *array)
{
    uint64_t bytes = array->item_bytes;
    /* At most total_bytes, or chunk_bytes: see document_set_dtype(). */
    for (int i = 1; i < array->rank; i++)
        bytes *= array->shape[i];
    return bytes;
}

/* "17.0.0" at `out`, in the order of keys, without a NUL; returns its end. `out` has room for 21
 * bytes an axis. */
static char *put_index(const struct zarr_array *array, const uint64_t *chunk_index, char separator,
                       char *out)
{
    for (int i = 0; i < array->rank; i++) {
        char digits[20];
        int count = 0;
        uint64_t value = chunk_index[array->key_axes[i]];
        if (i > 0)
            *out++ = separator;
        do
            digits[count++] = (char)('0' + value % 10);
        while ((value /= 10) > 0);
        while (count > 0)
            *out++ = digits[--count];
    }
    return out;
}

void zarr_chunk_key(const struct zarr_array *array, const uint64_t *chunk_index,
                    char ret_key[ZARR_KEY_BYTES])
{
    _Static_assert(ZARR_PATH_BYTES + 3 + ZARR_MAX_RANK * 21 <= ZARR_KEY_BYTES, "keys fit");
    size_t length = array->key_path_bytes;
    uint64_t value_index[ZARR_MAX_RANK];
    char *out = ret_key;
    for (int i = 0; i < array->rank; i++)
        value_index[i] =
            chunk_index[i] / (array->shard_level_count > 0 ? array->shard_levels[0].spans[i] : 1);

    memcpy(out, array->path, length);
    out += length;
    if (length > 0)
        *out++ = '/';
    if (array->key_prefixed) {
        *out++ = 'c';
        if (!array->is_scalar)
            *out++ = array->key_separator;
    }
    if (!array->is_scalar || !array->key_prefixed)
        out = put_index(array, value_index, array->key_separator, out);
    *out = '\0';
}

struct zarr_index_text zarr_index_format(const struct zarr_array *array,
                                         const uint64_t *chunk_index)
{
    struct zarr_index_text text = {0};
    put_index(array, chunk_index, '.', text.text);
    return text;
}

static void identify_selection(int axis, const struct zarr_selection *selection, struct text *out)
{
    text_append(out, " axis %d", axis);
    for (size_t i = 0; i < selection->run_count; i++)
        text_append(out, " %" PRIu64 "+%" PRIu64, selection->runs[i].first,
                    selection->runs[i].count);
}

void zarr_array_identify(const struct zarr_array *array, struct text *out)
{
    text_append(out, "%s%s", dtype_name(array->dtype), array->byte_swapped ? " swapped" : "");
    if (array->stored_type[0])
        text_append(out, " as %s", array->stored_type);
    if (array->stored_item_bytes != array->item_bytes)
        text_append(out, " at %zu of %zu", array->item_offset, array->stored_item_bytes);
    if (array->item_length > 0)
        text_append(out, " x %" PRIu64, array->item_length);
    for (int i = 0; i < array->rank; i++)
        text_append(out, " %" PRIu64 "/%" PRIu64, array->shape[i], array->chunk_shape[i]);
    for (int i = 0; i < array->rank; i++)
        if (array->last_lengths[i] > 0)
            text_append(out, " last %d %" PRIu64, i, array->last_lengths[i]);
    text_append(out, " fill ");
    for (size_t i = 0; i < array->item_bytes; i++)
        text_append(out, "%02x", array->fill[i]);
    text_append(out, " codecs ");
    codec_chain_identify(&array->codecs, out);
    for (int i = 0; i < array->rank; i++)
        if (array->storage_axes[i] != i)
            text_append(out, " axis %d is %d", i, array->storage_axes[i]);
    for (int level = 0; level < array->shard_level_count; level++)
        for (int i = 0; i < array->rank; i++)
            text_append(out, "%s%" PRIu64, i > 0 ? "x" : " shards ",
                        array->shard_levels[level].spans[i]);
    if (array->convert.to != DTYPE_NONE)
        text_append(out, " from %s * %a + %a", dtype_name(array->convert.from),
                    array->convert.scale, array->convert.offset);
    if (array->normal)
        normal_identify(array->normal, out);
    for (int i = 0; i < array->rank; i++)
        if (array->selections[i])
            identify_selection(i, array->selections[i], out);
}

enum dtype zarr_array_decoded_dtype(const struct zarr_array *array)
{
    return array->convert.to == DTYPE_NONE ? array->dtype : array->convert.from;
}

bool zarr_array_is_member(const struct zarr_array *array)
{
    size_t item_bytes =
        array->convert.to == DTYPE_NONE ? array->item_bytes : dtype_bytes(array->convert.from);
    return array->stored_item_bytes != item_bytes;
}
