/* See waits.h. Each word has one writer, or says the time: loads and stores are enough. */
#include "delivery/ring/waits.h"

#include <time.h>

const uint64_t waits_bounds_ns[RING_WAIT_BUCKETS - 1] = {WAITS_BOUNDS_NS};

static uint64_t get64(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static uint32_t get32(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

void waits_note_batch(struct ring_waits *waits, uint64_t wait_ns)
{
    int b = 0;
    while (b < RING_WAIT_BUCKETS - 1 && wait_ns > waits_bounds_ns[b])
        b++;
    atomic_store_explicit(&waits->buckets[b], get32(&waits->buckets[b]) + 1, memory_order_relaxed);
    if (wait_ns > 0)
        atomic_store_explicit(&waits->wait_ns, get64(&waits->wait_ns) + wait_ns,
                              memory_order_relaxed);
}

void waits_note_taken(struct ring_waits *waits, uint64_t taken)
{
    atomic_store_explicit(&waits->taken, (uint32_t)taken, memory_order_relaxed);
}

/* The coarse clock is a few milliseconds late, and costs next to nothing. */
void waits_note_release(struct ring_waits *waits)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    atomic_store_explicit(&waits->released_ms,
                          (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000,
                          memory_order_relaxed);
}

struct waits_seen waits_read(const struct ring_waits *waits)
{
    struct waits_seen seen = {.wait_ns = get64(&waits->wait_ns),
                              .released_ms = get64(&waits->released_ms),
                              .taken = atomic_load_explicit(&waits->taken, memory_order_acquire)};
    for (int b = 0; b < RING_WAIT_BUCKETS; b++)
        seen.buckets[b] = get32(&waits->buckets[b]);
    return seen;
}
