/* A dataset: opened, asked, freed. See dataset.h. */
#include "dataset/open/open.h"

#include "dataset/fields/constants.h"
#include "dataset/fields/images.h"
#include "dataset/fields/normals.h"
#include "dataset/fields/select.h"
#include "dataset/fields/slices.h"
#include "dataset/fields/steps.h"
#include "dataset/frames/frames.h"
#include "dataset/open/settle.h"
#include "dataset/ragged/ragged_open.h"
#include "dataset/read/identity.h"
#include "dataset/read/row_walk.h"
#include "store/cache/disk_cache.h"
#include "store/kind/fetch.h"
#include "zarr/chunk/shard_cache.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum status dataset_allocate(const struct dataset_options *options, struct dataset **ret_dataset,
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
    dataset->constants = dataset->private->constants;
    dataset->mask = options->mask;
    dataset->private->missing_is_bad = options->missing_is_bad;
    dataset->private->fills_empty = options->fills_empty;
    dataset->private->retries = options->retries;
    dataset->private->index_cache_bytes = options->index_cache_bytes;
    dataset->private->read.coalesce_gap = options->coalesce_gap_bytes;
    dataset->private->read.coalesce_bytes = options->coalesce_bytes;
    dataset->private->settings =
        options->store.timeout_s ? options->store : store_settings_default();
    dataset->private->own_second_room = (int64_t)(dataset->private->settings.fetch_bytes / 8);
    dataset->private->second_room = &dataset->private->own_second_room;
    dataset->private->read.direct = dataset->private->settings.direct;
    dataset->private->watch = options->watch;
    dataset->private->continuous = options->samples.continuous;
    dataset->private->pad_before = options->samples.pad_before;
    dataset->private->pad_after = options->samples.pad_after;
    dataset->private->fill = options->samples.fill;
    dataset->private->row_chunks = options->samples.row_chunks;
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

void dataset_join_mix(struct dataset *dataset, struct dataset *mix, uint32_t source)
{
    if (!mix)
        return;
    dataset->source = source;
    dataset->private->mix = mix;
    dataset->private->second_room = &mix->private->own_second_room;
}

/* What ragged fields do not go with. */
static enum status check_ragged(const struct dataset *dataset,
                                const struct dataset_options *options, struct error *err)
{
    const char *name = dataset->private->ragged_origins[0].name;
    if (options->samples.continuous && dataset->store_count > 1)
        return error_set(err, STATUS_UNSUPPORTED,
                         "field '%s' is ragged, and samples.continuous is true with several "
                         "stores: a ragged sample has frames of one store; set "
                         "samples.continuous: false",
                         name);
    return STATUS_OK;
}

/* A long list of stores would leave no room for what is wrong. */
static enum status prefix_stores(const struct dataset *dataset, enum status status,
                                 struct error *err)
{
    const size_t most = 400;
    if (strlen(dataset->private->uri) <= most)
        return error_prefix(err, status, "%s'%s': ",
                            store_is_archive(dataset->private->store) ? "zip archive " : "",
                            dataset->private->uri);
    return error_prefix(err, status, "%s%s: ", dataset_store_text(dataset, 0).text,
                        dataset->store_count > 1 ? " and other stores" : "");
}

static enum status settle_fields(struct dataset *dataset, const struct dataset_options *given,
                                 struct error *err)
{
    struct dataset_private *private = dataset->private;
    struct dataset_options placed = *given;
    const struct dataset_options *options = &placed;
    struct dataset_field_spec *fields;
    enum status status = normals_read_scales(dataset, given, &fields, err);
    placed.fields = fields ? fields : given->fields;
    if (status == STATUS_OK)
        status = select_fields(dataset, options, err);
    if (status == STATUS_OK && dataset->ragged_count > 0)
        status = check_ragged(dataset, options, err);
    if (status == STATUS_OK)
        status = ragged_settle_forms(dataset, options, err);
    if (status == STATUS_OK)
        status = slices_settle(dataset, options, err);
    if (status == STATUS_OK)
        status = normals_settle(dataset, options, err);
    if (status == STATUS_OK)
        status = slices_narrow(dataset, options->narrowing, err);
    if (status == STATUS_OK)
        status = made_fields_add(dataset, err);
    if (status == STATUS_OK)
        status = steps_keep(dataset, err);
    if (status == STATUS_OK)
        status = store_fields_settle(dataset, err);
    if (status == STATUS_OK)
        status = layout_settle_rows(dataset, err);
    if (status == STATUS_OK)
        status = align_settle(dataset, err);
    if (status == STATUS_OK && !private->anchors)
        status = samples_settle(dataset, options, err);
    if (status == STATUS_OK)
        status = ragged_scan(dataset, options, err);
    if (status == STATUS_OK)
        status = layout_settle(dataset, err);
    if (status == STATUS_OK)
        status = constants_settle(dataset, options, err);
    free(fields);
    return status == STATUS_OK ? STATUS_OK : prefix_stores(dataset, status, err);
}

