/* A dataset: fields of samples over the arrays of a Zarr hierarchy.
 *
 * Frames are the indices along the sample axis (axis 0 by default). A sample is an anchor, which is
 * a frame, and has for each field the frames at the field's steps from the anchor, or the anchor's
 * frame alone (samples_spec.h). Frame i of a direct field is element i of its array. Frame i of a
 * joined field is element index[i]: text = clip_emb[segment_to_video[i]]. Items may be converted to
 * another dtype, scaled and shifted (base/convert.h). Rows, records and held memory have the
 * converted items.
 *
 * The arrays may lie in several stores with the same fields. The frames of one store follow those
 * of the store before. An index counts in the array of its own store. No row goes on across the end
 * of a store. A field may have a store of its own: one array for the frames of all stores, found by
 * an index or a coordinate, or for those of a single store, one after another.
 *
 * A field's source decides where its bytes live:
 *
 *     FIELD_ROW   read row by row into row buffers, and exchanged between readers as part of a
 *                 sample's record
 *     FIELD_HELD  joined arrays, and small arrays whose chunks do not fit the rows: read whole at
 *                 start, kept in one piece of memory once per node, never exchanged
 *     FIELD_MADE  what a sample says of the steps of another field: which are real, and of which
 *                 documents they are; in no memory, made for each sample by dataset_make()
 *     FIELD_ABSENT  of a dataset that is narrowed (dataset_narrow()): in no memory, and not read
 *     FIELD_RAGGED  a column of a ragged field, or its items as a dense tensor (ragged.h): read row
 *                 by row into pages beside the row buffer, and exchanged as part of a sample's
 * trailer
 *
 * The leading array is that of the direct field with the most bytes a frame (first by name on a
 * tie). The row length C is row_chunks of its chunks, but at most the frames of a store. A ragged
 * field counts with the mean of its items, and may lead, too: C is then such that a row has the
 * items of row_chunks chunks in the mean. Of a store with frames [a, b), row r holds [a + r*C,
 * min(a + (r+1)*C, b)). The rows of all stores are numbered through. A row buffer is field after
 * field, each with the row's frames, and before and behind them a halo: frames that samples of the
 * row reach by their steps. Fields of one array share one memory, if any field has steps. A record
 * is one sample's row fields, one after another:
 *
 *     row buffer   | field a: halo, C frames, halo | pad to 64 | field b: ... | pad to 64 |
 *     record       | field a: 1 sample | pad to 16 | field b: 1 sample | pad to 16 |
 *
 * Frames of a halo that no sample of the row needs are not read: those beyond the store, or beyond
 * the episodes of the row's samples.
 *
 * With masking, both have one more part, like a field of one byte: 1 if the sample could be read,
 * else 0. (In a row there is a byte for each frame: of the sample there.) A chunk that cannot be
 * had makes the samples bad that have, or repeat, its frames; a chunk of a ragged field, those that
 * have items of the chunk, which become zero. Without steps, a bad sample is zero in all row fields
 * and items. With steps, samples share frames, and the byte alone tells.
 *
 * A mix is a dataset whose samples are those of several others, its sources, which have the same
 * fields, and one more each: "source", the number of the sample's source. The rows of all sources
 * are numbered through. A row has the layout of its source: dataset_source() has the offsets,
 * halos and steps of the row's fields, those of the mix say nothing. Sizes of a mix (row_length,
 * row_bytes, record_bytes) are those of the source that has most; counts, held_bytes and the memory
 * of readers, of all sources together. Ragged fields are in ragged.h. A mix has neither
 * store_frames, store_rows nor anchors.
 *
 * A dataset does not change after opening (and holding). Any number of threads may read the
 * dataset, each with a `struct dataset_reader` of its own.
 */
#ifndef PENSTOCK_DATASET_DATASET_H
#define PENSTOCK_DATASET_DATASET_H

#include "anchors/anchors.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/error.h"
#include "dataset/crop.h"
#include "dataset/options.h"
#include "dataset/ragged.h"
#include "zarr/chunk/read_stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bad_log;

