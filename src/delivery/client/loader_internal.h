/* For the loader's own files: loader.c (opens, waits, ends), loader_reader.c (hears the reader, and
 * connects to another one), loader_batches.c (takes and gives back slots),
 * loader_give.c (sends results). Unless a comment says
 * otherwise, the thread that calls loader_next() calls everything here. */
#ifndef PENSTOCK_DELIVERY_CLIENT_LOADER_INTERNAL_H
#define PENSTOCK_DELIVERY_CLIENT_LOADER_INTERNAL_H

#include "base/trace.h"
#include "delivery/client/attached_ring.h"
#include "delivery/client/cursor_file.h"
#include "delivery/client/dial.h"
#include "delivery/client/loader.h"
#include "delivery/ring/cursor_page.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct loader {
    struct dial_options options; /* strings are owned */
    char coordinates[PROTOCOL_COORDINATES_BYTES];
    uint32_t rank;                    /* in the service: where coordinates are told, another one may
                                       * be in `options` */
    char state[PROTOCOL_STATE_BYTES]; /* of the last HELLO, or to come with the next one */
    struct ring_header header;        /* of the first reader: of connection_open() */
    struct handout handout;           /* of the first reader; zero: none */
    uint64_t end;                     /* the cursor behind the last step of all */
    _Atomic uint64_t cursor;          /* of the trainer's next batch */
    uint64_t expected;                /* cursor of the next slot in the ring, at most `cursor` */
    _Atomic uint64_t taken;           /* slots of the current ring taken or passed over so far */
    uint64_t reconnect_ms;
    bool lost;            /* the reader is gone: nothing more is published in this ring */
    bool dialing;         /* `dial` is under way */
    uint64_t patience_ns; /* until then the process that has the cursor file is waited for; 0:
                           * loader_connect() was not called */
    bool takes_up;        /* `state` is of the cursor file */
    bool ended;           /* END came: nothing more is published */
    bool said_done;
    uint64_t heard_ns;         /* when messages were last asked for */
    uint64_t skip_deadline_ns; /* until then the next batch may come although a batch from before a
                                * skip is leased: once all trainers have skipped. 0: rings have no
                                * slots in reserve for skips */
    uint64_t skipped_to;       /* the cursor that the last skip went to; 0: there was none */
    uint64_t trained; /* of loader_trained(); UINT64_MAX: batches count when they are released.
                       * Under `lock` */
    bool told_skip;   /* the reader was told that batches are skipped: it may leave steps out */
    struct dial dial;
    struct cursor_page page;         /* the readers' view of the cursor */
    struct cursor_file *cursor_file; /* NULL: none */
    struct error final;              /* status OK: batches may still come */
    int wake_fd;                     /* eventfd, signalled by loader_leave() */
    _Atomic bool left;
    int freed_fd; /* eventfd, signalled by loader_release() while `wants_release` is set; -1:
                   * loader_next() does not wait for releases */
    _Atomic bool wants_release;
    struct loader_watch watch; /* all NULL: nobody watches */
    _Atomic uint64_t batches, samples, bytes, waits, wait_ns, reconnects; /* see loader_stats() */
    uint64_t batch_wait_ns; /* how long the next batch was waited for so far, inside loader_next();
                             * without waits for the trainer's own releases */
    struct trace_track *trace; /* of PENSTOCK_TRACE; NULL: none */
    char *trace_path;
    uint64_t trace_start_ns;
    struct error failure; /* of loader_fail(); status OK: it was not called; set before `left` */
    pthread_mutex_t lock; /* held to change or follow the list of `attached`, and to say farewell;
                           * loader_next()'s thread may read `attached` without it */
    struct attached_ring *attached;
};

static inline uint64_t cursor_of(const struct ring_service *service, uint64_t epoch, uint64_t step)
{
    return epoch * service->steps_per_epoch + step;
}

static inline uint64_t loader_taken(const struct loader *loader)
{
    return atomic_load_explicit(&loader->taken, memory_order_relaxed);
}

/* Unmaps and frees a ring that nobody uses any more, after those who watch rings were told. Without
 * the lock; NULL is fine. */
void loader_detach(struct loader *loader, struct attached_ring *attached);

/* Tells whoever watches rings of the current one; and of one that the trainer needs no more: once.
 * Without the lock. */
void loader_tell_attached(const struct loader *loader);
void loader_tell_detaching(const struct loader *loader, const struct attached_ring *attached);

/* From now on loader_next() returns this error. TIMEOUT becomes LOST, since TIMEOUT is not final.
 */
void loader_set_final(struct loader *loader, const struct error *error);

/* Reads the service's messages; never blocks. A final status goes to loader->final. */
void loader_hear(struct loader *loader);

/* Sends DONE, once, if the trainer has taken its last batch and asks for another one. It may still
 * lease batches, and other trainers may not be so far. */
void loader_say_done(struct loader *loader);

/* Sends SKIP, for the batches from `from` to the cursor. A reader that is gone need not hear of
 * them: the next one is told the cursor. TIMEOUT: the reader does not read. */
MUST_USE enum status loader_say_skip(struct loader *loader, struct protocol_welcome from,
                                     struct error *err);

/* Sends GOODBYE, or FAIL with the reason of loader_fail(). Any thread that holds the lock. */
void loader_send_farewell(struct loader *loader);

/* Looks for a reader until `deadline` (clock_now_ns()). OK: there is one, or the deadline came, or
 * loader_leave() was called. Any other status is final. */
MUST_USE enum status loader_reconnect(struct loader *loader, uint64_t deadline, struct error *err);

/* Whether a slot is published that was not taken yet. */
bool loader_sees_batch(const struct loader *loader);

/* Leases the next slot for the trainer, and passes over slots whose batches it had before. False:
 * no slot is there, or the ring is impossible: loader->final says so. */
bool loader_take(struct loader *loader, struct loader_batch *ret_batch);

/* INVALID: the trainer leases all slots that it may, and more batches are to come: none can come
 * until it releases the oldest one. */
MUST_USE enum status loader_check_leases(const struct loader *loader, struct error *err);

/* Stores the cursor behind the last batch that was released in order, or that the trainer is done
 * with (loader_trained()): in the cursor file, and in the page that readers see; wakes a reader
 * that sleeps. Any thread that holds the lock. */
void loader_note_released(struct loader *loader);

#endif
