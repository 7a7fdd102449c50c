/* See dataset.h: a dataset as bytes, and back.
 *
 * The fields are packed as settled, not the options. So an unpacked dataset is the same even if
 * another version would choose other fields by default.
 */
#include "dataset/pack/pack_internal.h"

#include "dataset/fields/constants.h"
#include "dataset/fields/slices.h"
#include "dataset/open/open.h"

#include <stdlib.h>
#include <string.h>

static const char pack_magic[] = "penstock dataset 13";

static void put_slices(struct text *out, const struct field_origin *origin)
{
    for (int axis = 0; axis < ZARR_MAX_RANK; axis++) {
        struct text indices = {0};
        if (origin->slices[axis].runs)
            slices_put(&origin->slices[axis], &indices);
        pack_string(out, indices.data ? indices.data : "");
        text_done(&indices);
    }
}

static void put_normal(struct text *out, const struct zarr_normal *normal)
{
    size_t bytes = normal ? normal->count * dtype_bytes(normal->work) : 0;
    packed_put_run(out, normal, normal ? sizeof *normal : 0);
    packed_put_run(out, normal ? normal->mean : NULL, normal && normal->mean ? bytes : 0);
    packed_put_run(out, normal ? normal->std : NULL, normal && normal->std ? bytes : 0);
}

static void put_spec(struct text *out, const struct dataset *dataset,
                     const struct field_origin *origin)
{
    const char axis[] = {(char)('0' + origin->axis), '\0'};
    _Static_assert(ZARR_MAX_RANK < 10, "an axis is one digit");
    pack_string(out, origin->name);
    pack_string(out, origin->array->array.path);
    packed_put_number(out, (origin->index != NULL) + (uint64_t)origin->is_aligned);
    pack_string(out, origin->index ? origin->index->array.path : "");
    pack_own_store(out, dataset, origin->own_store);
    pack_string(out, axis);
    packed_put_number(out, origin->convert.to);
    pack_real(out, origin->convert.scale);
    pack_real(out, origin->convert.offset);
    put_slices(out, origin);
    put_normal(out, origin->normal);
    packed_put_run(out, origin->steps, origin->step_count * sizeof *origin->steps);
    packed_put_run(out, origin->phases, origin->phase_count * sizeof *origin->phases);
    packed_put_number(out, origin->segments);
    packed_put_run(out, origin->crops, origin->is_cropped ? sizeof origin->crops : 0);
    packed_put_number(out, origin->crop_group);
    packed_put_number(out, origin->match);
    packed_put_run(out, origin->matches,
                   origin->matches ? dataset->frame_count * sizeof *origin->matches : 0);
}

/* The fields that have arrays: those that are made follow from them. */
static void put_specs(struct text *out, const struct dataset *dataset)
{
    uint64_t count = 0;
    for (size_t i = 0; i < dataset->field_count; i++)
        count += dataset->private->origins[i].array != NULL;
    packed_put_number(out, count);
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->private->origins[i].array)
            put_spec(out, dataset, &dataset->private->origins[i]);
}

/* What samples are, as settled: the anchors, and not the arrays that they were made from. */
static void put_samples(struct text *out, const struct dataset *dataset)
{
    const struct dataset_private *private = dataset->private;
    const struct anchors *anchors = private->anchors;
    packed_put_number(out, private->continuous);
    packed_put_number(out, private->pad_before);
    packed_put_number(out, private->pad_after);
    packed_put_number(out, private->fill);
    packed_put_number(out, dataset->row_chunks);
    packed_put_run(out, private->document_ends,
                   private->document_count * sizeof *private->document_ends);
    packed_put_run(out, anchors ? anchors_packed(anchors) : NULL,
                   anchors ? anchors_bytes(anchors) : 0);
}