enum field_source { FIELD_ROW, FIELD_HELD, FIELD_MADE, FIELD_RAGGED, FIELD_ABSENT };

/* What a made field says of each step of a sample. */
enum field_made {
    MADE_VALID,    /* bool: the step is in the sample's episode */
    MADE_SEGMENT,  /* int32: the document, from 1 in each sample; 0: the step is missing */
    MADE_POSITION, /* int32: frames from where the document begins in the sample */
    MADE_CROP,     /* int32 [cropped axes]: where the field's random crop begins along each */
    MADE_SOURCE,   /* int32: of a mix: the number of the sample's source */
    MADE_OFFSETS,  /* int64: of a ragged field, for all steps of a batch: where its items begin in
                    * the batch, and one more, where the last ones end */
    MADE_LENGTH,   /* int32 [steps]: of a ragged field: its items */
};

/* A field as settled. */
struct dataset_field {
    const char *name; /* borrowed from the dataset */
    enum dtype dtype;
    int rank; /* dimensions of one sample, 0..8: that of steps, if the field has steps; the array's
               * without the sample axis; and a last one where items are strings or sub-arrays */
    uint64_t shape[DATASET_MAX_RANK]; /* of one sample */
    size_t sample_bytes;
    size_t frame_bytes; /* of a frame in rows and in held memory; sample_bytes is step_count of
                         * them, or one, unless: */
    const struct dataset_crop *crop; /* a random crop of each frame is delivered; borrowed from the
                                      * dataset; NULL: the whole frame */
    size_t step_count;    /* 0: a sample has the anchor's frame alone, and no axis of steps */
    const int32_t *steps; /* [step_count], rising, borrowed from the dataset; NULL: none */
    size_t phase_count;   /* 0: samples have all steps in all epochs */
    const struct dataset_phase *phases; /* [phase_count], borrowed from the dataset. Shape and sizes
                                         * are those of all steps */
    enum samples_fill fill;             /* of steps outside the sample's episode */
    enum field_source source;
    enum field_made made; /* FIELD_MADE: what it says */
    size_t made_for;      /* FIELD_MADE: the field whose steps it is about (an index into fields);
                           * of MADE_SOURCE itself; of MADE_OFFSETS and MADE_LENGTH one of the
                           * ragged field's columns */
    /* FIELD_RAGGED, MADE_OFFSETS and MADE_LENGTH: the ragged field, borrowed from the dataset; else
     * NULL. RAGGED_CSR: shape and sample_bytes are those of one item; the batch has as many as its
     * samples have. Otherwise they are of a sample, as delivered. */
    const struct ragged *ragged;
    size_t column;     /* FIELD_RAGGED: which column; the tensor of RAGGED_DENSE has none, and
                        * column_count here */
    size_t row_leader; /* FIELD_ROW: the field (an index into fields) with whose read this one
                        * comes: both have one memory in rows; mostly the field itself */
    size_t halo_before, halo_after; /* FIELD_ROW: frames in the memory before and behind those of
                                     * the row */
    /* FIELD_ROW: where the row's first frame lies in a row buffer. The frame of step o of the
     * sample at frame i of the row lies at row_offset + (i + o) * frame_bytes. The memory itself
     * begins halo_before frames earlier, at a multiple of 64. */
    size_t row_offset;
    /* FIELD_ROW that is its own row_leader: frames in a record: those at the steps of all fields
     * with this leader. */
    size_t record_frames;
    /* How often each chunk of the array is decoded in an epoch: 1, or more if chunks straddle rows
     * and the array is too large to be held. */
    double decode_amplification;
    /* FIELD_ROW: the dataset.hold_limit from which on the array would be held; 0: it never is. */
    uint64_t hold_bytes;
};

/* How many steps of the field samples of an epoch have: its first ones. Without steps 0. */
static inline size_t dataset_field_steps(const struct dataset_field *field, uint64_t epoch)
{
    size_t count = field->step_count;
    for (size_t i = 0; i < field->phase_count && field->phases[i].epoch <= epoch; i++)
        count = field->phases[i].step_count;
    return count;
}

