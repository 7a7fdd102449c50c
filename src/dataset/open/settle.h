/* Steps of opening, each of which settles a part of the dataset. One thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_OPEN_SETTLE_H
#define PENSTOCK_DATASET_OPEN_SETTLE_H

#include "dataset/dataset_internal.h"

/* store_fields.c: makes the arrays of all fields in all stores, and checks that they fit together;
 * then the samples of each store. */
MUST_USE enum status store_fields_settle(struct dataset *dataset, struct error *err);

/* encoding.c: compares the attributes of `node`, in store number `store`, with those of the field's
 * array in the first store. INVALID: they contradict each other about the values. */
MUST_USE enum status encoding_check(const struct dataset *dataset, size_t store,
                                    const struct field_origin *origin, const struct zarr_node *node,
                                    struct error *err);

/* made.c: appends origins of the fields that are made for others to origins that are chosen. Errors
 * as of dataset_open(). */
MUST_USE enum status made_fields_add(struct dataset *dataset, struct error *err);

/* layout.c: sets the counts of frames and rows, and what a frame and a sample of each field is.
 * Errors as of dataset_open(). */
MUST_USE enum status layout_settle_rows(struct dataset *dataset, struct error *err);

/* layout.c: with rows and anchors in place, sets everything else: sources, offsets, fingerprint.
 * Errors as of dataset_open(). */
MUST_USE enum status layout_settle(struct dataset *dataset, struct error *err);

/* crops.c: lays out the random crop of a field whose whole frame is described, if there is one. */
void crops_describe(struct dataset *dataset, size_t i);

/* crops.c: INVALID: crops of one group are of axes of other lengths. */
MUST_USE enum status crops_check(const struct dataset *dataset, struct error *err);

#endif
