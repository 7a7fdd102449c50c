/* What the files of an HTTP client share: http_client.c (its thread, and what waits),
 * http_requests.c (requests under way) and http_outcome.c (what becomes of a fetch whose request
 * has ended). Inside src/store. Everything belongs to the client's thread unless it says otherwise.
 *
 * A fetch is `waiting` (in order), `paused` (until its due time) or under way, on one transfer or
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

enum { HTTP_MOST_SECONDS = 8 }; /* second transfers, beyond the concurrency limit */

struct fetch_list {
    struct fetch *first, *last;
};
void fetch_list_append(struct fetch_list *list, struct fetch *fetch);
void fetch_list_prepend(struct fetch_list *list, struct fetch *fetch);
struct fetch *fetch_list_take(struct fetch_list *list); /* the first; there must be one */

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
    uint32_t in_flight;       /* transfers, second ones included */
    uint32_t seconds;         /* second ones of them */
    uint64_t looked_ns;       /* when late ones were looked for */
    bool no_head;             /* the server refuses HEAD, and answers GET */
    _Atomic int64_t own_room; /* where the store's options give none */
    _Atomic int64_t *room;    /* bytes that second transfers may still take */
};

/* What a value may have, for telling sizes apart before they are known. */
size_t http_client_expected_bytes(const struct fetch *fetch);

/* When a fetch that has begun is given up: a little before the watchdog ends the run. */
uint64_t http_client_deadline_ns(const struct http_client *client, const struct fetch *fetch);

/* http_requests.c: a transfer that is free, or a new one; NULL when there is no memory, or too
 * many.
 */
struct transfer *http_client_take_transfer(struct http_client *client);

/* Sends a fetch's request on a transfer whose `out` is set. The transfer is free again where that
 * fails. NO_MEMORY; and as target->prepare(). */
MUST_USE enum status http_client_send(struct http_client *client, struct transfer *transfer,
                                      struct fetch *fetch, uint64_t now_ns, struct error *err);

/* Takes the transfer off its fetch, ended or not. */
void http_client_end_transfer(struct http_client *client, struct transfer *transfer);

/* Asks a second time for what is late. Looks for that every few milliseconds at most. */
void http_client_hedge(struct http_client *client, uint64_t now_ns);

/* When late ones are to be looked for again; UINT64_MAX: not. */
uint64_t http_client_hedge_ns(const struct http_client *client, uint64_t now_ns);

/* http_outcome.c: a transfer has ended: its fetch is done, waits for another try, or goes on by its
 * other transfer. */
void http_client_judge(struct http_client *client, struct transfer *transfer, CURLcode code);

/* Hands the fetch back. Its error is set if `status` is not OK. Any thread, for a fetch that has
 * not begun. */
void http_client_finish(struct http_client *client, struct fetch *fetch, enum status status);

#endif
