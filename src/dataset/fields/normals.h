/* Means, standard deviations and scales of fields. Called while opening, by one thread. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_NORMALS_H
#define PENSTOCK_DATASET_FIELDS_NORMALS_H

#include "dataset/dataset_internal.h"

/* Takes the means, standard deviations and missing values of the options' fields, whose slices are
 * settled. Asks the first store for the arrays. INVALID: an array does not fit its field, or has an
 * entry that is no finite number, or a std of 0; an attribute is no number. Other errors as of
 * small_array_read(). */
MUST_USE enum status normals_settle(struct dataset *dataset, const struct dataset_options *options,
                                    struct error *err);

/* NULL is fine. */
void normals_free(struct zarr_normal *normal);

/* Copies of the options' fields, with the scales and offsets that stand elsewhere, for free();
 * NULL: none stands elsewhere. INVALID: there is other than one number, or it is not finite, or a
 * scale of 0. Errors of small_array_read_named(). */
MUST_USE enum status normals_read_scales(const struct dataset *dataset,
                                         const struct dataset_options *options,
                                         struct dataset_field_spec **ret_fields, struct error *err);

#endif
