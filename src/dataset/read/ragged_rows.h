/* Rows and samples of ragged fields, by their offsets. Pure; any thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_READ_RAGGED_ROWS_H
#define PENSTOCK_DATASET_READ_RAGGED_ROWS_H

#include "dataset/read/row_walk.h"

/* The frames that the row's samples have of a ragged field, halos included; none if there are no
 * samples, or the field is held. Pure. */
struct ragged_frames {
    uint64_t first, end;
};
struct ragged_frames ragged_row_frames(const struct dataset *dataset, size_t ragged,
                                       const struct row_walk *row);

/* Where the items of a row lie, by these offsets; and where they are read to, by the stored
 * offsets: of a panel, in pages of the reader. Pure. */
struct ragged_row ragged_row_of(const struct dataset *dataset, size_t ragged,
                                const struct row_walk *row, const uint64_t *offsets);
struct ragged_row ragged_row_stored(const struct dataset *dataset, size_t ragged,
                                    const struct row_walk *row, const uint64_t *offsets);

/* Items of the sample at that anchor, all steps. Pure. */
uint64_t ragged_sample_items(const struct dataset *dataset, const struct ragged *ragged,
                             uint64_t frame);

#endif
