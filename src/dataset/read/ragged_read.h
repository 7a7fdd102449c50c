/* What happens to the items of ragged fields when a row is read, beside decoding. Inside
 * src/dataset. Pure; any thread. */
#ifndef PENSTOCK_DATASET_READ_RAGGED_READ_H
#define PENSTOCK_DATASET_READ_RAGGED_READ_H

#include "dataset/read/row_walk.h"

/* Where the items of a span are decoded to, in the page that begins at `page`: to their place, or,
 * if they are to be clamped, so that ragged_clamp() reads each before its bytes are written. */
unsigned char *ragged_target(const struct dataset *dataset, const struct row_span *span,
                             unsigned char *page);

/* Where the page says how the items of the span's chunks lie; NULL: all are whole. */
enum narrow_width *ragged_widths(const struct row_span *span, unsigned char *page);

/* Makes items of the column's dtype of those at ragged_target(): integers outside its range become
 * the nearest ones within. Nothing happens if they have the dtype. */
void ragged_clamp(const struct dataset *dataset, const struct row_span *span, unsigned char *page);

/* The first item of the span, from `from` on (counted in the store), that is an index outside its
 * axis of a dense tensor; span->end if there is none, or the column is no such index. */
uint64_t ragged_find_outside(const struct dataset *dataset, const struct row_span *span,
                             const unsigned char *page, uint64_t from);

/* CORRUPT: says so of that item. */
enum status ragged_refuse_index(const struct dataset *dataset, const struct row_span *span,
                                const unsigned char *page, uint64_t item, struct error *err);

/* The frame that has the item, which is one of the row's, halos included. */
uint64_t ragged_frame_of(const struct dataset *dataset, const struct row_span *span, uint64_t item);

/* The pages of a row that values of variable length go to. All members are borrowed. */
struct ragged_values {
    const struct ragged *ragged;
    const struct ragged_row *lies; /* of the row */
    const struct dataset_pages *pages;
    const struct zarr_array *array; /* whose value_offsets are known */
};

/* Copies the values [begin, end) of the array from a decoded chunk, which has them all. */
void ragged_copy_values(const struct ragged_values *values, uint64_t begin, uint64_t end,
                        const unsigned char *chunk);

/* Sets items to zero in all columns: those of a frame of the row. */
void ragged_zero_frame(const struct dataset *dataset, size_t ragged, const struct ragged_row *lies,
                       const struct dataset_pages *pages, uint64_t frame);

#endif
