/* Relays: fetches of a store that is made of other ones, such as a zip archive. A fetch that may
 * begin at once becomes a fetch of another store's, its relay. What has to wait first is done by a
 * few threads, so that fetch_start() does not block.
 *
 *     fetch_start() --> relay_take() --> the other store --> done()
 *                  \--> queue --> a thread, which may wait ^
 *
 * Any thread. Inside src/store.
 */
#ifndef PENSTOCK_STORE_KIND_RELAY_H
#define PENSTOCK_STORE_KIND_RELAY_H

#include "store/kind/store_internal.h"

enum { RELAY_THREADS = 4 };

struct relays;

/* A kind embeds it as its first member. */
struct relay {
    struct fetch fetch;  /* of the other store */
    struct fetch *outer; /* borrowed until its done() */
    struct relay *next;  /* free ones */
};

/* Begins a fetch, or ends it. False: it has to wait, and may not. */
typedef bool relay_begin(const struct store *store, struct fetch *fetch, bool may_wait);

/* Starts the threads, called `name`. `store` is borrowed; relays have `relay_bytes` each. IO: no
 * thread; NO_MEMORY. */
MUST_USE enum status relays_new(const char *name, const struct store *store, size_t relay_bytes,
                                relay_begin *begin, struct relays **ret_relays, struct error *err);

/* The kind's operation: begins a fetch here, or has a thread do so. Does not wait. Of a store that
 * was stopped: done with LOST. */
void relays_fetch(struct relays *relays, struct fetch *fetch);

/* A relay, whose bytes are not set; NULL: no memory. It goes back by relay_put(). */
struct relay *relay_take(struct relays *relays);
void relay_put(struct relays *relays, struct relay *relay);

/* Fetches that come later, or are in the queue, are done with LOST. The caller then stops the other
 * stores, which threads may wait for, and calls relays_join(). May be called again. */
void relays_stop(struct relays *relays);
void relays_join(struct relays *relays);

/* After relays_join(). NULL is fine. */
void relays_free(struct relays *relays);

/* Ends a fetch. */
void relay_finish(struct fetch *fetch, enum status status);

/* Which piece of a value of `length` bytes a fetch wants: sets the fetch's results as if the piece
 * had been read. CORRUPT: the value is too long, or too short; the message is in the fetch. */
enum status relay_choose(struct fetch *fetch, uint64_t length, uint64_t *ret_offset,
                         size_t *ret_size);

#endif
