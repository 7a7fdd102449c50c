/* Selections: the indices along an axis that a view has (view.h), and where they lie in chunks.
 *
 * A selection is made of runs of indices. The view has the indices of the first run, then those of
 * the second, and so on: in any order, none twice. Runs are cut at the ends of chunks into
 * portions, which are sorted by chunk. So a walk goes through the chunks that hold anything, and
 * through no others.
 *
 * A selection does not change: any thread, and nothing blocks.
 */
#ifndef PENSTOCK_ZARR_METADATA_SELECTION_H
#define PENSTOCK_ZARR_METADATA_SELECTION_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* The most indices along an axis that may be selected one by one. */
enum { ZARR_MAX_RUNS = 1 << 16 };

/* The indices [first, first + count) of an array's axis. */
struct zarr_run {
    uint64_t first, count;
};

/* `count` indices of one chunk. */
struct zarr_portion {
    uint64_t from; /* the first one, in the chunk */
    uint64_t to;   /* the first one, in the view */
    uint64_t count;
};

/* To be read by src/zarr alone, but for `count`, the runs and the chunks. */
struct zarr_selection {
    uint64_t count; /* indices: the view's length along the axis */
    size_t run_count;
    struct zarr_run *runs;
    size_t chunk_count;
    uint64_t *chunks;              /* [chunk_count], rising: chunks that hold anything */
    size_t *first_portions;        /* [chunk_count + 1]: of each chunk */
    struct zarr_portion *portions; /* of one chunk in the order of the chunk's indices */
};

/* Makes a selection for an axis with `length` indices and chunks of `chunk_length`. `runs` (at most
 * ZARR_MAX_RUNS) is copied. INVALID: there are no runs or too many, a run is empty or beyond
 * `length`, or an index comes twice. NO_MEMORY. */
MUST_USE enum status zarr_selection_new(uint64_t length, uint64_t chunk_length,
                                        const struct zarr_run *runs, size_t run_count,
                                        struct zarr_selection **ret_selection, struct error *err);

/* NULL is fine. */
void zarr_selection_free(struct zarr_selection *selection);

/* Where chunk number `chunk` is in selection->chunks; such a chunk must be there. */
size_t zarr_selection_find(const struct zarr_selection *selection, uint64_t chunk);

#endif
