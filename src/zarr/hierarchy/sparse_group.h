/* Sparse matrices as AnnData writes them: a group with the arrays "indptr", "indices" and "data",
 * and attributes that tell the matrix's encoding and shape. */
#ifndef PENSTOCK_ZARR_HIERARCHY_SPARSE_GROUP_H
#define PENSTOCK_ZARR_HIERARCHY_SPARSE_GROUP_H

#include "base/error.h"
#include "store/store.h"
#include "zarr/hierarchy/hierarchy.h"

#include <stdbool.h>
#include <stdint.h>

struct zarr_sparse_group {
    char encoding[ZARR_TYPE_BYTES];   /* "csr_matrix"; "": the group does not say */
    uint64_t row_count, column_count; /* 0: the group does not say */
};

/* Reads the attributes of the group at `path` ("" is the root). A group without attributes says
 * nothing. Blocks on the store; one thread. CORRUPT: the group's document is not valid. Other
 * errors as of store_get_text(). */
MUST_USE enum status zarr_sparse_group_read(const struct store *store, enum zarr_format format,
                                            const char *path, struct zarr_sparse_group *ret_group,
                                            struct error *err);

/* Whether the array is "indptr" beside "indices" of length 0: each of its items is 0, and a writer
 * may leave all of its chunks out. Pure. */
bool zarr_sparse_group_is_empty(const struct zarr_hierarchy *hierarchy,
                                const struct zarr_array *array);

#endif
