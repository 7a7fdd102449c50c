/* Values of variable length, as numcodecs' vlen-utf8, vlen-bytes and vlen-array store those of one
 * chunk: how many there are, then for each its length in bytes and its bytes. All numbers are
 * uint32, little-endian.
 *
 *     | 3 | 2 | h i | 0 | 5 | w o r l d |
 *
 * Foreign bytes: every length is checked against the chunk. Pure; any thread.
 */
#ifndef PENSTOCK_CODEC_VLEN_H
#define PENSTOCK_CODEC_VLEN_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

/* Sets ret_counts[i] to the number of items of value i, for all `count` values of a decoded chunk
 * of `size` bytes; NULL: checks the chunk alone. Items have `item_bytes` each, 1 or more. CORRUPT:
 * the chunk has another number of values, a value ends behind the chunk or within an item, or bytes
 * follow the last value. */
MUST_USE enum status vlen_measure(const void *chunk, size_t size, uint64_t count, size_t item_bytes,
                                  uint32_t *ret_counts, struct error *err);

/* Checks a decoded chunk against lengths that are known: value i of the first `known` ones has
 * offsets[i + 1] - offsets[i] items. CORRUPT: it has another length; and as vlen_measure(). */
MUST_USE enum status vlen_check(const void *chunk, size_t size, uint64_t count, size_t item_bytes,
                                const uint64_t *offsets, uint64_t known, struct error *err);

enum { VLEN_LENGTH_BYTES = 4 };

/* Where value number `value` of a chunk begins, with its length, if those before it have `bytes` in
 * all. Of the number of all values: the size of the chunk. */
static inline uint64_t vlen_begin(uint64_t value, uint64_t bytes)
{
    return VLEN_LENGTH_BYTES * (1 + value) + bytes;
}

/* Copies the first `count` values of a chunk that vlen_measure() took, one after another. Returns
 * the end of what was written. */
unsigned char *vlen_copy(const void *chunk, uint64_t count, unsigned char *out);

#endif
