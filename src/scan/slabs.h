/* Cutting an array into slabs. A slab is a run of samples (indices along axis 0) that one thread
 * reads into memory at once.
 *
 * A group is a number of whole rows of chunks, large enough for efficient reads. A slab that is a
 * whole group decodes each chunk once. Where memory has no room for a group, the group is read in
 * several slabs, each of which decodes the chunks again. Pure.
 */
#ifndef PENSTOCK_SCAN_SLABS_H
#define PENSTOCK_SCAN_SLABS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slabs {
    uint64_t sample_count;
    uint64_t group_length;     /* samples of a group */
    uint64_t slab_length;      /* samples of a slab, at most a group's */
    uint64_t slabs_in_a_group; /* 1: each chunk is read once */
    uint64_t count;
};

struct slabs_demand {
    uint64_t sample_count, sample_bytes;
    uint64_t period;  /* samples: groups are multiples of it; what lies closer is decoded twice */
    uint64_t granule; /* samples: slabs begin at multiples of it; divides `period` */
    uint64_t wanted_bytes; /* of a group, if `period` allows */
};

/* The bytes of a slab that reads each chunk once, and the bytes of the smallest possible slab.
 * UINT64_MAX where 64 bits do not hold the number. */
uint64_t slabs_whole_bytes(const struct slabs_demand *demand);
uint64_t slabs_least_bytes(const struct slabs_demand *demand);

/* Slabs of at most `limit_bytes` (at least slabs_least_bytes()); none where there are no samples.
 */
struct slabs slabs_cut(const struct slabs_demand *demand, uint64_t limit_bytes);

/* Samples [*ret_begin, *ret_end) of slab `number` (below count); true: the first of its group. */
bool slabs_range(const struct slabs *slabs, uint64_t number, uint64_t *ret_begin,
                 uint64_t *ret_end);

/* Least common multiple; UINT64_MAX where 64 bits do not hold it. */
uint64_t common_multiple(uint64_t a, uint64_t b);

/* Shares `memory_bytes` out to at most `thread_count` threads so that each has `whole_bytes`; with
 * fewer threads where need be. *ret_share is what one of them may take. NO_MEMORY: not even one
 * thread can have `least_bytes`; the message says how much it takes. */
MUST_USE enum status share_memory(uint64_t memory_bytes, uint64_t whole_bytes, uint64_t least_bytes,
                                  uint32_t *thread_count, uint64_t *ret_share, struct error *err);

#endif