/* An array that all samples share, as it is stored in the first store. */
struct dataset_constant {
    const char *name; /* the array's path, as the options have it, without a '/' at either end */
    enum dtype dtype;
    int rank; /* with a last dimension where items are strings or sub-arrays */
    uint64_t shape[DATASET_MAX_RANK];
    size_t bytes;
    const void *data;       /* in C order and native byte order */
    const char *attributes; /* as of dataset_field_attributes() */
};

struct dataset_private;

struct dataset {
    uint64_t frame_count;                      /* F */
    uint64_t sample_count;                     /* N: of the anchors; F without */
    uint64_t phase_epochs[DATASET_MAX_PHASES]; /* [phase_count], rising from 0: where phases of any
                                                * field begin */
    uint32_t phase_count;                      /* at least 1 */
    uint64_t row_length;                       /* C, in frames */
    uint64_t row_chunks;                       /* how many chunks of the leading array a row has */
    uint64_t row_count;                        /* M: ceil(f / C) of each store with f frames */
    size_t store_count;
    size_t opened_count;           /* of these stores, and those that fields have of their own */
    const uint64_t *store_frames;  /* [store_count + 1]: the first frame of each store; then F */
    const uint64_t *store_rows;    /* [store_count + 1]: the first row of each store; then M */
    const struct anchors *anchors; /* which frames are samples; NULL: each frame */
    size_t row_bytes;              /* of a row buffer, multiple of 64 */
    /* What row_bytes would be with the default hold limit and without masking. The order depends on
     * this number, so the number depends on nothing but what the fingerprint covers. */
    uint64_t order_row_bytes;
    size_t record_bytes;   /* of one sample's row fields, multiple of 16 */
    size_t sample_bytes;   /* of one sample's fields together, as delivered; of ragged fields on
                            * average */
    size_t held_bytes;     /* of the memory that dataset_hold() fills; 0 if nothing is held */
    size_t scratch_bytes;  /* memory of each dataset_reader */
    size_t inflate_bytes;  /* of scratch_bytes: what stores take to inflate a value */
    size_t inflated_bytes; /* of all deflated values of which rows want parts, once inflated, and of
                            * manifests beyond catalogue_bytes */
    size_t anchor_bytes;   /* memory of anchors, ends of documents, frames of aligned fields, panels
                            * and lists of lengths, of each process */
    size_t constant_bytes; /* of all constants, data and attributes */
    size_t catalogue_bytes; /* memory of what says where chunks lie (manifests, references,
                             * directories of zip archives), which all readers share; further
                             * manifests are in inflated_bytes */
    size_t index_bytes;     /* memory of the cache of shards' indices, which all readers share */
    bool mask;              /* as the options said */
    size_t
        valid_offset; /* mask: where a row buffer has a byte a sample: 1, or 0 for a bad sample */
    bool remote;      /* reading waits for a network */
    uint64_t fingerprint; /* of fields, shapes, dtypes, chunk grids and codecs: fingerprint.c */
    size_t field_count;
    struct dataset_field *fields; /* in order of name */
    size_t ragged_count;
    struct ragged *ragged; /* [ragged_count], in order of name, borrowed; NULL: none */
    size_t page_bytes;     /* of a page of any ragged field: the largest one's; 0: there are none */
    uint32_t source_count; /* of a mix; 0: the dataset is no mix */
    struct dataset **sources; /* [source_count], owned; none is a mix */
    uint32_t source;          /* of a source of a mix: its number */
    size_t constant_count;
    const struct dataset_constant
        *constants; /* [constant_count], in the options' order; borrowed */
    struct dataset_private *private;
};

/* A source of a mix; of a dataset that is no mix: itself (`source` is 0). Pure. */
const struct dataset *dataset_source(const struct dataset *dataset, uint32_t source);

/* The source that has row `row`, and that row's number there: in a dataset that is no mix 0, and
 * `row`. O(log sources). Pure. */
uint32_t dataset_source_of_row(const struct dataset *dataset, uint64_t row,
                               uint64_t *ret_row_in_source);

