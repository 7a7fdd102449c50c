/* A dataset: fields of samples over the arrays of a Zarr hierarchy.
 *
 * Sample i of a dataset is, for each field, element i along axis 0 of an array, or, for a joined
 * field, element index[i] of an array: text = clip_emb[segment_to_video[i]].
 *
 * How fields are read decides where their bytes live:
 *
 *     FIELD_ROW   read chunk row by chunk row into row buffers, and exchanged between readers as
 *                 part of a sample's record
 *     FIELD_HELD  joined arrays and small arrays whose chunks do not fit the rows: read whole at
 *                 start, kept in one piece of memory once per node, never exchanged
 *
 * The row length C is the chunk length along axis 0 (at most N) of the direct field with the most
 * bytes a sample (first by name on a tie). Chunk row r holds samples [r*C, min((r+1)*C, N)). A row
 * buffer is field after field, each [C, sample shape...] at its row_offset; a record is one
 * sample's row fields one after another:
 *
 *     row buffer   | field a: C samples | pad to 64 | field b: C samples | pad to 64 |
 *     record       | field a: 1 sample  | pad to 16 | field b: 1 sample  | pad to 16 |
 *
 * With masking, both have one more part, as if it were a field of one byte: whether the sample
 * could be read. A chunk that cannot be had makes its samples bad: they are zero in all row fields.
 *
 * A dataset is immutable after opening (and holding); any number of threads may read it, each with
 * a `struct dataset_reader` of its own.
 */
#ifndef PENSTOCK_DATASET_DATASET_H
#define PENSTOCK_DATASET_DATASET_H

#include "base/dtype.h"
#include "base/error.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bad_log;

enum { DATASET_MAX_FIELDS = 64, DATASET_MAX_RANK = 8, DATASET_NAME_BYTES = 64 };

enum field_source { FIELD_ROW, FIELD_HELD };

/* What the configuration asks for. */
struct dataset_field_spec {
    const char *name;  /* as trainers see it */
    const char *array; /* path of the array in the hierarchy; "" for an array that is the root */
    const char *index; /* path of the index array, NULL for a direct field */
};

struct dataset_options {
    const char *uri; /* of a Zarr group (or of one array): store/store.h */
    /* NULL: every array whose axis 0 is as long as that of the array with the most bytes, named by
     * its path ("data" for an array that is the root). */
    const struct dataset_field_spec *fields;
    size_t field_count;
    uint64_t hold_limit_bytes; /* arrays up to this decoded size may be held whole */
    const char *cache_dir;     /* of chunks on a disk of this node (store/disk_cache.h); NULL or "":
                                  none */
    uint64_t cache_dir_bytes;  /* its limit; 0: 9/10 of the room there is */
    bool mask;                 /* rows tell which of their samples could be read */
    bool missing_is_bad;       /* a chunk that is not there is an error, not the fill value */
    uint32_t retries;          /* of failed reads (store/store.h) */
    struct store_settings store; /* of remote stores; timeout_s 0: the default ones */
    struct store_watch
        *watch; /* is told of all reads; borrowed, outlives the dataset; NULL: none */
};

struct dataset_field {
    const char *name; /* borrowed from the dataset */
    enum dtype dtype;
    int rank;                         /* dimensions of one sample, 0..7 */
    uint64_t shape[DATASET_MAX_RANK]; /* of one sample */
    size_t sample_bytes;
    enum field_source source;
    size_t row_offset;    /* FIELD_ROW: start of the field in a row buffer, multiple of 64 */
    size_t record_offset; /* FIELD_ROW: start of the field in a record, multiple of 16 */
    /* How often each of the array's chunks is decoded in an epoch: 1 unless chunks straddle rows
     * and the array is too large to be held. */
    double decode_amplification;
};

struct dataset_private;

