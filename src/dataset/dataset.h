/* A dataset: fields of samples over the arrays of a Zarr hierarchy.
 *
 * Sample i of a dataset is, for each field, element i along one axis of an array (its sample axis,
 * by default axis 0), or, for a joined field, element index[i] of an array: text =
 * clip_emb[segment_to_video[i]]. Its items may be converted to another dtype, scaled and shifted
 * (base/convert.h): rows, records and held memory have what comes of that.
 *
 * The arrays may lie in several stores of the same fields, whose samples follow one another: then
 * all of the above is for each store, and an index counts in the array of its own store. Rows are
 * cut from each store by itself, so that none goes on across its end.
 *
 * How fields are read decides where their bytes live:
 *
 *     FIELD_ROW   read chunk row by chunk row into row buffers, and exchanged between readers as
 *                 part of a sample's record
 *     FIELD_HELD  joined arrays and small arrays whose chunks do not fit the rows: read whole at
 *                 start, kept in one piece of memory once per node, never exchanged
 *
 * The row length C is the chunk length along the sample axis (at most the samples of a store) of
 * the direct field with the most bytes a sample (first by name on a tie). Of a store with samples
 * [a, b) chunk row r holds [a + r*C, min(a + (r+1)*C, b)); rows of all stores are numbered through.
 * A row buffer is field after field, each [C, sample shape...] at its row_offset; a record is one
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

#include "base/convert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bad_log;

enum {
    DATASET_MAX_FIELDS = 64,
    DATASET_MAX_RANK = 8,
    DATASET_NAME_BYTES = 64,
    DATASET_MAX_STORE_FIELDS = 1024, /* fields x stores */
};

enum field_source { FIELD_ROW, FIELD_HELD };

/* What the configuration asks for. */
struct dataset_field_spec {
    const char *name;  /* as trainers see it */
    const char *array; /* path of the array in the hierarchy; "" for an array that is the root */
    const char *index; /* path of the index array, NULL for a direct field */
    /* The array's sample axis: a number, or the name of a dimension (v3); NULL: as the options say
     * for a direct field, 0 for a joined one. */
    const char *sample_axis;
    /* What items become: x * scale + offset, as `cast`. Without a cast, scaled ones keep a floating
     * dtype, and integers become float32. */
    enum dtype cast;      /* DTYPE_NONE: none */
    double scale, offset; /* a scale of 0 stands for 1 */
};

struct dataset_options {
    const char *uri;   /* of a Zarr group (or of one array), or several as a list (base/text.h) */
    const char *group; /* where paths of arrays start, unless they begin with a '/'; NULL or "": the
                          root */
    /* Arrays that fields name are looked up where they are, and no others.
     * NULL: every array in the group whose sample axis is as long as that of the one with the most
     * bytes, named by its path in it ("data" for an array that is the group itself). */
    const struct dataset_field_spec *fields;
    size_t field_count;
    const char *exclude;     /* list of names, or patterns of fnmatch(), that are no default fields;
                                NULL or "": none */
    const char *sample_axis; /* of direct fields; NULL: "0" */
    uint64_t hold_limit_bytes; /* arrays up to this decoded size may be held whole */
    const char *cache_dir;     /* of chunks on a disk of this node (store/disk_cache.h); NULL or "":
                                  none */
    uint64_t cache_dir_bytes;  /* its limit; 0: 9/10 of the room there is */
    bool mask;                 /* rows tell which of their samples could be read */
    bool missing_is_bad;       /* a chunk that is not there is an error, not the fill value */
    uint32_t retries;          /* of failed reads (store/store.h) */
    uint64_t index_cache_bytes;  /* for indices of shards, over all readers (zarr/shard.h) */
    uint64_t coalesce_gap_bytes; /* chunks of a shard that far apart are read by one range; 0: by
                                    what a request costs */
    uint64_t coalesce_bytes;     /* of one such range at most; 0: by what a request costs */
    struct store_settings store; /* of remote stores; timeout_s 0: the default ones */
    struct store_watch
        *watch; /* is told of all reads; borrowed, outlives the dataset; NULL: none */
};

