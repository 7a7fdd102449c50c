/* Floats of a byte or less and integers of less, by ml_dtypes' names: float8_e4m3fn, float4_e2m1fn,
 * int4 and so on. Each is a code in a byte of its own, and stays one: items are read as uint8.
 * Writers differ in the bits that an integer does not need; ml_dtypes looks at the others alone.
 * Inside src/zarr. Pure; any thread. */
#ifndef PENSTOCK_ZARR_METADATA_SMALL_ITEM_H
#define PENSTOCK_ZARR_METADATA_SMALL_ITEM_H

#include <json-c/json.h>
#include <stdbool.h>

bool small_item_is_named(const char *name);

/* The code of a fill value: a number, "NaN", "Infinity", "-Infinity", or the code as "0x7f".
 * `value` NULL: JSON's null, which is 0. False: the type has no such value. */
bool small_item_parse(const char *name, struct json_object *value, unsigned char *ret_code);

#endif
