/* A mix of datasets. See dataset.h. */
#include "dataset/mix/mix.h"

#include "base/number.h"
#include "base/size.h"
#include "dataset/open/open.h"
#include "dataset/read/row_walk.h"
#include "zarr/chunk/shard_cache.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_ALIGNMENT = 64 };

enum status mix_new(const struct dataset_options *options, uint32_t source_count,
                    struct dataset **ret_mix, struct error *err)
{
    struct dataset_options of_mix = *options;
    struct dataset *mix;
    of_mix.uri = "";
    enum status status = dataset_allocate(&of_mix, &mix, err);
    if (status != STATUS_OK)
        return status;
    mix->sources = calloc(source_count, sizeof(struct dataset *));
    if (!mix->sources) {
        dataset_free(mix);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a mix");
    }
    mix->source_count = source_count;
    *ret_mix = mix;
    return STATUS_OK;
}

/* Fields
 * ---------------------------------------------------------------------------------------------- */

/* The field of that name; NULL: none. */
static const struct dataset_field *find_field(const struct dataset *dataset, const char *name)
{
    for (size_t i = 0; i < dataset->field_count; i++)
        if (strcmp(dataset->fields[i].name, name) == 0)
            return &dataset->fields[i];
    return NULL;
}

/* "float32 (16, 2)" */
static void describe(const struct dataset_field *field, struct text *out)
{
    text_append(out, "%s (", dtype_name(field->dtype));
    for (int axis = 0; axis < field->rank; axis++)
        text_append(out, "%s%" PRIu64, axis == 0 ? "" : ", ", field->shape[axis]);
    text_append(out, ")");
    for (size_t i = 0; i < field->phase_count; i++)
        text_append(out, "%s %zu steps from epoch %" PRIu64, i == 0 ? "" : ",",
                    field->phases[i].step_count, field->phases[i].epoch);
}

static bool same_phases(const struct dataset_field *a, const struct dataset_field *b)
{
    bool same = a->phase_count == b->phase_count;
    for (size_t i = 0; same && i < a->phase_count; i++)
        same = a->phases[i].epoch == b->phases[i].epoch &&
               a->phases[i].step_count == b->phases[i].step_count;
    return same;
}

static enum status refuse_missing(const char *field, const char *has, const char *has_not,
                                  struct error *err)
{
    const char *why = strstr(field, ".valid")
                          ? ": a field with steps has this one where samples.pad_before or "
                            "samples.pad_after is above 0"
                          : ": the sources of a mix have the same fields, which dataset.fields "
                            "can choose and name";
    return error_set(err, STATUS_INVALID, "field '%s' is in source '%s', and not in '%s'%s", field,
                     has, has_not, why);
}

static enum status refuse_other(const struct dataset_field *a, const struct dataset_field *b,
                                const char *const names[2], struct error *err)
{
    struct text first = {0}, second = {0};
    describe(a, &first);
    describe(b, &second);
    enum status status = error_set(
        err, STATUS_INVALID,
        "field '%s' is %s in source '%s', and %s in '%s': the sources of a mix have the same "
        "fields (cast, slice and crop can make them the same)",
        a->name, first.data, names[0], second.data, names[1]);
    text_done(&first);
    text_done(&second);
    return status;
}

