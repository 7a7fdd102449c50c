/* Choosing the arrays that are fields, by what the options say. Called while opening, by one
 * thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_SELECT_H
#define PENSTOCK_DATASET_FIELDS_SELECT_H

#include "dataset/dataset_internal.h"

struct choice;

/* Chooses the arrays that are the fields, of the first store, or of the one that a field has of its
 * own. Fills the dataset's origins (name, array, index, axis, convert) and ragged origins, each in
 * order of name, and counts them. Names, paths and axes are checked; sample counts are not. Of an
 * array that is not there, the message lists some that are. Errors as of dataset_open(). */
MUST_USE enum status select_fields(struct dataset *dataset, const struct dataset_options *options,
                                   struct error *err);

/* The origin of the field of that name; NULL: none, but a ragged field. */
struct field_origin *dataset_origin(const struct dataset *dataset, const char *name);

/* select_open.c: opens the hierarchy of store number `store`, of the dataset or of single fields:
 * the arrays that fields name there, or all arrays in the group. INVALID, too: no field lies in the
 * dataset's stores. */
MUST_USE enum status select_open(const struct dataset *dataset,
                                 const struct dataset_options *options, size_t store,
                                 struct zarr_hierarchy **ret_hierarchy, struct error *err);

/* What a message of an array that is not there adds if its name has a store in front: "; ..."; "":
 * it has none. */
const char *select_store_advice(const char *path);

/* select_open.c: opens the hierarchy of some arrays of one store, at most SELECT_MOST_ARRAYS; and
 * finds one of these, borrowed from the hierarchy (NULL: there is no such array). Paths count from
 * the group, as those of fields do. */
enum { SELECT_MOST_ARRAYS = 8 };
MUST_USE enum status select_open_arrays(const struct dataset_options *options,
                                        const struct store *store, const char *const *paths,
                                        size_t count, struct zarr_hierarchy **ret_hierarchy,
                                        struct error *err);
const struct zarr_node *select_find(const struct dataset_options *options,
                                    const struct zarr_hierarchy *hierarchy, const char *path);

/* The axis that `text` means: its number, or the name of its dimension; -1: none of the array. */
int select_axis(const struct zarr_node *node, const char *text);

/* The path from the root of an array that the configuration names: `path` counts from the group, or
 * from the root if it begins with a '/'. */
struct select_path {
    char text[2 * ZARR_PATH_BYTES];
};
struct select_path select_full_path(const struct choice *choice, const char *path);
struct select_path select_path(const struct dataset_options *options, const char *path);

/* Says which axes there are; `purpose` of the axis: "along which ...". Returns INVALID. */
enum status select_no_axis(const struct zarr_node *node, const char *text, const char *purpose,
                           struct error *err);

/* INVALID: no name for a field. */
MUST_USE enum status select_set_name(struct field_origin *origin, const char *name,
                                     struct error *err);

/* Puts fields in order of name. INVALID: two have one name. */
MUST_USE enum status select_sort(struct field_origin *origins, size_t count, struct error *err);

#endif
