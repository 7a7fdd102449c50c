/* Offsets of ragged fields, from the arrays to memory. Pure. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_RAGGED_RAGGED_OFFSETS_H
#define PENSTOCK_DATASET_RAGGED_RAGGED_OFFSETS_H

#include "dataset/dataset_internal.h"

/* Takes the offsets of one store, of the array's dtype, as numbers of all items: out[0] is the
 * store's first item. `items` may be in the memory of `out`, each at or behind the place of what it
 * becomes. INVALID: they do not begin with 0, fall, or do not end with the number of items. */
MUST_USE enum status ragged_take_offsets(const struct ragged_origin *origin, size_t store,
                                         const void *items, uint64_t *out, struct error *err);

/* Likewise of given offsets of values of variable length (ragged_origin.given), whose last one says
 * how many items there are: the next store's first item. INVALID: the array has another length than
 * one offset more than there are values. */
MUST_USE enum status ragged_take_given(struct ragged_origin *origin, size_t store,
                                       const void *items, uint64_t *out, struct error *err);
MUST_USE enum status ragged_check_given(const struct ragged_origin *origin, size_t store,
                                        struct error *err);

/* A hash of the offsets of so many entries, and, unless `entries` is NULL, of which entries the
 * frames have. */
uint64_t ragged_hash_offsets(const uint64_t *offsets, uint64_t entry_count, const int64_t *entries,
                             uint64_t frame_count);

#endif
