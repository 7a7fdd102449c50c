/* The loader's batches: takes the next slot, and gives slots back. */
#include "delivery/client/loader_internal.h"

#include "base/clock.h"
#include "base/number.h"
#include "delivery/ring/waits.h"
#include "delivery/ring/wakeup.h"

#include <inttypes.h>
#include <string.h>

/* Steps come one after another. Where all trainers have skipped steps, the reader leaves some of
 * these out, or goes back to the first step that a trainer wants: it never goes beyond this
 * trainer's cursor. In a full step a group's local batch begins behind the shares of the groups
 * before, in any other no later. */
static enum status check_slot(const struct loader *loader, const struct slot_header *slot,
                              struct error *err)
{
    const struct ring_layout *layout = &loader->header.layout;
    const struct ring_service *service = &loader->header.service;
    if (slot->sample_count > layout->batch_size || slot->step >= service->steps_per_epoch)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: a batch of %" PRIu32 " samples at epoch %" PRIu64 " step %" PRIu64
                         "; at most %" PRIu32 " samples and %" PRIu64 " steps are possible",
                         slot->sample_count, slot->epoch, slot->step, layout->batch_size,
                         service->steps_per_epoch);
    uint64_t cursor = cursor_of(service, slot->epoch, slot->step);
    bool skipped = loader->told_skip && cursor <= atomic_load(&loader->cursor);
    if (slot->epoch >= service->epochs || (cursor != loader->expected && !skipped))
        return error_set(err, STATUS_PROTOCOL,
                         "ring: the batch of epoch %" PRIu64 " step %" PRIu64
                         " came where that of epoch %" PRIu64 " step %" PRIu64 " should",
                         slot->epoch, slot->step, loader->expected / service->steps_per_epoch,
                         loader->expected % service->steps_per_epoch);
    uint64_t first =
        (uint64_t)service->group * service->order.global_batch / mesh_group_count(&service->mesh);
    bool whole =
        order_has_equal_steps(&service->order) && slot->step + 1 < service->steps_per_epoch;
    if (slot->first_position > first || (whole && slot->first_position != first))
        return error_set(err, STATUS_PROTOCOL,
                         "ring: the batch of epoch %" PRIu64 " step %" PRIu64
                         " begins at position %" PRIu32 " of the step, not at %" PRIu64,
                         slot->epoch, slot->step, slot->first_position, first);
    return STATUS_OK;
}

/* How many of its shape a field's array has in the slot of a batch: samples or items. Of items that
 * are cut, each step has pieces of equal length. */
static uint64_t count_of(const struct ring_layout *layout, const struct ring_field *field,
                         const struct loader_batch *batch)
{
    if (field->kind == RING_PADDED)
        return mul_sat(batch->header.sample_count, batch->header.bound);
    if (field->kind != RING_ITEMS)
        return batch->header.sample_count;
    const struct ring_field *offsets = &layout->fields[field->offsets_field];
    uint64_t last = batch->header.sample_count * offsets->sample_bytes;
    uint64_t items = (uint64_t) * (const int64_t *)(batch->memory + offsets->slot_offset + last);
    const struct ring_part *part = &layout->parts[field->first_part];
    return field->part_count > 0 ? items / part->wholes[0] * part->lengths[0] : items;
}

/* Offsets begin with 0 and never fall. */
static enum status check_offsets(const struct ring_field *field, const struct loader_batch *batch,
                                 struct error *err)
{
    const int64_t *offsets = (const int64_t *)(batch->memory + field->slot_offset);
    uint64_t count = batch->header.sample_count * (field->sample_bytes / sizeof *offsets);
    bool falls = offsets[0] != 0;
    for (uint64_t k = 0; k < count; k++)
        falls |= offsets[k + 1] < offsets[k];
    if (!falls)
        return STATUS_OK;
    return error_set(err, STATUS_PROTOCOL,
                     "ring: field '%s' of the batch of epoch %" PRIu64 " step %" PRIu64
                     " does not begin with 0, or falls",
                     field->name, batch->header.epoch, batch->header.step);
}

