/* Frames of ranges (dataset/ranges.h): by dates, or by other numbers, of a coordinate that never
 * falls in any store.
 *
 * A range has the frames whose coordinate lies in it. A store whose coordinate goes on where that
 * of the store before ends, or later, continues its series; a store that begins before that begins
 * a series of its own, as members of an ensemble do. In each series a range has one run of frames
 * at most. Called while opening, by one thread, which has others beside it while it reads. Inside
 * src/dataset.
 */
#ifndef PENSTOCK_DATASET_FRAMES_FRAME_RANGES_H
#define PENSTOCK_DATASET_FRAMES_FRAME_RANGES_H

#include "dataset/dataset_internal.h"
#include "dataset/ranges.h"

/* Frames [first, end), over all stores. */
struct frame_range_run {
    size_t range; /* whose they are */
    uint64_t first, end;
    bool begins; /* with the first frame of a series */
};

struct frame_ranges {
    struct frame_range_run *runs; /* [count], owned: by range, then in order of frame */
    size_t count;
    char *array; /* owned: the path of the coordinate */
};

/* Reads the coordinate of all stores, and finds the frames of each range. `option` is in messages.
 * Blocks on the stores. NOT_FOUND: there is no such array. INVALID: ranges by several arrays; the
 * array is not one of numbers, one for each frame, that never fall; units or a calendar that are
 * not read, or not the same in all stores; an end that is no date of the calendar, or no number; a
 * range that ends before it begins, begins or ends where there are no frames any more, or has no
 * frame. NO_MEMORY, and errors as of frame_array_read(). */
MUST_USE enum status frame_ranges_find(const struct dataset *dataset,
                                       const struct dataset_options *options, const char *option,
                                       const struct range *ranges, size_t count,
                                       struct frame_ranges *ret, struct error *err);
void frame_ranges_done(struct frame_ranges *ranges);

#endif
