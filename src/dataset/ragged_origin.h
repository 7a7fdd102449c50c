/* What a ragged field is made of, in its dataset. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_RAGGED_ORIGIN_H
#define PENSTOCK_DATASET_RAGGED_ORIGIN_H

#include "dataset/dataset.h"
#include "dataset/length_list.h"
#include "dataset/ragged_lengths.h"
#include "zarr/hierarchy/hierarchy.h"

/* One array of a ragged field. */
struct ragged_array {
    const struct zarr_node *node; /* in the first store, or the own one */
    struct zarr_array *views;     /* [store_count], owned: named by the store where there are
                                   * several; of values converted */
    uint64_t *versions;           /* [store_count], owned: as store_field.version */
};

/* What a ragged field is made of. */
struct ragged_origin {
    char name[DATASET_NAME_BYTES];
    struct dataset_deliver_spec deliver;
    char group[ZARR_PATH_BYTES]; /* the sparse group that it is */
    bool is_group;
    size_t own_store; /* as of field_origin; its dataset has one store; the index lies there */
    struct ragged_array offsets, columns[RAGGED_MAX_COLUMNS]; /* indices first, values last */
    struct ragged_array index; /* joined: which entry a frame has; its node is NULL otherwise */
    size_t column_count, index_count;
    bool has_values;
    struct convert convert; /* of the values; `to` DTYPE_NONE: they stay as they are */
    enum dtype cell;        /* RAGGED_DENSE: the tensor's dtype, DTYPE_NONE before it is settled */
    const int32_t *steps;   /* [step_count], borrowed: from the spec, later from the dataset */
    size_t step_count;
    uint64_t halo_before, halo_after; /* frames that samples of a row reach beyond it */
    uint64_t *first_item; /* [store_count + 1], owned: of each store; then of all items */
    size_t held_offset;   /* of the offsets in the held memory */
    size_t index_offset;  /* joined: of int64[frames] likewise */
    bool is_held;         /* items are held: joined, or small values (ragged_layout.h) */
    bool is_vlen;         /* an array of values of variable length: `offsets` and the one
                           * column are that array */
    bool is_weighed;      /* is_vlen: its items count in the length of rows, and in the order */
    struct ragged_array given; /* is_vlen: offsets of the values; its node is NULL where all chunks
                                * are read for these, and once the dataset is unpacked */
    uint64_t *beyond;   /* is_vlen: [store_count], owned: items of values beyond the array, in the
                         * store's last chunk */
    uint64_t hold_room; /* is_vlen: as of ragged_lengths, once measured */
    struct length_list list; /* owned, once scanned: of a panel, the lengths of all entries; of
                              * values that are not held, likewise, then `beyond` */
    size_t items_offset[RAGGED_MAX_COLUMNS]; /* is_held: of the items in the held memory */
    uint64_t *scanned;              /* is_vlen: offsets of all entries, owned; NULL but between
                                     * ragged_open_stores() and ragged_scan() */
    struct ragged_lengths *lengths; /* owned; NULL before ragged_scan() */
    struct ragged_panel *panel;     /* owned: panel.h; NULL: the field has all columns */
    uint64_t column_total; /* of the matrix, where its group says so in all stores; else 0 */
};

#endif
