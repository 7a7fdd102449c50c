/* One sample as a trainer would get it, read by itself: a row in memory, with its pages, and what
 * of that a sample has. For pictures, and for trials of transforms. */
#ifndef PENSTOCK_RUN_ONE_SAMPLE_H
#define PENSTOCK_RUN_ONE_SAMPLE_H

#include "anchors/anchors.h"
#include "dataset/dataset.h"

struct one_sample {
    const struct dataset *dataset; /* no mix; held */
    uint64_t frame, row;           /* the anchor, and the row that it is in */
    struct anchors_episode episode;
    uint64_t key; /* which random crops follow */
};

/* The sample at a frame, with a key of 0. Without anchors a store is an episode. */
struct one_sample one_sample_at(const struct dataset *dataset, uint64_t frame);

/* Zero: nothing was read. */
struct one_sample_row {
    struct dataset_pages pages; /* first: at() finds the struct by it */
    unsigned char *memory;      /* row_bytes */
    unsigned char *page_memory; /* of all pages; NULL: the row has none */
    size_t page_bytes;
};

/* Reads a row; one_sample_row_done() in any case. The dataset is held. Blocks on the store.
 * NO_MEMORY, and errors as of dataset_read_row(). */
MUST_USE enum status one_sample_read_row(const struct dataset *dataset, uint64_t number,
                                         struct one_sample_row *row, struct error *err);
void one_sample_row_done(struct one_sample_row *row);

/* Whether a step of the sample lies in its episode. */
bool one_sample_step_is_real(const struct one_sample *sample, int32_t step);

/* The frame that stands at a step: the step's own, or the episode's nearest. */
uint64_t one_sample_frame_at(const struct one_sample *sample, int32_t step);

/* Writes field f of the sample to `to` (sample_bytes), as trainers get it. The field is not made,
 * and its items are not delivered as csr. */
void one_sample_take(const struct one_sample_row *row, const struct one_sample *sample, size_t f,
                     unsigned char *to);

#endif
