/* The inside of a dataset, shared by the files of src/dataset. */
#ifndef PENSTOCK_DATASET_DATASET_INTERNAL_H
#define PENSTOCK_DATASET_DATASET_INTERNAL_H

#include "dataset/dataset.h"
#include "dataset/ragged_internal.h"
#include "store/cache/disk_cache.h"
#include "store/kind/fetch.h"
#include "store/store.h"
#include "zarr/chunk/chunk.h"
#include "zarr/chunk/shard_cache.h"
#include "zarr/hierarchy/cf.h"
#include "zarr/hierarchy/hierarchy.h"
#include "zarr/metadata/view.h"

#include <stdbool.h>

/* A field in one store: views, named by the store where there are several. */
struct store_field {
    struct zarr_array array;
    struct zarr_array index;                          /* rank 0 for a direct field */
    struct zarr_selection *selections[ZARR_MAX_RANK]; /* owned: of `array`, by its own axes; NULL:
                                                       * all indices */
    uint64_t first_element; /* joined: how many elements `array` has in the stores before */
    uint64_t version;       /* of the array's metadata at opening; 0: the metadata has none */
};

/* Which indices along one axis of its array a field has. */
struct field_slice {
    struct zarr_run *runs; /* [run_count], owned; NULL: all */
    size_t run_count;
    bool drops; /* it is one index, and samples have no such axis */
};

/* What a field is made of. A made field has no arrays, and those of a ragged field are in its
 * ragged_origin. */
struct field_origin {
    const struct zarr_node *array; /* in the first store; NULL: a made field */
    const struct zarr_node *index; /* in the first store; NULL for a direct field */
    int axis;                      /* of the array: the sample axis */
    struct convert convert;
    struct field_slice slices[ZARR_MAX_RANK]; /* of the array's axes */
    uint64_t crops[ZARR_MAX_RANK]; /* of the array's axes: lengths of a random crop; 0: whole */
    uint32_t crop_group;
    bool is_cropped;            /* at random */
    struct zarr_normal *normal; /* owned, with its tables; NULL: none */
    bool scale_is_given;        /* the configuration gives a scale or an offset, even 1 or 0 */
    bool is_cf;                 /* scaled by the array's attributes; not known after unpacking */
    const int32_t *steps;       /* [step_count], borrowed: from the spec, later from the dataset */
    size_t step_count;
    bool segments;
    enum field_made made;
    char made_for[DATASET_NAME_BYTES]; /* of a made field: the name of the field; else "" */
    struct store_field *store_fields;  /* [store_count], owned; made by store_fields.c; NULL: a made
                                        * field */
    size_t held_offset;  /* FIELD_HELD: the arrays, in the held memory, multiple of 64 */
    size_t index_offset; /* joined: int64[N] in the held memory, multiple of 64 */
    const struct ragged_origin *ragged; /* FIELD_RAGGED, MADE_OFFSETS, MADE_LENGTH: of which;
                                         * borrowed from the dataset; else NULL */
    bool is_items;                      /* FIELD_RAGGED */
    size_t column;                      /* of these, as dataset_field.column */
    char name[DATASET_NAME_BYTES];
};

