/* A panel: which columns of a sparse matrix a ragged field has, as a gene panel. A stored item
 * belongs to the column that its index says; the field has the items of some columns alone, with
 * indices into the list of these, and in the order of storage.
 *
 *     indices of a frame   | 2 | 5 | 7 | 9 |          the list: 7, 3, 2
 *     of the panel         | 2 |     0 |              that is of the columns 2 and 7
 *
 * How many items of a frame these are no offsets say. So all indices are read once, when the
 * dataset is opened, and the numbers travel with the packed dataset. All that a run knows of items
 * (ragged.offsets, lengths, pages, trailers, budgets) is of the panel from then on, exactly as if
 * the store had no other items. Only who reads a row knows of those that are stored: they are read
 * into the reader's own pages, laid out as `stored` says, and sifted from there into the row's
 * (read/sift.h). Inside src/dataset. */
#ifndef PENSTOCK_DATASET_PANEL_H
#define PENSTOCK_DATASET_PANEL_H

#include "dataset/dataset_internal.h"

enum { PANEL_MOST_COLUMNS = 1 << 26 }; /* a listed column is below it */

struct ragged_panel {
    size_t column;            /* of the field's columns: the one of the indices */
    struct field_slice slice; /* which columns of the matrix; its runs are owned */
    uint64_t count;           /* of these */
    int32_t *numbers; /* [number_count], owned: the number of a column in the list; -1: not there */
    uint64_t number_count;
    struct ragged stored; /* items as they are stored: offsets, and pages that they are read into */
    size_t held_offset;   /* of the stored offsets in the held memory */
};

/* The ragged field as rows are read: with its stored items. */
static inline const struct ragged *panel_stored(const struct dataset *dataset, size_t ragged)
{
    const struct ragged_panel *panel = dataset->private->ragged_origins[ragged].panel;
    return panel ? &panel->stored : &dataset->ragged[ragged];
}

#endif
