/* Ragged fields of values of variable length: how long these are, which their chunks say, or an
 * array that the configuration names. While opening and holding, by one thread. Inside src/dataset.
 *
 * Joined values, and small ones whose chunks do not fit the rows, are held whole. Rows of any other
 * field read their values' chunks. Then the lengths are all that stays in memory: as a list, which
 * every process has, and as offsets, which each node holds. From the offsets rows know how large a
 * chunk is once decoded, and a chunk of other lengths is CORRUPT (struct zarr_array). */
#ifndef PENSTOCK_DATASET_RAGGED_RAGGED_VLEN_H
#define PENSTOCK_DATASET_RAGGED_RAGGED_VLEN_H

#include "dataset/dataset_internal.h"

/* Finds out how many items all values have, which it notes in `scanned`, `first_item` and `beyond`,
 * and in the sizes of the views. Reads all chunks, or the given offsets; of a dataset that is
 * unpacked, nothing. INVALID: joined values take more than dataset.hold_limit, or offsets make no
 * sense. Other errors as of values_read() and frame_array_read(). */
MUST_USE enum status ragged_vlen_measure(const struct dataset *dataset,
                                         struct ragged_origin *origin, struct error *err);

/* Of values that are not held: makes `list` of what was scanned. NO_MEMORY. */
MUST_USE enum status ragged_vlen_list(const struct dataset *dataset, struct ragged_origin *origin,
                                      struct error *err);

/* Fills offsets [values + 1] of field number `ragged` of the dataset: of the list; of held values,
 * with `items`, by reading them all with the options' threads and memory. INVALID: there are more
 * than when the dataset was opened. Other errors as of values_read(). */
MUST_USE enum status ragged_vlen_load(const struct dataset *dataset, size_t ragged,
                                      uint64_t *offsets, unsigned char *items,
                                      const struct dataset_hold_options *options,
                                      struct error *err);

/* Tells the views of values that rows are read from where these begin. `offsets` is borrowed. */
void ragged_vlen_attach(const struct dataset *dataset, size_t ragged, const uint64_t *offsets);

#endif
