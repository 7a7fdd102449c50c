/* What a sample is, as the configuration asks for it: `samples` in dataset_options.
 *
 * A frame is one index along the sample axis, over all stores. A sample is an anchor, which is a
 * frame, and for each field the frames at `steps` from the anchor. A spec of zeros means: each
 * frame is a sample.
 *
 * Arrays are named by their paths, as fields' arrays are (dataset_options.group). Each store has
 * such an array of its own, and frames in the array count from the store's first frame.
 */
#ifndef PENSTOCK_DATASET_SAMPLES_SPEC_H
#define PENSTOCK_DATASET_SAMPLES_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    DATASET_MAX_STEPS = 65536,        /* of a field */
    DATASET_MAX_STEP = (1 << 24) - 1, /* a step is in [-DATASET_MAX_STEP, DATASET_MAX_STEP] */
};

/* What stands at steps that lie outside the sample's episode. */
enum samples_fill {
    SAMPLES_FILL_EDGE, /* the episode's nearest frame */
    SAMPLES_FILL_ZERO,
};

/* One part of a split. */
struct samples_part {
    const char *name;
    double fraction;   /* of the groups: above 0; those of all parts sum up to at most 1 */
    const char *range; /* instead: frames by their coordinate (dataset/ranges.h). NULL: by fraction;
                        * all parts are of one kind */
};

/* All pointers are borrowed during dataset_open(). A string that is NULL or "" means none. */
struct dataset_samples_spec {
    const char *episodes_ends;  /* array of integers: the frame behind each episode, rising */
    const char *episodes_id;    /* array of integers, one a frame: the episode of the frame */
    const char *episodes_jumps; /* array of integers or floating point, one a frame: the time of the
                                 * frame; a new episode begins where the time jumps */
    bool continuous;            /* the end of a store is no end of an episode */
    uint64_t stride;            /* between anchors, from an episode's first frame; 0 stands for 1 */
    uint64_t pad_before, pad_after; /* how many steps of the union of all fields may be missing */
    enum samples_fill fill;
    const int32_t *more_steps; /* [more_step_count], in any order: of fields that the dataset does
                                * not have; samples are where they are with these fields */
    size_t more_step_count;
    const char *missing; /* frames that no sample may touch: array of bool (or int8, uint8), one a
                          * frame; or of wider integers, numbers of frames; or a list of ranges
                          * (dataset/ranges.h) */
    bool is_settled;     /* of an unpacked dataset: its anchors, or none, are known, and the stores'
                          * own attribute missing_dates, which counts without `missing`, is not read */
    const char *where;   /* array of bool, one a frame: frames that may be anchors; or a list of
                          * ranges */
    const char *weight;  /* array of numbers, one a frame, at least 0: how often in an epoch the
                          * sample there comes, rounded up or down */
    uint64_t draws;      /* instead so many samples an epoch, drawn in proportion with replacement;
                          * 0: no */
    /* Split into parts by groups of frames; split_part NULL: no such split. */
    const char *split_part; /* the part whose samples the dataset has */
    const char *split_by;   /* "episode" (NULL as well), "sample", or an array of integers, one a
                             * frame: the group of the frame */
    const struct samples_part *split_parts; /* [split_part_count] */
    size_t split_part_count;
    uint64_t split_seed;
    /* Split by a range of frames [begin, end); both 0: no such split. The first `split_gap` frames
     * of the range are left out, unless the range begins at 0. `end` UINT64_MAX: the last frame.
     * The gap is that of parts by ranges, too. */
    uint64_t split_begin, split_end, split_gap;
    const char *split_range; /* instead of begin and end: by the coordinate (dataset/ranges.h) */
    const char *segments;    /* array of integers: the frame behind each document, rising */
    uint64_t row_chunks; /* chunks of the leading array in a row; 0: as many as keep what halos cost
                          * low */
};

#endif
