/* v2 arrays whose metadata does not say how their chunks are named, or names them wrongly.
 *
 * Without "dimension_separator", a v2 array's chunks are named "0.0". Some writers name the chunks
 * "0/0" all the same. To a reader all such chunks are missing, which is legal: they are the fill
 * value.
 */
#ifndef PENSTOCK_ZARR_CHUNK_SEPARATOR_H
#define PENSTOCK_ZARR_CHUNK_SEPARATOR_H

#include "store/store.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>

/* Looks up some chunks, spread over the array (or the view). True: no chunk has its own name, and
 * one has the name with the other separator; *ret_own and *ret_other are these two keys. False:
 * otherwise, also if the store does not answer. Asks the store 16 times at most, mostly once;
 * blocks. */
bool zarr_finds_other_separator(const struct store *store, const struct zarr_array *array,
                                char ret_own[ZARR_KEY_BYTES], char ret_other[ZARR_KEY_BYTES]);

/* Appends the warning that follows "array 'a': ". */
void zarr_describe_other_separator(const char *own, const char *other, struct text *out);

#endif
