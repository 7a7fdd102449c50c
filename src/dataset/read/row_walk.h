/* What a row is read from. Pure; any thread. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_READ_ROW_WALK_H
#define PENSTOCK_DATASET_READ_ROW_WALK_H

#include "dataset/dataset_internal.h"

/* Goes through the spans that a row is read from, in the order of the reads: frames [begin, end) of
 * an array in one store, for each row field that leads; then items [begin, end) of an array, for
 * each page of each column of each ragged field whose offsets are known; of values of variable
 * length, all of the row's values [begin, end). Frames that no sample of the row needs are left out
 * at both ends. */
struct row_span {
    size_t field, store; /* ragged fields: an index into dataset->ragged */
    const struct zarr_array *array;
    uint64_t begin, end; /* in the store */
    size_t offset;       /* of frame `begin`, in the row buffer; of item `begin`, in the page */
    const struct ragged_column *column; /* of a ragged field; NULL: frames */
    uint32_t page;                      /* of the row's pages; of a panel, of the reader's */
};
struct row_walk {
    uint64_t first, end;      /* frames of the row, over all stores */
    uint64_t from, to;        /* of these, from the first anchor to the last one */
    uint64_t lowest, highest; /* frames of the episodes that these lie in, [lowest, highest) */
    size_t field;             /* the next field */
    uint64_t next, until;     /* frames of this field that are left */
    size_t store;             /* the next frame's */
    size_t row_store;
    bool is_empty;         /* nothing is read */
    size_t ragged, column; /* the next page's */
    uint32_t page;         /* of the column's pages */
    bool lies_is_known;
    struct ragged_row lies; /* the pages that the ragged field is read into */
    uint32_t next_page;     /* of the row's pages: the first of the next ragged field */
};
struct row_walk row_begin(const struct dataset *dataset, uint64_t row);
bool row_next(const struct dataset *dataset, struct row_walk *walk, struct row_span *ret_span);

/* Lists the arrays of all row fields that lead, and of the columns of ragged fields, in all stores
 * (borrowed); returns how many. */
size_t dataset_row_arrays(const struct dataset *dataset,
                          const struct zarr_array *ret_arrays[DATASET_MAX_STORE_FIELDS]);

#endif