/* The cache of shards' indices, if there are any. Sources of a mix share one. */
static enum status make_index_cache(struct dataset *dataset, struct error *err)
{
    const struct zarr_array *arrays[DATASET_MAX_STORE_FIELDS];
    size_t count = dataset_row_arrays(dataset, arrays);
    if (dataset->index_bytes == 0 || dataset->private->mix)
        return STATUS_OK;
    return shard_cache_new(arrays, count, dataset->private->index_cache_bytes,
                           &dataset->private->read.indices, err);
}

/* The list of uris, cut up: malloc'ed strings at ret_uris, the caller's. */
static enum status cut_uris(const char *list, char *ret_uris[DATASET_MAX_STORE_FIELDS],
                            size_t *ret_count, struct error *err)
{
    struct text uri = {0};
    size_t count = 0;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && text_list_take(&list, &uri)) {
        if (count == DATASET_MAX_STORE_FIELDS)
            status = error_set(err, STATUS_INVALID, "dataset.uri: more than %d stores",
                               DATASET_MAX_STORE_FIELDS);
        else if (!(ret_uris[count++] = strdup(uri.data)))
            status = error_set(err, STATUS_NO_MEMORY, "no memory for the dataset");
    }
    text_done(&uri);
    *ret_count = count;
    return status;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Adds the uris that fields have of their own, each once: in order, so that all ranks number them
 * alike. */
static enum status add_own_uris(const struct dataset_options *options, char **uris, size_t *count,
                                struct error *err)
{
    const char *own[DATASET_MAX_FIELDS];
    size_t own_count = 0;
    for (size_t i = 0; options->fields && i < options->field_count && i < DATASET_MAX_FIELDS; i++)
        if (options->fields[i].store)
            own[own_count++] = options->fields[i].store;
    qsort(own, own_count, sizeof *own, compare_texts);
    for (size_t i = 0; i < own_count; i++)
        if (i == 0 || strcmp(own[i], own[i - 1]) != 0) {
            if (!(uris[*count] = strdup(own[i])))
                return error_set(err, STATUS_NO_MEMORY, "no memory for the dataset");
            ++*count;
        }
    return STATUS_OK;
}

/* What is read beyond need rather than asking once more, and by one request at most: where that was
 * not said, what bench/run.sh shards found. */
static void settle_coalescing(struct zarr_read_options *read, bool remote)
{
    const size_t kib = 1024;
    if (read->coalesce_gap == 0)
        read->coalesce_gap = (remote ? 64 : 16) * kib;
    if (read->coalesce_bytes == 0)
        read->coalesce_bytes = (remote ? 4096 : 256) * kib;
}

/* From here on the uris are those of the very snapshots that were opened: other processes open the
 * same ones, whatever is committed meanwhile. */
static void pin_uris(struct dataset_private *private)
{
    struct text uris = {0};
    const char *name;
    for (size_t i = 0; i < private->store_count; i++)
        text_list_put(&uris, store_pinned_uri(store_joined_at(private->store, i, &name)));
    free(private->uri);
    private->uri = uris.data;
}

