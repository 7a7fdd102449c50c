/* A ring that the trainer has mapped, and which of the ring's slots the trainer leases.
 *
 *     a slot      published -> leased -> released -> behind the tail
 *     a ring      current -> old, once another one is attached -> unmapped, once nothing is leased
 *                 vacated, once its reader is gone and its published batches are taken
 *
 * Rings form a list, the current one first. Older rings hold earlier batches, and stay only as long
 * as one of their slots is leased. Each slot has a stamp of its sequence number. The thread that
 * releases the oldest slot moves the tail over all released slots. Callers hold the loader's lock,
 * except for attached_ring_lease() and attached_ring_obstacle(), which belong to the thread that
 * calls loader_next().
 */
#ifndef PENSTOCK_DELIVERY_CLIENT_ATTACHED_RING_H
#define PENSTOCK_DELIVERY_CLIENT_ATTACHED_RING_H

#include "base/error.h"
#include "delivery/client/connection.h"
#include "delivery/ring/layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The batch of one slot. The stamp is 2s+1 while the batch of sequence s is leased, and 2s+2 once
 * it is released, so that two batches of one slot are never confused. Epoch and step are atomic
 * only for callers that are wrong: a second release of a batch may come while the slot gets its
 * next batch. */
struct lease {
    _Atomic uint64_t stamp;
    _Atomic uint64_t epoch, step;
    uint64_t given; /* the stamp of the batch for which a result was given; for the thread that
                     * calls loader_next() */
};

/* A mapped ring, and its leases. */
struct attached_ring {
    struct connection connection; /* owned; an old ring's connection has the memory alone */
    struct lease *leases;         /* [slot_count]; owned */
    uint32_t spare_slots;         /* how many of slot_count the trainer may not count on */
    _Atomic uint32_t leased;      /* how many slots are leased */
    uint64_t generation;          /* 1 for the loader's first ring */
    bool vacated; /* nothing is published here any more: the memory of slots that are not leased was
                   * given back */
    bool told;    /* those who watch rings were told that the trainer needs this one no more */
    struct attached_ring *older; /* the next older ring with a leased slot; NULL: none */
};

/* Attaches to the ring of a connection. `connection` is taken, and closed on failure. `layout` is
 * that ring's checked layout. NO_MEMORY. */
MUST_USE enum status attached_ring_new(struct connection *connection,
                                       const struct ring_layout *layout,
                                       struct attached_ring **ret_attached, struct error *err);

/* Closes the connection, unmaps the ring and frees the leases. NULL is fine. */
void attached_ring_free(struct attached_ring *attached);

/* The trainer leases the slot of `sequence`, which holds the batch of (epoch, step). */
void attached_ring_lease(struct attached_ring *attached, uint64_t sequence, uint64_t epoch,
                         uint64_t step);

/* Releases the slot of `sequence` without a lease: the trainer had this batch before. */
void attached_ring_pass_over(struct attached_ring *attached, uint64_t sequence);

/* Wakes the reader if the tail has come to where the reader waits for it. */
void attached_ring_wake_reader(struct attached_ring *attached);

/* Gives slot `slot` back. False: the trainer does not lease the batch of (epoch, step) in that slot
 * of this ring. */
bool attached_ring_release(struct attached_ring *attached, uint32_t slot, uint64_t epoch,
                           uint64_t step);

/* The lease of the batch of (epoch, step) in slot `slot`; NULL: the batch is not leased in this
 * ring. Borrowed. */
struct lease *attached_ring_find(const struct attached_ring *attached, uint32_t slot,
                                 uint64_t epoch, uint64_t step);

/* How many slots the trainer may lease at once. */
uint32_t attached_ring_slots(const struct attached_ring *attached);

/* The lease that the trainer must release before another batch can come: the oldest one, if the
 * trainer has taken as many batches since as it may lease. `taken`: how many batches of this ring
 * were taken in all. NULL: no lease is in the way. Borrowed. */
const struct lease *attached_ring_obstacle(const struct attached_ring *attached, uint64_t taken);

/* The oldest lease of this ring and older ones: all batches before this one are released, or were
 * passed over. NULL: nothing is leased. Borrowed. */
const struct lease *attached_ring_oldest(const struct attached_ring *attached);

/* Whether those who watch rings are to be told now, as nothing is leased in a ring without a
 * reader; true once. */
bool attached_ring_takes_leave(struct attached_ring *attached);

/* Gives the memory of all slots back that are not leased, and from now on that of each slot that is
 * released. For a ring whose reader is gone and whose published batches are taken: the next ring
 * needs the memory. */
void attached_ring_vacate(struct attached_ring *attached);

#endif
