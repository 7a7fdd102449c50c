/* v2 arrays whose metadata does not say how their chunks are named, or says it wrongly.
 *
 * Without "dimension_separator" a v2 array's chunks are named "0.0"; some writers have nested ones,
 * "0/0", all the same. To a reader all of them are missing then, which is legal: fill values.
 */
#ifndef PENSTOCK_ZARR_SEPARATOR_H
#define PENSTOCK_ZARR_SEPARATOR_H

#include "store/store.h"
#include "zarr/array.h"

#include <stdbool.h>

/* Whether, of some chunks spread over the array (or the view), none is there under its own name,
 * and one is with the other separator: then *ret_own and *ret_other are those two keys. Asks the
 * store at most 16 times, mostly once; blocks. False, too, where the store does not answer. */
bool zarr_finds_other_separator(const struct store *store, const struct zarr_array *array,
                                char ret_own[ZARR_KEY_BYTES], char ret_other[ZARR_KEY_BYTES]);

/* In words, behind "array 'a': ". */
void zarr_describe_other_separator(const char *own, const char *other, struct text *out);

#endif
