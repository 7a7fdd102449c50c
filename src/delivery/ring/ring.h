/* A ring of slots in shared memory, as reader and trainer use it. The reader makes the ring
 * (delivery/server/ring_memory.h), and the trainer maps it.
 *
 * Each side sleeps on an eventfd, and is woken only if its flag `waits` says that it sleeps. Both
 * sides store first and look afterwards, with sequential consistency (Dekker's pattern), so that no
 * wake-up is lost:
 *
 *     sleeper: waits = 1; look at the counter once more; poll; waits = 0
 *     other:   counter = n; look at waits; write the eventfd if set
 *
 * Shared memory has no lock. A process that dies leaves at worst a flag set, which costs the other
 * side a system call a slot. One thread publishes a ring's slots. Any thread of the trainer
 * releases them (delivery/client/loader.h).
 */
#ifndef PENSTOCK_DELIVERY_RING_RING_H
#define PENSTOCK_DELIVERY_RING_RING_H

#include "base/error.h"
#include "delivery/ring/layout.h"

#include <stdbool.h>

/* The kind of pages that a ring's memory has. */
enum ring_pages {
    RING_PAGES_PLAIN,
    RING_PAGES_TRANSPARENT, /* huge pages where the kernel has some at hand */
    RING_PAGES_HUGETLB,     /* huge pages that were set aside (vm.nr_hugepages) */
    RING_PAGES_COUNT
};

struct ring {
    unsigned char *memory; /* the whole memfd, mapped; owned */
    uint64_t bytes;
    int memfd;                         /* owned; -1: none */
    enum ring_pages pages;             /* known to the reader alone; else RING_PAGES_PLAIN */
    struct ring_control *control;      /* of this process' member; of a reader, of the first one */
    uint64_t data_offset, slot_stride; /* private copies: shared memory is never trusted */
    uint32_t slot_count;
    bool is_shared; /* several members have the slots, and none may write to them */
};

/* For the reader that makes a ring: ring_map() maps `memfd`, which is taken unless the call fails,
 * and ring_lay_out() then sets where control words and slots lie. NO_MEMORY: the memory cannot be
 * mapped. */
MUST_USE enum status ring_map(int memfd, uint64_t bytes, struct ring *ret_ring, struct error *err);
void ring_lay_out(struct ring *ring, const struct ring_layout *layout);

/* Maps a ring that another process made, for its member number `index`. Where members share the
 * ring, only control words are mapped for writing. `memfd` is taken, and closed also on failure.
 * *ret_header and *ret_member are private copies; the layout and the member are checked, and the
 * service is not. PROTOCOL: the memory is not sealed, or not a ring, or has no such member.
 * UNSUPPORTED: another layout version. NO_MEMORY: the ring cannot be mapped. */
MUST_USE enum status ring_open(int memfd, uint32_t index, struct ring *ret_ring,
                               struct ring_header *ret_header, struct ring_member *ret_member,
                               struct error *err);

/* Maps a ring that another process made, with all slots for writing, as its reader does. `memfd` is
 * taken, and closed also on failure. *ret_header is a private copy, whose layout is checked. Errors
 * as of ring_open(). */
MUST_USE enum status ring_open_whole(int memfd, struct ring *ret_ring,
                                     struct ring_header *ret_header, struct error *err);

/* Unmaps and closes. A zeroed ring with memfd -1 is fine. */
void ring_done(struct ring *ring);

/* The control words of the reader's or a trainer's mapping, by member. */
static inline struct ring_control *ring_control_of(const struct ring *ring,
                                                   const struct ring_layout *layout, uint32_t index)
{
    return (struct ring_control *)(void *)(ring->memory + layout->control_offset) + index;
}

static inline unsigned char *ring_slot(const struct ring *ring, uint64_t sequence)
{
    return ring->memory + ring->data_offset + sequence % ring->slot_count * ring->slot_stride;
}

/* Whether a tail is possible: no slot is released before it is published, and at most slot_count
 * slots are published and not released. */
static inline bool ring_tail_possible(const struct ring *ring, uint64_t head, uint64_t tail)
{
    return tail <= head && head - tail <= ring->slot_count;
}

/* Returns how many of the `bytes` bytes from `offset` on lie on pages that hold nothing else.
 * *ret_offset is where these pages begin. Pure. */
uint64_t ring_whole_pages(uint64_t offset, uint64_t bytes, uint64_t page_bytes,
                          uint64_t *ret_offset);

/* Gives a slot's memory back to the system, for both processes. Pages that the slot shares with its
 * neighbours stay: the system's pages may be larger than a slot. Nobody may read or write the slot
 * any more, since huge pages that were set aside may not come back. A trainer may call this for
 * slots that it does not lease, once its reader has hung up. Nothing happens where members share
 * the ring: another one may lease the slot. */
void ring_give_back(const struct ring *ring, uint32_t slot);

/* Makes the slots below `head` visible to a member, and wakes a trainer that sleeps with the
 * eventfd `wake_fd`. One thread a ring. Never blocks. */
void ring_publish(struct ring_control *control, uint64_t head, int wake_fd);

#endif
