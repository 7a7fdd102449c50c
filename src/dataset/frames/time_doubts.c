/* What the user should hear of the times of frames: where the coordinate of the sample axis jumps,
 * and samples go across. Called after opening, by one thread. */
#include "dataset/frames/frames.h"

#include "anchors/anchors.h"
#include "base/number.h"
#include "base/size.h"
#include "dataset/fields/steps.h"
#include "dataset/frames/frame_times.h"
#include "zarr/hierarchy/axes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the field's array: an array of one item for each frame that holds times. */
static bool is_times(const struct zarr_node *node, uint64_t frames)
{
    struct zarr_encoding encoding;
    if (node->status != STATUS_OK || node->array.rank != 1 || node->array.shape[0] != frames ||
        node->array.item_length > 0)
        return false;
    zarr_node_encoding(node, &encoding);
    return strstr(encoding.units, " since ") || strchr(node->array.stored_type, 'M');
}

/* What the sample axis of the first field that has one is called, and the group of the field. */
struct sample_axis {
    char group[ZARR_PATH_BYTES]; /* with a '/' behind; "": the root */
    char name[ZARR_PATH_BYTES];  /* "": none */
};

static bool find_axis(const struct dataset *dataset, struct sample_axis *ret)
{
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        struct zarr_axis_names names;
        if (!origin->array || origin->index)
            continue;
        const char *path = origin->array->array.path, *slash = strrchr(path, '/');
        (void)zarr_node_axis_names(origin->array, &names);
        snprintf(ret->group, sizeof ret->group, "%.*s", slash ? (int)(slash - path) + 1 : 0, path);
        snprintf(ret->name, sizeof ret->name, "%s", names.names[origin->axis]);
        return true;
    }
    return false;
}

/* Of the arrays that are known: the coordinate of the axis, or the first other array of times. */
static const struct zarr_node *choose(const struct zarr_hierarchy *hierarchy,
                                      const struct sample_axis *axis, uint64_t frames)
{
    const struct zarr_node *found = NULL;
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        const char *slash = strrchr(node->array.path, '/');
        struct zarr_axis_names names;
        if (!is_times(node, frames))
            continue;
        (void)zarr_node_axis_names(node, &names);
        if (strcmp(names.names[0], axis->name) != 0)
            continue;
        if (!found || strcmp(slash ? slash + 1 : node->array.path, axis->name) == 0)
            found = node;
    }
    return found;
}

/* Opens the arrays that may be of times in store number `s`: all where one request tells of them,
 * and the coordinate of the axis alone ("time" of an axis without a name) where each array is asked
 * for. */
static enum status open_arrays(const struct dataset *dataset, size_t s,
                               const struct sample_axis *axis, struct zarr_hierarchy **ret)
{
    char path[2 * ZARR_PATH_BYTES];
    const char *name, *paths[] = {path};
    struct zarr_wanted wanted = {.paths = paths, .path_count = 1};
    snprintf(path, sizeof path, "%s%s", axis->group, axis->name[0] ? axis->name : "time");
    if (dataset->private->hierarchies[s]->consolidated)
        wanted = (struct zarr_wanted){.group = ""};
    return zarr_hierarchy_open_wanted(store_joined_at(dataset->private->store, s, &name), &wanted,
                                      ret, NULL);
}

/* Adds the times of a store. `path`: of the array in the first store, set there. */
static enum status add_store(const struct dataset *dataset, size_t s,
                             const struct sample_axis *axis, char path[ZARR_PATH_BYTES],
                             struct frame_times *times)
{
    uint64_t frames = dataset->store_frames[s + 1] - dataset->store_frames[s];
    struct zarr_hierarchy *hierarchy = NULL;
    struct frame_array array;
    enum status status = open_arrays(dataset, s, axis, &hierarchy);
    const struct zarr_node *node = NULL;
    if (status == STATUS_OK)
        node = s == 0 ? choose(hierarchy, axis, frames) : zarr_hierarchy_find(hierarchy, path);
    if (status == STATUS_OK)
        status =
            node ? frame_array_init(dataset, s, "times", node, &array, NULL) : STATUS_NOT_FOUND;
    if (status == STATUS_OK)
        status = frame_times_add(times, &array, dataset->private->continuous, NULL);
    if (status == STATUS_OK && s == 0)
        snprintf(path, ZARR_PATH_BYTES, "%s", node->array.path);
    zarr_hierarchy_free(hierarchy);
    return status;
}