struct dataset_private {
    struct dataset_constant constants[DATASET_MAX_CONSTANTS]; /* their members are owned */
    char *uri;                                                /* owned: the list of uris */
    size_t store_count;
    uint64_t *first_frame; /* [store_count + 1]: the first sample of each store; then N */
    uint64_t *first_row;   /* [store_count + 1]: the first row of each store; then M */
    uint64_t source_rows[DATASET_MAX_SOURCES + 1]; /* a mix: the first row of each source; then M */
    bool has_steps;                                /* of any field */
    bool continuous;                               /* the end of a store is no end of an episode */
    uint64_t pad_before, pad_after;
    enum samples_fill fill;
    uint64_t row_chunks;          /* as the options say; 0: to be chosen */
    int32_t *steps;               /* owned: the steps of all fields, one after another */
    struct anchors *anchors;      /* owned; NULL: each frame is a sample */
    struct anchors_counts counts; /* of frames that are no anchors; zero after unpacking */
    struct dataset_part *parts;   /* [part_count], owned, with their names; NULL: none */
    size_t part_count;
    uint64_t *document_ends; /* owned, [document_count], rising: over all stores; NULL: none */
    size_t document_count;
    uint64_t hold_limit_bytes;
    char *cache_dir; /* "": no disk cache */
    uint64_t cache_dir_bytes;
    uint64_t
        cache_identity; /* the identity under which chunks are cached; 0 without a disk cache */
    struct disk_cache *cache;         /* NULL: none */
    struct store *store;              /* owned; a joined store if there are several */
    bool missing_is_bad, fills_empty; /* as the options say; the latter false after unpacking */
    uint32_t retries;
    struct store_settings settings;
    _Atomic int64_t own_second_room; /* shared by the stores' options, unless of a mix */
    _Atomic int64_t *second_room;    /* what the stores share: the own one, or the mix's */
    const struct dataset *mix;       /* borrowed: of a source; NULL: the dataset is no source */
    size_t source_held[DATASET_MAX_SOURCES]; /* a mix: each source's part of the held memory */
    uint64_t index_cache_bytes;
    struct zarr_read_options read;       /* its cache of indices is owned, by the mix if any */
    struct store_watch *watch;           /* borrowed; NULL: none */
    struct bad_log *bad_log;             /* borrowed; NULL: none */
    struct zarr_hierarchy **hierarchies; /* [store_count] */
    const unsigned char *held; /* borrowed; NULL before dataset_hold() or dataset_attach() */
    struct field_origin origins[DATASET_MAX_FIELDS]; /* parallel to dataset->fields */
    _Atomic uint64_t filled[DATASET_MAX_FIELDS];     /* see dataset_filled_chunks() */
    struct dataset_field fields[DATASET_MAX_FIELDS];
    struct dataset_crop crops[DATASET_MAX_FIELDS]; /* of the fields that have one */
    struct ragged raggeds[RAGGED_MAX_FIELDS];
    struct ragged_origin ragged_origins[RAGGED_MAX_FIELDS]; /* parallel to dataset->ragged */
};

/* open.c: makes an empty dataset with the options for stores and caches. To be freed by
 * dataset_free(), whatever the next steps return. NO_MEMORY. */
MUST_USE enum status dataset_allocate(const struct dataset_options *options,
                                      struct dataset **ret_dataset, struct error *err);

/* open.c: makes the dataset source number `source` of a mix (NULL: of none), which it borrows.
 * Before its stores are opened. */
void dataset_join_mix(struct dataset *dataset, struct dataset *mix, uint32_t source);

/* open.c: dataset_open(), of a source of a mix, or with `mix` NULL. */
MUST_USE enum status dataset_open_source(const struct dataset_options *options, struct dataset *mix,
                                         uint32_t source, struct dataset **ret_dataset,
                                         struct error *err);

/* mix.c: a mix without sources; `options` as of any source. NO_MEMORY. */
MUST_USE enum status mix_new(const struct dataset_options *options, uint32_t source_count,
                             struct dataset **ret_mix, struct error *err);

/* mix.c: with all sources there, settles everything else. `names` are those of messages. INVALID:
 * the sources' fields differ. NO_MEMORY. */
MUST_USE enum status mix_settle_sources(struct dataset *mix, const char *const *names,
                                        struct error *err);

/* pack.c: dataset_unpack(), of a source of a mix, or with `mix` NULL. */
MUST_USE enum status dataset_unpack_source(const void *bytes, size_t size,
                                           struct store_watch *watch, struct dataset *mix,
                                           uint32_t source, struct dataset **ret_dataset,
                                           struct error *err);

/* mix_pack.c: dataset_pack() and dataset_unpack() of a mix; and whether the bytes are one. */
void mix_pack(const struct dataset *mix, struct text *out);
bool mix_is_packed(const void *bytes, size_t size);
MUST_USE enum status mix_unpack(const void *bytes, size_t size, struct store_watch *watch,
                                struct dataset **ret_mix, struct error *err);

/* open.c: opens the stores. Errors as of store_open_joined(). */
MUST_USE enum status dataset_open_stores(struct dataset *dataset, struct error *err);

/* open.c: with the hierarchies in place, settles fields, versions and caches; with `identifies`,
 * also the identity under which chunks are cached. Errors as of dataset_open(). */
MUST_USE enum status dataset_settle(struct dataset *dataset, const struct dataset_options *options,
                                    bool identifies, struct error *err);

/* select.c: chooses the arrays of the first store that are the fields. Fills `origins` (name,
 * array, index, axis, convert) and `ragged` ([RAGGED_MAX_FIELDS]), each in order of name;
 * *ret_count and *ret_ragged_count are their numbers. Names, paths and axes are checked; sample
 * counts are not. Errors as of dataset_open(). */
