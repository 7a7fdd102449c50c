/* One JSON text, read the same by each version of json-c. Pure; any thread.
 *
 * Strict: no comments, no single quotes, no commas too many. What real documents have is read all
 * the same: bytes of UTF-8 and control characters in strings, of which json-c 0.18 in strict mode
 * refuses all; and integers beyond 64 bits, which become the nearest that there is, and which 0.17
 * and later refuse. Bare NaN and Infinity are accepted.
 */
#ifndef PENSTOCK_ZARR_METADATA_JSON_H
#define PENSTOCK_ZARR_METADATA_JSON_H

#include <stddef.h>

struct json_object; /* json-c */

/* Parses all of the text, nested max_depth deep at most. Returns NULL, with *ret_value returned:
 * the caller calls json_object_put(), and null is NULL. Or returns what is wrong, static text, with
 * *ret_offset, the byte that shows it. */
const char *json_read(const char *text, size_t size, int max_depth, struct json_object **ret_value,
                      size_t *ret_offset);

#endif
