/* Attributes of an array: the names of its dimensions, and the CF conventions for its values.
 * What they make of values is in cf.h; here they are text, to be shown and compared. Pure; any
 * thread.
 */
#ifndef PENSTOCK_ZARR_HIERARCHY_ATTRIBUTES_H
#define PENSTOCK_ZARR_HIERARCHY_ATTRIBUTES_H

#include "base/text.h"
#include "zarr/hierarchy/hierarchy.h"

#include <stdbool.h>

/* In the document of a v2 array: the names of attributes that attributes_take() left out. */
#define ZARR_ATTRIBUTES_LEFT_OUT "attributes_left_out"

/* X(member, name of the attribute). Values are text: numbers as written, and strings cut to
 * ZARR_ATTRIBUTE_BYTES, several numbers as JSON. What has no effect is left out: a _FillValue or
 * missing_value that is NaN, and an _Unsigned that says what the dtype does. */
#define ZARR_ENCODING_TABLE(X)        \
    X(scale_factor, "scale_factor")   \
    X(add_offset, "add_offset")       \
    X(fill_value, "_FillValue")       \
    X(missing_value, "missing_value") \
    X(is_unsigned, "_Unsigned")       \
    X(valid_min, "valid_min")         \
    X(valid_max, "valid_max")         \
    X(valid_range, "valid_range")     \
    X(units, "units")                 \
    X(calendar, "calendar")

enum { ZARR_ATTRIBUTE_BYTES = 64 };

/* An attribute that is not there is "". */
struct zarr_encoding {
#define ZARR_ENCODING_MEMBER(name, key) char name[ZARR_ATTRIBUTE_BYTES];
    ZARR_ENCODING_TABLE(ZARR_ENCODING_MEMBER)
#undef ZARR_ENCODING_MEMBER
};

/* Reads the node's attributes. xarray takes the fill value of a v2 array that it has written for a
 * _FillValue; so does this function, unless the fill value is null, 0 or NaN. */
void zarr_node_encoding(const struct zarr_node *node, struct zarr_encoding *ret_encoding);

/* Whether the encoding says that values are multiplied, shifted, of the other sign, or missing
 * where they have a certain value. */
bool zarr_encoding_changes(const struct zarr_encoding *encoding);

/* Appends the attributes that change values: "scale_factor 0.01, add_offset 273.15, _FillValue
 * -32767". Appends nothing if none does. */
void zarr_encoding_describe(const struct zarr_encoding *encoding, struct text *out);

/* Returns the name of the first attribute in which two encodings of the same field contradict each
 * other, and both values (borrowed from `a` and `b`, or static); NULL if there is none. A missing
 * scale_factor is 1, a missing add_offset 0. Missing units, or a missing calendar, contradict
 * nothing. */
const char *zarr_encoding_conflict(const struct zarr_encoding *a, const struct zarr_encoding *b,
                                   const char **ret_a, const char **ret_b);

/* Whether the array is a coordinate, not data: it has a dimension of its own name, or its units are
 * a time since some date. */
bool zarr_node_is_coordinate(const struct zarr_node *node);

/* The most that is told of the attributes of an array, as JSON. */
enum { ZARR_TOLD_BYTES = 4096, ZARR_TOLD_ALL_BYTES = 64 * 1024 };

/* Appends the attributes of the array as a JSON object: "{}" if there are none. An attribute of
 * more than ZARR_TOLD_BYTES is null. Those behind the first ZARR_TOLD_ALL_BYTES are left out; the
 * names of the dimensions and the encoding neither count nor are left out.
 * Where the array does not have "encoding" itself, that is "utf-8" for strings of variable length,
 * and "bytes" for byte strings. `left_out` (NULL: not wanted) gets the names of both, as a list.
 * Bare NaN and Infinity stay. */
void zarr_node_attributes(const struct zarr_node *node, struct text *out, struct text *left_out);

/* For building hierarchies. Puts the attributes of a v2 array into its document, as the member
 * "attributes", with the bounds of zarr_node_attributes(). False: there are none, and the document
 * is unchanged. */
struct json_object;
bool attributes_take(struct json_object *document, struct json_object *attributes);

#endif
