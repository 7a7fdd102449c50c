/* Opening, in parts that a mix and packed datasets need, too. One thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_OPEN_OPEN_H
#define PENSTOCK_DATASET_OPEN_OPEN_H

#include "dataset/dataset_internal.h"

/* Makes an empty dataset with the options for stores and caches. To be freed by dataset_free(),
 * whatever the next steps return. NO_MEMORY. */
MUST_USE enum status dataset_allocate(const struct dataset_options *options,
                                      struct dataset **ret_dataset, struct error *err);

/* Makes the dataset source number `source` of a mix (NULL: of none), which it borrows. Before its
 * stores are opened. */
void dataset_join_mix(struct dataset *dataset, struct dataset *mix, uint32_t source);

/* dataset_open(), of a source of a mix, or with `mix` NULL. */
MUST_USE enum status dataset_open_source(const struct dataset_options *options, struct dataset *mix,
                                         uint32_t source, struct dataset **ret_dataset,
                                         struct error *err);

/* Opens the stores, and behind them those that fields of `options` have of their own. Errors as of
 * store_open_joined(). */
MUST_USE enum status dataset_open_stores(struct dataset *dataset,
                                         const struct dataset_options *options, struct error *err);

/* With the hierarchies in place, settles fields, versions and caches; with `identifies`, also the
 * identity under which chunks are cached. Errors as of dataset_open(). */
MUST_USE enum status dataset_settle(struct dataset *dataset, const struct dataset_options *options,
                                    bool identifies, struct error *err);

/* fingerprint.c: the fingerprint of a dataset that is otherwise settled; and of a mix of datasets
 * that have theirs. */
uint64_t fingerprint_of(const struct dataset *dataset);
uint64_t fingerprint_of_mix(const struct dataset *mix);

#endif