static enum status check_items(const struct ring_layout *layout, const struct ring_field *field,
                               const struct loader_batch *batch, struct error *err)
{
    uint64_t count = count_of(layout, field, batch);
    if (count <= field->capacity)
        return STATUS_OK;
    return error_set(err, STATUS_PROTOCOL,
                     "ring: the batch of epoch %" PRIu64 " step %" PRIu64 " has %" PRIu64
                     " items of field '%s', which has room for %" PRIu64,
                     batch->header.epoch, batch->header.step, count, field->name, field->capacity);
}

/* The trainer's program relies on the offsets of ragged fields. */
static enum status check_ragged(const struct ring_layout *layout, const struct loader_batch *batch,
                                struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t f = 0; status == STATUS_OK && f < layout->field_count; f++) {
        const struct ring_field *field = &layout->fields[f];
        if (field->kind == RING_OFFSETS)
            status = check_offsets(field, batch, err);
        else if (field->capacity > 0)
            status = check_items(layout, field, batch, err);
    }
    return status;
}

static uint64_t batch_bytes(const struct ring_layout *layout, const struct loader_batch *batch)
{
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < layout->field_count; f++) {
        const struct ring_field *field = &layout->fields[f];
        uint64_t steps = ring_field_steps(layout, f, batch->header.epoch);
        bytes += count_of(layout, field, batch) *
                 (steps > 0 ? field->sample_bytes / field->shape[0] * steps : field->sample_bytes);
    }
    return bytes;
}

bool loader_sees_batch(const struct loader *loader)
{
    return atomic_load(&loader->attached->connection.ring.control->head) != loader_taken(loader);
}

/* Takes the next slot if one is published. */
static bool take_slot(struct loader *loader, struct loader_batch *ret_batch)
{
    struct ring *ring = &loader->attached->connection.ring;
    uint64_t head = atomic_load(&ring->control->head);
    if (head == loader_taken(loader))
        return false;
    uint64_t sequence = loader_taken(loader);
    struct loader_batch batch = {.memory = ring_slot(ring, sequence),
                                 .slot = (uint32_t)(sequence % ring->slot_count)};
    struct error error = {0};
    if (head < sequence || head - sequence > ring->slot_count) {
        error_set(&error, STATUS_PROTOCOL,
                  "ring: head is %" PRIu64 " where %" PRIu64 " batches were taken", head, sequence);
    } else {
        memcpy(&batch.header, batch.memory, sizeof batch.header);
        enum status status = check_slot(loader, &batch.header, &error);
        if (status == STATUS_OK)
            status = check_ragged(&loader->header.layout, &batch, &error);
        (void)status; /* it is in error */
    }
    if (error.status != STATUS_OK) {
        loader->final = error;
        return false;
    }
    atomic_store_explicit(&loader->taken, sequence + 1, memory_order_relaxed);
    waits_note_taken(&ring->control->waits, sequence + 1);
    loader->expected =
        cursor_of(&loader->header.service, batch.header.epoch, batch.header.step) + 1;
    *ret_batch = batch;
    return true;
}

bool loader_take(struct loader *loader, struct loader_batch *ret_batch)
{
    struct loader_batch batch;
    struct attached_ring *attached = loader->attached;
    while (take_slot(loader, &batch)) {
        uint64_t sequence = loader_taken(loader) - 1;
        if (loader->expected <= atomic_load(&loader->cursor)) {
            pthread_mutex_lock(&loader->lock);
            attached_ring_pass_over(attached, sequence);
            pthread_mutex_unlock(&loader->lock);
            continue;
        }
        attached_ring_lease(attached, sequence, batch.header.epoch, batch.header.step);
        waits_note_batch(&attached->connection.ring.control->waits, loader->batch_wait_ns);
        loader->batch_wait_ns = 0;
        atomic_store(&loader->cursor, loader->expected);
        atomic_fetch_add_explicit(&loader->batches, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&loader->samples, batch.header.sample_count,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&loader->bytes, batch_bytes(&loader->header.layout, &batch),
                                  memory_order_relaxed);
        *ret_batch = batch;
        return true;
    }
    return false;
}

