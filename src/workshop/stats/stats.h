/* Statistics of a run's own part of a dataset: the samples that its configuration selects. Shared
 * by stats.c (the command), stats_open.c (the dataset), stats_fields.c (of which fields, along
 * which axes), stats_rows.c (which frames there are), stats_journal.c (what processes share),
 * stats_tables.c (numbers and where they are kept) and stats_write.c (the store).
 *
 * Rows are cut into blocks, which depend on the dataset alone. A thread claims a block by a lock on
 * a file, reads its rows, and writes what it counted into a file of its own:
 *
 *     DST/.penstock-stats/claim.B     locked while a thread of any process does block B
 *     DST/.penstock-stats/pass.P.B    what pass P found in block B
 *     DST/.penstock-stats/plan        stands for dataset and options
 *
 * So threads, processes and nodes share nothing but files, a process that dies leaves its blocks to
 * the others, and the next call goes on. Blocks are added up in their order: the numbers do not
 * depend on who did what.
 *
 * Means and standard deviations are those of float64: of runs of up to 512 values by two passes
 * over the run, which are put together as Chan, Golub and LeVeque do ("Algorithms for computing the
 * sample variance", 1983). Quantiles are exact: values are keys of 32 or 64 bits in the order of
 * the values, and each pass counts how many keys of those that may still be the wanted ones have
 * which next bits (a radix select).
 */
#ifndef PENSTOCK_WORKSHOP_STATS_STATS_H
#define PENSTOCK_WORKSHOP_STATS_STATS_H

#include "base/text.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "scan/digest.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    STATS_MOST_QUANTILES = 32,
    STATS_MOST_TARGETS = 2 * STATS_MOST_QUANTILES, /* two neighbours each */
    STATS_MOST_ENTRIES = 1 << 16,                  /* of a field */
    STATS_MOST_BLOCKS = 256,
};

/* Of one entry. Numbers are taken from `origin` on, the first value: far from 0 little is lost. */
struct stats_moments {
    uint64_t count;
    double origin, mean, squares; /* of the distances from the mean, added up */
    double least, greatest;
};

/* A quantile's two neighbours, or others' too: how the key begins, and how many keys of the entry
 * are before all that begin so. */
struct stats_target {
    uint64_t prefix, before;
};

struct stats_field {
    size_t number; /* of the dataset's field */
    const char *name;
    enum dtype dtype;
    int rank; /* axes of a frame */
    uint64_t lengths[DATASET_MAX_RANK];
    bool kept[DATASET_MAX_RANK];                           /* the axis has entries of its own */
    char axis_names[DATASET_MAX_RANK][DATASET_NAME_BYTES]; /* "": none */
    uint64_t entry_count, frame_items;
    uint32_t key_bits;
    /* Results so far. */
    struct stats_moments *moments; /* [entry_count] */
    struct stats_target *targets;  /* [entry_count][STATS_MOST_TARGETS], prefixes rise */
    uint32_t *target_counts;       /* [entry_count] */
    uint32_t most_targets;         /* of any entry */
    uint32_t known_bits;           /* of the targets' keys */
    uint32_t bits;                 /* that the pass under way finds; 0: none is left */
};

struct stats {
    const struct dataset *dataset; /* borrowed */
    size_t field_count;
    struct stats_field fields[DATASET_MAX_FIELDS];
    double quantiles[STATS_MOST_QUANTILES];
    size_t quantile_count;
    uint64_t block_count;
    uint32_t pass;
    char *path;                 /* of the destination; owned by the command */
    struct digest_text request; /* stands for dataset and options */
    int folder_fd;              /* the journal's */
};

/* What a thread counts in one block. */
struct stats_table {
    struct stats_moments *moments[DATASET_MAX_FIELDS]; /* pass 0 */
    uint64_t *counts[DATASET_MAX_FIELDS]; /* [entry][target][1 << bits]; NULL: the field is done */
};

/* stats_open.c: opens the dataset of the fields `names`, [name_count], or of all that have numbers
 * (name_count 0): `notes` gets a line about the others. Samples are at the frames where they are
 * with all fields. Of fields that are not among `names` no array is read. INVALID: the
 * configuration is a mix, a name is not there or its field is ragged or has no numbers, or no field
 * has. Errors as of dataset_open(). */
MUST_USE enum status stats_open(const struct config *config, const char *const *names,
                                size_t name_count, struct text *notes, struct dataset **ret_dataset,
                                struct error *err);

