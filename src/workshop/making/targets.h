/* What a dataset that is being made consists of: arrays with their documents, the groups above
 * them, and where samples come from. rechunk.h and the library ingest settle targets; making.h
 * writes them. A target is cut into slabs (slabs.h), which all threads, processes and nodes number
 * alike.
 */
#ifndef PENSTOCK_WORKSHOP_MAKING_TARGETS_H
#define PENSTOCK_WORKSHOP_MAKING_TARGETS_H

#include "base/error.h"
#include "base/text.h"
#include "scan/slabs.h"
#include "zarr/metadata/array.h"

/* One array that is written, and the array of a source that it is made of. */
struct target {
    const struct zarr_array *source; /* borrowed; NULL: made of something else */
    struct zarr_array array;
    struct text document;
    uint64_t value_shape[ZARR_MAX_RANK]; /* in items: of a chunk, or a shard */
    int delta_axis;                      /* along which differences are stored; 0: none */
    bool late; /* written after all others, by the process that finishes */
    struct slabs_demand demand;
    struct slabs slabs;
    uint64_t first_slab; /* number of its first among those of all arrays */
};

/* The documents of the groups above the arrays. */
struct target_group {
    char *path; /* "" is the root */
    struct text document;
};

/* Where samples come from. Each thread has a reader of its own. */
struct sample_source {
    void *argument;
    /* Memory of a reader for `target`. */
    uint64_t (*reader_bytes)(const void *argument, const struct target *target);
    enum status (*open)(void *argument, void **ret_reader, struct error *err);
    /* Puts samples [begin, end) of `target` at `samples`, in C order and native byte order. */
    enum status (*read)(void *reader, const struct target *target, uint64_t begin, uint64_t end,
                        void *samples, struct error *err);
    void (*close)(void *reader);
    /* Called once by the process that finishes, when all slabs but those of late targets are
     * written; NULL: nothing. */
    enum status (*before_late)(void *argument, struct error *err);
};

struct targets {
    const char *work, *folder;   /* "rechunk", and its journal's folder below the destination */
    struct sample_source source; /* what it borrows outlives the targets */
    size_t count, group_count;
    struct target *arrays;       /* in order of path */
    struct target_group *groups; /* parents first */
    uint64_t slab_count;
    struct text root_document; /* with consolidated metadata */
    struct text plan;          /* all that decides what is written: differs if that does */
};

/* Makes root_document of the documents of all groups and arrays. */
void targets_make_root(struct targets *targets);
void targets_done(struct targets *targets);

/* Cuts all arrays into slabs of at most `slab_bytes`. */
void targets_cut(struct targets *targets, uint64_t slab_bytes);

/* The array that a slab belongs to. */
size_t targets_find(const struct targets *targets, uint64_t slab);

/* A new array, for targets_add(). */
struct json_object;
struct target_wish {
    const char *path;
    enum dtype dtype;
    uint64_t
        text_length; /* of fixed-length texts, in code points; dtype is DTYPE_UINT32. 0: none */
    int rank;
    uint64_t shape[ZARR_MAX_RANK];
    uint64_t chunk[ZARR_MAX_RANK]; /* as long as the shape at most */
    uint64_t value[ZARR_MAX_RANK]; /* whole chunks: a shard, or the chunk */
    const char *codec;             /* as of rechunk_options */
    int level;
    const char *shuffle;
    const char *attributes;              /* a JSON object */
    struct json_object *dimension_names; /* borrowed; NULL: none */
    bool late;
};

/* Adds an array in the root group; the caller adds in order of path. INVALID: an unknown codec.
 * NO_MEMORY. */
MUST_USE enum status targets_add(struct targets *targets, const struct target_wish *wish,
                                 struct error *err);

/* Adds a group. NO_MEMORY. */
MUST_USE enum status targets_add_group(struct targets *targets, const char *path, size_t length,
                                       const char *attributes, struct error *err);

/* For a copy, in v3, of an array with the metadata `document` and `attributes`. Both are changed or
 * left in place, and stay the caller's.
 *
 * Takes the names of dimensions (returned; NULL: none) out of v3's document, or from where xarray
 * puts them in v2's attributes. `rank`: of the copy, where a sub-array's axis has no name. */
struct json_object *target_take_dimensions(const struct zarr_array *source, int rank,
                                           struct json_object *document,
                                           struct json_object *attributes);

/* Writes _FillValue as xarray reads it of v3: a number of floating point as base64 of a float64. Of
 * v2 that is the fill value, if there is one and `has_dimensions`, as xarray takes it; else the
 * attribute. xarray reads no _FillValue of strings and dates in v3: that of v2 is left out. */
void target_translate_fill(const struct zarr_array *source, bool has_dimensions,
                           struct json_object *document, struct json_object *attributes);

/* Appends the object's text. Parses text of our own making; the object is returned. */
void target_append_json(struct json_object *object, struct text *out);
struct json_object *target_json(const char *text);

#endif
