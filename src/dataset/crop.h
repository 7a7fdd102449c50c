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

/* A box of a frame's items: lines of bytes, which lie behind one another where the box is alone. */
enum { CROP_MAX_LOOPS = CROP_MAX_AXES + 2 };
struct crop_box {
    int loop_count;                  /* axes before those of a line, the first one outermost */
    uint64_t counts[CROP_MAX_LOOPS]; /* [loop_count] */
    size_t strides[CROP_MAX_LOOPS];  /* [loop_count] bytes in the frame */
    size_t line_bytes, bytes;        /* of a line; of the box; may be 0 */
};

/* Copies the box that begins at `from` to `to` (box->bytes). */
void crop_box_copy(const struct crop_box *box, unsigned char *to, const unsigned char *from);

struct dataset_crop {
    uint32_t group;
    int axis_count; /* axes that are cropped, in order of the array's; at least 1 */
    uint64_t lengths[CROP_MAX_AXES]; /* [axis_count] of the crop */
    uint64_t choices[CROP_MAX_AXES]; /* [axis_count] origins that are possible: the axis' length -
                                      * lengths + 1 */
    size_t axis_strides[CROP_MAX_AXES]; /* [axis_count] bytes from one index to the next */
    struct crop_box box; /* lines of the last cropped axis, with all axes behind it */
};

/* Lays out the crop of frames of `rank` axes with `item_bytes` an item. `wanted` ([rank]): lengths;
 * 0: the axis is not cropped. At least one is, and none is longer than its axis. */
void crop_lay_out(struct dataset_crop *ret_crop, uint32_t group, int rank, const uint64_t *shape,
                  const uint64_t *wanted, size_t item_bytes);

/* Where in a frame the crop of the sample with that key begins, in bytes. */
size_t crop_begin(const struct dataset_crop *crop, uint64_t key);

/* The origin along each cropped axis: [axis_count]. */
void crop_origins(const struct dataset_crop *crop, uint64_t key, int32_t *ret_origins);

#endif
