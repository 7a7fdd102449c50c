/* Choosing fields, shared by select.c (which ones, and those that are configured) and
 * select_default.c (those of the default). Internal to src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_SELECT_INTERNAL_H
#define PENSTOCK_DATASET_FIELDS_SELECT_INTERNAL_H

#include "dataset/dataset_internal.h"

/* What fields are chosen from. */
struct choice {
    const struct zarr_hierarchy *hierarchy;
    char group[ZARR_PATH_BYTES]; /* without '/' at either end; "": the root */
    const char *axis;            /* of direct fields */
    const char *exclude;
};

/* select.c: the axis that `text` means: its number, or the name of its dimension; -1: none of the
 * array. */
int select_axis(const struct zarr_node *node, const char *text);

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

/* select.c: the path from the root of an array that the configuration names: `path` counts from the
 * group, or from the root if it begins with a '/'. */
struct select_path {
    char text[2 * ZARR_PATH_BYTES];
};
struct select_path select_full_path(const struct choice *choice, const char *path);
struct select_path select_path(const struct dataset_options *options, const char *path);

/* select.c: INVALID: it is no array of indices, one for each sample. */
MUST_USE enum status select_check_index(const struct zarr_array *index, struct error *err);

/* select.c: says which axes there are; `purpose` of the axis: "along which ...". Returns INVALID.
 */
enum status select_no_axis(const struct zarr_node *node, const char *text, const char *purpose,
                           struct error *err);

/* select.c: INVALID: no name for a field. */
MUST_USE enum status select_set_name(struct field_origin *origin, const char *name,
                                     struct error *err);

/* select.c: puts fields in order of name. INVALID: two have one name. */
MUST_USE enum status select_sort(struct field_origin *origins, size_t count, struct error *err);

/* select_default.c: all arrays in the group whose sample axis has the sample count, but for those
 * that are excluded. INVALID: it is not clear which, or `exclude` has a pattern that fits nothing.
 */
MUST_USE enum status select_default(const struct choice *choice, struct field_origin *origins,
                                    size_t *ret_count, struct error *err);

#endif