enum status loader_check_leases(const struct loader *loader, struct error *err)
{
    if (loader->lost || atomic_load(&loader->cursor) == loader->end)
        return STATUS_OK;
    const struct attached_ring *attached = loader->attached;
    const struct lease *oldest = attached_ring_obstacle(attached, loader_taken(loader));
    bool waits = clock_now_ns() < loader->skip_deadline_ns &&
                 atomic_load(&attached->leased) < attached_ring_slots(attached);
    if (!oldest || waits)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "this trainer leases all %" PRIu32
                     " slots, or has skipped them, and the oldest batch, epoch %" PRIu64
                     " step %" PRIu64 ", is not released: release that batch first, or "
                     "raise delivery.slots",
                     attached_ring_slots(attached), atomic_load(&oldest->epoch),
                     atomic_load(&oldest->step));
}

void loader_note_released(struct loader *loader)
{
    struct attached_ring *attached = loader->attached;
    if (loader->failure.status !=
        STATUS_OK) /* what a trainer that fails lets go, it is not done with */
        return;
    uint64_t cursor = atomic_load(&loader->cursor); /* before leases: a batch that is taken now is
                                                     * not released */
    const struct lease *oldest = attached_ring_oldest(attached);
    if (oldest)
        cursor = cursor_of(&loader->header.service, atomic_load(&oldest->epoch),
                           atomic_load(&oldest->step));
    if (cursor > loader->trained)
        cursor = loader->trained;
    cursor_file_note(loader->cursor_file, cursor); /* before anybody hears of it */
    if (atomic_load(loader->page.cursor) >= cursor)
        return;
    atomic_store(loader->page.cursor, cursor);
    attached_ring_wake_reader(attached);
}

enum status loader_trained(struct loader *loader, uint64_t epoch, uint64_t step, struct error *err)
{
    const struct ring_service *service = &loader->header.service;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&loader->lock);
    uint64_t next = atomic_load(&loader->cursor), before = loader->trained;
    bool exists = epoch <= service->epochs && step < service->steps_per_epoch;
    uint64_t cursor = exists ? cursor_of(service, epoch, step) : UINT64_MAX;
    if (cursor > next || (before != UINT64_MAX && cursor < before)) {
        status = error_set(err, STATUS_INVALID,
                           "trained: epoch %" PRIu64 " step %" PRIu64
                           " is before that of the last call, or behind the next batch, of epoch "
                           "%" PRIu64 " step %" PRIu64,
                           epoch, step, next / service->steps_per_epoch,
                           next % service->steps_per_epoch);
    } else {
        loader->trained = cursor;
        loader_note_released(loader);
    }
    pthread_mutex_unlock(&loader->lock);
    return status;
}

/* Tells those who watch rings of one that the trainer needs no more. Returns the ring if another
 * one has been attached meanwhile. */
static struct attached_ring *take_leave(struct loader *loader, struct attached_ring *left)
{
    loader_tell_detaching(loader, left);
    pthread_mutex_lock(&loader->lock);
    struct attached_ring **at = &loader->attached;
    while (*at != left)
        at = &(*at)->older;
    bool old = left != loader->attached;
    if (old)
        *at = left->older;
    atomic_fetch_sub(&left->leased, 1);
    pthread_mutex_unlock(&loader->lock);
    return old ? left : NULL;
}

enum status loader_release(struct loader *loader, uint32_t slot, uint64_t epoch, uint64_t step,
                           struct error *err)
{
    pthread_mutex_lock(&loader->lock);
    struct attached_ring **at = &loader->attached, *done = NULL, *left = NULL;
    while (*at && !attached_ring_release(*at, slot, epoch, step))
        at = &(*at)->older;
    bool found = *at != NULL;
    if (found && *at != loader->attached && atomic_load(&(*at)->leased) == 0) {
        done = *at;
        *at = done->older;
    } else if (found && attached_ring_takes_leave(*at)) {
        left = *at;
        atomic_fetch_add(&left->leased, 1); /* so that it stays while others are told */
    }
    if (found)
        loader_note_released(loader);
    pthread_mutex_unlock(&loader->lock);
    if (left)
        done = take_leave(loader, left);
    loader_detach(loader, done);
    if (found && atomic_load(&loader->wants_release))
        wakeup_signal(loader->freed_fd);
    if (found)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "the batch of epoch %" PRIu64 " step %" PRIu64
                     " is not leased: the batch was released before",
                     epoch, step);
}
