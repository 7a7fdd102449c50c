/* Ragged fields: samples of unequal lengths, in one or more arrays of items (columns) that lie one
 * sample after another, and an array of offsets that says where each frame's items begin.
 *
 *     offsets  | 0 | 3 | 3 | 7 |           frame 0 has the items 0..2, frame 1 none, frame 2 3..6
 *     columns  | a a a | b b b b |         one item each: a scalar, or a small array
 *
 * Items are numbered through all stores, in the order of frames. Rows are cut by frames, as those
 * of other fields, so that their numbers of items differ. A row's items lie in pages. A page has a
 * fixed number of items of all columns of one field: those of whole chunks, so that a chunk is
 * decoded straight into its page.
 *
 * A field may be joined by an index array: then offsets and columns have entries, and the index
 * says which entry a frame has. Several frames may have the same one, and some entries no frame.
 * Otherwise frame i has entry i. Items of joined fields are held whole by each node: rows have no
 * pages of them. An array of values of variable length is a ragged field of one column. Small ones
 * are held, too, where their chunks do not fit the rows. Otherwise rows decode the chunks of their
 * values aside, and pages begin with the row's first item.
 *
 *     page     | column 0: page_items | column 1: page_items | ... | widths |
 *
 * Each part begins on a boundary of 64 bytes. Of some columns the items of a chunk may be narrow
 * (base/narrow.h): then their kept bytes lie one after another, from where the chunk's first item
 * would. `widths` has the width of each such chunk.
 *
 * Page p of a store has the items [base + p * page_items, base + (p + 1) * page_items), where
 * `base` is the store's first item. A row has the pages of its frames' items, halos included; a row
 * without items has none. The pages of a row's first ragged field come first, then those of the
 * next.
 *
 * Of a field that is sliced (dataset/panel.h) all of this goes for the items that are left: the
 * offsets count these, and rows have pages of these alone.
 *
 * In a mix each source has its own offsets, rows, pages and trailers. struct ragged of the mix has
 * sums (item_count, sample_items), what is largest in any source (most_frame_items, sizes of items
 * and pages), and lengths of the samples and rows of all sources together. The mix has no offsets.
 *
 * Where a sample is sent, its items travel as its trailer: for each ragged field in order, for each
 * column in order, the items of its frames, one step after another, without gaps. The trailer as a
 * whole is padded to 16 bytes. A step outside the episode has the items of the frame that stands in
 * its place, or none with samples.fill zero. Sender and receiver know all lengths from the offsets,
 * which each node holds.
 *
 * All functions are pure, and may be called by any thread.
 */
#ifndef PENSTOCK_DATASET_RAGGED_H
#define PENSTOCK_DATASET_RAGGED_H

#include "anchors/anchors.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/narrow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset;

enum {
    RAGGED_MAX_FIELDS = 8,
    RAGGED_MAX_COLUMNS = 9, /* of a field: at most eight of indices, and one of values */
    RAGGED_MAX_RANK = 8,
    RAGGED_TRAILER_ALIGNMENT = 16,
};

/* How trainers get a ragged field F. */
enum ragged_form {
    RAGGED_CSR,   /* the items of all samples of a batch, one sample after another: F, F.COLUMN...,
                   * and F.offsets, int64 [samples * steps + 1]; with a multiple zeros are behind
                   * each step's items, and F.length, int32, says how many these are */
    RAGGED_PAD,   /* [steps,] pad_items for each sample, zero behind its own, and F.length, int32 */
    RAGGED_DENSE, /* [steps,] dense_shape: the values at the places that the indices say, else 0 */
    RAGGED_BOUND, /* as RAGGED_PAD, with the bound of the batch's step (plan/order/cuts.h) for
                   * pad_items; no steps */
};

/* Several items of one place. Sums of integers stay at the dtype's ends. */
enum ragged_combine { RAGGED_SUM, RAGGED_LAST, RAGGED_MAX };

struct ragged_column {
    const char *name; /* of the array, without its group */
    enum dtype dtype; /* of items, converted; of values of RAGGED_DENSE that of the tensor */
    size_t item_bytes;
    size_t page_offset;   /* of its items in a page */
    uint64_t width_items; /* of a chunk, whose items may be narrow; 0: all items are whole */
    size_t widths_offset; /* in a page: enum narrow_width of each chunk; if width_items is not 0 */
    size_t field; /* that delivers it: an index into dataset.fields; field_count: none does */
};

