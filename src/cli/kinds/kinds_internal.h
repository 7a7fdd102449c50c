/* What the files of kinds.h share: the kinds, and how they look and write. */
#ifndef PENSTOCK_CLI_KINDS_KINDS_INTERNAL_H
#define PENSTOCK_CLI_KINDS_KINDS_INTERNAL_H

#include "cli/kinds/kinds.h"

/* A kind: fills *finding and returns true, or returns false with the finding untouched. */
typedef bool kind_function(const struct kind_look *look, struct kind_finding *finding);
kind_function kind_anemoi, kind_anndata, kind_ome, kind_plain, kind_robot, kind_spatialdata,
    kind_xarray;

/* The array at a path that counts from the group; NULL: none that is readable. */
const struct zarr_node *kind_array(const struct kind_look *look, const char *path);

/* The path of an array from the group on; NULL: it lies elsewhere. */
const char *kind_path(const struct kind_look *look, const struct zarr_node *node);

/* The part of `path` behind the last '/'. */
const char *kind_leaf(const char *path);

/* Whether an attribute of the group at `path` is there, and begins with that text. */
bool kind_says(const struct kind_look *look, const char *path, const char *attribute,
               const char *text);

/* Appends a text as a scalar of YAML, in quotes if need be. */
void kind_put_scalar(const char *foreign, struct text *out);

/* Appends "    NAME: {array: PATH" in YAML: a field, which the caller closes. Before it comes
 * `mark`,
 * "" or "# ". Characters of names that make no good key become '_'. */
void kind_put_field(const char *mark, const char *name, const char *path, struct text *out);

/* "1,000 x 20". */
struct kind_shape {
    char text[ZARR_MAX_RANK * 28];
};
struct kind_shape kind_shape(const struct zarr_array *array, int first_axis);

#endif
