/* The stock of an array: which of its values a store has. A value is a chunk, or the outermost
 * shard that holds chunks. Found out by the names in the array's folder: no value is opened. Values
 * are numbered in C order of their grid. Any thread. All functions block on the store.
 */
#ifndef PENSTOCK_ZARR_CHUNK_STOCK_H
#define PENSTOCK_ZARR_CHUNK_STOCK_H

#include "store/store.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stdint.h>

/* The number of values in the array's grid; and the key and the index ("3.0.1") of one. Pure. */
uint64_t zarr_value_count(const struct zarr_array *array);
void zarr_value_key(const struct zarr_array *array, uint64_t number, char ret_key[ZARR_KEY_BYTES]);

/* Called for each value that is there, in any order. `content` as of store_visit_name. A status
 * other than OK ends the listing, and is returned. */
typedef enum status zarr_visit_value(uint64_t number, uint64_t content, void *argument,
                                     struct error *err);

/* Lists the values of an array (no view) by the names that `store` has. Names that no key has are
 * left out. A name counts whatever it is the name of: a link to nothing, too, for that is an error
 * of reading and not a missing value. Several threads list one array as `part_count` parts: by the
 * folders of the first axis, where keys have folders; else part 0 is all. No folder for the array:
 * nothing is listed. UNSUPPORTED: plain HTTP has no listings. Errors as of store_names(). */
MUST_USE enum status zarr_list_stock(const struct store *store, const struct zarr_array *array,
                                     uint32_t part, uint32_t part_count, zarr_visit_value *visit,
                                     void *argument, struct error *err);

/* Whether the store has any of the array's values. Asks for up to 64, spread evenly, and mostly the
 * first one is there. If none is, lists names until one is found; where the store has no listings
 * those 64 decide. True also if a value cannot be looked at: reading tells why. */
bool zarr_has_stock(const struct store *store, const struct zarr_array *array);

/* Appends the warning that follows "array 'a': " for an array of which no value is there. */
void zarr_describe_no_stock(const struct store *store, const struct zarr_array *array,
                            struct text *out);

#endif
