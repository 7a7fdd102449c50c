/* Shared by the parts of rechunking: rechunk.c (the process), rechunk_target.c (what to
 * write), rechunk_document.c (an array's zarr.json), rechunk_write.c (a slab), rechunk_journal.c
 * (slabs that are done). */
#ifndef PENSTOCK_TOOLS_RECHUNK_INTERNAL_H
#define PENSTOCK_TOOLS_RECHUNK_INTERNAL_H

#include "base/text.h"
#include "store/store.h"
#include "tools/rechunk.h"
#include "tools/slabs.h"
#include "zarr/hierarchy.h"

#include <pthread.h>

/* One array of the source, and the array that is made of it. */
struct target {
    const struct zarr_array *source; /* borrowed */
    struct zarr_array array;
    struct text document;
    uint64_t value_shape[ZARR_MAX_RANK]; /* in items: of a chunk, or a shard */
    struct slabs_demand demand;
    struct slabs slabs;
    uint64_t first_slab; /* number of its first among those of all arrays */
};

/* The documents of the groups above the arrays. */
struct target_group {
    char *path; /* "" is the root */
    struct text document;
};

struct targets {
    size_t count, group_count;
    struct target *arrays;       /* in order of path */
    struct target_group *groups; /* parents first */
    uint64_t slab_count;
    struct text root_document; /* with consolidated metadata */
    struct text plan;          /* all that decides what is written: differs if that does */
};

/* Settles what is to be written, but for slabs. Errors as of rechunk_run(). */
MUST_USE enum status targets_make(const struct rechunk_options *options, const struct store *store,
                                  const struct zarr_hierarchy *hierarchy,
                                  struct targets *ret_targets, struct error *err);
void targets_done(struct targets *targets);

/* Cuts all arrays into slabs of at most `slab_bytes`. */
void targets_cut(struct targets *targets, uint64_t slab_bytes);

/* The array that a slab belongs to. */
size_t targets_find(const struct targets *targets, uint64_t slab);

/* Memory of a thread beside its slab. */
uint64_t target_thread_bytes(const struct target *target, bool verify);

/* The data_type of an array in v3, and its fill_value from the source's `document`
 * (rechunk_type.c); both returned. Strings, raw bytes and dates have the names of zarr-python. A
 * member of a structured dtype is an array of its own. */
struct json_object;
struct json_object *target_type(const struct zarr_array *source);
struct json_object *target_fill(const struct zarr_array *source, struct json_object *document);

/* The source with the shape that is written: a member that is a sub-array has a last axis more.
 * UNSUPPORTED: cannot be written so. */
MUST_USE enum status target_shape(const struct zarr_array *source, struct zarr_array *ret_shaped,
                                  struct error *err);

/* Parses text of our own making; the object is returned. */
struct json_object *target_json(const char *text);

/* The members of the source's metadata that the target keeps; borrowed. */
struct target_origin {
    struct json_object *document, *attributes;
    struct json_object *dimension_names; /* NULL: none */
};

/* Makes the zarr.json (returned) of an array with the shape of `source` (rechunk_document.c). A
 * value is a shard if `value_shape` is larger than `chunk_shape`. INVALID: an unknown --codec. */
MUST_USE enum status target_document(const struct rechunk_options *options,
                                     const struct zarr_array *source, const uint64_t *chunk_shape,
                                     const uint64_t *value_shape,
                                     const struct target_origin *origin,
                                     struct json_object **ret_document, struct error *err);

/* Writing
 * ------------------------------------------------------------------------------------------- */

/* One thread's readers and buffers, for one array at a time. `destination` NULL: nothing is
 * written, for slab_encode(). */
struct slab_writer;
MUST_USE enum status slab_writer_new(const struct store *source, const struct store *destination,
                                     const struct targets *targets, uint64_t slab_bytes,
                                     bool verify, struct slab_writer **ret_writer,
                                     struct error *err);
void slab_writer_free(struct slab_writer *writer);

/* Reads slab `number` from the source, writes its values, and reads them back where that is wanted.
 */
MUST_USE enum status slab_write(struct slab_writer *writer, uint64_t number,
                                struct digest_sum *ret_sum, uint64_t *ret_bytes, struct error *err);

/* The two halves of slab_write() alone, for benchmarks: reading into `samples`, and encoding from
 * `samples` without writing. */
MUST_USE enum status slab_read(struct slab_writer *writer, uint64_t number, void *samples,
                               struct error *err);
MUST_USE enum status slab_encode(struct slab_writer *writer, uint64_t number, const void *samples,
                                 struct error *err);

/* Whether the destination's slab reads as `sum`. False, too, if reading fails. */
bool slab_is_written(struct slab_writer *writer, uint64_t number, const struct digest_sum *sum);

/* The journal
 * ------------------------------------------------------------------------------------------- */

struct journal {
    int folder_fd, file_fd, lock_fd; /* -1: none */
    bool resumed;                    /* an earlier call has left something */
    pthread_mutex_t mutex;
};

/* Makes DST and its journal, or opens those of the same plan. `slab_bytes` is what the first
 * process found right, for all. INVALID: DST holds something else, another plan's journal, or is
 * being written by another process. */
MUST_USE enum status journal_open(const char *path, const struct targets *targets, uint32_t part,
                                  uint64_t *slab_bytes, struct journal *journal, struct error *err);
void journal_close(struct journal *journal);

/* Any thread. */
MUST_USE enum status journal_add(struct journal *journal, uint64_t slab,
                                 const struct digest_sum *sum, struct error *err);

/* Reads the journals of all parts into done[slab_count], and sums[slab_count] where done. */
MUST_USE enum status journal_read(const struct journal *journal, uint64_t slab_count, bool *done,
                                  struct digest_sum *sums, struct error *err);

/* Waits until this process is the only one that finishes. */
MUST_USE enum status journal_lock(struct journal *journal, struct error *err);

/* Removes the journal's folder, and what killed writers left in the tree below `path`. */
void journal_remove(struct journal *journal, const char *path);

#define JOURNAL_FOLDER ".penstock-rechunk"

#endif
