/* Gets that do not block, of remote stores: any number under way at once.
 *
 * The caller owns a `struct fetch` for each, with what it refers to, and hands them over; each
 * comes back once, by done(), with a status. How many the server sees at a time is the store's
 * business: the others wait in order. The blocking calls of store.h are made of these.
 *
 *     fetch_start() --> waiting --> in flight --> done()
 *                          ^            |
 *                          +-- pause <--+  503, a lost connection, ...: as often as the store's
 *                                          options say, until its timeout
 */
#ifndef PENSTOCK_STORE_FETCH_H
#define PENSTOCK_STORE_FETCH_H

#include "store/store.h"

enum fetch_kind {
    FETCH_WHOLE, /* the value, at most `capacity` bytes */
    FETCH_RANGE, /* `size` bytes at `offset` */
    FETCH_TAIL,  /* the last `size` bytes */
    FETCH_STAT,  /* no bytes: total and version */
    FETCH_QUERY, /* inside src/store: a page of a listing, `key` is its query */
};

struct fetch {
    enum fetch_kind kind;
    const char *key; /* borrowed until done, as is `buffer` */
    uint64_t offset;
    size_t size;
    void *buffer;
    size_t capacity;
    store_begins *begins; /* FETCH_WHOLE: as in store_get_packed(); or NULL */
    /* Called once, by the store's thread: must not block; may start other fetches, and free or
     * reuse this one. */
    void (*done)(struct fetch *fetch);
    void *argument; /* the caller's own */

    /* Valid in done(). Statuses are those of store_get(), and TIMEOUT: not there in time. */
    enum status status;
    size_t got;       /* bytes in `buffer` */
    uint64_t total;   /* FETCH_TAIL, FETCH_STAT: bytes of the value; FETCH_WHOLE that was too long:
                         the same, or 0 if unknown */
    bool encoded;     /* FETCH_STAT: `total` is the length before decoding */
    uint64_t version; /* FETCH_STAT: as in struct store_info */
    struct error error;

    struct { /* the store's */
        const struct store *store;
        struct fetch *next;
        uint64_t start_ns, due_ns;
        uint32_t tries;
        uint32_t failures; /* without those that were throttled */
        bool refreshed;
        uint8_t form; /* how it is asked for, once the usual way was refused: enum http_form */
        int call;     /* in the watch */
        struct transfer *transfer, *second;
    } own;
};

/* Any thread; does not block. `store` must be remote, and not be freed before done(). Of joined
 * stores `key` becomes that of the one it names, which must be remote. The key must be well-formed:
 * else done() is called at once, with INVALID. */
void fetch_start(const struct store *store, struct fetch *fetch);

/* Ends all fetches of the store that are under way with LOST, and any that is started later. Any
 * blocking call fails from then on. Returns when the last done() has; not to be called from one. */
void fetch_stop(const struct store *store);

/* What was fetched before a read. Given to store_get_packed(), the bytes (or the error) of the same
 * store and key are taken from here instead of asking; given to store_get_ranges() and
 * store_get_range(), those of the same range; each once. One thread at a time. */
struct fetched {
    struct fetch *fetches; /* all done; FETCH_WHOLE, FETCH_RANGE */
    size_t count;
    size_t next; /* where the next one is looked for first: keys come in order */
};

#endif
