/* Opening ragged fields: their arrays in all stores, and their offsets. Called while opening, by
 * one thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_RAGGED_RAGGED_OPEN_H
#define PENSTOCK_DATASET_RAGGED_RAGGED_OPEN_H

#include "dataset/dataset_internal.h"

/* Asks the sparse groups of all stores for their attributes; with these, settles panels, and what
 * dense tensors are like. INVALID: a group of columns (csc_matrix), shapes that differ between
 * stores, indices that do not fit the tensor. Other errors as of zarr_sparse_group_read() and
 * panel_settle(). */
MUST_USE enum status ragged_settle_forms(struct dataset *dataset,
                                         const struct dataset_options *options, struct error *err);

/* Makes the arrays in all stores, and checks that they fit together. */
MUST_USE enum status ragged_open_stores(struct dataset *dataset, struct error *err);

/* ragged_scan.c: with rows and anchors in place, reads the offsets, checks them, and finds out how
 * long samples and rows are, unless that is known. INVALID: the offsets make no sense, or a sample
 * is longer than `pad`. Other errors as of frame_array_read(). */
MUST_USE enum status ragged_scan(struct dataset *dataset, const struct dataset_options *options,
                                 struct error *err);

/* ragged_scan.c: reads all of an array in one store, as it is stored. `own_store`: as of
 * ragged_origin. Errors as of frame_array_read(). */
MUST_USE enum status ragged_read_array(const struct dataset *dataset, const char *option,
                                       size_t own_store, size_t store,
                                       const struct ragged_array *of, bool may_be_empty,
                                       unsigned char *items, struct error *err);

/* Whether a store has any item. If not, all offsets are 0, and may not be stored. */
bool ragged_has_items(const struct ragged_origin *origin, size_t store);

/* How many entries all stores before that one have. */
uint64_t ragged_entries_before(const struct ragged_origin *origin, size_t store);

/* How many frames a store has, as the field says; and the array that says so. */
uint64_t ragged_store_frames(const struct ragged_origin *origin, size_t store);
const struct zarr_array *ragged_counted(const struct ragged_origin *origin, size_t store);

/* The join of that store; the field has one. */
struct join;
struct join ragged_join(const struct ragged_origin *origin, size_t store);

void ragged_origin_free(struct ragged_origin *origin);

#endif
