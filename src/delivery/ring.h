/* One ring of slots in shared memory, which the reader makes (server/ring_memory.h) and the trainer
 * maps, and what both do with it.
 *
 * The ends sleep on eventfds and are woken only when they said that they sleep. Both sides store
 * first and then look, sequentially consistently (Dekker's pattern), so that a wake-up is never
 * lost:
 *
 *     sleeper: waits = 1; look at the counter once more; poll; waits = 0
 *     other:   counter = n; look at waits; write the eventfd if set
 *
 * There is no lock in shared memory: a process that dies anywhere leaves at worst a flag set, which
 * costs the other side a system call a slot. One thread publishes a
 * ring's slots; any thread of the trainer releases them (client/loader.h).
 */
#ifndef PENSTOCK_DELIVERY_RING_H
#define PENSTOCK_DELIVERY_RING_H

#include "base/error.h"
#include "delivery/layout.h"

#include <stdbool.h>

/* What a ring's memory is made of. */
enum ring_pages {
    RING_PAGES_PLAIN,
    RING_PAGES_TRANSPARENT, /* huge ones where the kernel has them at hand */
    RING_PAGES_HUGETLB,     /* huge ones that were set aside (vm.nr_hugepages) */
    RING_PAGES_COUNT
};

struct ring {
    unsigned char *memory; /* the whole memfd, mapped read-write; owned */
    uint64_t bytes;
    int memfd;             /* owned; -1: none */
    enum ring_pages pages; /* as its maker knows */
    struct ring_control *control;
    uint64_t data_offset, slot_stride; /* private copies: shared memory is never trusted */
    uint32_t slot_count;
};

/* Maps memory of a ring, which stays the caller's on failure; ring_lay_out() tells what lies where
 * in it. For those who make rings. NO_MEMORY. */
MUST_USE enum status ring_map(int memfd, uint64_t bytes, struct ring *ret_ring, struct error *err);
void ring_lay_out(struct ring *ring, const struct ring_layout *layout);

/* Maps a ring that came from elsewhere, which is taken also on failure. *ret_header is a checked
 * private copy of its header. PROTOCOL: it is not a sealed ring. UNSUPPORTED: another layout
 * version. NO_MEMORY, IO. */
MUST_USE enum status ring_open(int memfd, struct ring *ret_ring, struct ring_header *ret_header,
                               struct error *err);

/* Unmaps and closes. A zeroed ring with memfd -1 is fine. */
void ring_done(struct ring *ring);

static inline unsigned char *ring_slot(const struct ring *ring, uint64_t sequence)
{
    return ring->memory + ring->data_offset + sequence % ring->slot_count * ring->slot_stride;
}

/* Whether a tail can be: slots are released after they are published, and never more than there
 * are. */
static inline bool ring_tail_possible(const struct ring *ring, uint64_t head, uint64_t tail)
{
    return tail <= head && head - tail <= ring->slot_count;
}

/* Of the `bytes` from `offset` on, how many are on pages that hold nothing else; they begin at
 * *ret_offset. */
uint64_t ring_whole_pages(uint64_t offset, uint64_t bytes, uint64_t page_bytes,
                          uint64_t *ret_offset);

/* Gives the memory of a slot back to the system, for both ends, but pages that it shares with its
 * neighbours, where the system's are larger than a slot's unit. Nobody may use the slot any more,
 * nor write to it: huge pages that were set aside may not come back. A trainer knows so of slots
 * that it does not lease when its reader has hung up. */
void ring_give_back(const struct ring *ring, uint32_t slot);

/* Makes slots below `head` visible to the trainer, and wakes it if it sleeps. */
void ring_publish(struct ring *ring, uint64_t head, int wake_fd);

#endif
