/* Writes a dataset anew with other chunks, shards and codecs, as Zarr v3.
 *
 * The work is divided into slabs of samples: whole rows of the target's values (chunks or shards),
 * and whole rows of the source's chunks where memory allows. A thread reads a slab, hashes it,
 * encodes and writes its values, reads them back, compares the hash, and notes the slab in a
 * journal. No two slabs write the same value, so that threads, processes and nodes share nothing
 * but files:
 *
 *     DST/.penstock-rechunk/plan      what is made of what; the first process writes it
 *     DST/.penstock-rechunk/done.R    slabs that part R has written, each with its hash
 *     DST/<array>/c/...               values, each written whole (temporary name, then rename)
 *     DST/<group or array>/zarr.json  written last, the root's at the very end
 *
 * After an interruption, the next call checks the slabs of the journals against their hashes and
 * does the others. The process that finds all slabs done writes the metadata and removes the
 * journals. Until then DST has no metadata, so that nobody takes DST for a whole dataset.
 */
#ifndef PENSTOCK_TOOLS_RECHUNK_H
#define PENSTOCK_TOOLS_RECHUNK_H

#include "base/error.h"
#include "store/store.h"
#include "tools/digest.h"
#include "zarr/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lengths along the first axes; further axes are whole. */
struct rechunk_shape {
    int rank; /* 0: not given */
    uint64_t lengths[ZARR_MAX_RANK];
};

enum { RECHUNK_LEVEL_AUTO = -1 };

struct rechunk_options {
    const char *source, *destination; /* uri, for messages; directory */
    const char *const *paths;         /* of arrays to take; none: all */
    size_t path_count;
    struct rechunk_shape chunk; /* not given: about 1 MiB */
    struct rechunk_shape shard; /* not given: none */
    const char *codec;          /* "none", "zstd", "gzip", "lz4", "blosc-zstd", ..., "+crc32c" */
    int level;                  /* or RECHUNK_LEVEL_AUTO */
    const char *shuffle;        /* of blosc: "noshuffle", "shuffle", "bitshuffle" */
    bool verify;                /* read back and compare what is written */
    uint32_t thread_count;
    uint64_t memory_bytes;     /* that this process takes */
    uint32_t part, part_count; /* this process does slabs part, part + part_count, ... */
};

struct rechunk_result {
    uint32_t thread_count;
    uint64_t memory_bytes;
    uint64_t slab_count;    /* of the whole */
    uint64_t slabs_left;    /* of other parts, not done yet; 0: the destination is complete */
    uint64_t slabs_found;   /* done by an earlier call */
    uint64_t decoded_bytes; /* read from the source in this call */
    uint64_t elapsed_ns;
    bool already_complete;     /* another part finished before this one began */
    struct digest_text digest; /* of the content, when complete: as of penstock verify --digest */
};

/* Does this part, reading from `source` (borrowed). Blocks; draws a progress line. NOT_FOUND: no
 * source, or no such array. INVALID: the destination holds something else, or options that cannot
 * be. UNSUPPORTED: an array that cannot be read, or not be written as Zarr v3. CORRUPT: the source
 * is damaged, or what was written reads otherwise. NO_MEMORY: memory_bytes does not hold a slab.
 * IO: the rest; what was written stays, to go on from. */
MUST_USE enum status rechunk_run(const struct rechunk_options *options, const struct store *source,
                                 struct rechunk_result *ret_result, struct error *err);

#endif
