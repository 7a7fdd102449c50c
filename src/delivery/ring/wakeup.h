/* Wake-ups from one process to another: an eventfd, which the sleeper polls and reads, and which
 * the other process writes. ring.h says when. Any thread; nothing blocks. */
#ifndef PENSTOCK_DELIVERY_RING_WAKEUP_H
#define PENSTOCK_DELIVERY_RING_WAKEUP_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes a non-blocking eventfd, which is the caller's. IO: no descriptor is free, or no memory. */
MUST_USE enum status wakeup_new(int *ret_fd, struct error *err);

/* Whether a descriptor of another process is a non-blocking eventfd. */
bool wakeup_check(int fd);

/* Wakes the process that polls `fd`. Signals that were not taken yet count as one. */
void wakeup_signal(int fd);

/* wakeup_signal(), if the sleeper has set `waits`. Clears `waits`: who is woken once need not be
 * woken again before the next sleep. The sleeper sets `waits` before it looks for the last time
 * whether there is something to do. */
void wakeup_waiting(_Atomic uint32_t *waits, int fd);

/* Likewise for a sleeper who waits for a count: `waits` is the count, modulo 2^32, that `reached`
 * has to come to. 0: nobody waits. A sleeper who waits for a count that is 0 modulo 2^32 sets the
 * one before, and is woken too early. */
void wakeup_waiting_for(_Atomic uint32_t *waits, uint64_t reached, int fd);

/* Takes all signals that have come; none is fine. */
void wakeup_drain(int fd);

#endif