/* Fields say the snapshots of their own stores themselves. */
static enum status check_own_uris(const struct dataset_private *private, struct error *err)
{
    const char *name;
    for (size_t i = private->store_count; i < private->opened_count; i++) {
        const struct store *store = store_joined_at(private->store, i, &name);
        if (strcmp(store_pinned_uri(store), store_uri(store)) != 0)
            return error_set(err, STATUS_INVALID,
                             "store '%s' of a field has to name a snapshot: write '%s'",
                             store_uri(store), store_pinned_uri(store));
    }
    return STATUS_OK;
}

enum status dataset_open_stores(struct dataset *dataset, const struct dataset_options *from,
                                struct error *err)
{
    struct dataset_private *private = dataset->private;
    struct store_options options = {.retries = private->retries,
                                    .watch = private->watch,
                                    .settings = &private->settings,
                                    .second_room = private->second_room};
    char *uris[DATASET_MAX_STORE_FIELDS + DATASET_MAX_FIELDS];
    size_t count;
    enum status status = cut_uris(private->uri, uris, &count, err);
    private->store_count = count > 1 ? count : 1;
    if (status == STATUS_OK && count > 0)
        status = add_own_uris(from, uris, &count, err);
    if (status == STATUS_OK)
        status = count > 1
                     ? store_open_joined((const char *const *)uris, count, &options,
                                         &private->store, err)
                     : store_open_with(count == 1 ? uris[0] : "", &options, &private->store, err);
    private->opened_count = count > 1 ? count : 1;
    for (size_t i = 0; i < count; i++)
        free(uris[i]);
    if (status == STATUS_OK)
        status = check_own_uris(private, err);
    if (status != STATUS_OK)
        return status;
    pin_uris(private);
    dataset->remote = store_is_remote(private->store);
    settle_coalescing(&private->read, dataset->remote);
    private->hierarchies = calloc(private->opened_count, sizeof *private->hierarchies);
    private->first_frame = calloc(private->store_count + 1, sizeof *private->first_frame);
    private->first_row = calloc(private->store_count + 1, sizeof *private->first_row);
    if (!private->hierarchies || !private->first_frame || !private->first_row)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the dataset");
    dataset->store_count = private->store_count;
    dataset->opened_count = private->opened_count;
    dataset->store_frames = private->first_frame;
    dataset->store_rows = private->first_row;
    return STATUS_OK;
}

static enum status open_hierarchies(struct dataset *dataset, const struct dataset_options *options,
                                    struct error *err)
{
    struct dataset_private *private = dataset->private;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < private->opened_count; i++)
        status = select_open(dataset, options, i, &private->hierarchies[i], err);
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

enum status dataset_settle(struct dataset *dataset, const struct dataset_options *options,
                           bool identifies, struct error *err)
{
    enum status status = settle_fields(dataset, options, err);
    if (status == STATUS_OK)
        status = dataset_note_versions(dataset, err);
    if (status == STATUS_OK && identifies)
        status = dataset_identify(dataset, &dataset->private->cache_identity, err);
    if (status == STATUS_OK)
        status = open_cache(dataset, err);
    if (status == STATUS_OK)
        status = make_index_cache(dataset, err);
    return status;
}

/* With the levels of images instead of these. */
static enum status open_chosen(struct dataset *dataset, const struct dataset_options *options,
                               struct error *err)
{
    struct images *images;
    enum status status = images_choose(dataset, options, &images, err);
    if (status != STATUS_OK)
        return prefix_stores(dataset, status, err);
    status = open_hierarchies(dataset, &images->options, err);
    if (status == STATUS_OK && (status = images_name_axes(dataset, images, err)) != STATUS_OK)
        status = prefix_stores(dataset, status, err);
    if (status == STATUS_OK)
        status =
            dataset_settle(dataset, &images->options, dataset->private->cache_dir[0] != '\0', err);
    free(images);
    return status;
}

enum status dataset_open_source(const struct dataset_options *options, struct dataset *mix,
                                uint32_t source, struct dataset **ret_dataset, struct error *err)
{
    struct dataset *dataset;
    enum status status = dataset_allocate(options, &dataset, err);
    if (status != STATUS_OK)
        return status;
    dataset_join_mix(dataset, mix, source);
    status = dataset_open_stores(dataset, options, err);
    if (status == STATUS_OK)
        status = open_chosen(dataset, options, err);
    if (status != STATUS_OK) {
        dataset_free(dataset);
        return status;
    }
    *ret_dataset = dataset;
    return STATUS_OK;
}

