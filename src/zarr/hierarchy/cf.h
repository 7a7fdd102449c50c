/* What the CF attributes of an array make of its items, as xarray decodes them: an item x, read as
 * an integer of the other sign where `_Unsigned` says so, is missing if it is one of `missing`, and
 * is x * scale + offset otherwise. What xarray decodes and this module does not, and what xarray
 * leaves undone although items are missing by it (valid ranges), is refused, never passed over.
 *
 * The missing values of a v3 array are those of `_FillValue`, which xarray writes as base64 of a
 * float64 for floating point, and of `missing_value`, one or several. Of a v2 array with names of
 * dimensions (_ARRAY_DIMENSIONS, or those of NCZarr) xarray takes the fill value for `_FillValue`,
 * even if that is 0. Times ("days since ...") stay numbers, as with xarray's decode_times=False.
 *
 * Pure; any thread. */
#ifndef PENSTOCK_ZARR_HIERARCHY_CF_H
#define PENSTOCK_ZARR_HIERARCHY_CF_H

#include "zarr/hierarchy/hierarchy.h"
#include "zarr/metadata/normal.h"

struct zarr_cf {
    enum dtype from; /* what stored items are read as: the array's dtype, or the other sign's */
    double scale, offset;
    int missing_count;
    double missing[NORMAL_MAX_MISSING]; /* none is NaN; _FillValue first */
    bool zero_is_fill; /* 0 is missing by a v2 array's fill value alone, which may mean nothing */
};

/* INVALID: an attribute is not what it has to be, or says what is not done; the message has the
 * attribute, its value and what to do. */
MUST_USE enum status zarr_node_cf(const struct zarr_node *node, struct zarr_cf *ret_cf,
                                  struct error *err);

#endif
