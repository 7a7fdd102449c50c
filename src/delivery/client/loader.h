/* The trainer's side of delivery: takes slots from the ring, gives them back, and connects to a
 * reader again when its reader is lost.
 *
 * The loader knows its cursor, the step that comes next. When it connects again, it tells the
 * reader this cursor. The reader may start earlier, where another trainer needs an earlier step:
 * the loader passes over batches before its cursor. So loader_next() gives one sequence without a
 * gap or a repetition, or an error.
 *
 * One thread at a time calls loader_next(). Any thread may call loader_release(), loader_leave(),
 * loader_fail() and loader_cursor(). A lock keeps loader_next() from exchanging rings during a
 * release; nobody holds the lock for long.
 */
#ifndef PENSTOCK_DELIVERY_CLIENT_LOADER_H
#define PENSTOCK_DELIVERY_CLIENT_LOADER_H

#include "base/error.h"
#include "delivery/client/dial.h"
#include "delivery/ring/layout.h"

struct loader;

/* See struct penstock_ring_watch. */
struct loader_ring {
    void *base;
    uint64_t bytes, generation;
};
struct loader_watch {
    void (*attached)(void *user, const struct loader_ring *ring);
    void (*detaching)(void *user, const struct loader_ring *ring);
    void *user;
};

/* See struct penstock_stats. */
struct loader_stats {
    uint64_t batches, samples, bytes, waits, wait_ns, reconnects;
    uint32_t ready, leased;
};

/* A leased slot. */
struct loader_batch {
    unsigned char *memory; /* the slot, borrowed until loader_release(); arrays lie at their offsets
                            * of the layout */
    uint32_t slot;
    struct slot_header header; /* private copy, checked */
};

/* Makes a loader that is to connect as `options` say, which are borrowed during the call, but
 * `cursors`, which must outlive the loader. *ret_loader is the caller's, for loader_close().
 * INVALID: the state is too long. NO_MEMORY, IO: in this process. */
MUST_USE enum status loader_new(const struct dial_options *options, struct loader **ret_loader,
                                struct error *err);

/* Connects, and waits until the service delivers, or until `until_ns` (UINT64_MAX: no limit).
 * *ret_connected is false if that came first: call again to go on. After a failure, and before the
 * connection is there, only loader_close() and loader_wait_for_releases() may be called. A fresh
 * trainer with a cursor file goes on at the file's cursor: waits 5 s at most until the process that
 * has the file is dead. Statuses: as dial_continue(). NO_MEMORY, IO: in this process. */
MUST_USE enum status loader_connect(struct loader *loader, uint64_t until_ns, bool *ret_connected,
                                    struct error *err);

/* The ring header of the first reader. Later readers' headers differ from it only in slot_count and
 * spare_slots, and in where the service starts. Borrowed until loader_close(); any thread. */
const struct ring_header *loader_header(const struct loader *loader);

/* The trainer's rank in the service. Any thread. */
uint32_t loader_rank(const struct loader *loader);

/* The handout of the first reader, which later readers' equal; zero: there is none. Borrowed as the
 * header; any thread. */
const struct handout *loader_handout(const struct loader *loader);

/* The cursor: epoch and step of the next batch. Any thread. */
struct protocol_welcome loader_cursor(const struct loader *loader);

/* Where the trainer leases all slots that it may, loader_next() waits for a release from now on. To
 * be called before the first loader_next(), once. IO: no eventfd can be made. */
MUST_USE enum status loader_wait_for_releases(struct loader *loader, struct error *err);

/* Has *watch told of rings: see penstock_watch_rings(). INVALID: it was called before, or a batch
 * was taken already. */
MUST_USE enum status loader_watch_rings(struct loader *loader, const struct loader_watch *watch,
                                        struct error *err);

/* Any thread. */
struct loader_stats loader_stats(struct loader *loader);

/* The next slot. Blocks up to `timeout_ms` (negative: no limit). TIMEOUT: no batch came in time;
 * the message says if the reader is gone. INVALID: the trainer leases all slots that it may, and
 * loader_wait_for_releases() was not called. All other statuses are final: each later call returns
 * the same status and message. ENDED: all epochs are consumed, the service was stopped, or
 * loader_leave() was called. LOST: the reader is gone. PROTOCOL: the ring or a message is
 * impossible. IO: a system call failed. Other statuses: the service's. */
MUST_USE enum status loader_next(struct loader *loader, int64_t timeout_ms,
                                 struct loader_batch *ret_batch, struct error *err);

/* Goes on at a later step: see penstock_skip(). For the thread that calls loader_next(). INVALID:
 * the step is before the cursor, or not of the service. TIMEOUT: the reader does not read its
 * socket. */
MUST_USE enum status loader_skip(struct loader *loader, uint64_t epoch, uint64_t step,
                                 struct error *err);

/* The trainer is done with all batches before a step: see penstock_trained(). Any thread. INVALID:
 * the step is before that of the last call, or behind the cursor. */
MUST_USE enum status loader_trained(struct loader *loader, uint64_t epoch, uint64_t step,
                                    struct error *err);

/* Gives slot `slot` back, which holds the batch of (epoch, step). INVALID: the trainer does not
 * lease that batch. */
MUST_USE enum status loader_release(struct loader *loader, uint32_t slot, uint64_t epoch,
                                    uint64_t step, struct error *err);

/* What an encoder has made of the batch of (epoch, step) in `slot`. */
struct loader_result {
    uint32_t slot;
    uint64_t epoch, step;
    uint32_t sample_count;
    enum dtype dtype;
    int32_t rank;
    const uint64_t *shape; /* [rank], borrowed */
    const void *data;      /* borrowed */
};

/* Sends a result: see penstock_give(). For the thread that calls loader_next(). */
MUST_USE enum status loader_give(struct loader *loader, const struct loader_result *result,
                                 struct error *err);

/* Says goodbye, with the cursor. Leased slots stay mapped. A loader_next() under way in another
 * thread returns ENDED. Later calls do nothing. */
void loader_leave(struct loader *loader);

/* As loader_leave(), for a trainer that has failed: sends `reason` (borrowed during the call)
 * instead of a goodbye, so that the service does not take the trainer for one that wanted to leave.
 * Does nothing after loader_leave(). */
void loader_fail(struct loader *loader, const char *reason);

/* Frees everything, and sends nothing. No other call may be under way. NULL is fine. */
void loader_close(struct loader *loader);

#endif