/* Steps
 * ---------------------------------------------------------------------------------------------- */

/* Whether a sample has frames before the frame `jump` as well as later ones. */
static bool is_crossed(const struct dataset *dataset, uint64_t jump, int32_t first, int32_t last)
{
    const struct anchors *anchors = dataset->private->anchors;
    struct anchors_episode episode = anchors_episode_of(anchors, jump);
    int64_t low = (int64_t)jump - last, high = (int64_t)jump - first - 1;
    uint64_t row;
    if (episode.first == jump)
        return false;
    low = low < (int64_t)episode.first ? (int64_t)episode.first : low;
    high = high >= (int64_t)episode.end ? (int64_t)episode.end - 1 : high;
    for (int64_t t = low; t <= high; t++)
        if (anchors_offset_of(anchors, (uint64_t)t, &row) != UINT64_MAX)
            return true;
    return false;
}

/* The jumps, or those that samples cross. */
struct jumps {
    uint64_t count, first;
    double time, difference; /* of the first one, and since the frame before: seconds */
    bool are_crossed;
};

static struct jumps count_jumps(const struct dataset *dataset, const struct frame_times *times,
                                const int32_t *steps, size_t step_count)
{
    struct jumps jumps = {.are_crossed = dataset->private->anchors && step_count > 1};
    for (size_t i = 0; i < times->count; i++) {
        const struct frame_times_run *run = &times->runs[i];
        if (!frame_times_jumps(times, run) || run->difference == INFINITY)
            continue;
        for (uint64_t k = 0; k < run->count; k++) {
            uint64_t frame = run->first + k;
            if (jumps.are_crossed && !is_crossed(dataset, frame, steps[0], steps[step_count - 1]))
                continue;
            if (jumps.count++ > 0)
                continue;
            jumps.first = frame;
            jumps.time = run->time + (double)k * run->difference;
            jumps.difference = run->difference;
        }
    }
    return jumps;
}

static void describe_frame(uint64_t frame, double time, bool is_date, struct text *out)
{
    char date[DATASET_DATE_BYTES];
    text_append(out, "frame %" PRIu64, frame);
    if (is_date && dates_write(time, date))
        text_append(out, " (%s)", date);
    else
        text_append(out, " (%.10g s)", time);
}

static void describe_jumps(const struct frame_times *times, const char *path, struct jumps jumps,
                           struct text *out)
{
    const char *slash = strchr(path, '/') ? "/" : "";
    bool is_date = isfinite(times->scale.origin);
    if (jumps.count == 0)
        return;
    text_append(out, "%s: array '%s': the time jumps at %s frame%s, first from ",
                jumps.are_crossed ? "warning" : "note", text_shown(path).text,
                count_format(jumps.count).text, count_plural(jumps.count));
    describe_frame(jumps.first - 1, jumps.time - jumps.difference, is_date, out);
    text_append(out, " to ");
    describe_frame(jumps.first, jumps.time, is_date, out);
    text_append(out,
                jumps.are_crossed ? ", and samples go across: write samples: {episodes: {jumps: "
                                    "%s%s}}, so that a new episode begins at each jump\n"
                                  : "; this matters to samples of several steps alone, which need "
                                    "samples: {episodes: {jumps: %s%s}}\n",
                slash, text_shown(path).text);
}

void time_doubts_describe(const struct dataset *dataset, struct text *out)
{
    struct frame_times times = {0};
    struct sample_axis axis;
    char path[ZARR_PATH_BYTES] = "";
    int32_t *steps = NULL;
    size_t count;
    enum status status = find_axis(dataset, &axis) ? STATUS_OK : STATUS_NOT_FOUND;
    for (size_t s = 0; status == STATUS_OK && s < dataset->store_count; s++)
        status = add_store(dataset, s, &axis, path, &times);
    if (status == STATUS_OK)
        status = frame_times_settle(&times, NULL);
    if (status == STATUS_OK)
        status = steps_union(dataset, SIZE_MAX, &steps, &count, NULL);
    if (status == STATUS_OK)
        describe_jumps(&times, path, count_jumps(dataset, &times, steps, count), out);
    free(steps);
    frame_times_done(&times);
}
