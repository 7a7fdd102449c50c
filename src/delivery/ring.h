/* One ring of slots in shared memory: made by the reader, mapped by the trainer, and the steps of
 * its two ends.
 *
 * The ends sleep on eventfds and are woken only when they said that they sleep. Both sides store
 * first and then look, sequentially consistently (Dekker's pattern), so that a wake-up is never
 * lost:
 *
 *     sleeper: waits = 1; look at the counter once more; poll; waits = 0
 *     other:   counter = n; look at waits; write the eventfd if set
 *
 * There is no lock in shared memory: a process that dies anywhere leaves at worst a flag set, which
 * costs the other side a system call a slot. Here is the producer's end (one thread) and what both
 * share; the consumer's end, with its releases from any thread, is in loader.c.
 */
#ifndef PENSTOCK_DELIVERY_RING_H
#define PENSTOCK_DELIVERY_RING_H

#include "base/error.h"
#include "base/text.h"
#include "delivery/layout.h"

#include <stdbool.h>

/* What a ring's memory is made of. */
enum ring_pages {
    RING_PAGES_PLAIN,
    RING_PAGES_TRANSPARENT, /* huge ones where the kernel has them at hand */
    RING_PAGES_HUGETLB,     /* huge ones that were set aside (vm.nr_hugepages) */
    RING_PAGES_COUNT
};

/* Makes all pages of a trainer's ring present, where they shall lie: 0, or an errno. See
 * memory_populate(). */
typedef int ring_fill(void *argument, uint32_t rank, void *memory, size_t bytes);

struct ring {
    unsigned char *memory; /* the whole memfd, mapped read-write; owned */
    uint64_t bytes;
    int memfd;             /* owned; -1: none */
    enum ring_pages pages; /* as its maker knows */
    struct ring_control *control;
    uint64_t data_offset, slot_stride; /* private copies: shared memory is never trusted */
    uint32_t slot_count;
};

/* Makes a ring of its own, sealed, every page present: by `fill` (NULL: by the calling thread).
 * Where slots begin on huge pages, of those that are set aside if there are enough, else of
 * transparent ones if shared memory may have them, else of plain ones. NO_MEMORY: with the sizes.
 * IO. */
MUST_USE enum status ring_create(const struct ring_layout *layout,
                                 const struct ring_service *service, ring_fill *fill,
                                 void *fill_argument, struct ring *ret_ring, struct error *err);

/* Which pages `counts` rings of that layout have, and what to set where huge ones would be of use
 * and are not had: one line without its end. */
void ring_describe_pages(const struct ring_layout *layout, const uint64_t counts[RING_PAGES_COUNT],
                         struct text *out);

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
 * that it does not hold when its reader has hung up. */
void ring_give_back(const struct ring *ring, uint32_t slot);

/* Makes slots below `head` visible to the trainer, and wakes it if it sleeps. */
void ring_publish(struct ring *ring, uint64_t head, int wake_fd);

/* Non-blocking eventfd. */
MUST_USE enum status event_new(int *ret_fd, struct error *err);

/* Whether a descriptor that came from elsewhere is such a one. */
bool event_check(int fd);

void event_signal(int fd);
void event_drain(int fd);

#endif
