/* Sifting: of the items of a row, as they were read, those of a panel (dataset/panel.h) go to the
 * row's pages, with their new indices. Inside src/dataset. Any thread; does not block. */
#ifndef PENSTOCK_DATASET_READ_SIFT_H
#define PENSTOCK_DATASET_READ_SIFT_H

#include "dataset/read/row_walk.h"

/* A row's items of one field. All members are borrowed. */
struct sifting {
    const struct dataset *dataset;
    size_t ragged;
    const struct row_walk *row;
    unsigned char *from; /* pages of the stored items, one after another */
    const struct dataset_pages *pages;
    unsigned char *valid; /* marks samples that are bad, where some items could not be had; NULL:
                           * all could */
};

/* Fills the row's pages. A frame has as many items as the offsets say: one that lacks some has
 * zeros. INVALID: it has other items than when the dataset was opened, and all could be had. */
MUST_USE enum status sift_row(const struct sifting *sifting, struct error *err);

/* The memory of the pages that a reader sifts from: those of the row with the most. 0: there is no
 * panel. Pure. */
size_t sift_bytes(const struct dataset *dataset);

#endif
