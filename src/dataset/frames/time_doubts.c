/* What the user should hear of the times of frames: where the coordinate of the sample axis jumps,
 * and samples go across. Called after opening, by one thread. */
#include "dataset/frames/frames.h"

#include "anchors/anchors.h"
#include "base/number.h"
#include "base/size.h"
#include "dataset/fields/steps.h"
#include "dataset/frames/frame_coordinate.h"
#include "dataset/frames/frame_times.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds the times of a store. */
static enum status add_store(const struct dataset *dataset, size_t s, const char *path,
                             struct frame_times *times)
{
    struct frame_coordinate coordinate;
    enum status status = frame_coordinate_open(dataset, s, "times", path, FRAME_COORDINATE_FRAMES,
                                               &coordinate, NULL);
    if (status != STATUS_OK)
        return status;
    status = frame_times_add(times, &coordinate.array, dataset->private->continuous, NULL);
    frame_coordinate_done(&coordinate);
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

static void describe_frame(uint64_t frame, double time, const struct dates_scale *scale,
                           struct text *out)
{
    char date[DATASET_DATE_BYTES];
    text_append(out, "frame %" PRIu64, frame);
    if (isfinite(scale->origin) && dates_write(scale->calendar, time, date))
        text_append(out, " (%s)", date);
    else
        text_append(out, " (%.10g s)", time);
}

static void describe_jumps(const struct frame_times *times, const char *path, struct jumps jumps,
                           struct text *out)
{
    const char *slash = strchr(path, '/') ? "/" : "";
    if (jumps.count == 0)
        return;
    text_append(out, "%s: array '%s': the time jumps at %s frame%s, first from ",
                jumps.are_crossed ? "warning" : "note", text_shown(path).text,
                count_format(jumps.count).text, count_plural(jumps.count));
    describe_frame(jumps.first - 1, jumps.time - jumps.difference, &times->scale, out);
    text_append(out, " to ");
    describe_frame(jumps.first, jumps.time, &times->scale, out);
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
    char path[ZARR_PATH_BYTES] = "";
    int32_t *steps = NULL;
    size_t count;
    enum status status = frame_coordinate_find(dataset, path, NULL);
    for (size_t s = 0; status == STATUS_OK && s < dataset->store_count; s++)
        status = add_store(dataset, s, path, &times);
    if (status == STATUS_OK)
        status = frame_times_settle(&times, NULL);
    if (status == STATUS_OK)
        status = steps_union(dataset, SIZE_MAX, &steps, &count, NULL);
    if (status == STATUS_OK)
        describe_jumps(&times, path, count_jumps(dataset, &times, steps, count), out);
    free(steps);
    frame_times_done(&times);
}
