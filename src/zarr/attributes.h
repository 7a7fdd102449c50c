/* What attributes say of an array's axes and values: names of dimensions, and the conventions of CF
 * that xarray decodes by and Penstock does not. Pure.
 */
#ifndef PENSTOCK_ZARR_ATTRIBUTES_H
#define PENSTOCK_ZARR_ATTRIBUTES_H

#include "base/text.h"
#include "zarr/hierarchy.h"

#include <stdbool.h>

/* By the names in the attributes. What has no effect is left out: a _FillValue or missing_value
 * that is NaN. Values are text, numbers as written, strings cut off where they are too long. */
#define ZARR_ENCODING_TABLE(X)        \
    X(scale_factor, "scale_factor")   \
    X(add_offset, "add_offset")       \
    X(fill_value, "_FillValue")       \
    X(missing_value, "missing_value") \
    X(units, "units")                 \
    X(calendar, "calendar")

enum { ZARR_ATTRIBUTE_BYTES = 64 };

/* "" for what is not there. */
struct zarr_encoding {
#define ZARR_ENCODING_MEMBER(name, key) char name[ZARR_ATTRIBUTE_BYTES];
    ZARR_ENCODING_TABLE(ZARR_ENCODING_MEMBER)
#undef ZARR_ENCODING_MEMBER
};

/* What the node's attributes say. Of v2 arrays that xarray has written the fill value is a
 * _FillValue, as xarray takes it, unless it is null, 0 or NaN. */
void zarr_node_encoding(const struct zarr_node *node, struct zarr_encoding *ret_encoding);

/* Whether values are to be multiplied, shifted, or are not there, by what the encoding says. */
bool zarr_encoding_changes(const struct zarr_encoding *encoding);

/* "scale_factor 0.01, add_offset 273.15, _FillValue -32767": of what changes values, if anything
 * does. */
void zarr_encoding_describe(const struct zarr_encoding *encoding, struct text *out);

/* The first property in which two encodings of the same field contradict each other, NULL if none;
 * its values. Without a scale_factor it is 1, without an add_offset 0; without units or a calendar
 * nothing is said. */
const char *zarr_encoding_conflict(const struct zarr_encoding *a, const struct zarr_encoding *b,
                                   const char **ret_a, const char **ret_b);

/* Whether the array is a coordinate rather than data: a dimension of its own name, or values in
 * units of time since some date. */
bool zarr_node_is_coordinate(const struct zarr_node *node);

/* For building hierarchies: puts what a v2 array's attributes say of all this, and of names of
 * axes, into its document, as the member "attributes"; false: nothing. */
struct json_object;
bool attributes_take(struct json_object *document, struct json_object *attributes);

#endif
