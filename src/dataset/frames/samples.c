/* Which frames are samples: see samples_spec.h. Reads the arrays that the spec names, and makes the
 * anchors. Called while opening, by one thread. */
#include "dataset/frames/frames.h"

#include "anchors/bits.h"
#include "anchors/split.h"
#include "dataset/fields/select.h"
#include "dataset/fields/steps.h"
#include "dataset/frames/frame_runs.h"
#include "dataset/frames/frame_times.h"
#include "dataset/frames/missing_dates.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What the anchors are made of. */
struct making {
    struct dataset *dataset;
    const struct dataset_options *options;
    const struct dataset_samples_spec *spec;
    struct zarr_hierarchy **hierarchies; /* [stores], owned: of the named arrays */
    struct frame_runs episodes, groups, documents;
    struct frame_times times;   /* of frames, where these tell episodes */
    uint64_t *blocked, *wanted; /* owned bitmaps of frames; NULL: none blocked, all wanted */
    bool continuous;
};

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
           !is_set(spec->where) && !is_set(spec->split_part) && spec->split_end == 0 &&
           spec->pad_before + spec->pad_after == 0;
}

/* Arrays
 * ---------------------------------------------------------------------------------------------- */

static bool splits_by_array(const struct dataset_samples_spec *spec)
{
    return is_set(spec->split_part) && is_set(spec->split_by) &&
           strcmp(spec->split_by, "episode") != 0 && strcmp(spec->split_by, "sample") != 0;
}

