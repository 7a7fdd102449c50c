/* Runs of frames, as arrays of all stores tell them: episodes, documents, groups of a split. Called
 * while opening, by one thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FRAMES_FRAME_RUNS_H
#define PENSTOCK_DATASET_FRAMES_FRAME_RUNS_H

#include "dataset/frames/frame_array.h"

/* One run after another, over all stores. */
struct frame_runs {
    uint64_t *ends;  /* [count], owned, never falling: the frame behind each run */
    int64_t *values; /* [count], owned: the value that the frames of a run have; NULL: none */
    size_t count, room;
};

/* Appends the runs of one store, which the array gives the ends of. With `open` the last end may
 * lie before the end of the store: the run goes on in the next store. INVALID: an end falls, or
 * lies beyond the store, or the last one lies before the store's end. NO_MEMORY, and errors as of
 * frame_array_read(). */
MUST_USE enum status frame_runs_add_ends(struct frame_runs *runs, const struct frame_array *array,
                                         bool open, struct error *err);

/* Appends the runs of one store, of frames with equal values. With `continuous` the first run goes
 * on with the last one of the store before, if both have one value. With `once`, INVALID: a value
 * comes back after others. INVALID: there is not a value for each frame. NO_MEMORY, and errors as
 * of frame_array_read(). */
MUST_USE enum status frame_runs_add_values(struct frame_runs *runs, const struct frame_array *array,
                                           bool continuous, bool once, struct error *err);

/* Appends a run that ends before the frame `end`, which counts over all stores. NO_MEMORY. */
MUST_USE enum status frame_runs_add_end(struct frame_runs *runs, uint64_t end, struct error *err);

/* Frees what the runs own. */
void frame_runs_done(struct frame_runs *runs);

#endif
