/* Fetches: reads of a remote store that block nobody. Any number may be under way at once.
 *
 * The caller owns a `struct fetch`, and the key and buffer that the fetch refers to. fetch_start()
 * lends all three to the store, until the store calls done(), once, with a status. The store
 * decides how many requests the server is sent at a time; other fetches wait in order. The blocking
 * calls of store.h are made of fetches.
 *
 *     fetch_start() --> waiting --> in flight --> done()
 *                          ^            |
 *                          +-- pause <--+  503, a lost connection, ...: as often as the store's
 *                                          options say, until its timeout
 */
#ifndef PENSTOCK_STORE_KIND_FETCH_H
#define PENSTOCK_STORE_KIND_FETCH_H

#include "store/store.h"

enum fetch_kind {
    FETCH_WHOLE,  /* the value, at most `capacity` bytes */
    FETCH_RANGE,  /* `size` bytes at `offset`; `size` is at least 1 */
    FETCH_SUFFIX, /* the last `size` bytes; `size` is at least 1 */
    FETCH_STAT,   /* no bytes: total and version */
    FETCH_QUERY,  /* inside src/store: a page of a listing; `key` is the page's query */
};

enum { FETCH_MARK_BYTES = 2048 };

struct fetch {
    /* The caller sets these. */
    enum fetch_kind kind;
    const char *key; /* borrowed until done() */
    uint64_t offset;
    size_t size;
    void *buffer;         /* borrowed until done(); NULL for FETCH_STAT */
    size_t capacity;      /* of `buffer`, for FETCH_WHOLE and FETCH_QUERY */
    store_begins *begins; /* FETCH_WHOLE: as in store_get_packed(); or NULL */
    /* Called once: by a thread of the store's, or within fetch_start() by its caller. Must not
     * block. May start other fetches, and may free or reuse this fetch. */
    void (*done)(struct fetch *fetch);
    void *argument; /* the caller's own */
    /* FETCH_RANGE: what the value must not have changed since, as HTTP has it; "" or NULL, and 0:
     * may have. */
    const char *etag;    /* borrowed until done() */
    uint32_t modified_s; /* since 1970 */
    uint64_t unchanged;  /* FETCH_RANGE: the `version` that the value must have still; 0: any */
    uint32_t more_uses;  /* how often struct fetched gives it, beside the first time */
    char *ret_mark; /* FETCH_QUERY: [FETCH_MARK_BYTES], for the next page's mark, if a header has
                     * it; or NULL */

    /* The store sets these before done(). `status` is one of store_get() or store_get_ranges(). */
    enum status status;
    size_t got;     /* bytes in `buffer`; set if `status` is OK */
    uint64_t total; /* FETCH_SUFFIX, FETCH_STAT: bytes of the value. FETCH_WHOLE of a value that was
                       too long, FETCH_RANGE: bytes of the value, or 0 if unknown */
    bool encoded;   /* FETCH_STAT: `total` is the length before decoding */
    bool all; /* FETCH_RANGE: the server has no ranges: it sent all of the value, up to the range */
    uint64_t version;   /* FETCH_STAT: as in struct store_info. FETCH_RANGE: of the value's ETag and
                           Last-Modified; 0: neither */
    struct error error; /* set if `status` is not OK */

    struct { /* the store's */
        const struct store *store;
        struct fetch *next;
        uint64_t start_ns; /* when its first request was sent; 0: not yet */
        uint64_t due_ns;   /* while it pauses: when the pause ends */
        uint32_t tries;    /* requests, without those that were asked again in another form */
        uint32_t failures; /* failed tries, but for those that were throttled */
        bool refreshed;    /* newer credentials were looked for */
        bool moved;        /* asked again where the server said that the value lies */
        bool away;         /* `target` is another server's: it gets no credentials */
        bool resolved;     /* asked again from the start, after a target was no longer good */
        bool remembered;   /* `target` is from an earlier fetch */
        uint8_t hops;      /* redirects that were followed */
        bool ends;         /* of FETCH_SUFFIX: asked as FETCH_STAT, then as FETCH_RANGE */
        char *target;      /* owned: the url that a redirect led to; NULL: none */
        uint8_t form;      /* enum http_form, after the usual form was refused */
        int call;          /* in the watch */
        struct transfer *transfer; /* its request under way; NULL: none */
        struct transfer *second;   /* its second request under way; NULL: none */
    } own;
};

/* Starts a fetch. Any thread; does not block. The store that has `key` must be remote, and must not
 * be freed before done(). Of a joined store, `key` is moved on to the key within the store that has
 * the key. If the key is malformed (INVALID), or the store was stopped (LOST), done() is called
 * before fetch_start() returns. */
void fetch_start(const struct store *store, struct fetch *fetch);

/* Ends all fetches of the store that are under way, with LOST, and returns when the last done() has
 * returned. Every later fetch, and every later blocking read, ends with LOST. Of joined stores:
 * stops all. Of a store that is not remote: does nothing. Not to be called from done(), nor by two
 * threads at once. */
void fetch_stop(const struct store *store);

/* What was fetched before a read: fetches of FETCH_WHOLE and FETCH_RANGE, all done.
 * store_get_packed() takes a whole value of the same store and key from here, bytes or error,
 * instead of asking the store. store_get_ranges() and store_get_range() take a range of the same
 * offset and size. store_lend() takes either without a copy. Each fetch is taken once, and
 * `more_uses` times more: its `key` is NULL from then on. One thread at a time.
 */
struct fetched {
    struct fetch *fetches; /* [count], borrowed */
    size_t count;
    size_t next; /* where the next search begins; 0 at first. Reads come in the order of fetches */
};

#endif
