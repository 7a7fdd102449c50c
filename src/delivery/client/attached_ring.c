/* See attached_ring.h. */
#include "delivery/client/attached_ring.h"

#include "delivery/ring/waits.h"
#include "delivery/ring/wakeup.h"

#include <stdlib.h>

enum status attached_ring_new(struct connection *connection, const struct ring_layout *layout,
                              struct attached_ring **ret_attached, struct error *err)
{
    struct attached_ring *attached = calloc(1, sizeof *attached);
    struct lease *leases = calloc(layout->slot_count, sizeof *leases);
    if (!attached || !leases) {
        free(attached);
        free(leases);
        connection_done(connection);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a connection");
    }
    *attached = (struct attached_ring){
        .connection = *connection, .leases = leases, .spare_slots = layout->spare_slots};
    *ret_attached = attached;
    return STATUS_OK;
}

void attached_ring_free(struct attached_ring *attached)
{
    if (!attached)
        return;
    connection_done(&attached->connection);
    free(attached->leases);
    free(attached);
}

void attached_ring_lease(struct attached_ring *attached, uint64_t sequence, uint64_t epoch,
                         uint64_t step)
{
    struct lease *lease = &attached->leases[sequence % attached->connection.ring.slot_count];
    atomic_store_explicit(&lease->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&lease->step, step, memory_order_relaxed);
    atomic_fetch_add(&attached->leased, 1);
    atomic_store(&lease->stamp, 2 * sequence + 1);
}

void attached_ring_wake_reader(struct attached_ring *attached)
{
    struct ring_control *control = attached->connection.ring.control;
    if (attached->connection.release_fd >= 0)
        wakeup_waiting_for(&control->reader_waits, atomic_load(&control->tail),
                           attached->connection.release_fd);
}

/* Moves the tail over everything that is released. Any number of threads; each slot is passed by
 * exactly one. */
static void advance_tail(struct attached_ring *attached)
{
    struct ring *ring = &attached->connection.ring;
    _Atomic uint64_t *shared_tail = &ring->control->tail;
    bool moved = false;
    for (;;) {
        uint64_t tail = atomic_load(shared_tail);
        struct lease *oldest = &attached->leases[tail % ring->slot_count];
        if (atomic_load(&oldest->stamp) != 2 * tail + 2)
            break;
        moved |= atomic_compare_exchange_strong(shared_tail, &tail, tail + 1);
    }
    if (moved)
        attached_ring_wake_reader(attached);
}

void attached_ring_pass_over(struct attached_ring *attached, uint64_t sequence)
{
    struct lease *lease = &attached->leases[sequence % attached->connection.ring.slot_count];
    atomic_store(&lease->stamp, 2 * sequence + 2);
    advance_tail(attached);
}

bool attached_ring_release(struct attached_ring *attached, uint32_t slot, uint64_t epoch,
                           uint64_t step)
{
    if (slot >= attached->connection.ring.slot_count)
        return false;
    struct lease *lease = &attached->leases[slot];
    uint64_t stamp = atomic_load(&lease->stamp);
    bool ours =
        stamp % 2 == 1 && atomic_load(&lease->epoch) == epoch && atomic_load(&lease->step) == step;
    if (!ours || !atomic_compare_exchange_strong(&lease->stamp, &stamp, stamp + 1))
        return false;
    waits_note_release(&attached->connection.ring.control->waits);
    advance_tail(attached);
    if (attached->vacated)
        ring_give_back(&attached->connection.ring, slot);
    atomic_fetch_sub(&attached->leased, 1);
    return true;
}

struct lease *attached_ring_find(const struct attached_ring *attached, uint32_t slot,
                                 uint64_t epoch, uint64_t step)
{
    if (slot >= attached->connection.ring.slot_count)
        return NULL;
    struct lease *lease = &attached->leases[slot];
    bool same = atomic_load(&lease->stamp) % 2 == 1 && atomic_load(&lease->epoch) == epoch &&
                atomic_load(&lease->step) == step;
    return same ? lease : NULL;
}

uint32_t attached_ring_slots(const struct attached_ring *attached)
{
    return attached->connection.ring.slot_count - attached->spare_slots;
}

const struct lease *attached_ring_obstacle(const struct attached_ring *attached, uint64_t taken)
{
    const struct ring *ring = &attached->connection.ring;
    uint64_t tail = atomic_load(&ring->control->tail);
    const struct lease *oldest = &attached->leases[tail % ring->slot_count];
    bool leased = atomic_load(&oldest->stamp) == 2 * tail + 1;
    return leased && taken - tail >= attached_ring_slots(attached) ? oldest : NULL;
}

/* What a ring's tail stands at is leased, or was not taken yet. */
const struct lease *attached_ring_oldest(const struct attached_ring *attached)
{
    const struct lease *oldest = NULL;
    for (; attached; attached = attached->older) {
        const struct ring *ring = &attached->connection.ring;
        uint64_t tail = atomic_load(&ring->control->tail);
        const struct lease *lease = &attached->leases[tail % ring->slot_count];
        if (atomic_load(&lease->stamp) == 2 * tail + 1)
            oldest = lease;
    }
    return oldest;
}

bool attached_ring_takes_leave(struct attached_ring *attached)
{
    if (!attached->vacated || attached->told || atomic_load(&attached->leased) > 0)
        return false;
    attached->told = true;
    return true;
}

void attached_ring_vacate(struct attached_ring *attached)
{
    attached->vacated = true;
    for (uint32_t slot = 0; slot < attached->connection.ring.slot_count; slot++)
        if (atomic_load(&attached->leases[slot].stamp) % 2 == 0)
            ring_give_back(&attached->connection.ring, slot);
}