static bool is_same(const struct dataset_field *a, const struct dataset_field *b)
{
    return a->dtype == b->dtype && a->rank == b->rank && a->step_count == b->step_count &&
           same_phases(a, b) &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

/* Both have their fields in order of name. */
static enum status compare_fields(const struct dataset *a, const struct dataset *b,
                                  const char *const names[2], struct error *err)
{
    for (size_t i = 0; i < b->field_count; i++)
        if (!find_field(a, b->fields[i].name))
            return refuse_missing(b->fields[i].name, names[1], names[0], err);
    for (size_t i = 0; i < a->field_count; i++) {
        const struct dataset_field *other = find_field(b, a->fields[i].name);
        if (!other)
            return refuse_missing(a->fields[i].name, names[0], names[1], err);
        if (!is_same(&a->fields[i], other))
            return refuse_other(&a->fields[i], other, names, err);
    }
    return STATUS_OK;
}

/* Sums
 * ---------------------------------------------------------------------------------------------- */

static void add_source(struct dataset *mix, uint32_t d)
{
    const struct dataset *source = mix->sources[d];
    struct dataset_private *private = mix->private;
    mix->frame_count += source->frame_count;
    mix->sample_count += source->sample_count;
    mix->row_count += source->row_count;
    private->source_rows[d + 1] = mix->row_count;
    mix->row_length = max_u64(mix->row_length, source->row_length);
    mix->row_chunks = max_u64(mix->row_chunks, source->row_chunks);
    mix->store_count += source->store_count;
    mix->opened_count += source->opened_count;
    mix->row_bytes = max_u64(mix->row_bytes, source->row_bytes);
    mix->order_row_bytes = max_u64(mix->order_row_bytes, source->order_row_bytes);
    mix->record_bytes = max_u64(mix->record_bytes, source->record_bytes);
    private->source_held[d] = mix->held_bytes;
    mix->held_bytes = size_round_up(mix->held_bytes + source->held_bytes, HELD_ALIGNMENT);
    mix->scratch_bytes += source->scratch_bytes;
    mix->inflate_bytes += source->inflate_bytes;
    mix->inflated_bytes += source->inflated_bytes;
    mix->catalogue_bytes += source->catalogue_bytes;
    mix->anchor_bytes += source->anchor_bytes;
    mix->constant_bytes += source->constant_bytes;
    mix->remote = mix->remote || source->remote;
    mix->mask = source->mask;
}

/* One cache of shards' indices for all sources, which tell their arrays apart by address. */
static enum status share_indices(struct dataset *mix, struct error *err)
{
    size_t most = (size_t)mix->source_count * DATASET_MAX_STORE_FIELDS, count = 0;
    const struct zarr_array **arrays = calloc(most, sizeof(struct zarr_array *));
    uint64_t limit = mix->sources[0]->private->index_cache_bytes;
    struct shard_cache *cache = NULL;
    enum status status = STATUS_OK;
    if (!arrays)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a mix");
    for (uint32_t d = 0; d < mix->source_count; d++)
        count += dataset_row_arrays(mix->sources[d], arrays + count);
    mix->index_bytes = shard_cache_bytes(arrays, count, limit);
    if (mix->index_bytes > 0)
        status = shard_cache_new(arrays, count, limit, &cache, err);
    free(arrays);
    mix->private->read.indices = cache;
    for (uint32_t d = 0; d < mix->source_count && status == STATUS_OK; d++)
        mix->sources[d]->private->read.indices = cache;
    return status;
}

enum status mix_settle_sources(struct dataset *mix, const char *const *names, struct error *err)
{
    const struct dataset *first = mix->sources[0];
    for (uint32_t d = 1; d < mix->source_count; d++) {
        const char *const both[2] = {names[0], names[d]};
        enum status status = mix_compare_ragged(first, mix->sources[d], both, err);
        if (status == STATUS_OK)
            status = compare_fields(first, mix->sources[d], both, err);
        if (status != STATUS_OK)
            return status;
    }
    for (uint32_t d = 0; d < mix->source_count; d++)
        add_source(mix, d);
    mix->sample_bytes = first->sample_bytes;
    mix->field_count = first->field_count;
    mix->phase_count = first->phase_count;
    memcpy(mix->phase_epochs, first->phase_epochs, sizeof mix->phase_epochs);
    memcpy(mix->fields, first->fields, mix->field_count * sizeof *mix->fields);
    mix->fingerprint = fingerprint_of_mix(mix);
    enum status status = mix_settle_ragged(mix, err);
    return status == STATUS_OK ? share_indices(mix, err) : status;
}

enum status dataset_open_mix(const struct dataset_mix_source *sources, uint32_t source_count,
                             struct dataset **ret_dataset, struct error *err)
{
    const char *names[DATASET_MAX_SOURCES];
    struct dataset *mix;
    assert(source_count > 0 && source_count <= DATASET_MAX_SOURCES);
    enum status status = mix_new(&sources[0].options, source_count, &mix, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t d = 0; d < source_count && status == STATUS_OK; d++) {
        names[d] = sources[d].name;
        status = dataset_open_source(&sources[d].options, mix, d, &mix->sources[d], err);
        if (status != STATUS_OK)
            status = error_prefix(err, status, "source '%s': ", names[d]);
    }
    if (status == STATUS_OK)
        status = mix_settle_sources(mix, names, err);
    if (status != STATUS_OK)
        dataset_free(mix);
    else
        *ret_dataset = mix;
    return status;
}
