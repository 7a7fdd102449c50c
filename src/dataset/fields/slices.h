/* Which indices along each axis a field has. Called while opening, by one thread. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_SLICES_H
#define PENSTOCK_DATASET_FIELDS_SLICES_H

#include "dataset/dataset_internal.h"

/* Takes the slices of the options' fields, which are selected by now. Asks the first store for
 * coordinates where names are given, and the other stores, too. INVALID: no such axis, the sample
 * axis, indices out of range, coordinates that differ between stores. Other errors as of
 * coordinates_read() and coordinates_find(). */
MUST_USE enum status slices_settle(struct dataset *dataset, const struct dataset_options *options,
                                   struct error *err);

/* The same of any `length` columns, which have these names, or none (zero): takes the indices as of
 * dataset_slice_spec. The runs of *ret_slice are the caller's, on failure too. *ret_has_names:
 * there are names among the indices. Errors likewise. */
struct coordinates;
MUST_USE enum status slices_take(const char *indices, uint64_t length,
                                 const struct coordinates *names, struct field_slice *ret_slice,
                                 bool *ret_has_names, struct error *err);

/* Narrows the fields that the options say, after their slices and normals are settled. NO_MEMORY.
 */
MUST_USE enum status slices_narrow(struct dataset *dataset,
                                   const struct dataset_narrowing *narrowing, struct error *err);

/* The axis of the array that an axis (> 0) of the field's view is. */
int slices_axis(const struct field_origin *origin, int axis);

/* Makes the selections of a field's array in one store, and sets them in `view`. INVALID: an index
 * is there twice, or out of the array's range. NO_MEMORY. */
MUST_USE enum status slices_select(const struct field_origin *origin,
                                   const struct zarr_array *array, struct store_field *here,
                                   struct zarr_view *view, struct error *err);

/* Whether both fields, of one array, have the same indices. */
bool slices_same(const struct field_origin *a, const struct field_origin *b);

/* Whether samples have no such axis of the field's view (axis > 0). */
bool slices_drop(const struct field_origin *origin, int axis);

/* Appends the slice as dataset_slice_spec.indices, without names. */
void slices_put(const struct field_slice *slice, struct text *out);

/* Frees slices and selections of a field. */
void slices_free(struct field_origin *origin, size_t store_count);

#endif
