/* A reader makes the memory of its trainers' rings here: sealed, and with every page present. Any
 * thread. */
#ifndef PENSTOCK_DELIVERY_SERVER_RING_MEMORY_H
#define PENSTOCK_DELIVERY_SERVER_RING_MEMORY_H

#include "base/error.h"
#include "base/text.h"
#include "delivery/ring/ring.h"

#include <stddef.h>
#include <stdint.h>

/* A caller's function that makes all pages of a ring present, on the NUMA node of its choice.
 * `argument` is the caller's, and `rank` the trainer's. Returns 0 or an errno, as memory_populate()
 * does. */
typedef int ring_memory_fill(void *argument, uint32_t rank, void *memory, size_t bytes);

/* Makes a ring, its header and its members ([member_count], at most those of the layout). `fill`
 * makes the pages present, for the first member (NULL: the calling thread does). A
 * ring whose slots begin on huge pages gets pages that were set aside if there are enough.
 * Otherwise a ring of 2 MiB or more gets transparent huge pages if the kernel makes them; else
 * plain pages. *ret_ring is the caller's, for ring_done(). Blocks while pages are made. NO_MEMORY:
 * the ring does not fit; the message has the sizes. IO: a system call failed. */
MUST_USE enum status ring_memory_create(const struct ring_layout *layout,
                                        const struct ring_service *service,
                                        const struct ring_member *members, uint32_t member_count,
                                        ring_memory_fill *fill, void *fill_argument,
                                        struct ring *ret_ring, struct error *err);

/* Appends one line without its end: how many rings of this layout have which pages (`counts`), and
 * which setting of the system would give huge pages to rings that could use huge pages and have
 * plain ones. */
void ring_memory_describe(const struct ring_layout *layout, const uint64_t counts[RING_PAGES_COUNT],
                          struct text *out);

#endif