/* stats_fields.c: whether the field `number` of the dataset has numbers, one shape each frame. */
bool stats_has_numbers(const struct dataset *dataset, size_t number);

/* stats_fields.c: takes the dataset's fields. `by`: "AXIS,AXIS" or "FIELD=AXIS,AXIS" each, as the
 * user says; [by_count]. INVALID: a field or an axis that is not there, too many entries, names
 * that meet in the store, no field at all. NO_MEMORY. */
MUST_USE enum status stats_take_fields(struct stats *stats, const struct dataset *dataset,
                                       const char *const *by, size_t by_count, struct error *err);
void stats_done(struct stats *stats);

/* stats_rows.c: reads rows of block `block` into `table`. `reader` and `row` (dataset->row_bytes)
 * are the thread's. Errors of dataset_read_row(). */
MUST_USE enum status stats_read_block(const struct stats *stats, uint64_t block,
                                      struct dataset_reader *reader, unsigned char *row,
                                      struct stats_table *table, struct error *err);

/* stats_tables.c. A frame of a field is `items`, as float64, of one line: `stride` entries from one
 * item to the next (0 or 1). */
void stats_add_line(const struct stats *stats, size_t field, struct stats_table *table,
                    uint64_t entry, uint64_t stride, const double *items, size_t count);

/* Bytes of a table of the pass under way; and of what threads share: the sums of all tables, and
 * the results so far. */
uint64_t stats_table_bytes(const struct stats *stats);
uint64_t stats_shared_bytes(const struct stats *stats);
MUST_USE enum status stats_table_new(const struct stats *stats, struct stats_table *ret_table,
                                     struct error *err);
void stats_table_clear(const struct stats *stats, struct stats_table *table);
void stats_table_free(struct stats_table *table);

/* Writes a block's table to its file, and adds a block's file to a table: moments are put together
 * in the order of the calls. CORRUPT: the file is damaged. IO: it cannot be written, or is not
 * there. */
MUST_USE enum status stats_table_write(const struct stats *stats, uint64_t block,
                                       const struct stats_table *table, struct error *err);
MUST_USE enum status stats_table_add(const struct stats *stats, uint64_t block,
                                     struct stats_table *table, struct error *err);
bool stats_has_block(const struct stats *stats, uint64_t block);

/* Passes over the data that the quantiles take at most, from the first one on. */
uint32_t stats_most_passes(const struct stats *stats);

/* Sets the bits of the first pass, or takes what the pass under way has found and sets those of the
 * next one. False: nothing is left to find. */
void stats_begin(struct stats *stats);
bool stats_next_pass(struct stats *stats, const struct stats_table *sums);

/* The quantile `q` of an entry, between its neighbours as numpy.quantile() has it; after the last
 * pass. NaN: the entry has no values. */
double stats_quantile(const struct stats_field *field, uint64_t entry, double q);

/* stats_journal.c. */
struct digest_text stats_make_request(const struct stats *stats, const char *uri);

/* The first process writes the plan; the others find the same. INVALID: another one. IO. */
MUST_USE enum status stats_settle_plan(const struct stats *stats, struct error *err);

/* Takes a block. *ret_fd: the lock, which goes with the descriptor; -1: another thread has the
 * block, of any process. IO. */
MUST_USE enum status stats_claim(const struct stats *stats, uint64_t block, int *ret_fd,
                                 struct error *err);

/* *ret_free: nobody is at one of the missing blocks of the pass. IO. */
MUST_USE enum status stats_count_missing(const struct stats *stats, uint64_t *ret_missing,
                                         bool *ret_free, struct error *err);

/* Blocks until others have done what they are at, or have died. IO. */
MUST_USE enum status stats_wait_for_others(const struct stats *stats, struct error *err);

/* One process writes the store; the others wait for its end. Errors of stats_write(). */
MUST_USE enum status stats_finish(const struct stats *stats, struct error *err);

/* A process that finishes removes what others may still read: waits for its end. */
void stats_wait_for_finish(const struct stats *stats);
bool stats_has_ended(const struct stats *stats);
void stats_remove_journal(const struct stats *stats);

/* stats_write.c: writes the store, its root's document last; `request` stands there. IO. */
MUST_USE enum status stats_write(const struct stats *stats, const char *path, const char *request,
                                 struct error *err);

#endif