struct dataset {
    uint64_t sample_count; /* N */
    uint64_t row_length;   /* C */
    uint64_t row_count;    /* M = ceil(N / C) */
    size_t row_bytes;      /* of a row buffer, multiple of 64 */
    size_t record_bytes;   /* of one sample's row fields, multiple of 16 */
    size_t sample_bytes;   /* of one sample's fields together, as delivered */
    size_t held_bytes;     /* of the memory that dataset_hold() fills; 0 if nothing is held */
    size_t scratch_bytes;  /* that each dataset_reader takes */
    bool mask;             /* as the options said: then row buffers end with a byte a sample */
    size_t valid_offset;   /* mask: of those bytes in a row buffer: 1, or 0 for a bad sample */
    bool remote;           /* reading waits for a network */
    uint64_t fingerprint;  /* of fields, shapes, dtypes, chunk grids and codecs: fingerprint.c */
    size_t field_count;
    struct dataset_field *fields; /* in order of name */
    struct dataset_private *private;
};

/* Time and bytes that reading took. Added to, never reset, by dataset_read_row(). */
struct dataset_read_stats {
    uint64_t stored_bytes;        /* read from the store */
    uint64_t memory_bytes;        /* stored bytes from memory: rows kept as stored */
    uint64_t disk_bytes;          /* stored bytes from the node's disk cache */
    uint64_t decoded_bytes;       /* written to rows */
    uint64_t chunk_count;         /* from anywhere */
    uint64_t memory_chunk_count;  /* of those, from memory */
    uint64_t disk_chunk_count;    /* of those, from the disk cache */
    uint64_t missing_chunk_count; /* of those, filled with the fill value */
    uint64_t read_ns;             /* in the store and its caches */
    uint64_t decode_ns;           /* in codecs and copies */
};

/* Opens the hierarchy, settles the fields and checks everything that can be checked without reading
 * chunks; opens the disk cache, which errors are told of in store/disk_cache.h. Blocks on the
 * store. NOT_FOUND: no dataset there, or no such array (the message lists those there are).
 * INVALID: no arrays, sample counts that differ, an index array that is not a one-dimensional
 * integer one, a name used twice, a joined array beyond the hold limit, no direct field at all.
 * UNSUPPORTED: an array that a field needs uses something we do not read; the message names the
 * array and the thing. CORRUPT: metadata that is not valid. */
MUST_USE enum status dataset_open(const struct dataset_options *options,
                                  struct dataset **ret_dataset, struct error *err);

/* The dataset's options and metadata documents as one run of bytes (malloc'ed, returned), and a
 * dataset made of them again without touching the store's metadata: rank 0 opens, the others
 * unpack. Unpacking opens store and disk cache, as dataset_open() does. `watch` as in the options.
 */
MUST_USE enum status dataset_pack(const struct dataset *dataset, void **ret_bytes, size_t *ret_size,
                                  struct error *err);
MUST_USE enum status dataset_unpack(const void *bytes, size_t size, struct store_watch *watch,
                                    struct dataset **ret_dataset, struct error *err);

/* Where rows of a dataset with masking put what is bad: see bad_log.h. Borrowed; to be set before
 * rows are read, or bad chunks are errors. */
void dataset_log_bad(struct dataset *dataset, struct bad_log *log);

/* Reads all held arrays into `memory` (held_bytes, 64-byte aligned, borrowed until dataset_free()),
 * and checks every index of every join. Done by one process a node, at start; blocks on the store.
 * A chunk that cannot be read is an error with masking, too: held arrays are in all samples. IO,
 * CORRUPT: as below.
 * INVALID: an index out of its array's range; the message names array, position and value. */
MUST_USE enum status dataset_hold(struct dataset *dataset, void *memory, struct error *err);

/* Uses `memory` that another process has filled with dataset_hold() for the same dataset. */
void dataset_attach(struct dataset *dataset, const void *memory);

/* Where sample `index` of held field `field` (an index into fields) lies: sample_bytes bytes,
 * borrowed. After dataset_hold() or dataset_attach(). */
const void *dataset_held_sample(const struct dataset *dataset, size_t field, uint64_t index);

