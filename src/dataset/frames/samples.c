/* Which frames are samples: see samples_spec.h. Reads the arrays that the spec names, and makes the
 * anchors. Called while opening, by one thread. */
#include "dataset/frames/frames.h"

#include "anchors/bits.h"
#include "dataset/fields/select.h"
#include "dataset/fields/steps.h"
#include "dataset/frames/making.h"
#include "dataset/frames/missing_dates.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_set(const char *text)
{
    return text && *text;
}

/* Whether each frame is a sample, of the anchor alone. */
static bool is_plain(const struct dataset *dataset, const struct dataset_samples_spec *spec)
{
    return !dataset->private->has_steps && spec->more_step_count == 0 &&
           !is_set(spec->episodes_ends) && !is_set(spec->episodes_id) &&
           !is_set(spec->episodes_jumps) && spec->stride <= 1 && !is_set(spec->missing) &&
           !is_set(spec->where) && !is_set(spec->weight) && !is_set(spec->split_part) &&
           spec->split_end == 0 && !is_set(spec->split_range) &&
           spec->pad_before + spec->pad_after == 0;
}

/* Arrays
 * ---------------------------------------------------------------------------------------------- */

static bool splits_by_array(const struct dataset_samples_spec *spec)
{
    return is_set(spec->split_part) && is_set(spec->split_by) && !making_has_ranges(spec) &&
           strcmp(spec->split_by, "episode") != 0 && strcmp(spec->split_by, "sample") != 0;
}

static size_t list_paths(const struct making *making, const char *ret_paths[SELECT_MOST_ARRAYS])
{
    const struct dataset_samples_spec *spec = making->spec;
    const char *all[] = {spec->episodes_ends,
                         spec->episodes_id,
                         spec->episodes_jumps,
                         making->missing.count > 0 ? NULL : spec->missing,
                         making->where.count > 0 ? NULL : spec->where,
                         spec->weight,
                         spec->segments,
                         splits_by_array(spec) ? spec->split_by : NULL};
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is_set(all[i]))
            ret_paths[count++] = all[i];
    return count;
}

static enum status open_hierarchies(struct making *making, struct error *err)
{
    const struct dataset_private *private = making->dataset->private;
    const char *paths[SELECT_MOST_ARRAYS], *name;
    size_t count = list_paths(making, paths);
    enum status status = STATUS_OK;
    making->hierarchies = calloc(private->store_count, sizeof *making->hierarchies);
    if (!making->hierarchies)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the arrays of samples");
    for (size_t s = 0; count > 0 && status == STATUS_OK && s < private->store_count; s++) {
        status = select_open_arrays(making->options, store_joined_at(private->store, s, &name),
                                    paths, count, &making->hierarchies[s], err);
        if (status == STATUS_NOT_FOUND) /* whoever needs an array will say which */
            status = STATUS_OK;
    }
    return status;
}

static enum status find_array(const struct making *making, size_t store, const char *option,
                              const char *path, struct frame_array *ret_array, struct error *err)
{
    const struct zarr_hierarchy *hierarchy = making->hierarchies[store];
    const struct zarr_node *node = hierarchy ? select_find(making->options, hierarchy, path) : NULL;
    if (!node)
        return error_set(err, STATUS_NOT_FOUND, "%s: there is no array '%s' in the store %s%s",
                         option, path, dataset_store_text(making->dataset, store).text,
                         select_store_advice(path));
    return frame_array_init(making->dataset, store, option, node, ret_array, err);
}

enum status making_use_arrays(struct making *making, const char *option, const char *path,
                              making_use *use, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t s = 0; status == STATUS_OK && s < making->dataset->store_count; s++) {
        struct frame_array array;
        status = find_array(making, s, option, path, &array, err);
        if (status == STATUS_OK)
            status = use(making, &array, err);
    }
    return status;
}

/* Episodes and documents
 * ---------------------------------------------------------------------------------------------- */

static enum status use_ends(struct making *making, const struct frame_array *array,
                            struct error *err)
{
    bool is_last = array->store + 1 == making->dataset->store_count;
    return frame_runs_add_ends(&making->episodes, array, making->continuous && !is_last, err);
}

