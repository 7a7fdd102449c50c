/* What the files of an HTTP client share: http_client.c (its threads), http_waiting.c (fetches that
 * wait, and which thread takes them), http_requests.c (requests under way) and http_outcome.c (what
 * becomes of a fetch whose request has ended). Inside src/store. A thread calls the functions for
 * itself, and uses its own members, except where a comment says otherwise.
 *
 * A fetch is `waiting` (in order, for all threads), `paused` on a thread (until its due time), or
 * under way on a thread, on one transfer or two:
 *
 *     http_client_start() --> waiting --> transfer --> done()
 *                                ^           |
 *                                +-- paused <+
 *
 * The concurrency limit is the client's, whichever thread has the requests. A thread takes a
 * waiting fetch if the limit allows, and if the thread has no more than its share of the requests.
 * So as long as fetches wait and the limit allows, there is a thread that may take one. Whoever
 * changes something wakes that thread.
 */
#ifndef PENSTOCK_STORE_HTTP_HTTP_CLIENT_INTERNAL_H
#define PENSTOCK_STORE_HTTP_HTTP_CLIENT_INTERNAL_H

#include "store/http/http_client.h"
#include "store/http/http_multi.h"
#include "store/http/http_pace.h"
#include "store/http/http_redirect.h"
#include "store/http/http_transfer.h"

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

/* One of the client's threads. */
struct http_thread {
    struct http_client *client;
    pthread_t thread;
    bool is_started;
    struct http_multi multi;
    struct fetch_list paused;
    struct transfer **transfers; /* [transfer_most], of which transfer_count are made */
    struct transfer *first_free;
    uint32_t transfer_count, transfer_most;
    uint32_t busy;      /* transfers under way, second ones included */
    uint64_t looked_ns; /* when late transfers were last looked for */
    uint32_t in_flight; /* under the client's mutex: fetches that are under way here */
};

struct http_client {
    struct http_target target;
    struct store_settings settings;
    uint32_t retries;
    struct store_watch *watch;   /* NULL: none */
    const char *uri;             /* borrowed, for the watch */
    struct http_thread *threads; /* [thread_count] */
    uint32_t thread_count;
    struct http_redirects redirects;
    _Atomic bool no_head;     /* the server refuses HEAD, and answers GET */
    _Atomic int64_t own_room; /* used where the store's options have no second_room */
    _Atomic int64_t *room;    /* bytes that second transfers may still take; any client's thread */
    pthread_mutex_t mutex;
    /* Under the mutex: */
    struct fetch_list waiting;
    uint32_t waiting_count;
    uint32_t in_flight; /* fetches under way on any thread */
    uint32_t seconds;   /* second transfers under way */
    struct http_pace pace;
    bool stopping;
};

/* The most bytes that the fetch's answer can have: tells sizes apart before they are known. */
size_t http_client_expected_bytes(const struct fetch *fetch);

/* When a fetch whose first request was sent is given up: a little before the watchdog ends the run.
 */
uint64_t http_client_deadline_ns(const struct http_client *client, const struct fetch *fetch);

/* http_waiting.c. Any thread: adds a fetch behind all others, and wakes a thread for it. False: the
 * client was stopped, and the fetch is not added. */
bool http_client_push(struct http_client *client, struct fetch *fetch);

/* Adds a fetch in front of all others, also when the client was stopped. Nobody is woken: the
 * thread is about to take fetches. */
void http_client_push_first(struct http_client *client, struct fetch *fetch);

/* Takes the fetch that has waited for longest. It counts as under way from now on. NULL: none
 * waits, or others are to take it. */
struct fetch *http_client_take(struct http_thread *thread);

/* Takes one whatever the limit, to end it. It does not count as under way. NULL: none is left. */
struct fetch *http_client_drain(struct http_client *client);

/* The fetch is no longer under way. */
void http_client_let_go(struct http_thread *thread);

/* Wakes another thread if one may take what waits. To be called after changes, before sleeping. */
void http_client_wake_another(const struct http_thread *thread);

/* Whether the thread has something to take, or has to stop. */
bool http_client_has_work(struct http_thread *thread, bool *ret_stopping);

/* http_requests.c: a transfer that is free, or a new one. NULL: no memory, or transfer_most are
 * under way. */
struct transfer *http_client_take_transfer(struct http_thread *thread);

/* Makes a transfer free that was taken and not used. */
void http_client_put_transfer(struct transfer *transfer);

/* Sends a fetch's request on a transfer whose `second`, `out` and `capacity` are set. On failure
 * the transfer is free again, and `out` is the caller's. NO_MEMORY; and the errors of
 * target.prepare(). */
MUST_USE enum status http_client_send(struct transfer *transfer, struct fetch *fetch,
                                      uint64_t now_ns, struct error *err);

/* Takes a transfer off its fetch, ended or not, and makes it free. Without its first transfer a
 * fetch is not under way. Frees the memory of a second transfer. */
void http_client_end_transfer(struct transfer *transfer);

/* Sends a second request for each fetch that is late, as far as there is room. Looks for late
 * fetches once in 10 ms at most. */
void http_client_hedge(struct http_thread *thread, uint64_t now_ns);

/* When late fetches are to be looked for again; UINT64_MAX: never. */
uint64_t http_client_hedge_ns(const struct http_thread *thread, uint64_t now_ns);

/* http_outcome.c: tries a fetch that is not under way again after a pause, or gives up. The fetch's
 * error is set. `verdict` is HTTP_AGAIN or HTTP_THROTTLED. */
void http_client_again(struct http_thread *thread, struct fetch *fetch, enum http_verdict verdict,
                       uint32_t retry_after_s);

/* http_outcome.c: for a transfer that has ended with curl's `code`. The fetch is done, waits for
 * another try, or goes on by its other transfer. */
void http_client_judge(struct transfer *transfer, CURLcode code);

/* Ends the fetch's transfers, and calls done(). The caller has set the fetch's error if `status` is
 * not OK. Any thread for a fetch without transfers, else the one that has them. */
void http_client_finish(struct http_client *client, struct fetch *fetch, enum status status);

#endif