enum status dataset_open(const struct dataset_options *options, struct dataset **ret_dataset,
                         struct error *err)
{
    return dataset_open_source(options, NULL, 0, ret_dataset, err);
}

const struct dataset_part *dataset_parts(const struct dataset *dataset, size_t *ret_count)
{
    *ret_count = dataset->private->part_count;
    return dataset->private->parts;
}

struct anchors_counts dataset_anchor_counts(const struct dataset *dataset)
{
    return dataset->private->counts;
}

void dataset_log_bad(struct dataset *dataset, struct bad_log *log)
{
    dataset->private->bad_log = log;
    for (uint32_t d = 0; d < dataset->source_count; d++)
        dataset->sources[d]->private->bad_log = log;
}

void dataset_bound_seconds(struct dataset *dataset, uint64_t bytes)
{
    struct dataset_private *private = dataset->private;
    atomic_fetch_add(private->second_room,
                     (int64_t)bytes - (int64_t)(private->settings.fetch_bytes / 8));
}

void dataset_stop_fetches(const struct dataset *dataset)
{
    for (uint32_t d = 0; d < dataset->source_count; d++)
        fetch_stop(dataset->sources[d]->private->store);
    if (dataset->source_count == 0)
        fetch_stop(dataset->private->store);
}

struct disk_cache *dataset_disk_cache(const struct dataset *dataset)
{
    return dataset->private->cache;
}

const struct zarr_array *dataset_field_array(const struct dataset *dataset, size_t field)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    return origin->array ? &origin->store_fields[0].array : NULL;
}

const struct zarr_array *dataset_field_index_array(const struct dataset *dataset, size_t field)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    return origin->index ? &origin->store_fields[0].index : NULL;
}

const int64_t *dataset_field_matches(const struct dataset *dataset, size_t field)
{
    return dataset->private->origins[field].matches;
}

const struct zarr_array *dataset_ragged_array(const struct dataset *dataset, size_t ragged,
                                              size_t column)
{
    return &dataset->private->ragged_origins[ragged].columns[column].views[0];
}

struct convert dataset_field_convert(const struct dataset *dataset, size_t field)
{
    const struct field_origin *origin = &dataset->private->origins[field];
    const struct zarr_array *array = dataset_field_array(dataset, field);
    if (origin->is_items && origin->column < origin->ragged->column_count)
        array = &origin->ragged->columns[origin->column].views[0];
    return array ? array->convert : (struct convert){.to = DTYPE_NONE};
}

void dataset_free(struct dataset *dataset)
{
    if (!dataset)
        return;
    struct dataset_private *private = dataset->private;
    if (!private->mix)
        shard_cache_free(private->read.indices);
    for (uint32_t d = 0; d < dataset->source_count; d++)
        dataset_free(dataset->sources[d]);
    free(dataset->sources);
    disk_cache_free(private->cache);
    for (size_t i = 0; i < DATASET_MAX_FIELDS; i++) {
        slices_free(&private->origins[i], private->store_count);
        normals_free(private->origins[i].normal);
        free(private->origins[i].matches);
        free(private->origins[i].store_fields);
    }
    for (size_t r = 0; r < RAGGED_MAX_FIELDS; r++)
        ragged_origin_free(&private->ragged_origins[r]);
    for (size_t i = 0; private->hierarchies && i < private->opened_count; i++)
        zarr_hierarchy_free(private->hierarchies[i]);
    free(private->hierarchies);
    constants_free(dataset);
    anchors_free(private->anchors);
    for (size_t i = 0; i < private->part_count; i++) {
        free(private->parts[i].name);
        free(private->parts[i].array);
    }
    free(private->parts);
    free(private->document_ends);
    free(private->steps);
    free(private->first_frame);
    free(private->first_row);
    store_free(private->store);
    free(private->cache_dir);
    free(private->uri);
    free(private);
    free(dataset);
}