static enum status use_ids(struct making *making, const struct frame_array *array,
                           struct error *err)
{
    return frame_runs_add_values(&making->episodes, array, making->continuous, true, err);
}

static enum status use_times(struct making *making, const struct frame_array *array,
                             struct error *err)
{
    return frame_times_add(&making->times, array, making->continuous, err);
}

static enum status find_jumps(struct making *making, struct error *err)
{
    const char *path = making->spec->episodes_jumps;
    enum status status = making_use_arrays(making, "samples.episodes_jumps", path, use_times, err);
    return status != STATUS_OK ? status
                               : frame_times_runs(&making->times, making->dataset->frame_count,
                                                  &making->episodes, err);
}

static enum status use_documents(struct making *making, const struct frame_array *array,
                                 struct error *err)
{
    return frame_runs_add_ends(&making->documents, array, false, err);
}

static enum status find_episodes(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    if (is_set(spec->episodes_ends) + is_set(spec->episodes_id) + is_set(spec->episodes_jumps) > 1)
        return error_set(err, STATUS_INVALID,
                         "samples.episodes has more than one of ends, id and jumps: choose one");
    if (is_set(spec->episodes_ends))
        return making_use_arrays(making, "samples.episodes_ends", spec->episodes_ends, use_ends,
                                 err);
    if (is_set(spec->episodes_id))
        return making_use_arrays(making, "samples.episodes_id", spec->episodes_id, use_ids, err);
    if (is_set(spec->episodes_jumps))
        return find_jumps(making, err);
    return STATUS_OK;
}

/* Fields that have segments need documents, and documents such fields. */
static enum status find_documents(struct making *making, struct error *err)
{
    const struct dataset *dataset = making->dataset;
    const char *path = making->spec->segments, *user = NULL;
    for (size_t i = 0; i < dataset->field_count; i++)
        if (dataset->private->origins[i].segments)
            user = dataset->private->origins[i].name;
    if (user && !is_set(path))
        return error_set(err, STATUS_INVALID,
                         "field '%s' has segments: set samples.segments to the array of the ends "
                         "of documents",
                         user);
    if (!user && is_set(path))
        return error_set(err, STATUS_INVALID,
                         "samples.segments is '%s', but no field uses it: set segments: true of a "
                         "field with steps",
                         path);
    return user ? making_use_arrays(making, "samples.segments", path, use_documents, err)
                : STATUS_OK;
}

/* Masks
 * ---------------------------------------------------------------------------------------------- */

enum status making_bits(const struct making *making, uint64_t **bits, struct error *err)
{
    if (!*bits)
        *bits = calloc(bits_words(making->dataset->frame_count), sizeof **bits);
    return *bits ? STATUS_OK
                 : error_set(err, STATUS_NO_MEMORY, "no memory for a mask of the frames");
}

static enum status take_bools(void *argument, const struct frame_array *array, uint64_t first,
                              uint64_t count, const void *items, struct error *err)
{
    uint64_t *bits = argument, begin = array->first + first;
    const unsigned char *bytes = items;
    (void)err;
    for (uint64_t i = 0; i < count; i++)
        bits[(begin + i) / 64] |= (uint64_t)(bytes[i] != 0) << (begin + i) % 64;
    return STATUS_OK;
}

static enum status take_numbers(void *argument, const struct frame_array *array, uint64_t first,
                                uint64_t count, const void *items, struct error *err)
{
    uint64_t *bits = argument;
    for (uint64_t i = 0; i < count; i++) {
        int64_t frame = dtype_integer(array->view.dtype, items, i);
        if (frame < 0 || (uint64_t)frame >= array->frames)
            return error_set(err, STATUS_INVALID,
                             "item %" PRIu64 " is %" PRId64
                             ", but the numbers of the store's frames are 0 to %" PRIu64,
                             first + i, frame, array->frames - 1);
        bits_set(bits, array->first + (uint64_t)frame, array->first + (uint64_t)frame + 1);
    }
    return STATUS_OK;
}

