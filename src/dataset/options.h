/* How a dataset is opened: its stores, its fields, and which indices of their arrays they have. */
#ifndef PENSTOCK_DATASET_OPTIONS_H
#define PENSTOCK_DATASET_OPTIONS_H

#include "base/dtype.h"
#include "dataset/ragged.h"
#include "dataset/ragged_lengths.h"
#include "dataset/samples_spec.h"
#include "store/store.h"
#include "zarr/metadata/selection.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_watch;
struct zarr_normal;

enum {
    DATASET_MAX_FIELDS = 64,
    DATASET_MAX_RANK = 8,
    DATASET_NAME_BYTES = 64,
    DATASET_MAX_STORE_FIELDS = 1024, /* fields x stores */
    DATASET_MAX_SOURCES = 64,
    DATASET_MAX_CONSTANTS = 64,
    DATASET_MAX_PHASES = 32,           /* of all fields together */
    DATASET_CONSTANT_BYTES = 64 << 20, /* of all constants together */
};

/* Which indices along one axis of its array a field has. */
struct dataset_slice_spec {
    const char *axis; /* a number, or the name of a dimension */
    /* "n": one index, and the field has no such axis; "a:b": those from a on and before b; or
     * "[...]", a list (base/text.h) of both. Numbers below 0 count from the end, and an end that is
     * left out is that of the axis. Instead of a number there may be a name, which is an item of
     * the axis' coordinates (slice.c), or "=" and any item of these. "@PATH": a list in a file,
     * an item a line. */
    const char *indices;
};

enum dataset_crop_at {
    CROP_NONE,
    CROP_CENTER, /* in the middle: as a slice */
    CROP_RANDOM, /* anywhere, in each sample anew: crop.h */
};

/* How many indices of an axis, or of its slice, a field has. */
struct dataset_crop_spec {
    const char *axis; /* as of dataset_slice_spec */
    uint64_t length;
};

/* The arrays of a ragged field (ragged.h): paths as of dataset_field_spec.array. NULL: none. */
struct dataset_ragged_spec {
    const char *offsets; /* NULL: the field is ragged only if its `array` is a sparse group
                          * (zarr/hierarchy/sparse_group.h), and the group says which arrays */
    const char *index;   /* a list (base/text.h) of columns that say where in a dense tensor an item
                          * belongs */
    const char *columns; /* a list of columns that say nothing of the kind; excludes index */
    const char *values;
    /* In a dataset that is unpacked, as settled; as of struct ragged_origin: */
    const struct ragged_lengths *lengths;
    const void *list; /* [list_bytes] */
    size_t list_bytes;
    bool is_held;
};

/* How trainers get a ragged field. */
struct dataset_deliver_spec {
    bool is_given; /* else RAGGED_CSR, and the field need not be ragged */
    enum ragged_form form;
    enum ragged_combine combine;
    bool truncates;
    uint64_t pad_items; /* RAGGED_PAD: at least 1 */
    uint64_t multiple;  /* RAGGED_CSR: each step of a sample is padded to a multiple of so many
                         * items; 0: it is not */
    int dense_rank;     /* RAGGED_DENSE; 0: the group says which shape */
    uint64_t dense_shape[RAGGED_MAX_RANK];
};

/* What becomes of an item x by statistics. An entry whose values are all the same becomes 0. */
enum dataset_stats_form {
    STATS_MEAN_STD, /* (x - mean) / std */
    STATS_MIN_MAX,  /* from -1, of the least value, to 1, of the greatest */
};

/* From an epoch on, until the next phase, samples have the first `step_count` steps of a field. */
struct dataset_phase {
    uint64_t epoch;
    size_t step_count;
};

/* One field that the configuration asks for. */
/* Which of a field's own frames a frame of the dataset has, by their coordinates. */
enum dataset_match {
    MATCH_EXACT,
    MATCH_NEAREST,  /* of two as near the later one */
    MATCH_PREVIOUS, /* the last one that is not later */
};
#define DATASET_MATCH_NAMES "exact", "nearest", "previous"

