/* Random crops: the part of a frame that a sample has, whose place is a function of the sample's
 * key. All steps of a sample, and all fields of a crop group, have the same place.
 *
 *     origin along the k-th cropped axis = random_below(random_u64(key, group, k), choices[k])
 *
 * Rows and held memory have whole frames. The crop is made when a frame is copied from there.
 * Pure; any thread.
 */
#ifndef PENSTOCK_DATASET_CROP_H
#define PENSTOCK_DATASET_CROP_H

#include <stddef.h>
#include <stdint.h>

enum { CROP_MAX_AXES = 8 };

struct dataset_crop {
    uint32_t group;
    int axis_count; /* axes that are cropped, in order of the array's; at least 1 */
    uint64_t lengths[CROP_MAX_AXES]; /* [axis_count] of the crop */
    uint64_t choices[CROP_MAX_AXES]; /* [axis_count] origins that are possible: the axis' length -
                                      * lengths + 1 */
    size_t axis_strides[CROP_MAX_AXES]; /* [axis_count] bytes from one index to the next */
    /* A crop is lines of bytes: those of the last cropped axis, with all axes behind it. */
    int loop_count;                 /* axes before, the first one outermost */
    uint64_t counts[CROP_MAX_AXES]; /* [loop_count] */
    size_t strides[CROP_MAX_AXES];  /* [loop_count] bytes in the whole frame */
    size_t line_bytes, bytes;       /* of a line; of a crop */
};

/* Lays out the crop of frames of `rank` axes with `item_bytes` an item. `wanted` ([rank]): lengths;
 * 0: the axis is not cropped. At least one is, and none is longer than its axis. */
void crop_lay_out(struct dataset_crop *ret_crop, uint32_t group, int rank, const uint64_t *shape,
                  const uint64_t *wanted, size_t item_bytes);

/* Where in a frame the crop of the sample with that key begins, in bytes. */
size_t crop_begin(const struct dataset_crop *crop, uint64_t key);

/* Copies the crop that begins at `from` to `to` (crop->bytes). */
void crop_copy(const struct dataset_crop *crop, unsigned char *to, const unsigned char *from);

/* The origin along each cropped axis: [axis_count]. */
void crop_origins(const struct dataset_crop *crop, uint64_t key, int32_t *ret_origins);

#endif
