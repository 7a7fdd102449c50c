/* Reads and decodes all chunks of arrays, finds what is damaged, and hashes the content.
 *
 * Slabs of samples are read by several threads, each with a chunk reader of its own, so that sizes,
 * checksums and shards' indices are checked by the code that runs read with. A chunk that cannot be
 * read is noted, and reading goes on.
 */
#ifndef PENSTOCK_SCAN_VERIFY_H
#define PENSTOCK_SCAN_VERIFY_H

#include "base/error.h"
#include "scan/digest.h"
#include "store/store.h"
#include "zarr/hierarchy/hierarchy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VERIFY_MAX_BAD = 100000 }; /* chunks that are listed one by one */

struct verify_options {
    bool digest;           /* hash the content, too */
    bool missing_is_bad;   /* a chunk that is not there is damage, not the fill value */
    uint32_t thread_count; /* at most */
    uint64_t memory_bytes; /* for readers and slabs of all threads */
};

/* One chunk that cannot be read. */
struct verify_bad {
    size_t array;    /* in the results */
    uint64_t number; /* in C order of the chunk grid */
    char *chunk;     /* "3.0.0" */
    char *key;       /* of the value in the store: of the chunk, or its shard */
    char *cause;     /* one line */
};

struct verify_array {
    const struct zarr_node *node; /* borrowed */
    uint64_t chunk_count;
    uint64_t missing_count; /* chunks that the store does not have */
    uint64_t bad_count;     /* chunks that cannot be read, and with missing_is_bad missing ones */
    struct digest_sum sum;
    struct digest_text digest; /* "" if it was not asked for, or chunks are bad; and of values of
                                * variable length */
};

struct verify_result {
    size_t array_count;
    struct verify_array *arrays; /* in the given order */
    size_t bad_count;            /* listed: at most VERIFY_MAX_BAD */
    struct verify_bad *bad;      /* by array and number */
    uint32_t thread_count;
    uint64_t memory_bytes;                                /* that was taken */
    uint64_t chunk_count, missing_count, bad_chunk_count; /* of all arrays */
    uint64_t stored_bytes, decoded_bytes;
    uint64_t elapsed_ns;
    struct digest_text digest; /* of all arrays together; "" unless all of them have one */
};

/* Settles the number of threads that there is memory for, and their memory, before a verification.
 * Errors as below. */
MUST_USE enum status verify_settle(const struct store *store, const struct zarr_node *const *nodes,
                                   size_t node_count, const struct verify_options *options,
                                   uint32_t *ret_thread_count, uint64_t *ret_memory_bytes,
                                   struct error *err);

/* Verifies the arrays of `nodes`, all of them readable, of values of variable length, of one value
 * without axes or of none, in order of their paths; `store` is borrowed. Blocks; draws a progress
 * line. OK even if damage was found: the result tells. verify_result_done() frees the result.
 * NO_MEMORY: the memory does not hold one sample of an array; IO: no thread can be started. */
MUST_USE enum status verify_run(const struct store *store, const struct zarr_node *const *nodes,
                                size_t node_count, const struct verify_options *options,
                                struct verify_result *ret_result, struct error *err);

void verify_result_done(struct verify_result *result);

#endif
