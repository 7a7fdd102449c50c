/* Arrays that say something of frames: ends of episodes, masks, groups. Each store has one of its
 * own, of one dimension. Read whole, block by block. Called while opening, by one thread, which has
 * others beside it while it reads. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FRAMES_FRAME_ARRAY_H
#define PENSTOCK_DATASET_FRAMES_FRAME_ARRAY_H

#include "dataset/dataset_internal.h"

/* One array in one store. */
struct frame_array {
    const struct dataset *dataset; /* borrowed */
    const struct zarr_node *node;  /* borrowed */
    const char *option;            /* that names the array: "samples.where"; borrowed */
    size_t store;
    uint64_t first, frames; /* of the store: its first frame, and how many it has; of a store of
                             * single fields 0 */
    bool may_be_empty;      /* no chunk need be there */
    struct zarr_array view;
};

/* Sets the array `node` of store number `store` up for reading. UNSUPPORTED, CORRUPT: the array
 * cannot be read. INVALID: the array has more than one dimension, or no plain items. */
MUST_USE enum status frame_array_init(const struct dataset *dataset, size_t store,
                                      const char *option, const struct zarr_node *node,
                                      struct frame_array *ret_array, struct error *err);

/* INVALID: items are not integers; items are neither integers nor float32 or float64; items are not
 * bool (or integers of 8 bits); or there is not one for each frame. */
MUST_USE enum status frame_array_expect_integers(const struct frame_array *array,
                                                 struct error *err);
MUST_USE enum status frame_array_expect_numbers(const struct frame_array *array, struct error *err);
MUST_USE enum status frame_array_expect_bools(const struct frame_array *array, struct error *err);
MUST_USE enum status frame_array_expect_frames(const struct frame_array *array, struct error *err);

/* Item `i` of those that are read, of an array that frame_array_expect_numbers() takes. */
double frame_array_number(const struct frame_array *array, const void *items, uint64_t i);

/* How many threads read the array at once, at least 1: at most `most`, and no more than have room
 * in 256 MiB, where each has a run of items and a reader of chunks. */
uint64_t frame_array_thread_count(const struct frame_array *array, uint64_t most);

/* Calls visit() for one run of items after another, all of the array: items [first, first + count),
 * of the array's dtype. Up to 16 threads, and no more than frame_array_thread_count(), read
 * blocks ahead; visit() is called in order and by one thread at a time, whichever. A status other
 * than OK from visit() ends the reading, and is returned. Blocks on the store. Errors as of
 * zarr_read_samples(). */
typedef enum status frame_array_visit(void *argument, const struct frame_array *array,
                                      uint64_t first, uint64_t count, const void *items,
                                      struct error *err);
MUST_USE enum status frame_array_read(const struct frame_array *array, frame_array_visit *visit,
                                      void *argument, struct error *err);

/* Puts "samples.where: array 'ok' of the store 'a.zarr': " in front of *err. Returns the status. */
enum status frame_array_name(const struct frame_array *array, enum status status,
                             struct error *err);

#endif
