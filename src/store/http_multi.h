/* libcurl's multi interface over epoll: any number of requests, one thread that sleeps until one of
 * them moves or somebody wakes it. Inside src/store, for an HTTP client.
 *
 * All but http_multi_wake() belongs to one thread, that of http_multi_run().
 */
#ifndef PENSTOCK_STORE_HTTP_MULTI_H
#define PENSTOCK_STORE_HTTP_MULTI_H

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

/* At most `connections` are kept open; `uri` is for messages. NO_MEMORY; IO: no descriptor. */
MUST_USE enum status http_multi_init(struct http_multi *multi, uint32_t connections,
                                     const char *uri, struct error *err);
void http_multi_done(struct http_multi *multi);

/* Starts a request, whose CURLOPT_PRIVATE is told when it has ended. False: no memory. */
MUST_USE bool http_multi_add(struct http_multi *multi, CURL *easy);

/* Drops a request, ended or not. */
void http_multi_remove(struct http_multi *multi, CURL *easy);

/* Sleeps until a request moves, somebody calls http_multi_wake() or `until_ns` (UINT64_MAX: never)
 * has come, and moves requests on. has_work(argument) is asked last before it sleeps; true: it does
 * not. */
void http_multi_run(struct http_multi *multi, uint64_t until_ns, bool (*has_work)(void *argument),
                    void *argument);

/* The next request that has ended, by its CURLOPT_PRIVATE; false: none. */
bool http_multi_next_ended(struct http_multi *multi, void **ret_private, CURLcode *ret_code);

/* Any thread. */
void http_multi_wake(struct http_multi *multi);

#endif
