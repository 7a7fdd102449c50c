/* Writes a dataset anew with other chunks, shards and codecs, as Zarr v3.
 *
 * A slab is whole rows of the target's values (chunks or shards), and whole rows of the source's
 * chunks where memory allows. making.h says how slabs are written; the journal's folder is
 * .penstock-rechunk.
 */
#ifndef PENSTOCK_WORKSHOP_MAKING_RECHUNK_H
#define PENSTOCK_WORKSHOP_MAKING_RECHUNK_H

#include "base/error.h"
#include "store/store.h"
#include "workshop/making/making.h"
#include "zarr/hierarchy/hierarchy.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lengths along the first axes; further axes are whole. */
struct rechunk_shape {
    int rank; /* 0: not given */
    uint64_t lengths[ZARR_MAX_RANK];
};

/* The arrays of a store as a source of samples: of targets with a `source`. Borrows the store. */
struct sample_source rechunk_source(const struct store *store);

enum { RECHUNK_LEVEL_AUTO = -1 };

struct rechunk_options {
    struct making_options making;
    const char *source;         /* uri, for messages */
    struct making_names paths;  /* of arrays to take; none: all */
    struct rechunk_shape chunk; /* not given: about 1 MiB */
    struct rechunk_shape shard; /* not given: none */
    const char *codec;          /* "none", "zstd", "gzip", "lz4", "blosc-zstd", ..., "+crc32c" */
    int level;                  /* or RECHUNK_LEVEL_AUTO */
    const char *shuffle;        /* of blosc: "noshuffle", "shuffle", "bitshuffle" */
    int delta_axis;             /* integers along samples as differences along it; 0: none are */
};

/* Nothing is written inside the source, or inside a folder of its arrays: asked before anything is.
 * INVALID: the destination lies there. */
MUST_USE enum status rechunk_check_apart(const struct store *store,
                                         const struct zarr_hierarchy *hierarchy,
                                         const struct making_options *making, struct error *err);

/* Does this part, reading from `source` (borrowed). Blocks; draws a progress line. NOT_FOUND: no
 * source, or no such array. INVALID: the destination holds something else, or options that cannot
 * be. UNSUPPORTED: an array that cannot be read, or not be written as Zarr v3. CORRUPT: the source
 * is damaged, or what was written reads otherwise. NO_MEMORY: memory_bytes does not hold a slab.
 * IO: the rest; what was written stays, to go on from. */
MUST_USE enum status rechunk_run(const struct rechunk_options *options, const struct store *source,
                                 struct making_result *ret_result, struct error *err);

#endif
