/* Times of frames, as a coordinate of all stores tells them, and where the time jumps: where it
 * differs from that of the frame before by another amount than usual. Inside src/dataset; one
 * thread. */
#ifndef PENSTOCK_DATASET_FRAMES_FRAME_TIMES_H
#define PENSTOCK_DATASET_FRAMES_FRAME_TIMES_H

#include "dataset/frames/dates.h"
#include "dataset/frames/frame_runs.h"
#include "zarr/hierarchy/attributes.h"

/* Frames [first, first + count), each of which comes `difference` seconds after the frame before.
 * INFINITY: the first frame of a store, which follows none. */
struct frame_times_run {
    double difference, time; /* time: of the first frame, in seconds since 1970 or another origin */
    uint64_t first, count;
};

/* Zero: no frame. */
struct frame_times {
    struct frame_times_run *runs; /* [count], owned: all frames but the first */
    size_t count, room;
    double usual; /* the median of the differences; set by frame_times_settle() */
    /* Of the last frame: */
    struct dates_scale scale;
    struct zarr_encoding encoding;
    int64_t integer; /* of an array of integers */
    double number;
};

/* Adds the frames of one store; those before were of the stores before. With `continuous` the first
 * frame follows the last one of the store before. INVALID: the array has no number for each frame;
 * or with `continuous`, other units than that of the store before, by which times cannot be
 * compared. NO_MEMORY, and errors as of frame_array_read(). */
MUST_USE enum status frame_times_add(struct frame_times *times, const struct frame_array *array,
                                     bool continuous, struct error *err);

/* Finds the usual difference. NO_MEMORY. */
MUST_USE enum status frame_times_settle(struct frame_times *times, struct error *err);

/* Whether the frames of the run are jumps: their difference is not within a quarter of the usual
 * one. So months of 28 to 31 days are even, and a month that is left out is not. */
bool frame_times_jumps(const struct frame_times *times, const struct frame_times_run *run);

/* Settles the times, and appends runs of frames, each of which begins where the time jumps. Frames
 * are numbered over all stores. NO_MEMORY. */
MUST_USE enum status frame_times_runs(struct frame_times *times, uint64_t frame_count,
                                      struct frame_runs *runs, struct error *err);

void frame_times_done(struct frame_times *times);

#endif
