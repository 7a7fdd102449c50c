/* Opening, packing and freeing a dataset. See dataset.h.
 *
 * What is packed are the fields as settled, not the options: an unpacked dataset is the same even
 * where the default selection of fields would change between versions.
 */
#include "dataset/dataset_internal.h"

#include "zarr/packed.h"

#include <stdlib.h>
#include <string.h>

static const char pack_magic[] = "penstock dataset 3";

/* Takes over what `options` say of the store and its cache. */
static enum status allocate(const struct dataset_options *options, struct dataset **ret_dataset,
                            struct error *err)
{
    struct dataset *dataset = calloc(1, sizeof *dataset);

    if (dataset)
        dataset->private = calloc(1, sizeof *dataset->private);
    if (!dataset || !dataset->private) {
        free(dataset);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the dataset");
    }
    dataset->fields = dataset->private->fields;
    dataset->mask = options->mask;
    dataset->private->missing_is_bad = options->missing_is_bad;
    dataset->private->retries = options->retries;
    dataset->private->settings =
        options->store.timeout_s ? options->store : store_settings_default();
    dataset->private->watch = options->watch;
    dataset->private->hold_limit_bytes = options->hold_limit_bytes;
    dataset->private->cache_dir_bytes = options->cache_dir_bytes;
    dataset->private->cache_dir = strdup(options->cache_dir ? options->cache_dir : "");
    dataset->private->uri = strdup(options->uri);
    if (!dataset->private->uri || !dataset->private->cache_dir) {
        dataset_free(dataset);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the dataset");
    }
    *ret_dataset = dataset;
    return STATUS_OK;
}

static enum status settle_fields(struct dataset *dataset, const struct dataset_field_spec *fields,
                                 size_t field_count, struct error *err)
{
    struct dataset_private *private = dataset->private;
    enum status status =
        fields ? select_configured(private->hierarchy, fields, field_count, private->origins,
                                   &dataset->field_count, err)
               : select_default(private->hierarchy, private->origins, &dataset->field_count, err);

    if (status == STATUS_OK)
        status = layout_settle(dataset, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'%s': ", private->uri);
    return STATUS_OK;
}

static enum status open_store(struct dataset *dataset, struct error *err)
{
    struct dataset_private *private = dataset->private;
    struct store_options options = {
        .retries = private->retries, .watch = private->watch, .settings = &private->settings};

    enum status status = store_open_with(private->uri, &options, &private->store, err);
    if (status == STATUS_OK)
        dataset->remote = store_is_remote(private->store);
    return status;
}

static enum status open_cache(struct dataset *dataset, struct error *err)
{
    struct dataset_private *private = dataset->private;
    struct disk_cache_options options = {.path = private->cache_dir,
                                         .limit_bytes = private->cache_dir_bytes,
                                         .dataset = private->cache_identity};

    return private->cache_dir[0] ? disk_cache_open(&options, &private->cache, err) : STATUS_OK;
}

enum status dataset_open(const struct dataset_options *options, struct dataset **ret_dataset,
                         struct error *err)
{
    struct dataset *dataset;
    enum status status = allocate(options, &dataset, err);

    if (status != STATUS_OK)
        return status;
    status = open_store(dataset, err);
    if (status == STATUS_OK)
        status = zarr_hierarchy_open(dataset->private->store, &dataset->private->hierarchy, err);
    if (status == STATUS_OK)
        status = settle_fields(dataset, options->fields, options->field_count, err);
    if (status == STATUS_OK)
        status = dataset_note_versions(dataset, err);
    if (status == STATUS_OK && dataset->private->cache_dir[0])
        status = dataset_identify(dataset->private->store, dataset->private->hierarchy,
                                  &dataset->private->cache_identity, err);
    if (status == STATUS_OK)
        status = open_cache(dataset, err);
    if (status != STATUS_OK) {
        dataset_free(dataset);
        return status;
    }
    *ret_dataset = dataset;
    return STATUS_OK;
}

static void put_string(struct text *out, const char *string)
{
    packed_put_run(out, string, strlen(string));
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
    packed_put_run(&out, &dataset->private->settings, sizeof dataset->private->settings);
    packed_put_number(&out, dataset->field_count);
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];

        put_string(&out, origin->name);
        put_string(&out, origin->array->path);
        packed_put_number(&out, origin->index != NULL);
        put_string(&out, origin->index ? origin->index->path : "");
    }
    zarr_hierarchy_pack(dataset->private->hierarchy, &out);
    *ret_bytes = out.data;
    *ret_size = out.length;
    return STATUS_OK;
}

static bool take_specs(struct packed *packed, struct dataset_field_spec *specs, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t has_index;

        if (!packed_take_string(packed, &specs[i].name) ||
            !packed_take_string(packed, &specs[i].array) ||
            !packed_take_number(packed, &has_index) || !packed_take_string(packed, &specs[i].index))
            return false;
        if (!has_index)
            specs[i].index = NULL;
    }
    return true;
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
        !take_settings(&packed, &options.store) || !packed_take_number(&packed, &count) ||
        count > DATASET_MAX_FIELDS || !take_specs(&packed, specs, count))
        return error_set(err, STATUS_CORRUPT, "packed dataset is not valid");
    options.mask = mask;
    options.missing_is_bad = missing_is_bad;
    options.retries = (uint32_t)retries;
    enum status status = allocate(&options, &dataset, err);
    if (status != STATUS_OK)
        return status;
    dataset->private->cache_identity = identity;
    status = open_store(dataset, err);
    if (status == STATUS_OK)
        status = zarr_hierarchy_unpack(packed.at, packed.left, &dataset->private->hierarchy, err);
    if (status == STATUS_OK)
        status = settle_fields(dataset, specs, count, err);
    if (status == STATUS_OK)
        status = dataset_note_versions(dataset, err);
    if (status == STATUS_OK)
        status = open_cache(dataset, err);
    if (status != STATUS_OK) {
        dataset_free(dataset);
        return status;
    }
    *ret_dataset = dataset;
    return STATUS_OK;
}

void dataset_log_bad(struct dataset *dataset, struct bad_log *log)
{
    dataset->private->bad_log = log;
}

struct disk_cache *dataset_disk_cache(const struct dataset *dataset)
{
    return dataset->private->cache;
}

const struct zarr_hierarchy *dataset_hierarchy(const struct dataset *dataset)
{
    return dataset->private->hierarchy;
}

const struct zarr_array *dataset_field_array(const struct dataset *dataset, size_t field)
{
    return dataset->private->origins[field].array;
}

const struct zarr_array *dataset_field_index_array(const struct dataset *dataset, size_t field)
{
    return dataset->private->origins[field].index;
}

void dataset_free(struct dataset *dataset)
{
    if (!dataset)
        return;
    disk_cache_free(dataset->private->cache);
    zarr_hierarchy_free(dataset->private->hierarchy);
    store_free(dataset->private->store);
    free(dataset->private->cache_dir);
    free(dataset->private->uri);
    free(dataset->private);
    free(dataset);
}
