/* The names of a sparse matrix's columns. Called while opening, by one thread. Inside src/dataset.
 */
#ifndef PENSTOCK_DATASET_RAGGED_PANEL_NAMES_H
#define PENSTOCK_DATASET_RAGGED_PANEL_NAMES_H

#include "dataset/dataset_internal.h"
#include "dataset/fields/coordinates.h"

/* Reads the names of the columns in one store, and puts them in order. `axis` is a path, as of
 * dataset_field_spec.array, of an array of strings, or of a group that AnnData wrote for a table,
 * whose attribute `_index` tells the array. A number, or "var" of a sparse group: the nearest table
 * `var` beside the group, or above; *ret_names is zero where there is none. NOT_FOUND: there is no
 * such array. INVALID: it is no array of names. Other errors as of small_array_read() and
 * values_read(). */
MUST_USE enum status panel_names_read(const struct dataset *dataset,
                                      const struct dataset_options *options, size_t store,
                                      const struct ragged_origin *origin, const char *axis,
                                      struct coordinates *ret_names, struct error *err);

#endif
