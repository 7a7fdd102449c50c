/* See making.h: the weights of frames. */
#include "dataset/frames/making.h"

#include "anchors/bits.h"
#include "dataset/frames/frame_array.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static enum status take_weights(void *argument, const struct frame_array *array, uint64_t first,
                                uint64_t count, const void *items, struct error *err)
{
    double *weights = argument;
    for (uint64_t i = 0; i < count; i++) {
        double weight = frame_array_number(array, items, i);
        if (!isfinite(weight) || weight < 0)
            return error_set(err, STATUS_INVALID,
                             "item %" PRIu64
                             " is %g: a weight must be a number of at least 0, and finite; 0 keeps "
                             "a sample out",
                             first + i, weight);
        weights[array->first + first + i] = weight;
    }
    return STATUS_OK;
}

static enum status use_weights(struct making *making, const struct frame_array *array,
                               struct error *err)
{
    enum status status = frame_array_expect_numbers(array, err);
    if (status == STATUS_OK)
        status = frame_array_expect_frames(array, err);
    return status == STATUS_OK ? frame_array_read(array, take_weights, making->weights, err)
                               : status;
}

/* A frame of weight 0 is not wanted. */
static enum status leave_out(struct making *making, struct error *err)
{
    uint64_t frames = making->dataset->frame_count, left = 0;
    bool all = !making->wanted;
    enum status status = making_bits(making, &making->wanted, err);
    if (status != STATUS_OK)
        return status;
    if (all)
        bits_set(making->wanted, 0, frames);
    for (uint64_t t = 0; t < frames; t++) {
        left += making->weights[t] > 0;
        if (making->weights[t] == 0)
            making->wanted[t / 64] &= ~(UINT64_C(1) << t % 64);
    }
    if (left == 0)
        return error_set(err, STATUS_INVALID,
                         "samples.weight: all weights of the array '%s' are 0: no sample is left",
                         making->spec->weight);
    return STATUS_OK;
}

enum status making_weigh(struct making *making, struct error *err)
{
    const char *path = making->spec->weight;
    if (!path || !*path)
        return STATUS_OK;
    making->weights = calloc(making->dataset->frame_count, sizeof *making->weights);
    if (!making->weights)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the weights of samples");
    enum status status = making_use_arrays(making, "samples.weight", path, use_weights, err);
    return status == STATUS_OK ? leave_out(making, err) : status;
}