/* Opens the stores, the hierarchy and the disk cache, settles the fields, reads the arrays that the
 * spec of samples names, and checks everything that can be checked without reading other chunks.
 * Blocks on the store. The caller frees *ret_dataset.
 *
 * NOT_FOUND: there is no dataset, or no such array; the message lists arrays that are there.
 * INVALID: no arrays, sample counts that differ, an index array that is not one-dimensional or not
 * of integers, a name used twice, a joined array beyond the hold limit, no direct field at all, a
 * sample axis that an array does not have, a cast that is not possible, a pattern that excludes
 * nothing, a slice of an axis or of indices that an array does not have, or with coordinates that
 * no axis has (also NOT_FOUND), a mean or std that does not fit; constants that have the sample
 * axis or are too large; steps or a spec of samples that make no sense, or leave no sample; keys or
 * offsets of a ragged field that make no sense, columns that do not fit, a sample longer than
 * `pad`; or stores that differ in a field's dtype, sample shape or chunks, or in what CF attributes
 * say of its values (the message names both stores). UNSUPPORTED: an array that a field needs uses
 * something we do not read; the message names the array and the thing. CORRUPT: metadata that is
 * not valid. NO_MEMORY. Other errors as of store_open_joined(), store_get_text() and
 * disk_cache_open(). */
MUST_USE enum status dataset_open(const struct dataset_options *options,
                                  struct dataset **ret_dataset, struct error *err);

/* A source of a mix. */
struct dataset_mix_source {
    const char *name;               /* in messages */
    struct dataset_options options; /* those of stores, caches, masking and errors are the same for
                                     * all sources */
};

/* Opens a mix of [source_count] datasets, 1 to DATASET_MAX_SOURCES. The limit of
 * index_cache_bytes is one for all sources, that of hold_limit_bytes for each array. INVALID also:
 * a source has a field that another has not, or of another dtype or shape, or a ragged field that
 * is delivered in another way; the message names the field and both sources. Other errors as of
 * dataset_open(), with the source's name. */
MUST_USE enum status dataset_open_mix(const struct dataset_mix_source *sources,
                                      uint32_t source_count, struct dataset **ret_dataset,
                                      struct error *err);

/* Packs the dataset's fields, options and metadata documents into one run of bytes (malloc'ed,
 * returned). Rank 0 opens a dataset and packs the dataset; the other ranks unpack. NO_MEMORY. */
MUST_USE enum status dataset_pack(const struct dataset *dataset, void **ret_bytes, size_t *ret_size,
                                  struct error *err);

/* Makes a dataset of packed bytes, without reading the store's metadata. Opens stores and disk
 * cache as dataset_open() does, with the same errors. CORRUPT: the bytes are not a packed dataset.
 * `watch` as in the options. */
MUST_USE enum status dataset_unpack(const void *bytes, size_t size, struct store_watch *watch,
                                    struct dataset **ret_dataset, struct error *err);

/* The number of the phase that an epoch is in. Pure. */
static inline uint32_t dataset_phase_of(const struct dataset *dataset, uint64_t epoch)
{
    uint32_t phase = 0;
    while (phase + 1 < dataset->phase_count && dataset->phase_epochs[phase + 1] <= epoch)
        phase++;
    return phase;
}

/* As sample_bytes, of an epoch's samples. */
static inline uint64_t dataset_sample_bytes_in(const struct dataset *dataset, uint64_t epoch)
{
    uint64_t bytes = dataset->sample_bytes;
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        if (field->phase_count > 0)
            bytes -= field->sample_bytes / field->step_count *
                     (field->step_count - dataset_field_steps(field, epoch));
    }
    return bytes;
}

/* Whether a field may have fewer indices along an axis of its frames: no random crop goes along the
 * axis, and normalisation has no table of entries for it. */
bool dataset_may_narrow(const struct dataset *dataset, size_t field, int axis);

/* Opens what a reader needs of an open dataset: rows with the same numbers and frames, which hold
 * less. Order, fingerprint and anchors are those of the whole. Neither is a mix, nor masks samples.
 * `narrowing` is borrowed during the call. Errors as of dataset_unpack(). */
