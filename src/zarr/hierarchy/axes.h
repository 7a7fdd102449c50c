/* Names of an array's axes. Pure; any thread. */
#ifndef PENSTOCK_ZARR_HIERARCHY_AXES_H
#define PENSTOCK_ZARR_HIERARCHY_AXES_H

#include "zarr/hierarchy/hierarchy.h"

/* Names of axes. "": the axis has none, or one that is too long. */
struct zarr_axis_names {
    char names[ZARR_MAX_RANK][64];
};

/* The names of the node's axes: v3's dimension_names, or the attribute _ARRAY_DIMENSIONS that
 * xarray writes to v2 arrays. False: no axis has a name. */
bool zarr_node_axis_names(const struct zarr_node *node, struct zarr_axis_names *ret_names);

/* The first axis with the name `name`; -1: none. */
int zarr_node_axis(const struct zarr_node *node, const char *name);

/* Gives the node's axes these names, [rank], in its document: while opening, before anybody else
 * looks. An axis keeps the name that it has if there is none for it. NO_MEMORY. */
MUST_USE enum status zarr_node_name_axes(struct zarr_node *node,
                                         const struct zarr_axis_names *names, struct error *err);

#endif
