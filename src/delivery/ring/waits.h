/* A trainer's waits: how long penstock_next() took for each batch, in the spare bytes of the ring's
 * tail line. libpenstock writes them, and the reader shows them to metrics. So trainers need no
 * port.
 *
 * The numbers of a ring begin at 0. A batch counts when it is taken. The reader believes nothing of
 * this beyond showing the numbers. Nothing blocks.
 */
#ifndef PENSTOCK_DELIVERY_RING_WAITS_H
#define PENSTOCK_DELIVERY_RING_WAITS_H

#include "delivery/ring/layout.h"

/* The longest wait of each bucket but the last, which has all longer ones. */
#define WAITS_BOUNDS_NS                                                          \
    UINT64_C(100000), UINT64_C(1000000), UINT64_C(10000000), UINT64_C(30000000), \
        UINT64_C(100000000), UINT64_C(300000000), UINT64_C(1000000000), UINT64_C(10000000000)
extern const uint64_t waits_bounds_ns[RING_WAIT_BUCKETS - 1];

/* The trainer has taken a batch, for which penstock_next() has waited `wait_ns`. The thread that
 * calls penstock_next(). */
void waits_note_batch(struct ring_waits *waits, uint64_t wait_ns);

/* The trainer has taken or passed over `taken` slots of the ring. The same thread. */
void waits_note_taken(struct ring_waits *waits, uint64_t taken);

/* The trainer has released a batch. Any of its threads. */
void waits_note_release(struct ring_waits *waits);

/* A copy, as the reader sees it. */
struct waits_seen {
    uint64_t wait_ns, released_ms;
    uint32_t taken, buckets[RING_WAIT_BUCKETS];
};
struct waits_seen waits_read(const struct ring_waits *waits);

#endif
