/* See dataset.h: a dataset as bytes, and back.
 *
 * The fields are packed as settled, not the options. So an unpacked dataset is the same even if
 * another version would choose other fields by default.
 */
#include "dataset/dataset_internal.h"

#include "zarr/packed.h"

#include <string.h>

static const char pack_magic[] = "penstock dataset 5";

static void put_string(struct text *out, const char *string)
{
    packed_put_run(out, string, strlen(string));
}

static void put_real(struct text *out, double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    packed_put_number(out, bits);
}

static void put_spec(struct text *out, const struct field_origin *origin)
{
    const char axis[] = {(char)('0' + origin->axis), '\0'};

    _Static_assert(ZARR_MAX_RANK < 10, "an axis is one digit");
    put_string(out, origin->name);
    put_string(out, origin->array->array.path);
    packed_put_number(out, origin->index != NULL);
    put_string(out, origin->index ? origin->index->array.path : "");
    put_string(out, axis);
    packed_put_number(out, origin->convert.to);
    put_real(out, origin->convert.scale);
    put_real(out, origin->convert.offset);
}

enum status dataset_pack(const struct dataset *dataset, void **ret_bytes, size_t *ret_size,
                         struct error *err)
{
    struct text out = {0};

    (void)err; /* growing the text does not fail */
    put_string(&out, pack_magic);
    put_string(&out, dataset->private->uri);
    packed_put_number(&out, dataset->private->hold_limit_bytes);
    put_string(&out, dataset->private->cache_dir);
    packed_put_number(&out, dataset->private->cache_dir_bytes);
    packed_put_number(&out, dataset->private->cache_identity);
    packed_put_number(&out, dataset->mask);
    packed_put_number(&out, dataset->private->missing_is_bad);
    packed_put_number(&out, dataset->private->retries);
    packed_put_number(&out, dataset->private->index_cache_bytes);
    packed_put_number(&out, dataset->private->read.coalesce_gap);
    packed_put_number(&out, dataset->private->read.coalesce_bytes);
    packed_put_run(&out, &dataset->private->settings, sizeof dataset->private->settings);
    packed_put_number(&out, dataset->field_count);
    for (size_t i = 0; i < dataset->field_count; i++)
        put_spec(&out, &dataset->private->origins[i]);
    for (size_t i = 0; i < dataset->private->store_count; i++) {
        struct text documents = {0};

        zarr_hierarchy_pack(dataset->private->hierarchies[i], &documents);
        packed_put_run(&out, documents.data, documents.length);
        text_done(&documents);
    }
    *ret_bytes = out.data;
    *ret_size = out.length;
    return STATUS_OK;
}

static bool take_real(struct packed *packed, double *ret_number)
{
    uint64_t bits;

    if (!packed_take_number(packed, &bits))
        return false;
    memcpy(ret_number, &bits, sizeof *ret_number);
    return true;
}

static bool take_specs(struct packed *packed, struct dataset_field_spec *specs, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct dataset_field_spec spec = {0};
        uint64_t has_index, cast;

        if (!packed_take_string(packed, &spec.name) || !packed_take_string(packed, &spec.array) ||
            !packed_take_number(packed, &has_index) || !packed_take_string(packed, &spec.index) ||
            !packed_take_string(packed, &spec.sample_axis) || !packed_take_number(packed, &cast) ||
            !take_real(packed, &spec.scale) || !take_real(packed, &spec.offset))
            return false;
        if (!has_index)
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

    for (size_t i = 0; status == STATUS_OK && i < dataset->private->store_count; i++) {
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

enum status dataset_unpack(const void *bytes, size_t size, struct store_watch *watch,
                           struct dataset **ret_dataset, struct error *err)
{
    struct packed packed = {bytes, size};
    struct dataset_field_spec specs[DATASET_MAX_FIELDS];
    struct dataset_options options = {.watch = watch};
    const char *magic;
    uint64_t identity, mask, missing_is_bad, retries, count;
    struct dataset *dataset;

    if (!packed_take_string(&packed, &magic) || strcmp(magic, pack_magic) != 0 ||
        !packed_take_string(&packed, &options.uri) ||
        !packed_take_number(&packed, &options.hold_limit_bytes) ||
        !packed_take_string(&packed, &options.cache_dir) ||
        !packed_take_number(&packed, &options.cache_dir_bytes) ||
        !packed_take_number(&packed, &identity) || !packed_take_number(&packed, &mask) ||
        !packed_take_number(&packed, &missing_is_bad) || !packed_take_number(&packed, &retries) ||
        !packed_take_number(&packed, &options.index_cache_bytes) ||
        !packed_take_number(&packed, &options.coalesce_gap_bytes) ||
        !packed_take_number(&packed, &options.coalesce_bytes) ||
        !take_settings(&packed, &options.store) || !packed_take_number(&packed, &count) ||
        count > DATASET_MAX_FIELDS || !take_specs(&packed, specs, count))
        return error_set(err, STATUS_CORRUPT, "packed dataset is not valid");
    options.mask = mask;
    options.missing_is_bad = missing_is_bad;
    options.retries = (uint32_t)retries;
    enum status status = dataset_allocate(&options, &dataset, err);
    if (status != STATUS_OK)
        return status;
    dataset->private->cache_identity = identity;
    options.fields = specs;
    options.field_count = count;
    status = dataset_open_stores(dataset, err);
    if (status == STATUS_OK)
        status = unpack_hierarchies(dataset, &packed, err);
    if (status == STATUS_OK)
        status = dataset_settle(dataset, &options, false, err);
    if (status != STATUS_OK) {
        dataset_free(dataset);
        return status;
    }
    *ret_dataset = dataset;
    return STATUS_OK;
}
