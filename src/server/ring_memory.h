/* The memory of a trainer's ring, as its reader makes it: sealed, and every page present. Any
 * thread.
 */
#ifndef PENSTOCK_SERVER_RING_MEMORY_H
#define PENSTOCK_SERVER_RING_MEMORY_H

#include "base/error.h"
#include "base/text.h"
#include "delivery/ring.h"

#include <stddef.h>
#include <stdint.h>

/* Makes all pages of a trainer's ring present, where they shall lie: 0, or an errno. See
 * memory_populate(). */
typedef int ring_memory_fill(void *argument, uint32_t rank, void *memory, size_t bytes);

/* Makes a ring of its own, sealed, every page present: by `fill` (NULL: by the calling thread).
 * Where slots begin on huge pages, of those that are set aside if there are enough, else of
 * transparent ones if shared memory may have them, else of plain ones. NO_MEMORY: with the sizes.
 * IO. */
MUST_USE enum status ring_memory_create(const struct ring_layout *layout,
                                        const struct ring_service *service, ring_memory_fill *fill,
                                        void *fill_argument, struct ring *ret_ring,
                                        struct error *err);

/* Which pages `counts` rings of that layout have, and what to set where huge ones would be of use
 * and are not had: one line without its end. */
void ring_memory_describe(const struct ring_layout *layout, const uint64_t counts[RING_PAGES_COUNT],
                          struct text *out);

#endif
