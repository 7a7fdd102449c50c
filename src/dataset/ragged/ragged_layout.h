/* What follows from the arrays of ragged fields: pages, rows, and what is delivered. Pure, but for
 * the dataset that is opened. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_RAGGED_RAGGED_LAYOUT_H
#define PENSTOCK_DATASET_RAGGED_RAGGED_LAYOUT_H

#include "dataset/dataset_internal.h"

/* With all origins in place, fills dataset->ragged. INVALID: sizes beyond any memory. */
MUST_USE enum status ragged_lay_out(struct dataset *dataset, struct error *err);

/* Has field number `r`, of values of variable length, held. */
void ragged_hold(struct dataset *dataset, size_t r);

/* With rows in place, and what is held, settles the pages of all fields. INVALID: likewise. */
MUST_USE enum status ragged_settle_pages(struct dataset *dataset, struct error *err);

/* Describes a field that is a column or a tensor. */
void ragged_describe(const struct dataset *dataset, size_t i, struct dataset_field *field);

/* Bytes of a frame's items as they are stored, in the mean, at least 1. */
uint64_t ragged_frame_bytes(const struct dataset *dataset, const struct ragged *ragged);

/* Whether the items of a field count in the length of rows, and in the order: those that rows
 * have, but for values that any run might hold. */
static inline bool ragged_is_weighed(const struct ragged_origin *origin)
{
    return origin->is_vlen ? origin->is_weighed : !origin->is_held;
}

/* The ragged field with the most bytes a frame, of those that are weighed; NULL: there is none. */
const struct ragged *ragged_leader(const struct dataset *dataset);

/* How many frames rows have where that field, whose items offsets count, leads. *ret_chunks: chunks
 * of its longest ones that have about as many items as a row. */
uint64_t ragged_row_length(const struct dataset *dataset, const struct ragged *ragged,
                           uint64_t *ret_chunks);

/* Bytes of the items of a row, in the mean, of all ragged fields. */
uint64_t ragged_row_bytes(const struct dataset *dataset);

/* With the rows' length settled, says of columns of large rows that they are read late (struct
 * zarr_array): samples are copied when all rows of their window are there. Not of RAGGED_DENSE,
 * whose indices are checked behind the decoder, nor of a panel. */
void ragged_note_late(struct dataset *dataset);

#endif