/* Samples in row `row`: row_length, less in the last one. */
uint64_t dataset_row_samples(const struct dataset *dataset, uint64_t row);

/* A reader: one thread's decode contexts and scratch memory (scratch_bytes, touched by the caller).
 */
struct dataset_reader;
MUST_USE enum status dataset_reader_new(const struct dataset *dataset,
                                        struct dataset_reader **ret_reader, struct error *err);
void dataset_reader_free(struct dataset_reader *reader);

/* Reads and decodes all row fields of row `row` into `buffer` (row_bytes, 64-byte aligned).
 * Allocates nothing. Padding and the samples beyond N of a short last row are left as they were.
 * The buffer's content is undefined after a failure. IO, CORRUPT: the message names array and
 * chunk; with masking only where the log is full. */
MUST_USE enum status dataset_read_row(struct dataset_reader *reader, uint64_t row, void *buffer,
                                      struct dataset_read_stats *stats, struct error *err);

/* The same with a tape (zarr/chunk.h; NULL is none) that records all chunks of the row, or plays
 * them so that the store is not asked. A tape fits the row that it was recorded with. */
struct zarr_tape;
MUST_USE enum status dataset_read_row_taped(struct dataset_reader *reader, uint64_t row,
                                            void *buffer, struct zarr_tape *tape,
                                            struct dataset_read_stats *stats, struct error *err);

/* What rows take in the store: estimated from the sizes of the chunks of at most 64 rows spread
 * over the dataset, by at most 512 questions to the store. Missing chunks count 0; a chunk that two
 * rows share counts in both. IO, as the store says. Blocks on the store. */
struct dataset_stored_row {
    uint64_t mean_bytes; /* 0: no chunk of the sample is there */
    uint64_t max_bytes;  /* of the rows looked at */
    uint64_t row_count;  /* looked at */
};
MUST_USE enum status dataset_stored_row_bytes(const struct dataset *dataset,
                                              struct dataset_stored_row *ret_row,
                                              struct error *err);

/* Appends in words what differs between the datasets of two different fingerprints: "number of
 * samples, chunk shapes". All that is named differs; a part that differs goes unnamed now and then.
 */
struct text;
void dataset_compare_fingerprints(uint64_t a, uint64_t b, struct text *out);

/* Chunks of a row in the store, for fetching them ahead of dataset_read_row() (read/fetch_stage.h)
 * ---------------------------------------------------------------------------------------------- */

/* What any row takes: chunks, and the bytes that their values may have, each rounded up to 64. */
void dataset_row_demand(const struct dataset *dataset, uint64_t *ret_chunks, uint64_t *ret_bytes);

/* Calls visit() for each chunk that dataset_read_row() of this row will ask the store for as a
 * whole, in the order of the reads; chunks in the disk cache are left out. `key` is borrowed until
 * visit() returns; `capacity` is the most bytes its value may have. */
typedef void dataset_chunk_visit(const struct store *store, const char *key, size_t capacity,
                                 void *argument);
void dataset_row_chunks(const struct dataset *dataset, uint64_t row, dataset_chunk_visit *visit,
                        void *argument);

/* Ends all fetches of the dataset's stores (fetch_stop()). */
void dataset_stop_fetches(const struct dataset *dataset);

/* The disk cache, for its statistics and warnings; NULL if there is none. Borrowed. */
struct disk_cache;
struct disk_cache *dataset_disk_cache(const struct dataset *dataset);

/* Everything that was found in the store, and what field `field` (an index into fields) is made of;
 * the index array is NULL for a direct field. Borrowed from the dataset. */
struct zarr_hierarchy;
struct zarr_array;
const struct zarr_hierarchy *dataset_hierarchy(const struct dataset *dataset);
const struct zarr_array *dataset_field_array(const struct dataset *dataset, size_t field);
const struct zarr_array *dataset_field_index_array(const struct dataset *dataset, size_t field);

void dataset_free(struct dataset *dataset);

#endif