struct dataset_field_spec {
    const char *name;  /* as trainers see it */
    const char *array; /* path of the array in the hierarchy; "" for an array that is the root */
    const char *index; /* path of the index array, NULL for a direct field */
    /* Instead: path of an array with a coordinate for each frame, which is compared with that of
     * the field's own array, in its group: named as its sample axis, or else `dates`. NULL: none.
     */
    const char *align;
    enum dataset_match match;
    const void *matches; /* int64[match_count], in a dataset that is unpacked: what was found */
    size_t match_count;
    /* Uri of another store, which has the field's array (and the coordinate of it) at paths from
     * the root. `index` and `align` stay in the dataset's own stores. Without these, element i of
     * the array belongs to frame i of the dataset, which has one store then. NULL: the dataset's
     * stores. */
    const char *store;
    /* The array's sample axis: a number, or the name of a dimension. NULL: options.sample_axis for
     * a direct field, 0 for a joined field. */
    const char *sample_axis;
    /* An item x becomes x * scale + offset, as `cast`. Without a cast, a scaled field keeps a
     * floating dtype, and integers become float32. */
    enum dtype cast;      /* DTYPE_NONE: none */
    double scale, offset; /* a scale of 0 stands for 1 */
    /* Items are scaled by the attributes scale_factor and add_offset of their array, and those that
     * are _FillValue or missing_value become NaN. Excludes scale and offset. */
    bool cf;
    /* Instead of scale and offset: where they stand, as of mean, and one number each. NULL: no such
     * place. */
    const char *scale_at, *offset_at;
    /* Numbers ("0.5", or "0.1,0.2" for the entries of an axis), the path of an array in the first
     * store, or STORE::PATH for one of another store. NULL: none. Then an item x, scaled or not,
     * becomes (x - mean) / std (zarr/metadata/normal.h), without a cast a float32. normals.c says
     * which entry of an array belongs to which item. */
    const char *mean, *std;
    /* Instead: a store of `penstock stats`, with a group of the field's name. Excludes mean and
     * std.
     */
    const char *stats;
    enum dataset_stats_form stats_form;
    const struct zarr_normal *normal; /* instead, in a dataset that is unpacked: as settled */
    /* Frames of a sample, relative to its anchor, rising. NULL: the anchor alone, and no axis of
     * steps. */
    const int32_t *steps; /* [step_count] */
    size_t step_count;
    /* Rising, the first of epoch 0. None: samples have all steps in all epochs. Anchors are those
     * of all steps in any case. */
    struct dataset_phase phases[DATASET_MAX_PHASES];
    size_t phase_count;
    struct dataset_slice_spec slices[DATASET_MAX_RANK];
    size_t slice_count;
    struct dataset_crop_spec crops[DATASET_MAX_RANK];
    size_t crop_count;
    enum dataset_crop_at crop_at; /* of all of them */
    uint32_t crop_group; /* of random crops: those with the same number lie at the same place */
    bool segments;       /* fields NAME.segment and NAME.position are made for the field */
    struct dataset_ragged_spec ragged; /* cast, scale and offset are of the values */
    struct dataset_deliver_spec deliver;
};

/* How a dataset is opened. All pointers are borrowed during the call, but for `watch`. */
/* What a reader reads of a dataset whose trainers need no more. A field keeps its number, and may
 * be left out, or have fewer indices along axes. */
enum { NARROW_MOST_AXES = 2, NARROW_MOST_RUNS = 16 };
struct dataset_narrowed {
    const char *name; /* borrowed */
    bool is_absent;
    int axis_count;
    struct {
        int axis; /* of a frame: of a sample without its axis of steps */
        size_t run_count;
        struct zarr_run runs[NARROW_MOST_RUNS]; /* of the field's indices there; they rise, apart */
    } axes[NARROW_MOST_AXES];
};
struct dataset_narrowing {
    uint64_t row_length;                   /* of the whole dataset */
    uint64_t held;                         /* bit f: field f is held there, and so it is here */
    const struct dataset_narrowed *fields; /* [field_count] those that are not read whole */
    size_t field_count;
};

struct dataset_options {
    const char *uri;   /* of a Zarr group (or of one array), or several as a list (base/text.h) */
    const char *group; /* where paths of arrays begin, but for those with a '/' in front; NULL or
                          "": the root */
    /* The fields; no other arrays are looked up. NULL: every array in the group whose sample axis
     * is as long as that of the array with the most bytes. Such a field is named by the array's
     * path in the group ("data" for an array that is the group itself). */
    const struct dataset_field_spec *fields; /* [field_count] */
    size_t field_count;
    /* Which level of images of OME-Zarr: its number, or "AXIS=SCALE", the level whose scale along
     * the axis, in the image's unit, is nearest. Then an image's group, which `fields` name as if
     * it were an array, stands for the level's array, whose axes have the image's names. Without
     * `fields` they are the image that is the group, as "image", and its labels. NULL or "": there
     * are arrays alone. */
    const char *multiscale;
    struct dataset_samples_spec samples; /* zeros: each frame is a sample */
    /* Arrays without the sample axis, of the first store: a list (base/text.h) of paths; NULL or
     * "": none. */
    const char *constants;
    /* Samples of this ragged field are counted by these bounds, and none may be longer than the
     * last. NULL: of none. */
    const char *length_field;
    struct length_bounds length_bounds;
    const char *exclude;       /* names that are no default fields: a list of patterns of fnmatch();
                                  NULL or "": none */
    const char *sample_axis;   /* of direct fields; NULL: "0" */
    uint64_t hold_limit_bytes; /* arrays up to this decoded size may be held whole */
    const char *cache_dir; /* of chunks on a disk of this node (store/cache/disk_cache.h); NULL or
                              "": none */
    uint64_t cache_dir_bytes;    /* limit of cache_dir; 0: its size and 9/10 of the free room */
    bool mask;                   /* rows tell which of their samples could be read */
    bool missing_is_bad;         /* a missing chunk is an error, not the fill value */
    bool fills_empty;            /* an array that is read while opening, of which no chunk at all is
                                    there, is the fill value, and no error */
    uint32_t retries;            /* of failed reads (store/store.h) */
    uint64_t index_cache_bytes;  /* for indices of shards, over all readers (zarr/chunk/shard.h) */
    uint64_t coalesce_gap_bytes; /* inner chunks of a shard with no larger gap between them are read
                                    by one range; 0: by what a request costs */
    uint64_t coalesce_bytes;     /* the most bytes of such a range; 0: by what a request costs */
    struct store_settings store; /* of the stores; timeout_s 0: store_settings_default() */
    struct store_watch *watch;   /* gets all calls; borrowed, outlives the dataset; NULL: none */
    const struct dataset_narrowing *narrowing; /* of dataset_narrow(); NULL: none */
};

#endif
