/* What the files of an HTTP client share: http_client.c (its thread, and fetches that wait),
 * http_requests.c (requests under way) and http_outcome.c (what becomes of a fetch whose request
 * has ended). Inside src/store. The client's thread alone calls the functions and uses the members,
 * except where a comment says otherwise.
 *
 * A fetch is `waiting` (in order), `paused` (until its due time), or under way on one transfer or
 * two:
 *
 *     http_client_start() --incoming--> waiting --> transfer --> done()
 *                                          ^           |
 *                                          +-- paused <+
 */
#ifndef PENSTOCK_STORE_HTTP_CLIENT_INTERNAL_H
#define PENSTOCK_STORE_HTTP_CLIENT_INTERNAL_H

#include "store/http_client.h"
#include "store/http_multi.h"
#include "store/http_pace.h"
#include "store/http_transfer.h"

#include <pthread.h>
#include <stdatomic.h>

/* The most second transfers at once. They come on top of the concurrency limit. */
enum { HTTP_MOST_SECONDS = 8 };

/* A list of fetches, linked by own.next. */
struct fetch_list {
    struct fetch *first, *last;
};
void fetch_list_append(struct fetch_list *list, struct fetch *fetch);
void fetch_list_prepend(struct fetch_list *list, struct fetch *fetch);

/* Takes the first fetch of a list that is not empty. */
struct fetch *fetch_list_take(struct fetch_list *list);

struct http_client {
    struct http_target target;
    struct store_settings settings;
    uint32_t retries;
    struct store_watch *watch; /* NULL: none */
    const char *uri;           /* borrowed, for the watch */
    pthread_t thread;
    pthread_mutex_t mutex;
    struct fetch_list incoming; /* under `mutex`: any thread appends */
    bool stopping;              /* under `mutex` */

    struct http_multi multi;
    struct fetch_list waiting, paused;
    struct http_pace pace;
    struct transfer **transfers; /* [transfer_most], of which transfer_count are made */
    struct transfer *first_free;
    uint32_t transfer_count, transfer_most;
    uint32_t in_flight;       /* transfers under way, second ones included */
    uint32_t seconds;         /* second transfers under way */
    uint64_t looked_ns;       /* when late transfers were last looked for */
    bool no_head;             /* the server refuses HEAD, and answers GET */
    _Atomic int64_t own_room; /* used where the store's options have no second_room */
    _Atomic int64_t *room;    /* bytes that second transfers may still take; any client's thread */
};

/* The most bytes that the fetch's answer can have: tells sizes apart before they are known. */
size_t http_client_expected_bytes(const struct fetch *fetch);

/* When a fetch whose first request was sent is given up: a little before the watchdog ends the run.
 */
uint64_t http_client_deadline_ns(const struct http_client *client, const struct fetch *fetch);

/* http_requests.c: a transfer that is free, or a new one. NULL: no memory, or transfer_most are
 * under way. */
struct transfer *http_client_take_transfer(struct http_client *client);

/* Sends a fetch's request on a transfer whose `second`, `out` and `capacity` are set. On failure
 * the transfer is free again, and `out` is the caller's. NO_MEMORY; and the errors of
 * target.prepare(). */
MUST_USE enum status http_client_send(struct http_client *client, struct transfer *transfer,
                                      struct fetch *fetch, uint64_t now_ns, struct error *err);

/* Takes a transfer off its fetch, ended or not, and makes it free. Frees the memory of a second
 * transfer. */
void http_client_end_transfer(struct http_client *client, struct transfer *transfer);

/* Sends a second request for each fetch that is late, as far as there is room. Looks for late
 * fetches once in 10 ms at most. */
void http_client_hedge(struct http_client *client, uint64_t now_ns);

/* When late fetches are to be looked for again; UINT64_MAX: never. */
uint64_t http_client_hedge_ns(const struct http_client *client, uint64_t now_ns);

/* http_outcome.c: for a transfer that has ended with curl's `code`. The fetch is done, waits for
 * another try, or goes on by its other transfer. */
void http_client_judge(struct http_client *client, struct transfer *transfer, CURLcode code);

/* Ends the fetch's transfers, and calls done(). The caller has set the fetch's error if `status` is
 * not OK. Any thread, for a fetch whose first request was not sent. */
void http_client_finish(struct http_client *client, struct fetch *fetch, enum status status);

#endif
