/* References as JSON, of kerchunk and VirtualiZarr: version 0, a map of them; version 1, with
 * `refs`, `templates` and `gen`. Foreign bytes. One thread.
 *
 *     "x/.zarray": {...}, "x/0": "base64:...", "x/1": ["s3://b/f.nc"], "x/2": ["s3://b/f.nc", 0, 9]
 *
 * Source: fsspec/kerchunk docs/source/spec.rst; fsspec/implementations/reference.py.
 */
#ifndef PENSTOCK_STORE_REFERENCES_REFERENCE_JSON_H
#define PENSTOCK_STORE_REFERENCES_REFERENCE_JSON_H

#include "store/references/reference_table.h"

/* Reads references into a table, which is sorted then. The caller frees the table, on failure too.
 * CORRUPT: the text is not JSON, is cut, or has what is no reference. UNSUPPORTED: another version;
 * a text that is packed; what template_render() refuses; more than a table holds. NO_MEMORY. */
MUST_USE enum status reference_json_read(const char *text, size_t size,
                                         struct reference_table *table, struct error *err);

#endif