struct ragged_lengths; /* how many samples and rows there are of which length, about */

struct ragged {
    const char *name;
    enum ragged_form form;
    enum ragged_combine combine;
    bool truncates;     /* RAGGED_PAD: what is longer is cut, instead of refused at the start */
    uint64_t pad_items; /* RAGGED_PAD; else 0 */
    uint64_t multiple;  /* RAGGED_CSR: each step is padded to a multiple of so many items; else 0 */
    int dense_rank;     /* RAGGED_DENSE: as many as there are columns of indices */
    uint64_t dense_shape[RAGGED_MAX_RANK];
    uint64_t dense_items; /* their product */
    size_t step_count;    /* of its fields; 0: a sample has its anchor's frame alone */
    const int32_t *steps; /* [step_count] */
    bool fills_zero;      /* a step outside the sample's episode has no items */
    size_t lengths_field; /* RAGGED_CSR F.offsets, else F.length: an index into dataset.fields;
                           * field_count for RAGGED_DENSE */
    uint64_t panel_count; /* the field has the items of so many columns of a matrix, numbered from
                           * 0; 0: of all */
    size_t values;        /* which column has the values; column_count: there is none, each
                           * item counts 1 */
    size_t column_count;
    struct ragged_column columns[RAGGED_MAX_COLUMNS]; /* of indices, and last of values */
    uint64_t item_count;                              /* of all entries */
    uint64_t frame_items;                             /* of all frames together */
    uint64_t most_frame_items;                        /* no frame has more */
    uint64_t sample_items;       /* of all samples together, all steps, as delivered */
    double decode_amplification; /* how often an epoch decodes each chunk of its columns: rows cut
                                  * chunks in two */
    uint64_t page_items;         /* items of a page */
    size_t columns_bytes;        /* of a page: of its items; multiple of 64, as is */
    size_t page_bytes;           /* all of a page */
    size_t trailer_item_bytes;   /* of one item in a trailer: of all columns */
    bool is_held;                /* all items are held, so that rows have no pages of them, and
                                  * trailers no part: trailer_item_bytes is 0 */
    const uint64_t *offsets;     /* [entries + 1]; NULL before dataset_hold() or dataset_attach() */
    const int64_t *entries;      /* [frames]: which entry a frame has; NULL likewise, and where the
                                  * field is not joined */
    const unsigned char *held_items[RAGGED_MAX_COLUMNS]; /* is_held: of each column; NULL likewise
                                                          */
    const struct ragged_lengths *lengths;
};

/* Whether the arrays of a batch have as many items as its samples: shapes are those of one item. */
static inline bool ragged_has_item_shape(const struct ragged *ragged)
{
    return ragged->form == RAGGED_CSR || ragged->form == RAGGED_BOUND;
}

/* Whether F.length says how many items are real. */
static inline bool ragged_has_lengths(const struct ragged *ragged)
{
    return ragged->form == RAGGED_PAD || ragged->form == RAGGED_BOUND || ragged->multiple > 0;
}

/* Bytes of one item, of all columns. */
static inline size_t ragged_item_bytes(const struct ragged *ragged)
{
    size_t bytes = 0;
    for (size_t c = 0; c < ragged->column_count; c++)
        bytes += ragged->columns[c].item_bytes;
    return bytes;
}

/* The items [begin, end) of a frame, as they are sent and delivered: with `truncates` the first
 * pad_items of the frame. */
struct ragged_span {
    uint64_t begin, end;
};
static inline struct ragged_span ragged_frame(const struct ragged *ragged, uint64_t frame)
{
    uint64_t entry = ragged->entries ? (uint64_t)ragged->entries[frame] : frame;
    uint64_t begin = ragged->offsets[entry], end = ragged->offsets[entry + 1];
    if (ragged->truncates && end - begin > ragged->pad_items)
        end = begin + ragged->pad_items;
    return (struct ragged_span){begin, end};
}

/* The items of step number `k` of the sample at the anchor `frame`: those of the frame at the step,
 * or of what stands in its place outside the episode. Without steps, of the anchor. */
