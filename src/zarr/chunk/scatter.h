/* Copying a box of items between two layouts: the last step of reading, from a decoded chunk to the
 * samples' memory.
 *
 * Both sides are given by strides, so any order of axes and any distance between items will do.
 * Axes that lie alike on both sides are merged first. Then items are copied in runs where there are
 * runs, else transposed in blocks that fit the first-level cache.
 *
 * Pure functions over the caller's memory: any thread, and none blocks.
 */
#ifndef PENSTOCK_ZARR_CHUNK_SCATTER_H
#define PENSTOCK_ZARR_CHUNK_SCATTER_H

#include "base/convert.h"
#include "zarr/metadata/normal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCATTER_MAX_RANK = 8 };

/* A box of items, and where they lie on both sides. */
struct scatter {
    int rank; /* 0: one item */
    size_t item_bytes;
    uint64_t lengths[SCATTER_MAX_RANK]; /* in items */
    size_t
        from[SCATTER_MAX_RANK];  /* bytes from one index to the next along an axis, at the source */
    size_t to[SCATTER_MAX_RANK]; /* the same at the destination */
    size_t entries[SCATTER_MAX_RANK]; /* the same in a normal's tables, in entries; 0: no normal */
};

/* Drops axes of one index, and merges axes that lie alike on both sides. The box has the same items
 * as before. The other functions need a merged box. */
void scatter_merge(struct scatter *scatter);

/* Whether the box is one run of bytes on both sides. */
bool scatter_is_run(const struct scatter *scatter);

/* Bytes of all items. */
size_t scatter_bytes(const struct scatter *scatter);

/* Copies all items. `source` and `destination` are where the box's first item lies. They must not
 * overlap.
 */
void scatter_copy(const struct scatter *scatter, const void *source, void *destination);

/* As scatter_copy(), and converts items. With `normal` (NULL: none) items are normalised; the box's
 * first item has the tables' entry `entry`. Before conversion, the bytes of each unit of
 * `swap_bytes` are turned round (1: not). The box's item_bytes and `to` are those of converted
 * items. */
void scatter_convert(const struct scatter *scatter, const struct convert *convert,
                     const struct zarr_normal *normal, size_t entry, size_t swap_bytes,
                     const void *source, void *destination);

/* Writes `item` to all items of the destination. */
void scatter_fill(const struct scatter *scatter, const void *item, void *destination);

/* Changes endianness: turns round the bytes of each unit of each item at the destination. */
void scatter_swap(const struct scatter *scatter, size_t unit_bytes, void *destination);

#endif
