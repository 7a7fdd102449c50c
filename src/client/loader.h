/* The trainer's side of delivery: takes slots from the ring and gives them back, and finds its way
 * to a reader again when it has lost one.
 *
 * The loader knows its cursor: the step that comes next. A reader that comes back is told the
 * cursor, and may start earlier, where another trainer needs that: batches before the cursor are
 * passed over. So loader_next() gives one sequence without a gap or a repetition, or an error.
 *
 * One thread at a time calls loader_next(). loader_release() and loader_leave() may come from any
 * thread, and never block for long: a lock keeps rings from being exchanged meanwhile.
 */
#ifndef PENSTOCK_CLIENT_LOADER_H
#define PENSTOCK_CLIENT_LOADER_H

#include "base/error.h"
#include "client/dial.h"
#include "delivery/layout.h"

struct loader;

/* A slot that is leased. */
struct loader_batch {
    unsigned char *memory; /* the slot; fields at their layout's offsets */
    uint32_t slot;
    struct slot_header header; /* private copy, checked */
};

/* Statuses: see dial_continue(). What `options` points at is copied. */
MUST_USE enum status loader_open(const struct dial_options *options, struct loader **ret_loader,
                                 struct error *err);

/* Of the first reader. Others are the same in all but slot_count and the service's start. */
const struct ring_header *loader_header(const struct loader *loader);

/* The cursor: epoch and step of the next batch. Any thread. */
struct protocol_welcome loader_cursor(const struct loader *loader);

/* The next slot. Blocks up to `timeout_ms` (-1: no limit). TIMEOUT: none yet, or the reader is gone
 * and none is back yet. INVALID: all slots are leased, release one first. Others are final, and
 * come again with the same message: ENDED, LOST, PROTOCOL, IO, or what the service failed with. */
MUST_USE enum status loader_next(struct loader *loader, int64_t timeout_ms,
                                 struct loader_batch *ret_batch, struct error *err);

/* Gives back the slot that holds the batch of (epoch, step). INVALID: it is not leased. */
MUST_USE enum status loader_release(struct loader *loader, uint32_t slot, uint64_t epoch,
                                    uint64_t step, struct error *err);

/* Says goodbye, naming the cursor; leased slots stay mapped. A loader_next() under way in another
 * thread ends: ENDED. Later calls do nothing. */
void loader_leave(struct loader *loader);

/* The same of a trainer that has failed: says so instead of a goodbye, and why, so that it is not
 * taken for one that has left as it wished. Nothing once it has left. */
void loader_fail(struct loader *loader, const char *reason);

/* Frees everything, without a word. Nobody may be in another call. NULL is fine. */
void loader_close(struct loader *loader);

#endif
