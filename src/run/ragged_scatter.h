/* Makes a dense tensor of a frame's items: each item's value goes to the cell that its indices say,
 * and all other cells are zero. Pure; any thread.
 *
 * A tensor is cleared a little ahead of the items, so that items in order of their cells find the
 * cells in the cache; far ahead of items in no order, and then past the caches where the tensor is
 * large. The CPU is told of cells that lie apart before they are written.
 * docs/inside/exchange.md has the measurement.
 */
#ifndef PENSTOCK_RUN_RAGGED_SCATTER_H
#define PENSTOCK_RUN_RAGGED_SCATTER_H

#include "run/ragged_items.h"

/* Writes all of `cells`: dense_items of `dtype`, at any address. The ragged field is RAGGED_DENSE,
 * has fewer than 2^32 cells, and its values, if it has any, are of `dtype`. All indices are within
 * its shape: rows are checked when they are read.
 *
 * Several items of one cell, in the order of items: sums of integers stay at the dtype's ends,
 * those of bool are true or false; the last one; or the largest one, which is NaN if any is. */
void ragged_scatter(const struct ragged *ragged, enum dtype dtype, const struct ragged_items *items,
                    unsigned char *cells);

#endif
