/* What ragged fields add to a sample's way from its row to a slot: which items it has, its trailer
 * on the way between two readers (dataset/ragged.h), and where its items go in the slot.
 *
 *     row's pages --copy--> trailer ~~~ exchange ~~~ trailer --> slot
 *     row's pages ---------------------------------------> slot
 *
 * Where the items of a batch's samples begin depends on the lengths of the samples before. A table
 * of starts has this for each slot in flight: for each ragged field one number a step of a sample,
 * and one more, the end of the last; with RAGGED_BOUND the bound of the step; and with a multiple,
 * of each step of a sample, how many items it has without those that pad it. The slot has
 * these numbers too, for the trainer, who may write there: so the table is the reader's own.
 *
 * All of it but what makes and frees is safe from any thread. The offsets of the ragged
 * fields must be there (dataset_hold()) where frames are given.
 */
#ifndef PENSTOCK_RUN_TRAILERS_H
#define PENSTOCK_RUN_TRAILERS_H

#include "dataset/dataset.h"
#include "delivery/ring/layout.h"
#include "run/ragged_deliver.h"

/* Trailers are counted in units, so that 32 GiB fit an int. */
enum { TRAILER_UNIT_BYTES = RAGGED_TRAILER_ALIGNMENT };

struct trailer_field {
    struct ragged_target target;
    size_t step_count;     /* 1 or more */
    size_t offsets_offset; /* in a slot, RAGGED_CSR */
    size_t lengths_offset; /* likewise, where ragged_has_lengths() */
    uint64_t capacity;     /* of a slot, in items */
    size_t starts;         /* in a table: the first of this field's starts */
    size_t bound;          /* RAGGED_BOUND: among these, the step's bound, which is the last */
    size_t counts;         /* with a multiple: among these, the first of the steps' items */
};

struct trailers {
    const struct dataset *dataset;
    uint32_t batch_size; /* most samples of a slot */
    size_t starts_count; /* of a table of starts, for one slot */
    bool finds_episodes; /* samples have steps */
    size_t count;
    struct trailer_field fields[]; /* [count] as dataset->ragged */
};

/* The trailers of each source of a run: one, or those of a mix. All sources have the same ragged
 * fields in the same order, so that tables of starts and slots are the same. */
struct trailer_sources {
    uint32_t count;
    struct trailers *of[]; /* [count] */
};

/* The trailers of a dataset that has ragged fields, or of a mix of such, and where they go in slots
 * of that layout. The caller frees *ret_trailers. The dataset is borrowed. NO_MEMORY. */
MUST_USE enum status trailer_sources_new(const struct dataset *dataset,
                                         const struct ring_layout *layout,
                                         struct trailer_sources **ret_trailers, struct error *err);

/* NULL is fine. */
void trailer_sources_free(struct trailer_sources *trailers);

/* Notes the lengths of the sample at the anchor `frame`, number `batch_index` of a slot's batch, in
 * the slot's table. */
void trailers_note(const struct trailers *trailers, uint64_t frame, uint32_t batch_index,
                   uint64_t *starts);

/* Makes starts of the lengths of a slot's `sample_count` samples, and writes offsets and lengths to
 * the slot. To be called when all of its samples are noted, before any is delivered. `bound`:
 * plan_step_bound(). */
void trailers_start(const struct trailers *trailers, uint32_t sample_count, uint64_t bound,
                    uint64_t *starts, unsigned char *slot);

/* Where the items of a row's samples lie: in its pages, which are borrowed. */
struct trailer_row {
    const struct dataset_pages *pages;
    struct ragged_row lies[RAGGED_MAX_FIELDS]; /* of each ragged field that is not held */
};

/* `row`: of a source of a mix, its own. */
void trailers_find(const struct trailers *trailers, uint64_t row, const struct dataset_pages *pages,
                   struct trailer_row *ret_row);

/* The same row, whose pages are lent by other memory. */
void trailers_copy_row(const struct trailers *trailers, const struct trailer_row *row,
                       const struct dataset_pages *pages, struct trailer_row *ret_row);

/* Where a sample's items lie. */
struct trailer_source {
    const struct trailer_row *row; /* has the anchor `frame` */
    uint64_t frame;                /* of a source of a mix: its own */
    bool good; /* the sample could be read; otherwise its items are taken for zeros */
};

/* Tell the CPU of what will be looked up of a sample that is to be written: its offsets, first; and
 * then how its items lie. */
void trailers_fetch_offsets(const struct trailers *trailers, uint64_t frame);
void trailers_fetch_widths(const struct trailers *trailers, const struct trailer_source *source);

/* Writes a sample's trailer: dataset_trailer_bytes() bytes. */
void trailers_pack(const struct trailers *trailers, const struct trailer_source *source,
                   unsigned char *trailer);

/* Writes the items of the sample at the anchor `frame` from its row's pages, or from its trailer,
 * to its slot; those of fields that are held whole from held memory. `next`: the sample after this
 * one, of the same trailers; NULL: there is none. */
void trailers_fill(const struct trailers *trailers, const struct trailer_source *source,
                   const struct trailer_source *next, unsigned char *slot, uint32_t batch_index,
                   const uint64_t *starts);
void trailers_take(const struct trailers *trailers, uint64_t frame, const unsigned char *trailer,
                   bool good, unsigned char *slot, uint32_t batch_index, const uint64_t *starts);

#endif
