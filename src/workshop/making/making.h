/* Makes a dataset of targets (targets.h): Zarr v3, by threads, processes and nodes that share
 * nothing but files.
 *
 * A thread reads a slab from the targets' source, hashes it, encodes and writes its values, reads
 * them back, compares the hash, and notes the slab in a journal. No two slabs write the same value:
 *
 *     DST/<folder>/plan               what is made of what; the first process writes it
 *     DST/<folder>/done.R             slabs that part R has written, each with its hash
 *     DST/<array>/c/...               values, each written whole (temporary name, then rename)
 *     DST/<group or array>/zarr.json  written last, the root's at the very end
 *
 * After an interruption, the next call checks the slabs of the journals against their hashes and
 * does the others. The process that finds all slabs done writes those of late targets and the
 * metadata, and removes the journals. Until then DST has no metadata, so that nobody takes DST for
 * a whole dataset.
 */
#ifndef PENSTOCK_WORKSHOP_MAKING_MAKING_H
#define PENSTOCK_WORKSHOP_MAKING_MAKING_H

#include "base/error.h"
#include "scan/digest.h"
#include "workshop/making/targets.h"

#include <stdbool.h>
#include <stdint.h>

/* Paths of arrays, as a command line names them; borrowed, but the list. */
struct making_names {
    char **names; /* [count] */
    size_t count;
};

struct making_options {
    const char *destination; /* directory */
    bool verify;             /* read back and compare what is written */
    uint32_t thread_count;
    uint64_t memory_bytes;     /* that this process takes */
    uint32_t part, part_count; /* this process does slabs part, part + part_count, ... */
    const char *label;         /* of the progress line; static */
};

struct making_result {
    uint32_t thread_count;
    uint64_t memory_bytes;
    uint64_t slab_count;    /* of the whole */
    uint64_t slabs_left;    /* of other parts, not done yet; 0: the destination is complete */
    uint64_t slabs_found;   /* done by an earlier call */
    uint64_t decoded_bytes; /* of samples read in this call */
    uint64_t elapsed_ns;
    bool already_complete;     /* another part finished before this one began */
    char hint[1024];           /* lines about codec and chunks of the largest array; "": none */
    struct digest_text digest; /* of the content, when complete: as of penstock verify --digest */
};

/* The path of the destination's directory, malloc'ed and returned. Errors as of store_path(). */
MUST_USE enum status making_path(const char *destination, char **ret_path, struct error *err);

/* Whether another part has finished everything already: `path` has no journal in `folder`, and the
 * text `request` stands in the root's document. */
bool making_has_ended(const char *path, const char *folder, const char *request);

/* Does this part. Blocks; draws a progress line. INVALID: the destination holds something else.
 * CORRUPT: what was written reads otherwise. NO_MEMORY: memory_bytes does not hold a slab. IO: the
 * rest; what was written stays, to go on from. Errors of the source. */
MUST_USE enum status making_run(const struct making_options *options, struct targets *targets,
                                struct making_result *ret_result, struct error *err);

#endif