MUST_USE enum status dataset_narrow(const struct dataset *whole,
                                    const struct dataset_narrowing *narrowing,
                                    struct store_watch *watch, struct dataset **ret_dataset,
                                    struct error *err);

/* Sets the log (borrowed, see bad_log.h) to which readers of a dataset with masking add bad chunks.
 * Without a log, bad chunks are errors. To be called before rows are read. */
void dataset_log_bad(struct dataset *dataset, struct bad_log *log);

/* Reads all held arrays into `memory` (held_bytes, 64-byte aligned, borrowed until dataset_free()),
 * and checks every index of every join. One process a node calls this once, at the start. Blocks on
 * the store. With masking too, a chunk that cannot be read is an error: held arrays are in all
 * samples. INVALID: an index is out of its array's range; the message names array, position and
 * value; or offsets are not those that were there when the dataset was opened. Other errors as of
 * dataset_read_row(), and NO_MEMORY. Of several errors, that of the first
 * array, in the order of the fields, is returned. Reads with one thread. */
MUST_USE enum status dataset_hold(struct dataset *dataset, void *memory, struct error *err);

/* As dataset_hold(), by several threads, which fetch chunks of remote stores ahead. */
struct dataset_hold_options {
    uint32_t thread_count; /* at most; at least 1 */
    /* For the threads' scratch, and for chunks on their way (of these no more than the settings'
     * fetch_bytes). With too little for one thread, one thread works. */
    uint64_t memory_bytes;
    /* Called by the calling thread a few times a second: so many of all chunks, and so many decoded
     * bytes, are there. NULL: nobody is told. */
    void (*progress)(void *argument, uint64_t chunks, uint64_t chunk_count, uint64_t bytes);
    void *argument; /* of progress() */
};
/* IO also: no thread can be started. */
MUST_USE enum status dataset_hold_with(struct dataset *dataset,
                                       const struct dataset_hold_options *options, void *memory,
                                       struct error *err);

/* The most bytes that one chunk of values of variable length takes while dataset_hold_with() reads
 * it, whatever memory_bytes is; of a mix, of any source. 0: there are no such values. */
uint64_t dataset_hold_room(const struct dataset *dataset);

/* Lets stores take `bytes` more than all readers' scratch, for values that they have inflated: of
 * inflated_bytes, so that no value is inflated again. */
void dataset_keep_inflated(struct dataset *dataset, uint64_t bytes);

/* Uses `memory` (borrowed until dataset_free()) that another process has filled with dataset_hold()
 * for the same dataset. */
void dataset_attach(struct dataset *dataset, const void *memory);

/* Returns where frame `index` of the held field `field` (an index into fields) lies: frame_bytes
 * bytes, borrowed. Only after dataset_hold() or dataset_attach(). Any thread; does not block. The
 * dataset is no mix. */
const void *dataset_held_sample(const struct dataset *dataset, size_t field, uint64_t index);

/* How many frames there are, and how many are no anchors, and why. All zero without anchors, in a
 * mix, and in an unpacked dataset. */
struct anchors_counts dataset_anchor_counts(const struct dataset *dataset);

/* Parts of the frames, for people: those of the dataset's split, of which by groups all, and of a
 * range that alone, or of a split by single frames none; and ranges of missing and wanted frames.
 * None after unpacking. Borrowed. */
enum dataset_part_kind { DATASET_SPLIT, DATASET_MISSING, DATASET_WHERE };
struct dataset_part {
    enum dataset_part_kind kind;
    char *name;    /* "": of a range; of missing and wanted frames the range as written */
    char *array;   /* of a range by a coordinate, whose path this is; else NULL */
    uint64_t runs; /* of frames: episodes, unless the split is by an array */
    uint64_t frames, first, end;
    uint64_t pieces; /* of a range: of frames one after another; 0: the part is no range */
};
const struct dataset_part *dataset_parts(const struct dataset *dataset, size_t *ret_count);

