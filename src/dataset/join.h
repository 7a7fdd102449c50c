/* Index arrays of joined fields: which element of another array a sample has. Inside src/dataset.
 * Pure; any thread. */
#ifndef PENSTOCK_DATASET_JOIN_H
#define PENSTOCK_DATASET_JOIN_H

#include "zarr/metadata/array.h"

/* The join of one store. */
struct join {
    const struct zarr_array *index, *array; /* borrowed */
    uint64_t elements;                      /* that the array has in this store */
    uint64_t first;                         /* and in the stores before */
    const char *unit;                       /* " along its sample axis", for messages */
    const int64_t *matches; /* of an aligned field: the elements, or -1; NULL: the index has them */
};

/* Where an index array is read to: the end of the int64[its samples] at `out` that it becomes. */
unsigned char *join_items(const struct join *join, int64_t *out);

/* Makes them of what was read there, or of the matches (without one: the first element): numbers
 * through all stores. INVALID: an index is out of range.
 */
MUST_USE enum status join_settle(const struct join *join, int64_t *out, struct error *err);

#endif
