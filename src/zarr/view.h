/* Views of arrays: the same chunks, seen with another axis first, converted items, and a name that
 * says which of several stores the array is in.
 *
 * A view is a `struct zarr_array` and reads like one (chunk.h): shape, chunk grid, dtype, item
 * size, fill value and total size are the view's; chunks are found, decoded and byte-swapped as the
 * array says, then converted. Pure; safe from any thread.
 */
#ifndef PENSTOCK_ZARR_VIEW_H
#define PENSTOCK_ZARR_VIEW_H

#include "base/convert.h"
#include "zarr/array.h"
#include "zarr/hierarchy.h"

struct zarr_view {
    int first_axis;         /* of the array: becomes axis 0, the others follow in their order */
    struct convert convert; /* `from` is the array's dtype; `to` DTYPE_NONE: none */
    const char *prefix;     /* NULL: none. Else paths, and so keys, begin with it and a '/' */
};

/* A view of `array`, which need not be kept, unless what it points to is (codecs). `first_axis` is
 * below the rank. INVALID: the path becomes too long; an item cannot be converted so, or its size
 * overflows. */
MUST_USE enum status zarr_view_make(const struct zarr_array *array, const struct zarr_view *view,
                                    struct zarr_array *ret_view, struct error *err);

/* The names that the node's axes have: v3's dimension_names, or for v2 what xarray writes into the
 * attributes (_ARRAY_DIMENSIONS). "" for an axis without, or with one that is longer. False: none
 * has one. */
struct zarr_axis_names {
    char names[ZARR_MAX_RANK][64];
};
bool zarr_node_axis_names(const struct zarr_node *node, struct zarr_axis_names *ret_names);

/* The first axis of that name; -1: none. */
int zarr_node_axis(const struct zarr_node *node, const char *name);

#endif
