/* Redirects: an answer that names another url of a value (301, 302, 303, 307, 308).
 *
 * At most five in a row are followed, to https alone; http is followed only from this machine to
 * this machine. Headers that a store's requests have, with whatever secrets, go to the store's own
 * scheme, host and port alone: once a fetch has been led elsewhere, it has none, also if it is led
 * back. Urls may be secrets: messages have what is before a '?'.
 *
 * Targets are remembered for ten minutes, so that the next part of a value needs one request. A
 * target that refuses (401, 403, 404, 410) is forgotten, and the fetch begins anew, once: what
 * signs a url runs out.
 */
#ifndef PENSTOCK_STORE_HTTP_HTTP_REDIRECT_H
#define PENSTOCK_STORE_HTTP_HTTP_REDIRECT_H

#include "store/http/http_judge.h"

#include <pthread.h>

struct http_client;
struct transfer;

/* Targets by key, of one client. */
struct http_redirects {
    pthread_mutex_t mutex;
    struct http_known {
        char *key, *target; /* owned */
        uint64_t until_ns;
        bool away;
    } * known;     /* owned: [HTTP_REDIRECTS_KNOWN]; NULL: no redirect yet */
    bool is_noted; /* the first target's host is in the log */
};

enum { HTTP_REDIRECTS_KNOWN = 1024, HTTP_REDIRECTS_MOST = 5 };

void http_redirects_init(struct http_redirects *redirects);
void http_redirects_done(struct http_redirects *redirects);

/* Before a fetch's first request: gives it the target that is known. */
void http_redirects_use(struct http_redirects *redirects, struct fetch *fetch);

/* After a good answer: remembers the fetch's target, if it has one, and notes the first one's host
 * for the log. */
void http_redirects_keep(struct http_redirects *redirects, struct http_client *client,
                         const struct fetch *fetch);

/* After a target has answered `status`. True: the target is forgotten, and the fetch has to begin
 * anew. */
bool http_redirects_drop(struct http_redirects *redirects, struct fetch *fetch, int status);

/* Ends the fetch's target, if it has one: its url may be a secret. */
void http_redirect_forget(struct fetch *fetch);

/* Moves a request whose url and headers are made on to the fetch's target. */
void http_redirect_begin(struct transfer *transfer);

/* Whether the answer is a redirect. */
bool http_redirect_is(const struct transfer *transfer);

/* HTTP_OTHERWISE: the fetch's target is set. HTTP_AGAIN: the fetch's other request decides.
 * HTTP_FAILED, with *err: the redirect must not be followed. */
enum http_verdict http_redirect_judge(struct transfer *transfer, struct error *err);

#endif
