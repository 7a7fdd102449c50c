/* The coordinate of frames: an array that has a number for each frame, such as times. The sample
 * axis's own is the array of times along this axis; another one is known by its path. Called while
 * opening or after, by one thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FRAMES_FRAME_COORDINATE_H
#define PENSTOCK_DATASET_FRAMES_FRAME_COORDINATE_H

#include "dataset/frames/dates.h"
#include "dataset/frames/frame_array.h"

struct frame_coordinate {
    struct zarr_hierarchy *hierarchy; /* owned */
    struct frame_array array;
    /* What its numbers mean: */
    struct dates_scale scale;
    bool is_time; /* they are times, which are dates if the scale's origin is finite */
};

/* The path of the sample axis's own coordinate, by the first store: of the arrays of times with one
 * item for each frame that lie along the same axis the one that is named as the axis, or else the
 * first one. NOT_FOUND: there is none. Blocks on the store; errors as of
 * zarr_hierarchy_open_wanted(). */
MUST_USE enum status frame_coordinate_find(const struct dataset *dataset,
                                           char ret_path[ZARR_PATH_BYTES], struct error *err);

#define FRAME_COORDINATE_FRAMES UINT64_MAX

/* Opens the array `path` of store number `s`, with `items` items, or one for each frame
 * (FRAME_COORDINATE_FRAMES); `option` is in messages. To be closed by frame_coordinate_done().
 * Blocks on the store. NOT_FOUND: there is no such array. Errors as of
 * frame_array_init(), frame_array_expect_numbers() and frame_array_expect_frames(). */
MUST_USE enum status frame_coordinate_open(const struct dataset *dataset, size_t s,
                                           const char *option, const char *path, uint64_t items,
                                           struct frame_coordinate *ret, struct error *err);
void frame_coordinate_done(struct frame_coordinate *coordinate);

#endif