static size_t list_paths(const struct dataset_samples_spec *spec,
                         const char *ret_paths[SELECT_MOST_ARRAYS])
{
    const char *all[] = {spec->episodes_ends,
                         spec->episodes_id,
                         spec->episodes_jumps,
                         spec->missing,
                         spec->where,
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
    size_t count = list_paths(making->spec, paths);
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

/* Calls use() for the array of each store. */
typedef enum status use_array(struct making *making, const struct frame_array *array,
                              struct error *err);

static enum status use_arrays(struct making *making, const char *option, const char *path,
                              use_array *use, struct error *err)
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
    enum status status = use_arrays(making, "samples.episodes_jumps", path, use_times, err);
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
        return use_arrays(making, "samples.episodes_ends", spec->episodes_ends, use_ends, err);
    if (is_set(spec->episodes_id))
        return use_arrays(making, "samples.episodes_id", spec->episodes_id, use_ids, err);
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
    return user ? use_arrays(making, "samples.segments", path, use_documents, err) : STATUS_OK;
}

/* Masks
 * ---------------------------------------------------------------------------------------------- */

/* A bitmap of all frames; NULL: no memory. Owned by `making`. */
static uint64_t *make_bits(const struct making *making, uint64_t **bits)
{
    if (!*bits)
        *bits = calloc(bits_words(making->dataset->frame_count), sizeof **bits);
    return *bits;
}

static enum status no_bits(struct error *err)
{
    return error_set(err, STATUS_NO_MEMORY, "no memory for a mask of the frames");
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
        status = make_bits(making, &making->blocked)
                     ? use_arrays(making, "samples.missing", spec->missing, use_missing, err)
                     : no_bits(err);
    if (status == STATUS_OK && is_set(spec->where))
        status = make_bits(making, &making->wanted)
                     ? use_arrays(making, "samples.where", spec->where, use_where, err)
                     : no_bits(err);
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
    if (status == STATUS_OK && count > 0 && !make_bits(making, &making->blocked))
        status = no_bits(err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        bits_set(making->blocked, frames[i], frames[i] + 1);
    free(frames);
    return status;
}

/* Splits
 * ---------------------------------------------------------------------------------------------- */

static enum status use_groups(struct making *making, const struct frame_array *array,
                              struct error *err)
{
    return frame_runs_add_values(&making->groups, array, false, false, err);
}

/* Without an array of episodes, a store is one, or all stores are one. */
static void group_by_episode(const struct making *making, struct split_groups *groups)
{
    const struct dataset *dataset = making->dataset;
    groups->ends = making->episodes.ends;
    groups->run_count = making->episodes.count;
    if (groups->ends)
        return;
    groups->ends = dataset->store_frames + (making->continuous ? dataset->store_count : 1);
    groups->run_count = making->continuous ? 1 : dataset->store_count;
}

static enum status find_groups(struct making *making, struct split_groups *groups,
                               struct error *err)
{
    const char *by = making->spec->split_by;
    if (!is_set(by) || strcmp(by, "episode") == 0) {
        group_by_episode(making, groups);
        return STATUS_OK;
    }
    if (strcmp(by, "sample") == 0)
        return STATUS_OK;
    enum status status = use_arrays(making, "samples.split_by", by, use_groups, err);
    groups->ends = making->groups.ends;
    groups->values = making->groups.values;
    groups->run_count = making->groups.count;
    return status;
}

static enum status add_part(struct dataset_private *private, const char *name,
                            struct split_content content, struct error *err)
{
    struct dataset_part *parts = realloc(private->parts, (private->part_count + 1) * sizeof *parts);
    char *copy = strdup(name);
    private->parts = parts ? parts : private->parts;
    if (!parts || !copy) {
        free(copy);
        return error_set(err, STATUS_NO_MEMORY, "no memory for parts of a split");
    }
    parts[private->part_count++] =
        (struct dataset_part){copy, content.runs, content.frames, content.first, content.end};
    return STATUS_OK;
}

/* What all parts have, for people. A walk over single frames would take as long as the rest of the
 * start. */
static enum status note_parts(struct making *making, const struct split_options *options,
                              const struct split_groups *groups, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t p = 0; p < options->part_count && groups->ends && status == STATUS_OK; p++) {
        struct split_options one = *options;
        struct split split;
        one.part = options->parts[p].name;
        status = split_init(&one, groups, &split, err);
        if (status == STATUS_OK)
            status =
                add_part(making->dataset->private, one.part, split_content(&split, groups), err);
    }
    return status;
}

static enum status split_into_parts(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    struct split_part parts[SPLIT_MOST_PARTS] = {0};
    struct split_options options = {.parts = parts,
                                    .part_count = spec->split_part_count,
                                    .part = spec->split_part,
                                    .seed = spec->split_seed};
    struct split_groups groups = {.store_frames = making->dataset->store_frames,
                                  .store_count = making->dataset->store_count};
    struct split split;
    for (size_t i = 0; i < spec->split_part_count && i < SPLIT_MOST_PARTS; i++)
        parts[i] = (struct split_part){spec->split_parts[i].name, spec->split_parts[i].fraction};
    enum status status = find_groups(making, &groups, err);
    if (status == STATUS_OK)
        status = split_init(&options, &groups, &split, err);
    if (status != STATUS_OK)
        return status;
    split_block(&split, &groups, making->blocked);
    return note_parts(making, &options, &groups, err);
}

/* The episodes that the range has frames of. */
static enum status note_range(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    uint64_t frames = making->dataset->frame_count;
    struct split_groups groups = {.store_frames = making->dataset->store_frames,
                                  .store_count = making->dataset->store_count};
    struct split_content content = {
        .first = spec->split_begin ? add_sat(spec->split_begin, spec->split_gap) : 0,
        .end = min_u64(spec->split_end, frames)};
    content.frames = content.end - content.first;
    group_by_episode(making, &groups);
    for (size_t run = 0; run < groups.run_count; run++) {
        uint64_t begin = run ? groups.ends[run - 1] : 0;
        content.runs += max_u64(begin, content.first) < min_u64(groups.ends[run], content.end);
    }
    return add_part(making->dataset->private, "", content, err);
}

static enum status find_part(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    bool has_parts = is_set(spec->split_part), has_range = spec->split_end > 0;
    enum status status = STATUS_OK;
    if (!has_parts && !has_range)
        return STATUS_OK;
    if (!make_bits(making, &making->blocked))
        return no_bits(err);
    if (has_parts)
        status = split_into_parts(making, err);
    if (status == STATUS_OK && has_range)
        status = split_block_range(spec->split_begin, spec->split_end, spec->split_gap,
                                   making->dataset->frame_count, making->blocked, err);
    if (status == STATUS_OK && has_range && !has_parts)
        status = note_range(making, err);
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
        status = find_part(making, err);
    if (status == STATUS_OK)
        status = build(making, err);
    if (status != STATUS_OK)
        return status;
    private->document_ends = making->documents.ends; /* now the dataset's */
    private->document_count = making->documents.count;
    making->documents.ends = NULL;
    return STATUS_OK;
}

enum status samples_settle(struct dataset *dataset, const struct dataset_options *options,
                           struct error *err)
{
    struct making making = {.dataset = dataset,
                            .options = options,
                            .spec = &options->samples,
                            .continuous = options->samples.continuous};
    enum status status = block_missing_dates(&making, err);
    if (status == STATUS_OK && !making.blocked && is_plain(dataset, making.spec) &&
        !is_set(making.spec->segments))
        return STATUS_OK;
    if (status == STATUS_OK)
        status = make(&making, err);
    for (size_t s = 0; making.hierarchies && s < dataset->store_count; s++)
        zarr_hierarchy_free(making.hierarchies[s]);
    free(making.hierarchies);
    free(making.blocked);
    free(making.wanted);
    frame_runs_done(&making.episodes);
    frame_runs_done(&making.groups);
    frame_runs_done(&making.documents);
    frame_times_done(&making.times);
    return status;
}
