/* The trainer's side of delivery: takes slots from the ring and gives them back.
 *
 *     slot's life       published -> held by session_next() -> released by session_release() ->
 * behind the tail
 *
 * One thread at a time calls session_next(); session_release() may come from any thread, in any
 * order, and never blocks: slots carry a stamp of their sequence number, and whoever releases the
 * oldest one moves the tail over all that are released.
 */
#ifndef PENSTOCK_DELIVERY_SESSION_H
#define PENSTOCK_DELIVERY_SESSION_H

#include "base/error.h"
#include "delivery/connect.h"
#include "delivery/layout.h"

struct session;

/* A slot that is held. */
struct session_batch {
    unsigned char *memory; /* the slot; fields at their layout's offsets */
    uint32_t slot;
    struct slot_header header; /* private copy, checked */
};

/* Statuses: see link_connect(). */
MUST_USE enum status session_open(const struct connect_options *options,
                                  struct session **ret_session, struct error *err);

const struct ring_header *session_header(const struct session *session);

/* The next slot. Blocks up to `timeout_ms` (-1: no limit). TIMEOUT: none yet. INVALID: all slots
 * are held, release one first. Others are final, and come again with the same message: ENDED, LOST,
 * PROTOCOL, IO, or what the service failed with. */
MUST_USE enum status session_next(struct session *session, int64_t timeout_ms,
                                  struct session_batch *ret_batch, struct error *err);

/* Gives back the slot that holds the batch of (epoch, step). INVALID: it is not held. */
MUST_USE enum status session_release(struct session *session, uint32_t slot, uint64_t epoch,
                                     uint64_t step, struct error *err);

/* Says goodbye, naming what would have been asked for next; held slots stay mapped. Once: later
 * calls do nothing. */
void session_leave(struct session *session, uint64_t next_epoch, uint64_t next_step);

/* Frees everything. NULL is fine. */
void session_close(struct session *session);

#endif