MUST_USE enum status select_fields(const struct zarr_hierarchy *hierarchy,
                                   const struct dataset_options *options,
                                   struct field_origin *origins, size_t *ret_count,
                                   struct ragged_origin *ragged, size_t *ret_ragged_count,
                                   struct error *err);

/* select.c: the origin of the field of that name; NULL: none, but a ragged field. */
struct field_origin *dataset_origin(const struct dataset *dataset, const char *name);

/* select_open.c: opens the hierarchy of one store: the arrays that fields name, or all arrays in
 * the group. */
MUST_USE enum status select_open(const struct dataset_options *options, const struct store *store,
                                 struct zarr_hierarchy **ret_hierarchy, struct error *err);

/* select.c: what a message of an array that is not there adds if its name has a store in front:
 * "; ..."; "": it has none. */
const char *select_store_advice(const char *path);

/* select_open.c: opens the hierarchy of some arrays of one store, at most SELECT_MOST_ARRAYS; and
 * finds one of these, borrowed from the hierarchy (NULL: there is no such array). Paths count from
 * the group, as those of fields do. */
enum { SELECT_MOST_ARRAYS = 8 };
MUST_USE enum status select_open_arrays(const struct dataset_options *options,
                                        const struct store *store, const char *const *paths,
                                        size_t count, struct zarr_hierarchy **ret_hierarchy,
                                        struct error *err);
const struct zarr_node *select_find(const struct dataset_options *options,
                                    const struct zarr_hierarchy *hierarchy, const char *path);

/* select.c: adds to *err (NOT_FOUND) some of the arrays that are there, if these can be listed.
 * Returns NOT_FOUND. */
enum status select_refuse(const struct dataset_options *options, const struct store *store,
                          struct error *err);

/* store_fields.c: makes the arrays of all fields in all stores, and checks that they fit together;
 * then the samples of each store. */
MUST_USE enum status store_fields_settle(struct dataset *dataset, struct error *err);

/* store_arrays.c: finds an array of the first store in another one. `may_be_empty`: as of
 * zarr_array_lacks_items(). NOT_FOUND, and errors of the node. */
MUST_USE enum status store_fields_find(const struct dataset *dataset, size_t store,
                                       const char *path, bool may_be_empty,
                                       const struct zarr_node **ret_node, struct error *err);

/* store_arrays.c: INVALID: the view `b`, of `store`, has other items than `a`, of the first one. */
MUST_USE enum status store_fields_compare(const struct dataset *dataset, size_t store,
                                          const char *field, const struct zarr_array *a,
                                          const struct zarr_array *b, struct error *err);

/* sources.c: how messages call store number `i`: "'a.zarr'". */
struct store_text {
    char text[256];
};
struct store_text dataset_store_text(const struct dataset *dataset, size_t i);

/* stock.c: for an array with keys of `store` that is read while its dataset is opened. NOT_FOUND:
 * no value is there, and the options do not say what a missing chunk is; without the array's name.
 * INVALID as of inventory_require(). */
MUST_USE enum status stock_expect(const struct dataset *dataset, const struct store *store,
                                  const struct zarr_array *array, struct error *err);

/* stock.c: *err says that no value of the array is there, and what may be wrong. Returns its
 * status: NOT_FOUND, or INVALID: values are there under names with another separator. */
enum status stock_refuse(const struct store *store, const struct zarr_array *array,
                         struct error *err);

/* slices.c: takes the slices of the options' fields, which are selected by now. Asks the first
 * store for coordinates where names are given, and the other stores, too. INVALID: no such axis,
 * the sample axis, indices out of range, coordinates that differ between stores. Other errors as of
 * coordinates_read() and coordinates_find(). */
MUST_USE enum status slices_settle(struct dataset *dataset, const struct dataset_options *options,
                                   struct error *err);

/* crops.c: lays out the random crop of a field whose whole frame is described, if there is one. */
void crops_describe(struct dataset *dataset, size_t i);

/* crops.c: INVALID: crops of one group are of axes of other lengths. */
MUST_USE enum status crops_check(const struct dataset *dataset, struct error *err);

/* slices.c: the axis of the array that an axis (> 0) of the field's view is. */
int slices_axis(const struct field_origin *origin, int axis);

/* slices.c: makes the selections of a field's array in one store, and sets them in `view`. INVALID:
 * an index is there twice, or out of the array's range. NO_MEMORY. */
MUST_USE enum status slices_select(const struct field_origin *origin,
                                   const struct zarr_array *array, struct store_field *here,
                                   struct zarr_view *view, struct error *err);

