/* "sharding_indexed" of Zarr v3: levels of shards, and the codecs of their indices. Pure. */
#include "zarr/metadata/metadata_v3_codecs.h"

#include "base/size.h"

#include <string.h>

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
            status = v3_codecs_endian(configuration, sizeof(uint64_t), "uint64", &is_little, err);
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

enum status v3_sharding_parse(struct json_object *configuration, struct v3_codecs *codecs,
                              struct error *err)
{
    struct zarr_array *array = codecs->array;
    struct json_object *lengths, *list, *index_list;
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
        status = document_member(configuration, "codecs", json_type_array, &list, err);
    if (status == STATUS_OK)
        status = document_member(configuration, "index_codecs", json_type_array, &index_list, err);
    if (status == STATUS_OK)
        status = parse_index_location(configuration, level, err);
    if (status == STATUS_OK)
        status = parse_index_codecs(index_list, level, err);
    if (status == STATUS_OK)
        status = divide_chunks(lengths, array, level, err);
    if (status == STATUS_OK)
        status = v3_codecs_parse(list, codecs, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "codec 'sharding_indexed': ");
    return STATUS_OK;
}
