/* Arrays in stores: found, compared, and whether any value of one is there. Called while opening,
 * by one thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_STORE_ARRAYS_H
#define PENSTOCK_DATASET_FIELDS_STORE_ARRAYS_H

#include "dataset/dataset_internal.h"

/* Finds an array of the first store in another one. `may_be_empty`: as of zarr_array_lacks_items().
 * NOT_FOUND, and errors of the node. */
MUST_USE enum status store_fields_find(const struct dataset *dataset, size_t store,
                                       const char *path, bool may_be_empty,
                                       const struct zarr_node **ret_node, struct error *err);

/* INVALID: the view `b`, of `store`, has other items than `a`, of the first one. */
MUST_USE enum status store_fields_compare(const struct dataset *dataset, size_t store,
                                          const char *field, const struct zarr_array *a,
                                          const struct zarr_array *b, struct error *err);

/* For an array with keys of `store` that is read while its dataset is opened. NOT_FOUND:
 * no value is there, and the options do not say what a missing chunk is; without the array's name.
 * INVALID as of inventory_require(). */
MUST_USE enum status stock_expect(const struct dataset *dataset, const struct store *store,
                                  const struct zarr_array *array, struct error *err);

/* *err says that no value of the array is there, and what may be wrong. Returns its
 * status: NOT_FOUND, or INVALID: values are there under names with another separator. */
enum status stock_refuse(const struct store *store, const struct zarr_array *array,
                         struct error *err);

#endif