enum status dataset_pack(const struct dataset *dataset, void **ret_bytes, size_t *ret_size,
                         struct error *err)
{
    struct text out = {0};
    (void)err; /* growing the text does not fail */
    if (dataset->source_count > 0) {
        mix_pack(dataset, &out);
        *ret_bytes = out.data;
        *ret_size = out.length;
        return STATUS_OK;
    }
    pack_string(&out, pack_magic);
    pack_string(&out, dataset->private->uri);
    packed_put_number(&out, dataset->private->hold_limit_bytes);
    pack_string(&out, dataset->private->cache_dir);
    packed_put_number(&out, dataset->private->cache_dir_bytes);
    packed_put_number(&out, dataset->private->cache_identity);
    packed_put_number(&out, dataset->mask);
    packed_put_number(&out, dataset->private->missing_is_bad);
    packed_put_number(&out, dataset->private->retries);
    packed_put_number(&out, dataset->private->index_cache_bytes);
    packed_put_number(&out, dataset->private->read.coalesce_gap);
    packed_put_number(&out, dataset->private->read.coalesce_bytes);
    packed_put_run(&out, &dataset->private->settings, sizeof dataset->private->settings);
    put_samples(&out, dataset);
    put_specs(&out, dataset);
    ragged_pack(&out, dataset);
    constants_pack(dataset, &out);
    for (size_t i = 0; i < dataset->private->opened_count; i++) {
        struct text documents = {0};
        zarr_hierarchy_pack(dataset->private->hierarchies[i], &documents);
        packed_put_run(&out, documents.data, documents.length);
        text_done(&documents);
    }
    *ret_bytes = out.data;
    *ret_size = out.length;
    return STATUS_OK;
}

static const char *const axes[] = {"0", "1", "2", "3", "4", "5", "6", "7"};

static bool take_slices(struct packed *packed, struct dataset_field_spec *spec)
{
    _Static_assert(sizeof axes / sizeof axes[0] == ZARR_MAX_RANK, "every axis has a text");
    for (int axis = 0; axis < ZARR_MAX_RANK; axis++) {
        struct dataset_slice_spec slice = {.axis = axes[axis]};
        if (!packed_take_string(packed, &slice.indices))
            return false;
        if (*slice.indices)
            spec->slices[spec->slice_count++] = slice;
    }
    return true;
}

/* Random crops: others are slices by now. */
static bool take_crops(struct packed *packed, struct dataset_field_spec *spec)
{
    uint64_t lengths[ZARR_MAX_RANK] = {0}, group;
    const char *bytes;
    size_t size;
    if (!packed_take_run(packed, &bytes, &size) || (size != 0 && size != sizeof lengths) ||
        !packed_take_number(packed, &group))
        return false;
    memcpy(lengths, bytes, size);
    for (int axis = 0; axis < ZARR_MAX_RANK; axis++)
        if (lengths[axis] > 0)
            spec->crops[spec->crop_count++] = (struct dataset_crop_spec){axes[axis], lengths[axis]};
    spec->crop_at = spec->crop_count > 0 ? CROP_RANDOM : CROP_NONE;
    spec->crop_group = (uint32_t)group;
    return true;
}

/* A table of a normal, borrowed and perhaps not aligned; NULL: there is none. */
static bool take_table(struct packed *packed, const struct zarr_normal *normal, void **ret_table)
{
    const char *bytes;
    size_t size;
    if (!packed_take_run(packed, &bytes, &size) ||
        (size > 0 && size / dtype_bytes(normal->work) != normal->count))
        return false;
    *ret_table = size > 0 ? (void *)bytes : NULL;
    return true;
}

/* As plain bytes, like the settings. */
static bool take_normal(struct packed *packed, struct zarr_normal *normal,
                        struct dataset_field_spec *spec)
{
    const char *bytes;
    size_t size;
    *normal = (struct zarr_normal){.work = DTYPE_FLOAT32};
    if (!packed_take_run(packed, &bytes, &size) || (size != 0 && size != sizeof *normal))
        return false;
    if (size > 0) {
        memcpy(normal, bytes, size);
        spec->normal = normal;
    }
    return (normal->work == DTYPE_FLOAT32 || normal->work == DTYPE_FLOAT64) &&
           take_table(packed, normal, &normal->mean) && take_table(packed, normal, &normal->std);
}

static bool take_matches(struct packed *packed, struct dataset_field_spec *spec)
{
    uint64_t match;
    const char *matches;
    size_t size;
    if (!packed_take_number(packed, &match) || !packed_take_run(packed, &matches, &size))
        return false;
    spec->match = (enum dataset_match)match;
    spec->matches = size > 0 ? matches : NULL;
    spec->match_count = size / sizeof(int64_t);
    return true;
}

