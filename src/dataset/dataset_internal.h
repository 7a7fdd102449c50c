/* What a dataset is made of. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_DATASET_INTERNAL_H
#define PENSTOCK_DATASET_DATASET_INTERNAL_H

#include "dataset/dataset.h"
#include "dataset/ragged_origin.h"
#include "store/store.h"
#include "zarr/chunk/chunk.h"
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
    const struct zarr_node *array; /* in the first store, or the own one; NULL: a made field */
    const struct zarr_node *index; /* in the first store; NULL for a direct field */
    enum dataset_match match;      /* of an aligned field, whose index is a coordinate */
    int64_t *matches; /* owned, [frames]: the element in the frame's store, or -1. NULL: the field
                       * is not aligned */
    bool is_aligned;
    size_t own_store; /* the number of a store that has the array for all frames; 0: each store of
                       * the dataset has one for its own frames */
    int axis;         /* of the array: the sample axis */
    struct convert convert;
    struct field_slice slices[ZARR_MAX_RANK]; /* of the array's axes */
    uint64_t crops[ZARR_MAX_RANK]; /* of the array's axes: lengths of a random crop; 0: whole */
    uint32_t crop_group;
    bool is_cropped;            /* at random */
    bool is_absent;             /* of a narrowed dataset */
    struct zarr_normal *normal; /* owned, with its tables; NULL: none */
    bool scale_is_given;        /* the configuration gives a scale or an offset, even 1 or 0 */
    bool is_cf;                 /* scaled by the array's attributes; not known after unpacking */
    const int32_t *steps;       /* [step_count], borrowed: from the spec, later from the dataset */
    size_t step_count;
    struct dataset_phase phases[DATASET_MAX_PHASES]; /* [phase_count] */
    size_t phase_count;
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
    size_t store_count;    /* of the dataset's own stores, whose frames are counted */
    size_t opened_count;   /* of all stores: behind those, the stores of single fields */
    uint64_t *first_frame; /* [store_count + 1]: the first sample of each store; then N */
    uint64_t *first_row;   /* [store_count + 1]: the first row of each store; then M */
    uint64_t source_rows[DATASET_MAX_SOURCES + 1]; /* a mix: the first row of each source; then M */
    bool has_steps;                                /* of any field */
    bool continuous;                               /* the end of a store is no end of an episode */
    uint64_t pad_before, pad_after;
    enum samples_fill fill;
    uint64_t row_chunks;          /* as the options say; 0: to be chosen */
    uint64_t row_length;          /* of a narrowed dataset: that of the whole; else 0 */
    uint64_t held_fields;         /* likewise: bit f */
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
    struct store *store;              /* owned; a joined store if several are opened */
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
    struct zarr_hierarchy **hierarchies; /* [opened_count] */
    const unsigned char *held; /* borrowed; NULL before dataset_hold() or dataset_attach() */
    struct field_origin origins[DATASET_MAX_FIELDS]; /* parallel to dataset->fields */
    _Atomic uint64_t filled[DATASET_MAX_FIELDS];     /* see dataset_filled_chunks() */
    struct dataset_field fields[DATASET_MAX_FIELDS];
    struct dataset_crop crops[DATASET_MAX_FIELDS]; /* of the fields that have one */
    struct ragged raggeds[RAGGED_MAX_FIELDS];
    struct ragged_origin ragged_origins[RAGGED_MAX_FIELDS]; /* parallel to dataset->ragged */
};

/* The number of the store that has a field's array for the frames of store `s` of the dataset.
 * `own_store`: of the field's origin. */
static inline size_t dataset_store_at(size_t own_store, size_t s)
{
    return own_store > 0 ? own_store : s;
}

/* How many arrays a field is made of, one in each store, all of different elements. */
static inline size_t dataset_part_count(const struct dataset *dataset, size_t own_store)
{
    return own_store > 0 ? 1 : dataset->private->store_count;
}

/* sources.c: the number of the store that a field has of its own by that uri; 0: `uri` is NULL. */
size_t dataset_own_store(const struct dataset *dataset, const char *uri);

/* sources.c: how messages call store number `i`: "'a.zarr'". */
struct store_text {
    char text[256];
};
struct store_text dataset_store_text(const struct dataset *dataset, size_t i);

#endif
