/* Values of variable length, which are held. Called while opening, by one thread. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_RAGGED_RAGGED_HELD_H
#define PENSTOCK_DATASET_RAGGED_RAGGED_HELD_H

#include "dataset/dataset_internal.h"

/* Reads the lengths of all values, which it notes in `scanned` and `first_item`. INVALID: the
 * values take more than dataset.hold_limit. Other errors as of values_read(). */
MUST_USE enum status ragged_held_measure(const struct dataset *dataset,
                                         struct ragged_origin *origin, struct error *err);

/* Reads all values of field number `ragged` of the dataset: offsets [frames + 1], and items, with
 * the options' threads and memory. INVALID: there are more than when the dataset was opened. Other
 * errors likewise. */
MUST_USE enum status ragged_held_load(const struct dataset *dataset, size_t ragged,
                                      uint64_t *offsets, unsigned char *items,
                                      const struct dataset_hold_options *options,
                                      struct error *err);

#endif
