/* Small arrays that are read whole. Called while opening, by one thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_SMALL_ARRAY_H
#define PENSTOCK_DATASET_FIELDS_SMALL_ARRAY_H

#include "dataset/dataset_internal.h"

/* Reads all of an array of a store, of at most 64 MiB. *ret_node is in *ret_hierarchy, and
 * *ret_items malloc'ed: both are the caller's. NOT_FOUND: there is no such array. CORRUPT, too: a
 * chunk is missing that the dataset's options do not allow to fill. Other errors as of
 * zarr_hierarchy_open_wanted() and zarr_read_samples(). */
MUST_USE enum status small_array_read(const struct dataset *dataset, const struct store *store,
                                      const char *path, struct zarr_hierarchy **ret_hierarchy,
                                      const struct zarr_node **ret_node, unsigned char **ret_items,
                                      struct error *err);

/* The same of the array that `text` names: STORE::PATH, or a path in the first store, as of
 * dataset_field_spec.array. Errors of store_open_with(), too. */
MUST_USE enum status small_array_read_named(const struct dataset *dataset,
                                            const struct dataset_options *options, const char *text,
                                            struct zarr_hierarchy **ret_hierarchy,
                                            const struct zarr_node **ret_node,
                                            unsigned char **ret_items, struct error *err);

#endif
