/* libcurl's multi interface over epoll: any number of requests on one thread. The thread sleeps
 * until a request moves or somebody wakes the thread. Inside src/store, for an HTTP client.
 *
 * The thread that calls http_multi_run() is the only one to call the others, except
 * http_multi_wake(). http_multi_init() and http_multi_done() are called while no thread runs.
 */
#ifndef PENSTOCK_STORE_HTTP_HTTP_MULTI_H
#define PENSTOCK_STORE_HTTP_HTTP_MULTI_H

#include "base/error.h"
#include "base/waker.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct http_multi {
    CURLM *curl; /* NULL: not initialised, or done */
    int epoll_fd;
    uint64_t timer_ns; /* when curl wants to be called; 0: not */
    struct waker waker;
};

/* Keeps `connections` connections open at most. `uri` is for messages, and not kept. On failure
 * there is nothing to undo. NO_MEMORY; IO: no descriptor. */
MUST_USE enum status http_multi_init(struct http_multi *multi, uint32_t connections,
                                     const char *uri, struct error *err);

/* Releases everything but the requests, which must have been removed. */
void http_multi_done(struct http_multi *multi);

/* Starts a request. `easy` is borrowed until http_multi_remove(). False: no memory. */
MUST_USE bool http_multi_add(struct http_multi *multi, CURL *easy);

/* Drops a request, ended or not. */
void http_multi_remove(struct http_multi *multi, CURL *easy);

/* Sleeps until a request moves, somebody calls http_multi_wake(), or the time is `until_ns`
 * (UINT64_MAX: never). Then moves requests on. Calls has_work(argument) just before sleeping; if
 * true, does not sleep. */
void http_multi_run(struct http_multi *multi, uint64_t until_ns, bool (*has_work)(void *argument),
                    void *argument);

/* Takes the next request that has ended: its CURLOPT_PRIVATE, and curl's code. False: none has. */
bool http_multi_next_ended(struct http_multi *multi, void **ret_private, CURLcode *ret_code);

/* Wakes the thread in http_multi_run(), or makes its next call not sleep. Any thread; never blocks.
 */
void http_multi_wake(struct http_multi *multi);

#endif
