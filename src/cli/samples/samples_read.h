/* A row in memory, with its pages, and what a trainer would get of one of its samples. */
#ifndef PENSTOCK_CLI_SAMPLES_SAMPLES_READ_H
#define PENSTOCK_CLI_SAMPLES_SAMPLES_READ_H

#include "cli/samples/samples_plot.h"

/* Zero: nothing was read. */
struct samples_row {
    struct dataset_pages pages; /* first: at() finds the struct by it */
    unsigned char *memory;      /* row_bytes */
    unsigned char *page_memory; /* of all pages; NULL: the row has none */
    size_t page_bytes;
};

/* Reads a row; samples_row_done() in any case. The dataset is held. Blocks on the store. NO_MEMORY,
 * and errors as of dataset_read_row(). */
MUST_USE enum status samples_row_read(const struct dataset *dataset, uint64_t number,
                                      struct samples_row *row, struct error *err);
void samples_row_done(struct samples_row *row);

/* Whether a step of the sample lies in its episode. */
bool samples_step_is_real(const struct samples_plot *sample, int32_t step);

/* The frame that stands at a step: the step's own, or the episode's nearest. */
uint64_t samples_frame_at(const struct samples_plot *sample, int32_t step);

/* Writes field f of the sample to `to` (sample_bytes), as trainers get it. The field is not made,
 * and its items are not delivered as csr. */
void samples_row_take(const struct samples_row *row, const struct samples_plot *sample, size_t f,
                      unsigned char *to);

#endif
