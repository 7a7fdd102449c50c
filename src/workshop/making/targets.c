/* See targets.h. */
#include "workshop/making/targets.h"

#include "base/number.h"
#include "base/size.h"
#include "scan/digest.h"
#include "workshop/making/rechunk_internal.h"

#include <assert.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Slabs that are worth a turn. */
static const uint64_t wanted_slab_bytes = 8 << 20;

void target_append_json(struct json_object *object, struct text *out)
{
    text_append(out, "%s",
                json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN |
                                                           JSON_C_TO_STRING_NOSLASHESCAPE));
}

struct json_object *target_json(const char *text)
{
    struct json_object *object = json_tokener_parse(text);
    assert(object);
    return object;
}

/* Groups
 * ------------------------------------------------------------------------------------------- */

enum status targets_add_group(struct targets *targets, const char *path, size_t length,
                              const char *attributes, struct error *err)
{
    struct target_group *groups =
        realloc(targets->groups, (targets->group_count + 1) * sizeof *groups);
    if (!groups)
        return error_set(err, STATUS_NO_MEMORY, "no memory for groups");
    targets->groups = groups;
    struct target_group *group = &groups[targets->group_count];
    *group = (struct target_group){.path = strndup(path, length)};
    if (!group->path)
        return error_set(err, STATUS_NO_MEMORY, "no memory for groups");
    targets->group_count++;
    text_append(&group->document, "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":%s}",
                attributes);
    return STATUS_OK;
}

static void append_member(struct json_object *metadata, const char *path,
                          const struct text *document)
{
    json_object_object_add(metadata, path, target_json(document->data));
}

void targets_make_root(struct targets *targets)
{
    if (targets->group_count == 0) { /* an array is the root */
        text_append(&targets->root_document, "%s", targets->arrays[0].document.data);
        return;
    }
    struct json_object *root = target_json(targets->groups[0].document.data);
    struct json_object *inline_metadata = json_object_new_object();
    struct json_object *metadata = json_object_new_object();
    for (size_t i = 1; i < targets->group_count; i++)
        append_member(metadata, targets->groups[i].path, &targets->groups[i].document);
    for (size_t i = 0; i < targets->count; i++)
        append_member(metadata, targets->arrays[i].array.path, &targets->arrays[i].document);
    json_object_object_add(inline_metadata, "kind", json_object_new_string("inline"));
    json_object_object_add(inline_metadata, "must_understand", json_object_new_boolean(false));
    json_object_object_add(inline_metadata, "metadata", metadata);
    json_object_object_add(root, "consolidated_metadata", inline_metadata);
    target_append_json(root, &targets->root_document);
    json_object_put(root);
}

/* Arrays
 * ------------------------------------------------------------------------------------------- */

/* An array in memory with the shape and the type that the wish has. */
static struct zarr_array wished_array(const struct target_wish *wish)
{
    struct zarr_array array = {
        .format = ZARR_V3,
        .rank = wish->rank,
        .dtype = wish->dtype,
        .item_length = wish->text_length,
        .item_bytes = dtype_bytes(wish->dtype) * max_u64(wish->text_length, 1),
    };
    snprintf(array.path, sizeof array.path, "%s", wish->path);
    if (wish->text_length > 0)
        snprintf(array.stored_type, sizeof array.stored_type, "<U%llu",
                 (unsigned long long)wish->text_length);
    memcpy(array.shape, wish->shape, sizeof array.shape);
    return array;
}

static enum status describe(const struct target_wish *wish, struct target *target,
                            struct error *err)
{
    const struct rechunk_options options = {
        .codec = wish->codec, .level = wish->level, .shuffle = wish->shuffle};
    struct zarr_array shaped = wished_array(wish);
    struct json_object *root = NULL, *document = json_object_new_object();
    struct target_origin origin = {.document = document,
                                   .attributes = target_json(wish->attributes),
                                   .dimension_names = wish->dimension_names};
    enum status status =
        target_document(&options, &shaped, 0, wish->chunk, wish->value, &origin, &root, err);
    if (status == STATUS_OK) {
        target_append_json(root, &target->document);
        status = zarr_array_parse(ZARR_V3, wish->path, target->document.data,
                                  target->document.length, &target->array, err);
    }
    json_object_put(root);
    json_object_put(origin.attributes);
    json_object_put(document);
    return status;
}

enum status targets_add(struct targets *targets, const struct target_wish *wish, struct error *err)
{
    struct target *arrays = realloc(targets->arrays, (targets->count + 1) * sizeof *arrays);
    if (!arrays)
        return error_set(err, STATUS_NO_MEMORY, "no memory for arrays");
    targets->arrays = arrays;
    struct target *target = &arrays[targets->count++];
    *target = (struct target){.late = wish->late};
    memcpy(target->value_shape, wish->value, sizeof target->value_shape);
    enum status status = describe(wish, target, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "array '%s': ", wish->path);
    target_set_demand(target, wish->value[0]);
    return STATUS_OK;
}

void target_set_demand(struct target *target, uint64_t source_length)
{
    const struct zarr_array *array = &target->array;
    uint64_t sample_bytes = zarr_array_sample_bytes(array);
    uint64_t granule = common_multiple(target->value_shape[0], digest_granule(sample_bytes));
    uint64_t period = common_multiple(granule, source_length);
    uint64_t enough = size_round_up(4 * source_length, granule);
    target->demand = (struct slabs_demand){
        .sample_count = array->shape[0],
        .sample_bytes = sample_bytes,
        .period = min_u64(period, enough), /* or rows at the seams are read twice: a fifth */
        .granule = granule,
        .wanted_bytes = wanted_slab_bytes,
    };
}

/* All of them
 * ------------------------------------------------------------------------------------------- */

void targets_done(struct targets *targets)
{
    for (size_t i = 0; i < targets->count; i++)
        text_done(&targets->arrays[i].document);
    for (size_t i = 0; i < targets->group_count; i++) {
        free(targets->groups[i].path);
        text_done(&targets->groups[i].document);
    }
    free(targets->arrays);
    free(targets->groups);
    text_done(&targets->root_document);
    text_done(&targets->plan);
    *targets = (struct targets){0};
}

void targets_cut(struct targets *targets, uint64_t slab_bytes)
{
    targets->slab_count = 0;
    for (size_t i = 0; i < targets->count; i++) {
        struct target *target = &targets->arrays[i];
        target->slabs = slabs_cut(&target->demand, slab_bytes);
        target->first_slab = targets->slab_count;
        targets->slab_count += target->slabs.count;
    }
}

size_t targets_find(const struct targets *targets, uint64_t slab)
{
    size_t i = 0;
    while (i + 1 < targets->count && slab >= targets->arrays[i + 1].first_slab)
        i++;
    return i;
}
