/* Coordinates: the names or numbers of the indices along an axis, which lie in a one-dimensional
 * array named as the dimension, in the group of the field's array (xarray's and CF's convention),
 * or as a list in an attribute of this group, named as the dimension, or so with an "s" (anemoi's).
 * Inside src/dataset; used while opening, by one thread. */
#ifndef PENSTOCK_DATASET_FIELDS_COORDINATES_H
#define PENSTOCK_DATASET_FIELDS_COORDINATES_H

#include "store/store.h"
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/hierarchy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero: nothing. */
struct coordinates {
    char path[ZARR_PATH_BYTES]; /* of their array */
    uint64_t count;
    char **names;    /* [count], owned; NULL: they are numbers */
    double *values;  /* [count], owned; NULL: they are names */
    uint64_t *order; /* [count], owned: indices by their names' order; NULL: of none */
    bool is_single;  /* the numbers are float32 */
    char units[ZARR_ATTRIBUTE_BYTES], calendar[ZARR_ATTRIBUTE_BYTES]; /* attributes; "": none */
};

/* Reads the coordinates of an axis of the array `node` in `store`. What a missing chunk is the
 * dataset says. Blocks on the store. NOT_FOUND:
 * the axis has no name, or there is neither such an array nor such an attribute. INVALID: the array
 * is not one-dimensional, of another length, or of neither numbers nor strings. Other errors as of
 * small_array_read(). */
struct dataset;
MUST_USE enum status coordinates_read(const struct dataset *dataset, const struct store *store,
                                      const struct zarr_node *node, int axis,
                                      struct coordinates *ret_coordinates, struct error *err);

/* The same of the array at `path` of the store, whatever its length: names of fixed length, or
 * numbers. */
MUST_USE enum status coordinates_read_array(const struct dataset *dataset,
                                            const struct store *store, const char *path,
                                            struct coordinates *ret_coordinates, struct error *err);

/* Puts names in order, so that thousands of them are found soon. NO_MEMORY. */
MUST_USE enum status coordinates_sort(struct coordinates *coordinates, struct error *err);

/* The index of the coordinate `text`. NOT_FOUND: there is none; the message says which is nearest.
 * INVALID: there are several. */
MUST_USE enum status coordinates_find(const struct coordinates *coordinates, const char *text,
                                      uint64_t *ret_index, struct error *err);

void coordinates_done(struct coordinates *coordinates);

#endif
