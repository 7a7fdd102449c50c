/* What loader.c (opening, asking, ending), loader_reader.c (the reader, and finding another one)
 * and loader_batches.c (which batch comes next, and what is given back) share. Not for others. */
#ifndef PENSTOCK_CLIENT_LOADER_INTERNAL_H
#define PENSTOCK_CLIENT_LOADER_INTERNAL_H

#include "client/attached_ring.h"
#include "client/cursor_file.h"
#include "client/dial.h"
#include "client/loader.h"
#include "delivery/cursor_page.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct loader {
    struct dial_options options;      /* strings are owned */
    char state[PROTOCOL_STATE_BYTES]; /* that the reader is told */
    struct ring_header header;        /* of the first reader; checked private copy */
    uint64_t end;                     /* the cursor behind the last step: a cursor is epoch *
                                         steps_per_epoch + step */
    _Atomic uint64_t cursor;          /* of the next batch for the trainer */
    uint64_t expected;                /* cursor of the next slot in the ring, at most `cursor` */
    uint64_t taken;                   /* slots of the ring seen so far */
    uint64_t reconnect_ms;
    bool lost;    /* the reader is gone: there is no more than what is published */
    bool dialing; /* for another one */
    bool ended;   /* END came: what is published is all there is */
    bool said_done;
    struct dial dial;
    struct cursor_page page;         /* that readers see */
    struct cursor_file *cursor_file; /* NULL: none */
    struct error final;              /* status is OK as long as batches may come */
    int wake_fd;                     /* eventfd: loader_leave() was called */
    _Atomic bool left;
    struct error failure; /* why it has left, if it has failed; set before `left` */
    pthread_mutex_t lock; /* on `attached` for all but loader_next()'s reading it, on older ones,
                             and on leaving */
    struct attached_ring *attached;
};

static inline uint64_t cursor_of(const struct ring_service *service, uint64_t epoch, uint64_t step)
{
    return epoch * service->steps_per_epoch + step;
}

/* No more batches, but this error, each time. TIMEOUT would say that there may be. */
void loader_set_final(struct loader *loader, const struct error *error);

/* The first reader: the one that the options name, from the cursor that they or the file say. As
 * loader_open(). */
MUST_USE enum status loader_connect(struct loader *loader, struct error *err);

/* Reads what the service said. A final status goes to loader->final. */
void loader_hear(struct loader *loader);

/* The trainer asks for more than there is: it may lease its last batches still, but does not come
 * again for them. The others may not be so far. */
void loader_say_done(struct loader *loader);

/* A goodbye, or why there is none. Under the lock. */
void loader_send_farewell(struct loader *loader);

/* Looks for a reader again. OK: there is one, or there was no time, or loader_leave() was called;
 * otherwise the error is final. */
MUST_USE enum status loader_reconnect(struct loader *loader, uint64_t deadline, struct error *err);

/* Whether something is published that has not been taken. */
bool loader_sees_batch(const struct loader *loader);

/* Takes the next slot for the trainer, if there is one; passes over those that it does not need
 * again. Nonsense in the ring goes to loader->final. */
bool loader_take(struct loader *loader, struct loader_batch *ret_batch);

/* INVALID, where the trainer leases all slots that it may, and more are to come: nothing comes
 * until it releases the oldest. OK otherwise. */
MUST_USE enum status loader_check_leases(const struct loader *loader, struct error *err);

/* Tells the reader, or the next one, and the file of the cursor behind the last batch that was
 * released. Under the lock. */
void loader_note_released(struct loader *loader);

#endif