/* The date of a frame, "2016-12-31" or "2016-12-31 18:00", or the number there is instead, by the
 * array `coordinate`, or by the times of the sample axis (NULL). "": there is no such array, or no
 * date that can be read. Blocks on the store. */
enum { DATASET_DATE_BYTES = 32 };
void dataset_date(const struct dataset *dataset, const char *coordinate, uint64_t frame,
                  char ret_date[DATASET_DATE_BYTES]);

/* How many frames row `row` has: row_length, or less in the last row of a store. Of a mix: the row
 * of its source. */
uint64_t dataset_row_frames(const struct dataset *dataset, uint64_t row);

/* The first frame of row `row`. Of a mix: the frame in the row's source. */
uint64_t dataset_row_first(const struct dataset *dataset, uint64_t row);

/* Writes the made field `field` (an index into fields) of the sample at the anchor `frame`, whose
 * key is `key`, to `out` (sample_bytes). Any thread; does not block. The dataset is no mix. */
void dataset_make(const struct dataset *dataset, size_t field, uint64_t frame, uint64_t key,
                  void *out);

/* A reader: one thread's decode contexts and scratch memory. dataset_reader_new() takes and touches
 * scratch_bytes, so the thread that will read calls this. The dataset is borrowed. NO_MEMORY. */
struct dataset_reader;
MUST_USE enum status dataset_reader_new(const struct dataset *dataset,
                                        struct dataset_reader **ret_reader, struct error *err);

/* NULL is fine. */
void dataset_reader_free(struct dataset_reader *reader);

/* Reads and decodes all row fields of row `row` into `buffer` (row_bytes, 64-byte aligned). Blocks
 * on the store; allocates nothing. Padding, and frames that no sample of the row needs, stay as
 * they were. After a failure the content of `buffer` is undefined.
 *
 * CORRUPT: a chunk is damaged, or missing with missing_is_bad; or an index of a tensor of
 * RAGGED_DENSE is outside its shape. IO and other errors of store_get():
 * the store did not give a chunk. The message names array and chunk. With masking these are errors
 * only if the log is full. INVALID: the array's metadata was written anew, or removed, during the
 * run. */
MUST_USE enum status dataset_read_row(struct dataset_reader *reader, uint64_t row, void *buffer,
                                      struct zarr_read_stats *stats, struct error *err);

/* As dataset_read_row(), with pages, a tape, and with what was fetched for the row. `pages`: the
 * memory of dataset_row_pages() pages, which must be there if the row has any. `tape`
 * (zarr/chunk/chunk.h) records all chunks of the row; or plays them, and then the store is not
 * asked. A tape fits the row that the tape was recorded with. `fetched` (store/kind/fetch.h): the
 * store is asked for the rest alone. Each may be NULL: none. */
struct zarr_tape;
struct fetched;
MUST_USE enum status dataset_read_row_with(struct dataset_reader *reader, uint64_t row,
                                           void *buffer, const struct dataset_pages *pages,
                                           struct zarr_tape *tape, struct fetched *fetched,
                                           struct zarr_read_stats *stats, struct error *err);

/* How many chunks of the field `field` (an index into fields) this process has found missing, and
 * taken for the fill value, so far: each time that the store was asked. Of fields that are read
 * together, the first one counts; of a ragged field, the first of its columns. Any thread. */
uint64_t dataset_filled_chunks(const struct dataset *dataset, size_t field);

/* Whether the row that was read last lacks samples because the store did not give them (IO), with
 * masking. Another read may get such samples. Damaged samples stay damaged. */
bool dataset_reader_may_try_again(const struct dataset_reader *reader);

/* How many bytes rows take in the store. An estimate from the sizes of chunks of at most 64 rows,
 * spread over the dataset. Asks the store about 512 questions at most, a remote store about 32, but
 * at least one for each field of each row. Missing chunks count 0. A chunk that two rows share
 * counts in both. */
struct dataset_stored_row {
    uint64_t mean_bytes; /* of a row; 0: none of the chunks is there */
    uint64_t max_bytes;  /* of the largest row looked at */
    uint64_t row_count;  /* rows looked at */
};

