/* How samples.c makes the anchors, and what parts.c adds. Inside src/dataset/frames; used while
 * opening, by one thread. */
#ifndef PENSTOCK_DATASET_FRAMES_MAKING_H
#define PENSTOCK_DATASET_FRAMES_MAKING_H

#include "dataset/frames/frame_runs.h"
#include "dataset/frames/frame_times.h"
#include "dataset/options.h"
#include "dataset/ranges.h"

/* What the anchors are made of. */
struct making {
    struct dataset *dataset;
    const struct dataset_options *options;
    const struct dataset_samples_spec *spec;
    struct zarr_hierarchy **hierarchies; /* [stores], owned: of the named arrays */
    struct frame_runs episodes, groups, documents;
    struct frame_times times;         /* of frames, where these tell episodes */
    struct range_list missing, where; /* as the spec has them; empty: arrays, or nothing */
    uint64_t *blocked, *wanted;       /* owned bitmaps of frames; NULL: none blocked, all wanted */
    double *weights;                  /* owned, of frames; NULL: there are none */
    bool continuous;
};

/* Calls use() for the array of each store, of those that the spec names. NOT_FOUND: a store has
 * none. Errors as of use() and frame_array_init(). */
typedef enum status making_use(struct making *making, const struct frame_array *array,
                               struct error *err);
MUST_USE enum status making_use_arrays(struct making *making, const char *option, const char *path,
                                       making_use *use, struct error *err);

/* A bitmap of all frames at *bits, which `making` owns, zeros unless it is there. NO_MEMORY. */
MUST_USE enum status making_bits(const struct making *making, uint64_t **bits, struct error *err);

/* parts.c: sets the bits of `blocked` of frames outside the split's part, and notes what each part
 * has. INVALID: a split that cannot be made. NO_MEMORY. Errors as of making_use_arrays() and
 * frame_ranges_find(). */
MUST_USE enum status making_split(struct making *making, struct error *err);

/* parts.c: sets the bits of the frames in ranges, and notes each range. Errors as of
 * frame_ranges_find(). */
MUST_USE enum status making_mark(struct making *making, const char *option,
                                 const struct range_list *list, enum dataset_part_kind kind,
                                 uint64_t *bits, struct error *err);

/* frame_weights.c: reads the weights, if the spec names any, and leaves frames of weight 0 out of
 * `wanted`. INVALID: a weight is negative or not finite, or all are 0. NO_MEMORY. Errors as of
 * making_use_arrays(). */
MUST_USE enum status making_weigh(struct making *making, struct error *err);

/* Whether the parts of the split are ranges. */
bool making_has_ranges(const struct dataset_samples_spec *spec);

#endif
