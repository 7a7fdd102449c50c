/* Copying a box of items between two layouts: the last step of reading, from a decoded chunk to
 * where the samples have to be.
 *
 * Both sides are given by strides, so that any order of axes and any distance between items will
 * do. Axes that lie the same way on both sides are merged first. What is left is copied in runs
 * where there are some, else transposed in blocks that fit the first-level cache.
 *
 * Pure functions over the caller's memory, safe from any thread.
 */
#ifndef PENSTOCK_ZARR_SCATTER_H
#define PENSTOCK_ZARR_SCATTER_H

#include "base/convert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCATTER_MAX_RANK = 8 };

/* A box of items, and where they lie on both sides. */
struct scatter {
    int rank; /* 0: one item */
    size_t item_bytes;
    uint64_t lengths[SCATTER_MAX_RANK]; /* in items */
    size_t from[SCATTER_MAX_RANK];      /* bytes from one index to the next along that axis */
    size_t to[SCATTER_MAX_RANK];
};

/* Drops axes of one index and merges those that are one on both sides; the same items are meant as
 * before. The functions below take what this gives. */
void scatter_merge(struct scatter *scatter);

/* Whether the box is one run of bytes on both sides. */
bool scatter_is_run(const struct scatter *scatter);

/* Bytes of all items. */
size_t scatter_bytes(const struct scatter *scatter);

/* Copies from the box's first item at `source` to the one at `destination`; they must not overlap.
 */
void scatter_copy(const struct scatter *scatter, const void *source, void *destination);

/* The same of items that are converted on the way, and before that have the bytes of each unit of
 * `swap_bytes` turned round (1: not). The box's items and strides at the destination are those of
 * converted items. */
void scatter_convert(const struct scatter *scatter, const struct convert *convert,
                     size_t swap_bytes, const void *source, void *destination);

/* Puts `item` in all items of the destination. */
void scatter_fill(const struct scatter *scatter, const void *item, void *destination);

/* Turns the bytes of each unit of each item at the destination round: the other endianness. */
void scatter_swap(const struct scatter *scatter, size_t unit_bytes, void *destination);

#endif