static enum status read_bools(const struct frame_array *array, uint64_t *bits, struct error *err)
{
    enum status status = frame_array_expect_bools(array, err);
    if (status == STATUS_OK)
        status = frame_array_expect_frames(array, err);
    return status == STATUS_OK ? frame_array_read(array, take_bools, bits, err) : status;
}

static enum status use_where(struct making *making, const struct frame_array *array,
                             struct error *err)
{
    return read_bools(array, making->wanted, err);
}

/* Bools of all frames, or numbers of some. */
static enum status use_missing(struct making *making, const struct frame_array *array,
                               struct error *err)
{
    enum dtype dtype = array->view.dtype; /* xarray writes bools as integers of 8 bits */
    if (dtype == DTYPE_BOOL || dtype == DTYPE_INT8 || dtype == DTYPE_UINT8)
        return read_bools(array, making->blocked, err);
    enum status status = frame_array_expect_integers(array, err);
    if (status == STATUS_OK)
        status = frame_array_read(array, take_numbers, making->blocked, err);
    return status;
}

static enum status find_masks(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    enum status status = STATUS_OK;
    if (is_set(spec->missing))
        status = making_bits(making, &making->blocked, err);
    if (status == STATUS_OK && making->missing.count > 0)
        status = making_mark(making, "samples.missing", &making->missing, DATASET_MISSING,
                             making->blocked, err);
    else if (status == STATUS_OK && is_set(spec->missing))
        status = making_use_arrays(making, "samples.missing", spec->missing, use_missing, err);
    if (status == STATUS_OK && is_set(spec->where))
        status = making_bits(making, &making->wanted, err);
    if (status == STATUS_OK && making->where.count > 0)
        status = making_mark(making, "samples.where", &making->where, DATASET_WHERE, making->wanted,
                             err);
    else if (status == STATUS_OK && is_set(spec->where))
        status = making_use_arrays(making, "samples.where", spec->where, use_where, err);
    return status;
}

/* Frames without which an aligned field has no values. */
static enum status block_unmatched(struct making *making, struct error *err)
{
    const struct dataset *dataset = making->dataset;
    enum status status = STATUS_OK;
    for (size_t i = 0; !making->spec->is_settled && i < dataset->field_count; i++) {
        const int64_t *matches = dataset->private->origins[i].matches;
        for (uint64_t t = 0; matches && status == STATUS_OK && t < dataset->frame_count; t++)
            if (matches[t] < 0) {
                status = making_bits(making, &making->blocked, err);
                if (status == STATUS_OK)
                    bits_set(making->blocked, t, t + 1);
            }
    }
    return status;
}

/* What the stores' own attribute says, unless the configuration does. */
static enum status block_missing_dates(struct making *making, struct error *err)
{
    uint64_t *frames = NULL;
    size_t count = 0;
    if (making->spec->is_settled || is_set(making->spec->missing))
        return STATUS_OK;
    enum status status = missing_dates_find(making->dataset, &frames, &count, err);
    if (status == STATUS_OK && count > 0)
        status = making_bits(making, &making->blocked, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        bits_set(making->blocked, frames[i], frames[i] + 1);
    free(frames);
    return status;
}

/* Blocks the frames that have one of `items` ([count]) of the field's own store. */
static enum status block_items(struct making *making, const struct field_origin *origin,
                               const uint64_t *items, size_t count, struct error *err)
{
    uint64_t length = origin->store_fields[0].array.shape[0];
    uint64_t *missing = calloc(bits_words(length), sizeof *missing);
    enum status status = missing ? making_bits(making, &making->blocked, err)
                                 : error_set(err, STATUS_NO_MEMORY, "no memory for dates");
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        bits_set(missing, items[i], items[i] + 1);
    for (uint64_t t = 0; status == STATUS_OK && t < making->dataset->frame_count; t++) {
        int64_t item = origin->matches ? origin->matches[t] : (int64_t)t;
        if (item >= 0 && bits_read(missing, (uint64_t)item, 1))
            bits_set(making->blocked, t, t + 1);
    }
    free(missing);
    return status;
}

/* What the stores that fields have of their own say. Which items an index gives is not known yet.
 */
static enum status block_missing_items(struct making *making, struct error *err)
{
    const struct dataset *dataset = making->dataset;
    enum status status = STATUS_OK;
    if (making->spec->is_settled || is_set(making->spec->missing))
        return STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        uint64_t *items = NULL;
        size_t count = 0;
        if (origin->own_store == 0 || origin->axis != 0 || (origin->index && !origin->matches))
            continue;
        status = missing_dates_add(dataset, origin->own_store, 0,
                                   origin->store_fields[0].array.shape[0], &items, &count, err);
        if (status == STATUS_OK && count > 0)
            status = block_items(making, origin, items, count, err);
        free(items);
    }
    return status;
}