static inline struct ragged_span ragged_step(const struct ragged *ragged,
                                             const struct anchors_episode *episode, uint64_t frame,
                                             size_t k)
{
    if (ragged->step_count == 0)
        return ragged_frame(ragged, frame);
    int64_t at = (int64_t)frame + ragged->steps[k];
    bool before = at < (int64_t)episode->first, behind = at >= (int64_t)episode->end;
    if ((before || behind) && ragged->fills_zero)
        return (struct ragged_span){0};
    return ragged_frame(ragged, before ? episode->first : behind ? episode->end - 1 : (uint64_t)at);
}

/* The most items of any `samples` samples, all steps together: what a batch needs room for. An
 * upper bound, at most 1/32 too large; known when the dataset is open. RAGGED_PAD that truncates:
 * as delivered. */
uint64_t ragged_most_items(const struct ragged *ragged, uint64_t samples);

/* The items of the sample at that anchor, all steps, as delivered. `ragged` is an index into
 * dataset->ragged. After dataset_hold() or dataset_attach(). */
uint64_t dataset_sample_items(const struct dataset *dataset, size_t ragged, uint64_t frame);

/* Where a row's items of one ragged field lie. */
struct ragged_row {
    struct ragged_span items; /* that are in pages: of the row's frames, and of its halos */
    uint64_t page_begin;      /* the item with which the first page begins, at most items.begin */
    uint32_t first_page;      /* of the row's pages, as struct dataset_pages numbers them */
    uint32_t page_count;
};

/* Item i (in [items.begin, items.end)) is number (i - page_begin) % page_items of the page
 * first_page + (i - page_begin) / page_items of the row. `ragged` is an index into dataset->ragged.
 * After dataset_hold() or dataset_attach(). The dataset is no mix. */
struct ragged_row dataset_ragged_row(const struct dataset *dataset, size_t ragged, uint64_t row);

/* The pages of all ragged fields of row `row`; 0 without ragged fields. After dataset_hold() or
 * dataset_attach(). */
uint32_t dataset_row_pages(const struct dataset *dataset, uint64_t row);

/* The most pages of any row, and of any `rows` rows together; 0 without ragged fields. Known when
 * the dataset is open. */
uint64_t dataset_most_row_pages(const struct dataset *dataset);
uint64_t dataset_most_pages(const struct dataset *dataset, uint64_t rows);

/* The bytes of a sample's trailer, padded. `frame` is the sample's anchor. After dataset_hold() or
 * dataset_attach(). The dataset is no mix. */
size_t dataset_trailer_bytes(const struct dataset *dataset, uint64_t frame);

/* The most bytes of the trailers of any `samples` samples together, each padded; 0 without ragged
 * fields. Known when the dataset is open. */
uint64_t dataset_most_trailer(const struct dataset *dataset, uint64_t samples);

/* The same of a mix, of `samples` among draws that follow one another: each source has draws[d] of
 * them at most, and none of its samples comes more than copies[d] times. */
uint64_t mix_most_items(const struct dataset *mix, size_t ragged, const uint64_t *draws,
                        const uint64_t *copies, uint64_t samples);
uint64_t mix_most_trailer(const struct dataset *mix, const uint64_t *draws, const uint64_t *copies,
                          uint64_t samples);

/* Items of one column that lie together: `count` of them, or up to the next item that does not. */
struct ragged_extent {
    const unsigned char *items; /* of the first one, the kept bytes */
    enum narrow_width width;
    uint64_t count;
};

/* Where item number `item` of a page (below page_items) lies, and how many lie so from there on. */
static inline struct ragged_extent ragged_page_extent(const struct ragged *ragged, size_t column,
                                                      const unsigned char *page, uint64_t item)
{
    const struct ragged_column *of = &ragged->columns[column];
    const unsigned char *items = page + of->page_offset;
    if (of->width_items == 0)
        return (struct ragged_extent){items + item * of->item_bytes, NARROW_NOT,
                                      ragged->page_items - item};
    uint64_t chunk = item / of->width_items, in_chunk = item - chunk * of->width_items;
    enum narrow_width width = ((const enum narrow_width *)(page + of->widths_offset))[chunk];
    return (struct ragged_extent){items + chunk * of->width_items * of->item_bytes +
                                      in_chunk * narrow_kept(width, of->item_bytes),
                                  width, of->width_items - in_chunk};
}

/* The memory of a row's pages, whose owner embeds this struct. */
struct dataset_pages {
    /* Where page number `page` of the row lies: dataset.page_bytes at a boundary of 64. Borrowed.
     */
    unsigned char *(*at)(const struct dataset_pages *pages, uint32_t page);
};

#endif