static bool take_phases(struct packed *packed, struct dataset_field_spec *spec)
{
    const char *bytes;
    size_t size;
    if (!packed_take_run(packed, &bytes, &size) || size > sizeof spec->phases ||
        size % sizeof spec->phases[0] != 0)
        return false;
    memcpy(spec->phases, bytes, size);
    spec->phase_count = size / sizeof spec->phases[0];
    for (size_t i = 0; i < spec->phase_count; i++)
        if (spec->phases[i].step_count == 0 || spec->phases[i].step_count > spec->step_count)
            return false;
    return true;
}

/* The specs' steps are malloc'ed, the caller's, on failure too. */
static bool take_specs(struct packed *packed, struct dataset_field_spec *specs,
                       struct zarr_normal *normals, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct dataset_field_spec spec = {0};
        uint64_t has_index, cast, segments;
        void *steps;
        if (!packed_take_string(packed, &spec.name) || !packed_take_string(packed, &spec.array) ||
            !packed_take_number(packed, &has_index) || !packed_take_string(packed, &spec.index) ||
            !unpack_text(packed, &spec.store) || !packed_take_string(packed, &spec.sample_axis) ||
            !packed_take_number(packed, &cast) || !unpack_real(packed, &spec.scale) ||
            !unpack_real(packed, &spec.offset) || !take_slices(packed, &spec) ||
            !take_normal(packed, &normals[i], &spec) ||
            !unpack_items(packed, sizeof *spec.steps, &steps, &spec.step_count))
            return false;
        spec.steps = specs[i].steps = steps;
        if (!take_phases(packed, &spec) || !packed_take_number(packed, &segments))
            return false;
        spec.segments = segments;
        if (!take_crops(packed, &spec) || !take_matches(packed, &spec))
            return false;
        if (has_index == 2)
            spec.align = spec.index;
        if (has_index != 1)
            spec.index = NULL;
        spec.cast = (enum dtype)cast;
        specs[i] = spec;
    }
    return true;
}

static enum status unpack_hierarchies(struct dataset *dataset, struct packed *packed,
                                      struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < dataset->private->opened_count; i++) {
        const char *documents;
        size_t size;
        if (!packed_take_run(packed, &documents, &size))
            return error_set(err, STATUS_CORRUPT, "packed dataset ends early");
        status = zarr_hierarchy_unpack(documents, size, &dataset->private->hierarchies[i], err);
    }
    return status;
}

/* As plain bytes: all processes of a run are the same program. */
static bool take_settings(struct packed *packed, struct store_settings *settings)
{
    const char *bytes;
    size_t size;
    if (!packed_take_run(packed, &bytes, &size) || size != sizeof *settings)
        return false;
    memcpy(settings, bytes, size);
    return true;
}

/* What dataset_pack() has packed, but for the hierarchies. */
struct unpacked {
    struct dataset_options options;
    uint64_t identity, spec_count;
    struct dataset_field_spec specs[DATASET_MAX_FIELDS]; /* their steps are owned */
    struct zarr_normal normals[DATASET_MAX_FIELDS];      /* their tables are borrowed */
    void *document_ends;                                 /* owned */
    size_t document_count;
    const char *anchors; /* borrowed */
    size_t anchors_bytes;
};

static bool take_samples(struct packed *packed, struct unpacked *to)
{
    struct dataset_samples_spec *samples = &to->options.samples;
    uint64_t continuous, fill;
    if (!packed_take_number(packed, &continuous) ||
        !packed_take_number(packed, &samples->pad_before) ||
        !packed_take_number(packed, &samples->pad_after) || !packed_take_number(packed, &fill) ||
        !packed_take_number(packed, &samples->row_chunks) ||
        !unpack_items(packed, sizeof(uint64_t), &to->document_ends, &to->document_count) ||
        !packed_take_run(packed, &to->anchors, &to->anchors_bytes))
        return false;
    samples->is_settled = true;
    samples->continuous = continuous;
    samples->fill = (enum samples_fill)fill;
    return true;
}