/* Anchors
 * ---------------------------------------------------------------------------------------------- */

static enum status build(struct making *making, struct error *err)
{
    const struct dataset *dataset = making->dataset;
    const struct dataset_samples_spec *spec = making->spec;
    struct anchors_options options = {
        .store_frames = dataset->store_frames,
        .store_count = dataset->store_count,
        .row_length = dataset->row_length,
        .continuous = making->continuous,
        .episode_ends = making->episodes.ends,
        .episode_count = making->episodes.count,
        .stride = spec->stride > 0 ? spec->stride : 1,
        .pad_before = spec->pad_before,
        .pad_after = spec->pad_after,
        .blocked = making->blocked,
        .wanted = making->wanted,
        .weights = making->weights,
        .draws = spec->draws,
    };
    int32_t *steps;
    enum status status = steps_union(dataset, SIZE_MAX, &steps, &options.step_count, err);
    if (status == STATUS_OK && spec->more_step_count > 0)
        status =
            steps_merge(&steps, &options.step_count, spec->more_steps, spec->more_step_count, err);

    if (status != STATUS_OK)
        return status;
    options.steps = steps;
    status = anchors_build(&options, &dataset->private->anchors, &dataset->private->counts, err);
    free(steps);
    return status;
}

static enum status make(struct making *making, struct error *err)
{
    struct dataset_private *private = making->dataset->private;
    enum status status = open_hierarchies(making, err);
    if (status == STATUS_OK)
        status = find_episodes(making, err);
    if (status == STATUS_OK)
        status = find_documents(making, err);
    if (status == STATUS_OK)
        status = find_masks(making, err);
    if (status == STATUS_OK)
        status = making_weigh(making, err);
    if (status == STATUS_OK)
        status = making_split(making, err);
    if (status == STATUS_OK)
        status = build(making, err);
    if (status != STATUS_OK)
        return status;
    private->document_ends = making->documents.ends; /* now the dataset's */
    private->document_count = making->documents.count;
    making->documents.ends = NULL;
    return STATUS_OK;
}

static enum status read_ranges(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    enum status status = range_list_read(spec->missing, &making->missing, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "samples.missing: ");
    status = range_list_read(spec->where, &making->where, err);
    return status != STATUS_OK ? error_prefix(err, status, "samples.where: ") : STATUS_OK;
}

enum status samples_settle(struct dataset *dataset, const struct dataset_options *options,
                           struct error *err)
{
    struct making making = {.dataset = dataset,
                            .options = options,
                            .spec = &options->samples,
                            .continuous = options->samples.continuous};
    enum status status = read_ranges(&making, err);
    if (status == STATUS_OK)
        status = block_missing_dates(&making, err);
    if (status == STATUS_OK)
        status = block_missing_items(&making, err);
    if (status == STATUS_OK)
        status = block_unmatched(&making, err);
    if (status == STATUS_OK && !making.blocked && is_plain(dataset, making.spec) &&
        !is_set(making.spec->segments))
        return STATUS_OK;
    if (status == STATUS_OK)
        status = make(&making, err);
    range_list_done(&making.missing);
    range_list_done(&making.where);
    for (size_t s = 0; making.hierarchies && s < dataset->store_count; s++)
        zarr_hierarchy_free(making.hierarchies[s]);
    free(making.hierarchies);
    free(making.blocked);
    free(making.wanted);
    free(making.weights);
    frame_runs_done(&making.episodes);
    frame_runs_done(&making.groups);
    frame_runs_done(&making.documents);
    frame_times_done(&making.times);
    return status;
}