/* slices.c: whether both fields, of one array, have the same indices. */
bool slices_same(const struct field_origin *a, const struct field_origin *b);

/* slices.c: whether samples have no such axis of the field's view (axis > 0). */
bool slices_drop(const struct field_origin *origin, int axis);

/* slices.c: appends the slice as dataset_slice_spec.indices, without names. */
void slices_put(const struct field_slice *slice, struct text *out);

/* slices.c: frees slices and selections of a field. */
void slices_free(struct field_origin *origin, size_t store_count);

/* normals.c: takes the means, standard deviations and missing values of the options' fields, whose
 * slices are settled. Asks the first store for the arrays. INVALID: an array does not fit its
 * field, or has an entry that is no finite number, or a std of 0; an attribute is no number. Other
 * errors as of small_array_read(). */
MUST_USE enum status normals_settle(struct dataset *dataset, const struct dataset_options *options,
                                    struct error *err);

/* normals.c: NULL is fine. */
void normals_free(struct zarr_normal *normal);

/* small_array.c: the same of the array that `text` names: STORE::PATH, or a path in the first
 * store, as of dataset_field_spec.array. Errors of store_open_with(), too. */
MUST_USE enum status small_array_read_named(const struct dataset *dataset,
                                            const struct dataset_options *options, const char *text,
                                            struct zarr_hierarchy **ret_hierarchy,
                                            const struct zarr_node **ret_node,
                                            unsigned char **ret_items, struct error *err);

/* normals.c: copies of the options' fields, with the scales and offsets that stand elsewhere, for
 * free(); NULL: none stands elsewhere. INVALID: there is other than one number, or it is not
 * finite, or a scale of 0. Errors of small_array_read_named(). */
MUST_USE enum status normals_read_scales(const struct dataset *dataset,
                                         const struct dataset_options *options,
                                         struct dataset_field_spec **ret_fields, struct error *err);

/* small_array.c: reads all of an array of a store, of at most 64 MiB. *ret_node is in
 * *ret_hierarchy, and *ret_items malloc'ed: both are the caller's. NOT_FOUND: there is no such
 * array. CORRUPT, too: a chunk is missing that the dataset's options do not allow to fill. Other
 * errors as of zarr_hierarchy_open_wanted() and zarr_read_samples(). */
MUST_USE enum status small_array_read(const struct dataset *dataset, const struct store *store,
                                      const char *path, struct zarr_hierarchy **ret_hierarchy,
                                      const struct zarr_node **ret_node, unsigned char **ret_items,
                                      struct error *err);

/* constants.c: reads the constants of the options, with the fields' rows in place. INVALID: there
 * are too many or too large ones, an array has the sample axis, a name is twice. Other errors as of
 * small_array_read(). */
MUST_USE enum status constants_settle(struct dataset *dataset,
                                      const struct dataset_options *options, struct error *err);

/* constants.c: packs them, and takes them from packed bytes. False: the bytes are not valid, or
 * there is no memory. */
struct packed;
void constants_pack(const struct dataset *dataset, struct text *out);
bool constants_unpack(struct dataset *dataset, struct packed *packed);

/* constants.c */
void constants_free(struct dataset *dataset);

/* encoding.c: compares the attributes of `node`, in store number `store`, with those of the field's
 * array in the first store. INVALID: they contradict each other about the values. */
MUST_USE enum status encoding_check(const struct dataset *dataset, size_t store,
                                    const struct field_origin *origin, const struct zarr_node *node,
                                    struct error *err);

/* row_walk.c: goes through the spans that a row is read from, in the order of the reads: frames
 * [begin, end) of an array in one store, for each row field that leads; then items [begin, end) of
 * an array, for each page of each column of each ragged field whose offsets are known. Frames that
 * no sample of the row needs are left out at both ends. */
struct row_span {
    size_t field, store; /* ragged fields: an index into dataset->ragged */
    const struct zarr_array *array;
    uint64_t begin, end; /* in the store */
    size_t offset;       /* of frame `begin`, in the row buffer; of item `begin`, in the page */
    const struct ragged_column *column; /* of a ragged field; NULL: frames */
    uint32_t page;                      /* of the row's pages */
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
    struct ragged_row lies; /* the pages of that ragged field */
};
struct row_walk row_begin(const struct dataset *dataset, uint64_t row);
bool row_next(const struct dataset *dataset, struct row_walk *walk, struct row_span *ret_span);

