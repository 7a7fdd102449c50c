/* A ring that a trainer is attached to, and which of its slots it leases.
 *
 *     a slot      published -> leased -> released -> behind the tail
 *     a ring      current -> old, once another one is attached -> unmapped, once nothing is leased
 *
 * Rings form a list, the current one first. Older rings have earlier batches, and stay only as long
 * as a slot of theirs is leased. A slot has a stamp of its sequence number. Whoever releases the
 * oldest slot moves the tail over all slots that are released. Callers have the loader's lock, but
 * for attached_ring_lease() and attached_ring_obstacle(), which are the consuming thread's.
 */
#ifndef PENSTOCK_CLIENT_ATTACHED_RING_H
#define PENSTOCK_CLIENT_ATTACHED_RING_H

#include "base/error.h"
#include "client/connection.h"
#include "delivery/layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A slot's batch. The stamp is 2s+1 while the batch of sequence s is leased and 2s+2 once it is
 * released, so that a slot's lives are never confused. Epoch and step are atomic only for a wrong
 * caller's sake: one that releases a batch twice may do so while the slot gets its next one. */
struct lease {
    _Atomic uint64_t stamp;
    _Atomic uint64_t epoch, step;
};

/* A ring and what is leased of it. */
struct attached_ring {
    struct connection connection; /* of an old ring, the memory alone */
    uint64_t start;               /* cursor of its first slot */
    uint64_t first;               /* cursor of the first that was not passed over */
    struct lease *leases;         /* [slot_count] */
    uint32_t spare_slots;         /* of slot_count */
    _Atomic uint32_t leased;      /* slots */
    bool vacated; /* nothing comes any more: what is not leased has been given back */
    struct attached_ring *older; /* of which something is leased still */
};

/* Attaches to a connection's ring, which is taken, also on failure, and whose layout is `layout`.
 * `start`: the cursor of its first slot; `first`: of the first batch that is not passed over.
 * NO_MEMORY. */
MUST_USE enum status attached_ring_new(struct connection *connection,
                                       const struct ring_layout *layout, uint64_t start,
                                       uint64_t first, struct attached_ring **ret_attached,
                                       struct error *err);

/* Unmaps it. NULL is fine. */
void attached_ring_free(struct attached_ring *attached);

/* The slot of `sequence` is the trainer's now, with the batch of (epoch, step). */
void attached_ring_lease(struct attached_ring *attached, uint64_t sequence, uint64_t epoch,
                         uint64_t step);

/* A batch that the trainer had before: nobody is to wait for it. */
void attached_ring_pass_over(struct attached_ring *attached, uint64_t sequence);

/* Gives back the slot that holds the batch of (epoch, step). False: this ring's does not. */
bool attached_ring_release(struct attached_ring *attached, uint32_t slot, uint64_t epoch,
                           uint64_t step);

/* The slots that a trainer may count on. */
uint32_t attached_ring_slots(const struct attached_ring *attached);

/* The lease that keeps the ring from moving, even when later ones are released: the oldest one, if
 * as many batches have been taken since as a trainer may lease. `taken`: batches in all. NULL: none
 * does. */
const struct lease *attached_ring_obstacle(const struct attached_ring *attached, uint64_t taken);

/* The cursor behind the last batch that was released, in order, of this ring and older ones. */
uint64_t attached_ring_released(const struct attached_ring *attached);

/* All that was published has been taken, and the reader makes another ring once it has heard of all
 * trainers: what is not leased makes room for that. */
void attached_ring_vacate(struct attached_ring *attached);

#endif