static bool take_options(struct packed *packed, struct unpacked *to)
{
    struct dataset_options *options = &to->options;
    const char *magic;
    uint64_t mask, missing_is_bad, retries;
    if (!packed_take_string(packed, &magic) || strcmp(magic, pack_magic) != 0 ||
        !packed_take_string(packed, &options->uri) ||
        !packed_take_number(packed, &options->hold_limit_bytes) ||
        !packed_take_string(packed, &options->cache_dir) ||
        !packed_take_number(packed, &options->cache_dir_bytes) ||
        !packed_take_number(packed, &to->identity) || !packed_take_number(packed, &mask) ||
        !packed_take_number(packed, &missing_is_bad) || !packed_take_number(packed, &retries) ||
        !packed_take_number(packed, &options->index_cache_bytes) ||
        !packed_take_number(packed, &options->coalesce_gap_bytes) ||
        !packed_take_number(packed, &options->coalesce_bytes) ||
        !take_settings(packed, &options->store) || !take_samples(packed, to) ||
        !packed_take_number(packed, &to->spec_count) || to->spec_count > DATASET_MAX_FIELDS ||
        !take_specs(packed, to->specs, to->normals, to->spec_count) ||
        !ragged_unpack(packed, to->specs, &to->spec_count))
        return false;
    options->mask = mask;
    options->missing_is_bad = missing_is_bad;
    options->retries = (uint32_t)retries;
    options->fields = to->specs;
    options->field_count = to->spec_count;
    return true;
}

static enum status settle(struct dataset *dataset, struct packed *packed, struct unpacked *from,
                          struct error *err)
{
    struct dataset_private *private = dataset->private;
    enum status status = dataset_open_stores(dataset, &from->options, err);
    private->cache_identity = from->identity;
    private->document_ends = from->document_ends; /* now the dataset's */
    private->document_count = from->document_count;
    from->document_ends = NULL;
    if (status == STATUS_OK && from->anchors_bytes > 0)
        status = anchors_unpack(from->anchors, from->anchors_bytes, false, &private->anchors, err);
    if (status == STATUS_OK && !constants_unpack(dataset, packed))
        status = error_set(err, STATUS_CORRUPT, "packed dataset: its constants are not valid");
    if (status == STATUS_OK)
        status = unpack_hierarchies(dataset, packed, err);
    if (status == STATUS_OK)
        status = dataset_settle(dataset, &from->options, false, err);
    return status;
}

static void unpacked_done(struct unpacked *unpacked)
{
    for (size_t i = 0; i < DATASET_MAX_FIELDS; i++) {
        free((int32_t *)unpacked->specs[i].steps);
        free((void *)unpacked->specs[i].ragged.lengths);
    }
    free(unpacked->document_ends);
}

enum status dataset_unpack_source(const void *bytes, size_t size,
                                  const struct dataset_narrowing *narrowing,
                                  struct store_watch *watch, struct dataset *mix, uint32_t source,
                                  struct dataset **ret_dataset, struct error *err)
{
    struct packed packed = {bytes, size};
    struct unpacked from = {.options = {.watch = watch, .narrowing = narrowing}};
    struct dataset *dataset = NULL;
    enum status status = take_options(&packed, &from)
                             ? dataset_allocate(&from.options, &dataset, err)
                             : error_set(err, STATUS_CORRUPT, "packed dataset is not valid");
    if (status == STATUS_OK) {
        dataset_join_mix(dataset, mix, source);
        status = settle(dataset, &packed, &from, err);
    }
    unpacked_done(&from);
    if (status != STATUS_OK) {
        dataset_free(dataset);
        return status;
    }
    *ret_dataset = dataset;
    return STATUS_OK;
}

enum status dataset_unpack(const void *bytes, size_t size, struct store_watch *watch,
                           struct dataset **ret_dataset, struct error *err)
{
    if (mix_is_packed(bytes, size))
        return mix_unpack(bytes, size, watch, ret_dataset, err);
    return dataset_unpack_source(bytes, size, NULL, watch, NULL, 0, ret_dataset, err);
}

enum status dataset_narrow(const struct dataset *whole, const struct dataset_narrowing *narrowing,
                           struct store_watch *watch, struct dataset **ret_dataset,
                           struct error *err)
{
    void *bytes;
    size_t size;
    enum status status = dataset_pack(whole, &bytes, &size, err);
    if (status != STATUS_OK)
        return status;
    status = dataset_unpack_source(bytes, size, narrowing, watch, NULL, 0, ret_dataset, err);
    free(bytes);
    return status;
}