/* row_walk.c: lists the arrays of all row fields that lead, and of the columns of ragged fields, in
 * all stores (borrowed); returns how many. */
size_t dataset_row_arrays(const struct dataset *dataset,
                          const struct zarr_array *ret_arrays[DATASET_MAX_STORE_FIELDS]);

/* identity.c: makes a hash that changes when chunks may have changed. The hash is of the stores'
 * identities, the metadata documents, and the versions of the documents' values. Asks the store for
 * each document. */
MUST_USE enum status dataset_identify(const struct dataset *dataset, uint64_t *ret_identity,
                                      struct error *err);

/* identity.c: remembers the versions of the fields' metadata documents. */
MUST_USE enum status dataset_note_versions(struct dataset *dataset, struct error *err);

/* identity.c: asks the store for the version of the array's metadata document. INVALID: the
 * document was written anew, or removed. */
MUST_USE enum status dataset_check_unchanged(const struct dataset *dataset,
                                             const struct zarr_array *array, struct error *err);

/* fingerprint.c: the fingerprint of a dataset that is otherwise settled; and of a mix of datasets
 * that have theirs. */
uint64_t fingerprint_of(const struct dataset *dataset);
uint64_t fingerprint_of_mix(const struct dataset *mix);

/* steps.c: INVALID: the spec's steps do not rise, or are out of range. */
MUST_USE enum status steps_check(const struct dataset_field_spec *spec, struct error *err);

/* steps.c: takes the steps of all origins into the dataset. NO_MEMORY. */
MUST_USE enum status steps_keep(struct dataset *dataset, struct error *err);

/* time_doubts.c: appends a line where the sample axis has a coordinate of times that jumps: a
 * warning if samples go across, a note if only samples of several steps would. Without such a
 * coordinate, or where it cannot be read: nothing. Blocks on the store. */
void time_doubts_describe(const struct dataset *dataset, struct text *out);

/* steps.c: with the fields described, sets their halos and row leaders: fields of one view are read
 * together, if any field has steps. NO_MEMORY. */
MUST_USE enum status steps_settle(struct dataset *dataset, struct error *err);

/* steps.c: the steps of all fields with that row leader (SIZE_MAX: of all fields, ragged ones
 * included), each once, rising; a field without steps has step 0. *ret_steps is malloc'ed, the
 * caller's. NO_MEMORY. */
MUST_USE enum status steps_union(const struct dataset *dataset, size_t leader, int32_t **ret_steps,
                                 size_t *ret_count, struct error *err);

/* steps.c: merges steps into malloc'ed ones, which rise; `more` may be in any order, and have some
 * twice. NO_MEMORY: *steps stays. */
MUST_USE enum status steps_merge(int32_t **steps, size_t *count, const int32_t *more,
                                 size_t more_count, struct error *err);

/* made.c: appends origins of the fields that are made for others to origins that are chosen. Errors
 * as of dataset_open(). */
MUST_USE enum status made_fields_add(struct dataset *dataset, struct error *err);

/* samples.c: reads the arrays that the spec names, and makes the anchors, if the spec or any field
 * asks for them. Blocks on the store. Errors as of dataset_open(). */
MUST_USE enum status samples_settle(struct dataset *dataset, const struct dataset_options *options,
                                    struct error *err);

/* bad_frames.c: counts missing chunks of a field, or of the ragged field number `ragged`. */
void note_filled(const struct dataset *dataset, size_t field, uint64_t count);
void note_filled_ragged(const struct dataset *dataset, size_t ragged, uint64_t count);

/* bad_frames.c: marks the samples of a row bad that touch the frames [begin, end) of the row field
 * `field`, which leads. `valid` has a byte for each frame of the row. */
void mark_touching(const struct dataset *dataset, const struct row_walk *row, size_t field,
                   uint64_t begin, uint64_t end, unsigned char *valid);

/* bad_frames.c: marks the samples of a row bad that touch a frame of a ragged field. */
void mark_ragged(const struct dataset *dataset, const struct row_walk *row, size_t ragged,
                 uint64_t frame, unsigned char *valid);

/* layout.c: sets the counts of frames and rows, and what a frame and a sample of each field is.
 * Errors as of dataset_open(). */
MUST_USE enum status layout_settle_rows(struct dataset *dataset, struct error *err);

/* layout.c: with rows and anchors in place, sets everything else: sources, offsets, fingerprint.
 * Errors as of dataset_open(). */
MUST_USE enum status layout_settle(struct dataset *dataset, struct error *err);

#endif
