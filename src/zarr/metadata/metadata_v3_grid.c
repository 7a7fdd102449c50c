/* Chunk grids of Zarr v3. Of rectilinear ones, which give each chunk a length of its own, those are
 * read whose chunks are of one length, but for the last: rows of chunks are taken to be equally
 * long everywhere. Pure. */
#include "zarr/metadata/document.h"

#include "base/number.h"
#include "base/size.h"

#include <inttypes.h>
#include <string.h>

/* One number of a list of lengths. */
static enum status parse_number(struct json_object *value, int axis, uint64_t *ret_number,
                                struct error *err)
{
    int64_t number = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : 0;
    if (number <= 0 || number == INT64_MAX)
        return error_set(err, STATUS_CORRUPT,
                         "'chunk_grid': a length or count of axis %d is not a positive number",
                         axis);
    *ret_number = (uint64_t)number;
    return STATUS_OK;
}

/* A run of equal chunks: a length, or [length, count]. */
static enum status parse_run(struct json_object *value, int axis, uint64_t *ret_length,
                             uint64_t *ret_count, struct error *err)
{
    *ret_count = 1;
    if (!json_object_is_type(value, json_type_array))
        return parse_number(value, axis, ret_length, err);
    if (json_object_array_length(value) != 2)
        return error_set(err, STATUS_CORRUPT,
                         "'chunk_grid': a run of axis %d is not a length and a count", axis);
    enum status status = parse_number(json_object_array_get_idx(value, 0), axis, ret_length, err);
    if (status == STATUS_OK)
        status = parse_number(json_object_array_get_idx(value, 1), axis, ret_count, err);
    return status;
}

/* Chunks along an axis: of what length those are that begin within the array. */
struct lengths {
    uint64_t first;       /* the first one, and all others but the last */
    uint64_t last;        /* the last one */
    uint64_t last_begin;  /* where it begins */
    uint64_t least, most; /* of all */
    bool is_even;         /* all but the last are as long as the first, and it is not longer */
};

static void add_run(uint64_t length, uint64_t count, uint64_t shape, uint64_t *at,
                    struct lengths *lengths)
{
    count = min_u64(count, (shape - *at - 1) / length + 1); /* those that begin before its end */
    bool is_first = *at == 0;
    if (is_first)
        *lengths = (struct lengths){length, length, 0, length, length, true};
    lengths->is_even = lengths->is_even && lengths->last == lengths->first &&
                       (length == lengths->first || (length < lengths->first && count == 1));
    lengths->least = min_u64(lengths->least, length);
    lengths->most = max_u64(lengths->most, length);
    lengths->last = length;
    lengths->last_begin = *at + (count - 1) * length;
    *at = add_sat(lengths->last_begin, length);
}

/* A list of runs. */
static enum status parse_runs(struct json_object *list, int axis, struct zarr_array *array,
                              struct error *err)
{
    uint64_t shape = max_u64(array->shape[axis], 1), at = 0, length, count;
    struct lengths lengths = {0};
    for (size_t i = 0; i < json_object_array_length(list) && at < shape; i++) {
        enum status status =
            parse_run(json_object_array_get_idx(list, i), axis, &length, &count, err);
        if (status != STATUS_OK)
            return status;
        add_run(length, count, shape, &at, &lengths);
    }
    if (at < shape)
        return error_set(err, STATUS_CORRUPT,
                         "'chunk_grid': the chunks of axis %d end at %" PRIu64 " of %" PRIu64, axis,
                         at, shape);
    if (!lengths.is_even)
        return error_set(err, STATUS_UNSUPPORTED,
                         "chunk grid 'rectilinear' with chunks of %" PRIu64 " to %" PRIu64
                         " along axis %d: only chunks of one length are read, of which the last "
                         "may be shorter; write the array with a regular grid",
                         lengths.least, lengths.most, axis);
    array->chunk_shape[axis] = lengths.first;
    array->last_lengths[axis] = lengths.last < lengths.first ? lengths.last : 0;
    return STATUS_OK;
}

static enum status parse_rectilinear(struct json_object *configuration, struct zarr_array *array,
                                     struct error *err)
{
    struct json_object *kind, *list;
    enum status status = document_member(configuration, "kind", json_type_string, &kind, err);
    if (status == STATUS_OK && strcmp(json_object_get_string(kind), "inline") != 0)
        return error_set(err, STATUS_UNSUPPORTED, "chunk grid 'rectilinear' of kind '%.40s'",
                         json_object_get_string(kind));
    if (status == STATUS_OK)
        status = document_member(configuration, "chunk_shapes", json_type_array, &list, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'chunk_grid': ");
    int rank = array->is_scalar ? 0 : array->rank;
    if (json_object_array_length(list) != (size_t)rank)
        return error_set(err, STATUS_CORRUPT, "'chunk_grid' has %zu axes, the array %d",
                         json_object_array_length(list), rank);
    array->chunk_shape[0] = 1; /* of a scalar */
    for (int i = 0; i < rank && status == STATUS_OK; i++) {
        struct json_object *lengths = json_object_array_get_idx(list, (size_t)i);
        status = json_object_is_type(lengths, json_type_array)
                     ? parse_runs(lengths, i, array, err)
                     : parse_number(lengths, i, &array->chunk_shape[i], err);
    }
    return status;
}

/* The values' lengths: chunks or, before the codecs tell that there are such, shards. */
enum status metadata_v3_grid(struct json_object *root, struct zarr_array *array, struct error *err)
{
    struct json_object *grid, *configuration, *lengths;
    const char *name;
    if (!json_object_object_get_ex(root, "chunk_grid", &grid))
        return error_set(err, STATUS_CORRUPT, "'chunk_grid' is missing");
    enum status status = document_named(grid, "chunk_grid", &name, &configuration, err);
    if (status != STATUS_OK)
        return status;
    if (strcmp(name, "rectilinear") == 0)
        return parse_rectilinear(configuration, array, err);
    if (strcmp(name, "regular") != 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "chunk grid '%.60s' (only regular and rectilinear)", name);
    status = document_member(configuration, "chunk_shape", json_type_array, &lengths, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'chunk_grid': ");
    return document_lengths(lengths, array, array->chunk_shape, err);
}
