/* The inside of ragged fields, shared by the files of src/dataset. Called while opening, by one
 * thread, unless said otherwise. */
#ifndef PENSTOCK_DATASET_RAGGED_INTERNAL_H
#define PENSTOCK_DATASET_RAGGED_INTERNAL_H

#include "dataset/dataset.h"
#include "dataset/ragged_lengths.h"
#include "zarr/hierarchy/hierarchy.h"

struct choice;
struct field_origin;
struct row_walk;

/* One array of a ragged field. */
struct ragged_array {
    const struct zarr_node *node; /* in the first store */
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
    bool is_held;         /* items are held: values of variable length, or joined */
    bool is_vlen;         /* an array of values of variable length: `offsets` and the one
                           * column are that array */
    uint64_t hold_room;   /* is_vlen: as of ragged_lengths, once measured */
    size_t items_offset[RAGGED_MAX_COLUMNS]; /* is_held: of the items in the held memory */
    uint64_t *scanned;              /* is_vlen: offsets of all entries, owned; NULL but between
                                     * ragged_open_stores() and ragged_scan() */
    struct ragged_lengths *lengths; /* owned; NULL before ragged_scan() */
};

/* ragged_select.c: the arrays that a spec names: of its keys, or else those of a sparse group of
 * the name of its array. Paths as of dataset_field_spec.array. INVALID: too many. */
enum { RAGGED_MOST_ARRAYS = RAGGED_MAX_COLUMNS + 1 };
struct ragged_paths {
    char offsets[2 * ZARR_PATH_BYTES], columns[RAGGED_MAX_COLUMNS][2 * ZARR_PATH_BYTES];
    size_t column_count, index_count;
    bool has_values;
};
bool ragged_has_keys(const struct dataset_field_spec *spec);
MUST_USE enum status ragged_list_paths(const struct dataset_field_spec *spec,
                                       struct ragged_paths *ret_paths, struct error *err);

/* ragged_select.c: whether the spec asks for a ragged field: by keys, or by the name of a sparse
 * group. */
bool ragged_is_asked(const struct choice *choice, const struct dataset_field_spec *spec);

/* ragged_select.c: chooses the arrays of a ragged field, and appends the origins of the columns, or
 * of the tensor, that are delivered. Errors as of dataset_open(). */
MUST_USE enum status ragged_select(const struct choice *choice,
                                   const struct dataset_field_spec *spec,
                                   struct ragged_origin *ragged, struct field_origin *origins,
                                   size_t *count, struct error *err);

/* ragged_open.c: asks the sparse groups of all stores for their attributes; with these, settles
 * what dense tensors are like. INVALID: a group of columns (csc_matrix), shapes that differ between
 * stores, indices that do not fit the tensor. Other errors as of zarr_sparse_group_read(). */
MUST_USE enum status ragged_settle_forms(struct dataset *dataset, struct error *err);

/* ragged_open.c: makes the arrays in all stores, and checks that they fit together. */
MUST_USE enum status ragged_open_stores(struct dataset *dataset, struct error *err);

/* ragged_held.c: reads the lengths of all values, which it notes in `scanned` and `first_item`.
 * INVALID: the values take more than dataset.hold_limit. Other errors as of values_read(). */
MUST_USE enum status ragged_held_measure(const struct dataset *dataset,
                                         struct ragged_origin *origin, struct error *err);

/* ragged_held.c: reads all values of field number `ragged` of the dataset: offsets [frames + 1],
 * and items, with the options' threads and memory. INVALID: there are more than when the dataset
 * was opened. Other errors likewise. */
MUST_USE enum status ragged_held_load(const struct dataset *dataset, size_t ragged,
                                      uint64_t *offsets, unsigned char *items,
                                      const struct dataset_hold_options *options,
                                      struct error *err);

/* ragged_open.c: whether a store has any item. If not, all offsets are 0, and may not be stored. */
bool ragged_has_items(const struct ragged_origin *origin, size_t store);

/* ragged_open.c: how many entries a store has; and all stores before that one. */
uint64_t ragged_store_entries(const struct ragged_origin *origin, size_t store);
uint64_t ragged_entries_before(const struct ragged_origin *origin, size_t store);

/* ragged_open.c: how many frames a store has, as the field says; and the array that says so. */
uint64_t ragged_store_frames(const struct ragged_origin *origin, size_t store);
const struct zarr_array *ragged_counted(const struct ragged_origin *origin, size_t store);

/* ragged_open.c: the join of that store; the field has one. */
struct join;
struct join ragged_join(const struct ragged_origin *origin, size_t store);

void ragged_origin_free(struct ragged_origin *origin);

/* ragged_layout.c: with all origins in place, fills dataset->ragged. INVALID: sizes beyond any
 * memory. */
MUST_USE enum status ragged_lay_out(struct dataset *dataset, struct error *err);

/* ragged_layout.c: describes a field that is a column or a tensor. */
void ragged_describe(const struct dataset *dataset, size_t i, struct dataset_field *field);

/* ragged_layout.c: bytes of a frame's items, in the mean, at least 1. */
uint64_t ragged_frame_bytes(const struct dataset *dataset, const struct ragged *ragged);

/* ragged_layout.c: the ragged field with the most bytes a frame, of those that rows have; NULL:
 * there is none. */
const struct ragged *ragged_leader(const struct dataset *dataset);

/* ragged_layout.c: how many frames rows have where that field leads. *ret_chunks: chunks of its
 * longest ones that have about as many items as a row. */
uint64_t ragged_row_length(const struct dataset *dataset, const struct ragged *ragged,
                           uint64_t *ret_chunks);

/* ragged_layout.c: bytes of the items of a row, in the mean, of all ragged fields. */
uint64_t ragged_row_bytes(const struct dataset *dataset);

/* ragged_layout.c: with the rows' length settled, says of columns of large rows that they are read
 * late (struct zarr_array): samples are copied when all rows of their window are there. Not of
 * RAGGED_DENSE, whose indices are checked behind the decoder. */
void ragged_note_late(struct dataset *dataset);

/* ragged_offsets.c: takes the offsets of one store, of the array's dtype, as numbers of all items:
 * out[0] is the store's first item. `items` may be in the memory of `out`, each at or behind the
 * place of what it becomes. INVALID: they do not begin with 0, fall, or do not end with the number
 * of items. */
MUST_USE enum status ragged_take_offsets(const struct ragged_origin *origin, size_t store,
                                         const void *items, uint64_t *out, struct error *err);

/* ragged_offsets.c: a hash of the offsets of so many entries, and, unless `entries` is NULL, of
 * which entries the frames have. */
uint64_t ragged_hash_offsets(const uint64_t *offsets, uint64_t entry_count, const int64_t *entries,
                             uint64_t frame_count);

/* ragged_scan.c: with rows and anchors in place, reads the offsets, checks them, and finds out how
 * long samples and rows are, unless that is known. INVALID: the offsets make no sense, or a sample
 * is longer than `pad`. Other errors as of frame_array_read(). */
MUST_USE enum status ragged_scan(struct dataset *dataset, const struct dataset_options *options,
                                 struct error *err);

/* ragged.c: where the items of a row lie, by these offsets. Pure. */
struct ragged_row ragged_row_of(const struct dataset *dataset, size_t ragged,
                                const struct row_walk *row, const uint64_t *offsets);

/* ragged.c: items of the sample at that anchor, all steps. Pure. */
uint64_t ragged_sample_items(const struct dataset *dataset, const struct ragged *ragged,
                             uint64_t frame);

#endif
