/* The digest of an array's content: a hash of dtype, shape and values. Chunks, shards, codecs, byte
 * order and the Zarr version do not change the digest. docs/inside/layouts.md, "Content digest",
 * has the definition, and tests/python/content_digest.py a second implementation.
 *
 * The array's bytes in C order are cut into short runs that begin at indices which follow from the
 * size of a sample (an index along axis 0) alone. Each run is hashed with its offset as the seed,
 * and the hashes are added up. So any thread can hash any part at any time. The digest finds damage
 * and mistakes; it does not protect against forgery.
 *
 * Pure functions, safe from any thread.
 */
#ifndef PENSTOCK_SCAN_DIGEST_H
#define PENSTOCK_SCAN_DIGEST_H

#include "zarr/metadata/array.h"

#include <stdint.h>

/* A sum modulo 2^128. Starts as zeros. */
struct digest_sum {
    uint64_t low, high;
};

/* 32 hexadecimal digits. */
struct digest_text {
    char text[33];
};

/* The number of samples that are hashed together. A part must begin at a multiple of this number,
 * and end at one or at the array's end. 1 for samples of 16 bytes or more; 16 at most. */
uint64_t digest_granule(uint64_t sample_bytes);

/* Adds the samples from number `begin` on, `count` of them, in C order and native byte order. */
void digest_add(struct digest_sum *sum, uint64_t sample_bytes, uint64_t begin, uint64_t count,
                const void *samples);

void digest_merge(struct digest_sum *sum, const struct digest_sum *part);

/* The array's digest, of the sum of all its parts. */
struct digest_text digest_of_array(const struct zarr_array *array, const struct digest_sum *sum);

/* The digest of a text. A dataset's digest is that of a text with a line "path digest\n" for each
 * array, in byte order of the paths. */
struct digest_text digest_of_text(const char *text, size_t size);

/* "0123...": a sum as it stands in journals. */
struct digest_text digest_sum_format(const struct digest_sum *sum);

#endif
