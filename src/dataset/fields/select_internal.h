/* What the files of fields/select.h share: select.c (fields that are configured), select_default.c
 * (those of the default), select_ragged.c (ragged ones) and select_open.c. */
#ifndef PENSTOCK_DATASET_FIELDS_SELECT_INTERNAL_H
#define PENSTOCK_DATASET_FIELDS_SELECT_INTERNAL_H

#include "dataset/fields/select.h"

/* What fields are chosen from. */
struct choice {
    const struct dataset *dataset;
    size_t store; /* its number; above 0: that of single fields, which has no group */
    const struct zarr_hierarchy *hierarchy;
    char group[ZARR_PATH_BYTES]; /* without '/' at either end; "": the root */
    const char *axis;            /* of direct fields */
    const char *exclude;
};

/* select.c: checks that scale and offset are finite numbers in the type that products and sums of
 * the items are made in, and that a scale is not 0 there alone. INVALID: not so. */
MUST_USE enum status select_check_scaling(const struct convert *convert, struct error *err);

/* select.c: finds the array at `path`, which counts from the group, or from the root if it begins
 * with a '/'. NOT_FOUND: the message lists arrays that are there. Errors of the node. */
MUST_USE enum status select_array(const struct choice *choice, const char *path,
                                  const struct zarr_node **ret_node, struct error *err);

/* select.c: the array at `path` if it has values of variable length; NULL: it has not. */
const struct zarr_node *select_vlen(const struct choice *choice, const char *path);

/* select.c: whether the hierarchy has the array at `path`. */
bool select_has(const struct choice *choice, const char *path);

/* select.c: what the options choose from; without a hierarchy. INVALID: the group's path is too
 * long. */
MUST_USE enum status select_begin(const struct dataset_options *options, struct choice *choice,
                                  struct error *err);

/* select.c: INVALID: it is no array of indices, one for each sample. */
MUST_USE enum status select_check_index(const struct zarr_array *index, struct error *err);

/* select_default.c: all arrays in the group whose sample axis has the sample count, but for those
 * that are excluded. INVALID: it is not clear which, or `exclude` has a pattern that fits nothing.
 */
MUST_USE enum status select_default(const struct choice *choice, struct field_origin *origins,
                                    size_t *ret_count, struct error *err);

/* select_ragged.c: the arrays that a spec names: of its keys, or else those of a sparse group of
 * the name of its array. Paths as of dataset_field_spec.array. INVALID: too many. */
enum { RAGGED_MOST_ARRAYS = RAGGED_MAX_COLUMNS + 1 };
struct ragged_paths {
    char offsets[2 * ZARR_PATH_BYTES], columns[RAGGED_MAX_COLUMNS][2 * ZARR_PATH_BYTES];
    size_t column_count, index_count;
    bool has_values;
};
bool ragged_has_keys(const struct dataset_field_spec *spec);
MUST_USE enum status ragged_list_paths(const struct dataset_field_spec *spec,
                                       struct ragged_paths *ret_paths, struct error *err);

/* select_ragged.c: whether the spec asks for a ragged field: by keys, or by the name of a sparse
 * group. */
bool ragged_is_asked(const struct choice *choice, const struct dataset_field_spec *spec);

/* select_ragged.c: chooses the arrays of a ragged field, an index from `choice` and the others from
 * `own`, and appends the origins of the columns, or of the tensor, that are delivered. Errors as of
 * dataset_open(). */
MUST_USE enum status ragged_select(const struct choice *choice, const struct choice *own,
                                   const struct dataset_field_spec *spec,
                                   struct ragged_origin *ragged, struct field_origin *origins,
                                   size_t *count, struct error *err);

#endif
