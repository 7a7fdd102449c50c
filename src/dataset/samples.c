/* Which frames are samples: see samples_spec.h. Reads the arrays that the spec names, and makes the
 * anchors. Called while opening, by one thread. */
#include "dataset/dataset_internal.h"

#include "anchors/anchors.h"

#include <stdlib.h>

static bool is_set(const char *text)
{
    return text && *text;
}

/* Whether each frame is a sample, of the anchor alone. */
static bool is_plain(const struct dataset *dataset, const struct dataset_samples_spec *spec)
{
    return !dataset->private->has_steps && !is_set(spec->episodes_ends) &&
           !is_set(spec->episodes_id) && spec->stride <= 1 && !is_set(spec->missing) &&
           !is_set(spec->where) && !is_set(spec->split_part) && spec->split_end == 0 &&
           spec->pad_before + spec->pad_after == 0;
}

enum status samples_settle(struct dataset *dataset, const struct dataset_samples_spec *spec,
                           struct error *err)
{
    struct dataset_private *private = dataset->private;
    struct anchors_options options = {
        .store_frames = private->first_frame,
        .store_count = private->store_count,
        .row_length = dataset->row_length,
        .continuous = spec->continuous,
        .stride = spec->stride > 0 ? spec->stride : 1,
        .pad_before = spec->pad_before,
        .pad_after = spec->pad_after,
    };
    struct anchors_counts counts;
    int32_t *steps;

    if (is_plain(dataset, spec))
        return STATUS_OK;
    enum status status = steps_union(dataset, SIZE_MAX, &steps, &options.step_count, err);
    if (status != STATUS_OK)
        return status;
    options.steps = steps;
    status = anchors_build(&options, &private->anchors, &counts, err);
    free(steps);
    return status;
}