struct dataset_field {
    const char *name; /* borrowed from the dataset */
    enum dtype dtype;
    int rank;                         /* dimensions of one sample, 0..8: the array's but the first,
                                       * and a last one where items are strings or sub-arrays */
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
    uint64_t row_count;    /* M: ceil(n / C) of each store with n samples */
    size_t store_count;
    /* [store_count + 1] each: the first sample and the first row of each store; then N and M. */
    const uint64_t *store_samples, *store_rows;
    size_t row_bytes; /* of a row buffer, multiple of 64 */
    /* The same as it would be with the default hold limit and without masking: of what the
     * fingerprint covers alone, for what the order goes by. */
    uint64_t order_row_bytes;
    size_t record_bytes;  /* of one sample's row fields, multiple of 16 */
    size_t sample_bytes;  /* of one sample's fields together, as delivered */
    size_t held_bytes;    /* of the memory that dataset_hold() fills; 0 if nothing is held */
    size_t scratch_bytes; /* that each dataset_reader takes */
    size_t index_bytes;   /* that the cache of shards' indices takes, which they share */
    bool mask;            /* as the options said: then row buffers end with a byte a sample */
    size_t valid_offset;  /* mask: of those bytes in a row buffer: 1, or 0 for a bad sample */
    bool remote;          /* reading waits for a network */
    uint64_t fingerprint; /* of fields, shapes, dtypes, chunk grids and codecs: fingerprint.c */
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
 * integer one, a name used twice, a joined array beyond the hold limit, no direct field at all, a
 * sample axis that an array does not have, a cast that is not possible, a pattern that excludes
 * nothing, stores that differ in a field's dtype, sample shape or chunks, or
 * in what CF attributes say of its values (both are named).
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

/* Samples in row `row`: row_length, less in the last one of a store; and the first of them. */
uint64_t dataset_row_samples(const struct dataset *dataset, uint64_t row);
uint64_t dataset_row_first(const struct dataset *dataset, uint64_t row);

/* A reader: one thread's decode contexts and scratch memory (scratch_bytes, touched by the caller).
 */
struct dataset_reader;
MUST_USE enum status dataset_reader_new(const struct dataset *dataset,
                                        struct dataset_reader **ret_reader, struct error *err);
void dataset_reader_free(struct dataset_reader *reader);

/* Reads and decodes all row fields of row `row` into `buffer` (row_bytes, 64-byte aligned).
 * Allocates nothing. Padding and what a short row lacks are left as they were.
 * The buffer's content is undefined after a failure. IO, CORRUPT: the message names array and
 * chunk; with masking only where the log is full. */
MUST_USE enum status dataset_read_row(struct dataset_reader *reader, uint64_t row, void *buffer,
                                      struct dataset_read_stats *stats, struct error *err);

/* The same with a tape (zarr/chunk.h; NULL is none) that records all chunks of the row, or plays
 * them so that the store is not asked; and with what was fetched for the row (store/fetch.h; NULL:
 * nothing), so that the store is asked for the rest alone. A tape fits the row that the tape was
 * recorded with. */
struct zarr_tape;
struct fetched;
MUST_USE enum status dataset_read_row_with(struct dataset_reader *reader, uint64_t row,
                                           void *buffer, struct zarr_tape *tape,
                                           struct fetched *fetched,
                                           struct dataset_read_stats *stats, struct error *err);

/* Whether the row that was read last lacks samples that the store did not give (IO), where masking
 * goes on without: another time they may be had. What is damaged stays so. */
bool dataset_reader_may_try_again(const struct dataset_reader *reader);

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
 * samples, chunk shapes". All that is named differs; an aspect that differs goes unnamed now and
 * then.
 */
struct text;
void dataset_compare_fingerprints(uint64_t a, uint64_t b, struct text *out);

/* What a row takes from stores, for fetching it ahead of dataset_read_row() (read/fetch_stage.h)
 * ---------------------------------------------------------------------------------------------- */

/* What any row takes: pieces, and the bytes that they may have, each rounded up to 64. Bytes are
 * without the gaps between inner chunks that are read by one range. */
void dataset_row_demand(const struct dataset *dataset, uint64_t *ret_pieces, uint64_t *ret_bytes);

/* Lists what rows are read from. Belongs to one thread; the dataset is borrowed. NO_MEMORY. */
struct dataset_lister;
MUST_USE enum status dataset_lister_new(const struct dataset *dataset,
                                        struct dataset_lister **ret_lister, struct error *err);
void dataset_lister_free(struct dataset_lister *lister); /* NULL is fine */
size_t dataset_lister_bytes(const struct dataset *dataset);

/* Calls visit() for each piece (zarr/chunk.h) that dataset_read_row() of this row will ask remote
 * stores for, in the order of the reads. Left out is what the disk cache has. Of a shard whose
 * index is not known, that alone is told: once dataset_take_index() had it, the row is to be listed
 * again. The piece is borrowed until visit() returns, but for its array. */
struct zarr_piece;
typedef void dataset_piece_visit(const struct store *store, const struct zarr_piece *piece,
                                 void *argument);
void dataset_row_pieces(struct dataset_lister *lister, uint64_t row, dataset_piece_visit *visit,
                        void *argument);

/* Keeps an index that was told, and is now there; `bytes` and `value_bytes` as in
 * zarr_take_index(). One that makes no sense is left to whoever reads the row. */
void dataset_take_index(struct dataset_lister *lister, const struct zarr_piece *piece,
                        const void *bytes, uint64_t value_bytes);

/* How many bytes values may take that are asked for a second time (store_options.second_room), of
 * all stores together: an eighth of the settings' fetch_bytes until this is called, once. Any
 * thread. */
void dataset_bound_seconds(struct dataset *dataset, uint64_t bytes);

/* Ends all fetches of the dataset's stores (fetch_stop()). */
void dataset_stop_fetches(const struct dataset *dataset);

/* The disk cache, for its statistics and warnings; NULL if there is none. Borrowed. */
struct disk_cache;
struct disk_cache *dataset_disk_cache(const struct dataset *dataset);

/* Appends a line "warning: ..." for each thing that is legal and hardly meant: fields that xarray
 * would convert by their attributes and a run does not, chunks that are named otherwise than the
 * metadata says. Of a dataset that was opened, not unpacked. Asks the store for a few sizes. */
void dataset_describe_doubts(const struct dataset *dataset, struct text *out);

/* What was looked for and found in the (first) store, and what field `field` (an index into fields)
 * is made of there: views (zarr/view.h), whose axis 0 is the sample axis. The index array is NULL
 * for a direct field. Borrowed from the dataset. */
struct zarr_hierarchy;
struct zarr_array;
const struct zarr_hierarchy *dataset_hierarchy(const struct dataset *dataset);
const struct zarr_array *dataset_field_array(const struct dataset *dataset, size_t field);
const struct zarr_array *dataset_field_index_array(const struct dataset *dataset, size_t field);

/* What becomes of the field's items: `to` DTYPE_NONE if they stay as they are. */
struct convert dataset_field_convert(const struct dataset *dataset, size_t field);

void dataset_free(struct dataset *dataset);

#endif