/* Blocks on the store. Errors as of store_stat(); with masking IO is no error, and counts 0. */
MUST_USE enum status dataset_stored_row_bytes(const struct dataset *dataset,
                                              struct dataset_stored_row *ret_row,
                                              struct error *err);

/* Appends in words what differs between the datasets of two different fingerprints: "number of
 * samples, chunk shapes". Everything that is named differs. Now and then, something that differs is
 * not named. */
struct text;
void dataset_compare_fingerprints(uint64_t a, uint64_t b, struct text *out);

/* Sets how many bytes second requests may take (store_options.second_room), of all stores together.
 * Before this call, the bound is an eighth of the settings' fetch_bytes. To be called once at most;
 * any thread. */
void dataset_bound_seconds(struct dataset *dataset, uint64_t bytes);

/* Ends all fetches of the dataset's stores, and all later reads: see fetch_stop(). */
void dataset_stop_fetches(const struct dataset *dataset);

/* The disk cache, for its counts and warnings; borrowed; NULL: none. Each source of a mix has its
 * own, which share their directory's limit; the mix has none. */
struct disk_cache;
struct disk_cache *dataset_disk_cache(const struct dataset *dataset);

/* Appends a line for each of the dataset's Icechunk repositories: "note: STORE is read at snapshot
 * ID". */
void dataset_describe_snapshots(const struct dataset *dataset, struct text *out);

/* Appends a line "warning: ..." for each thing that is legal and probably not meant: attributes by
 * which xarray would convert a field and the run does not, chunks with other names than the
 * metadata says, and samples across jumps of the time; a line "note: ..." where the time jumps and
 * no sample has several steps; and dataset_describe_snapshots(). Only for a dataset from
 * dataset_open(), not unpacked. Asks the store for a few sizes, and reads coordinates of times;
 * blocks. */
void dataset_describe_doubts(const struct dataset *dataset, struct text *out);

/* Of a dataset that is no mix: the views (zarr/metadata/view.h) that the field `field` (an index
 * into fields) is made of in the (first) store. Axis 0 of a view is the sample axis. The index
 * array is NULL for a direct field. Borrowed from the dataset. */
struct zarr_array;
const struct zarr_array *dataset_field_array(const struct dataset *dataset, size_t field);
const struct zarr_array *dataset_field_index_array(const struct dataset *dataset, size_t field);

/* The uri of the store that the field has of its own; NULL: it lies in the dataset's. Borrowed from
 * the dataset, which is no mix. */
const char *dataset_field_store(const struct dataset *dataset, size_t field);

/* Of a field that is aligned by its index array: the element of the array that each frame has, in
 * the frame's store or the field's own, or -1: [frame_count], borrowed. Else NULL. */
const int64_t *dataset_field_matches(const struct dataset *dataset, size_t field);

/* The axis of the field's view that `text` names, by the number of the axis in the array or by the
 * name of its dimension: 0 is the sample axis; -1: there is no such axis. */
int dataset_field_axis(const struct dataset *dataset, size_t field, const char *text);

/* The name of the dimension of an axis (> 0) of the field's view, cut short; "": it has none. */
void dataset_field_axis_name(const struct dataset *dataset, size_t field, int axis,
                             char ret_name[DATASET_NAME_BYTES]);

/* The view of a column of a ragged field in that store; `ragged` is an index into dataset->ragged.
 * Axis 0 is that of items. Borrowed from the dataset, which is no mix. */
const struct zarr_array *dataset_ragged_array(const struct dataset *dataset, size_t ragged,
                                              size_t column);

/* How the field's items are converted: `to` is DTYPE_NONE if they stay as they are. */
struct convert dataset_field_convert(const struct dataset *dataset, size_t field);

/* Appends the attributes of the field's array in the first store as a JSON object, within bounds
 * (zarr_node_attributes()); "{}" for a made field. Of a mix: that of its first source. */
void dataset_field_attributes(const struct dataset *dataset, size_t field, struct text *out);

/* Closes the stores and the disk cache. No reader or lister may be left. NULL is fine. */
void dataset_free(struct dataset *dataset);

#endif
